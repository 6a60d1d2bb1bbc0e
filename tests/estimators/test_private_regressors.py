"""Private linear regression and the lasso: without noise, the choice of a solver, and the ball of the lasso."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import reticent
from reticent.estimators import (
    PrivateLasso,
    PrivateLinearRegression,
)


def test_linear_regression_without_noise_is_least_squares(regression):
    X, y = regression
    w = np.linspace(0.0, 1.0, len(y))
    model = PrivateLinearRegression(1e7, label_bounds=(10, 30), random_state=0, scaling="none")
    model.fit(X, y, sample_weight=w)
    A = np.c_[X, np.ones(len(y))] * np.sqrt(w)[:, None]
    want = np.linalg.lstsq(A, y * np.sqrt(w))[0]
    np.testing.assert_allclose(model.coef_, want[:3], atol=1e-2)
    assert model.intercept_ == pytest.approx(want[3], abs=1e-2)
    assert model.solver_ == "boosted-statistics"


def test_auto_goes_by_public_numbers():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 200))
    y = np.clip(X[:, 0], -1, 1)
    model = PrivateLinearRegression(8.0, random_state=0).fit(X, y)
    assert model.solver_ == "boosted-statistics"
    assert "delta > 0" in model.solver_reason_
    model = PrivateLinearRegression(random_state=0).fit(X, y)
    assert model.solver_ == "objective-perturbation"
    assert "few for the budget" in model.solver_reason_
    pure = PrivateLinearRegression(delta=0.0, random_state=0).fit(X, y)
    assert pure.solver_ == "objective-perturbation"
    assert "not small beside" in pure.solver_reason_
    wide = PrivateLinearRegression(random_state=0).fit(sp.csr_array((40, 2500)), np.zeros(40))
    assert wide.solver_ == "objective-perturbation"
    many = PrivateLinearRegression(8.0, 0.0, random_state=0).fit(
        rng.uniform(-1, 1, (20_000, 2)), np.zeros(20_000)
    )
    assert many.solver_ == "sufficient-statistics"
    few = PrivateLasso(random_state=0).fit(rng.uniform(-1, 1, (20_000, 2)), np.zeros(20_000))
    assert few.solver_ == "sufficient-statistics"


def test_lasso_keeps_within_the_ball_and_entries_are_clipped():
    rng = np.random.default_rng(1)
    X = rng.choice([-3.0, 3.0], size=(1000, 300))
    y = 5 + np.clip(X[:, 7] / 3, -1, 1)
    model = PrivateLasso(4.0, feature_norm=2.0, label_bounds=(3, 7), radius=0.8, random_state=0)
    model.fit(X, y)
    assert model.clipped_ == (1000, 0, 1000)
    assert np.argmax(np.abs(model.coef_)) == 7
    inside = np.abs(model.coef_).sum() * 2.0 / 2.0 + abs(model.intercept_ - 5) / 2.0
    assert inside <= 0.8 + 1e-9
    np.testing.assert_allclose(
        model.predict(X), np.clip(np.clip(X, -2, 2) @ model.coef_ + model.intercept_, 3, 7)
    )
    same = clone(model).fit(sp.csr_matrix(X), y)
    assert np.argmax(np.abs(same.coef_)) == 7


@pytest.mark.parametrize("sparse", [False, True])
def test_lasso_searches_no_more_than_the_records_allow(sparse):
    # n epsilon = 8: one corner of a ball of radius 0.1, which costs at most 0.005 of a scaled
    # label's square above the middle of the labels, in the mean. 60 seeds; the mean's standard
    # deviation is below 0.001, and a tenth of zero's excess is 0.02: a false alarm is below 1e-6.
    rng = np.random.default_rng(2)
    X = rng.choice([-1.0, 1.0], size=(80, 400))
    y = 5.0 + 2.0 * np.clip(0.6 * X[:, 7] - 0.4 * X[:, 9], -1, 1)
    rows = sp.csr_matrix(X) if sparse else X
    fits = [
        PrivateLasso(0.1, label_bounds=(3, 7), fit_intercept=False, random_state=seed).fit(rows, y)
        for seed in range(60)
    ]
    losses = [0.5 * np.mean(((y - model.predict(X)) / 2.0) ** 2) for model in fits]
    zero = 0.5 * np.mean(((y - 5.0) / 2.0) ** 2)
    assert zero > 0.2  # and the best decision loses nothing
    assert np.mean(losses) <= 1.1 * zero
    model = fits[0]
    assert model.solver_ == "frank-wolfe"
    assert np.abs(model.coef_).sum() / 2.0 == pytest.approx(0.1)
    # slopes within 1, in a ball of radius 0.1
    assert model.guarantee_.releases[0].sensitivity == pytest.approx(0.1, rel=1e-9)
    assert model.guarantee_.meets(reticent.Budget(0.1, 1e-6))


def test_lasso_radius_and_steps_can_be_forced():
    rng = np.random.default_rng(2)
    X = rng.choice([-1.0, 1.0], size=(80, 400))
    y = np.clip(X[:, 7], -1, 1)
    for fields, radius in (({"radius": 1.0}, 1.0), ({"steps": 9}, 1.0), ({"radius": 0.5}, 0.5)):
        model = PrivateLasso(0.1, fit_intercept=False, random_state=0, **fields).fit(X, y)
        assert model.guarantee_.releases[0].sensitivity == pytest.approx(radius, rel=1e-9)
    with pytest.raises(ValueError, match="radius"):
        PrivateLasso(radius=-1.0).fit(X, y)


def test_lasso_says_where_a_dense_solver_is_better():
    rng = np.random.default_rng(0)
    X = (rng.random((3_000, 300)) < 0.01).astype(float)
    model = PrivateLasso(1.0, solver="frank-wolfe", random_state=0).fit(X, X[:, 0])
    assert "learnt better by PrivateLinearRegression" in model.solver_reason_
    few = PrivateLasso(0.1, random_state=0).fit(rng.choice([-1.0, 1.0], (80, 90_000)), np.ones(80))
    assert "PrivateLinearRegression" not in few.solver_reason_
