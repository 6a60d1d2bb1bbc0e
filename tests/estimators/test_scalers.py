"""Scalers by declared bounds and by noisy moments: by hand, and what they refuse."""

import numpy as np
import pytest

import reticent
from reticent.estimators import (
    DomainScaler,
    PrivateScaler,
)


def test_domain_scaler_reads_nothing():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (50, 3))
    bounds = ([0, 0, 0], [10, 20, 5])
    one, two = DomainScaler(bounds).fit(X), DomainScaler(bounds).fit(1e6 * X)
    np.testing.assert_array_equal(one.center_, two.center_)
    np.testing.assert_array_equal(one.scale_, two.scale_)
    assert np.linalg.norm(one.transform(1e9 * X), axis=1).max() <= 1.0
    np.testing.assert_allclose(
        one.inverse_transform(one.transform(X[:, :])), np.clip(X, 0, [10, 20, 5])
    )
    for wrong in ((0, 0), ([0, 1], [1, 2]), 3, (0, np.inf), ("a", "b")):
        with pytest.raises(ValueError, match="bounds"):
            DomainScaler(wrong).fit(X)


def test_private_scaler_by_hand():
    rng = np.random.default_rng(0)
    X = rng.normal(2.0, 1.0, (4000, 3))
    exact = PrivateScaler((-8, 12), epsilon=1e6, random_state=0).fit(X)
    np.testing.assert_allclose(exact.center_, X.mean(0), atol=1e-3)
    np.testing.assert_allclose(exact.scale_, X.std(0), atol=1e-3)
    # a column of a record is released as (v, v^2), v within [-1, 1]: the worst pair of values, by a grid
    v, other = np.meshgrid(np.linspace(-1, 1, 401), np.linspace(-1, 1, 401))
    replaced = np.sqrt(3.0 * ((v - other) ** 2 + (v**2 - other**2) ** 2).max())
    for neighbours, moved in (("zero-out", np.sqrt(6.0)), ("replace", replaced)):
        model = PrivateScaler((-8, 12), epsilon=1.0, neighbours=neighbours, random_state=0).fit(X)
        release = model.guarantee_.releases[0]
        assert release.sensitivity == pytest.approx(moved, rel=1e-5)
        assert model.guarantee_.gdp == pytest.approx(reticent.Budget(1.0, 1e-6).mu, rel=1e-6)
    few = PrivateScaler((-8, 12), epsilon=0.1, random_state=0).fit(X[:20])
    assert (few.scale_ > 0).all()


@pytest.mark.parametrize("bounds", [(0, 5e-324), (-1e308, 1e308), ([0, -1e308], [1, 1e308])])
@pytest.mark.parametrize("kind", [DomainScaler, PrivateScaler])
def test_bounds_between_which_nothing_can_be_placed_are_refused(kind, bounds):
    X = np.random.default_rng(0).uniform(0, 1, (50, 2))
    scaler = kind((0, 1)).fit(X)
    before = dict(vars(scaler))
    with (
        reticent.Ledger(reticent.Budget(4.0, 1e-5)) as ledger,
        pytest.raises(ValueError, match="bounds must have differences"),
    ):
        scaler.set_params(bounds=bounds).fit(X)
    assert not ledger.entries
    if kind is PrivateScaler:
        assert vars(scaler) == before | {"bounds": bounds}


def test_worst_records_move_the_moments_as_far_as_stated():
    rng = np.random.default_rng(0)
    V = rng.uniform(-1, 1, (2000, 5))
    V[:1000] = np.sign(V[:1000])
    W = rng.permutation(V)
    joint = np.c_[V, V**2]
    other = np.c_[W, W**2]
    assert np.linalg.norm(joint, axis=1).max() <= np.sqrt(10) + 1e-12
    assert np.linalg.norm(joint - other, axis=1).max() <= np.sqrt(25)
