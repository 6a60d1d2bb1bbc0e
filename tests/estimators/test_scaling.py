"""Features that are centered and scaled out of the estimator's own budget."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

import reticent
from reticent.estimators import (
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
)
from reticent.estimators.counts import ClassCounts
from reticent.estimators.scaling import Scaling, moments_sensitivity
from reticent.losses import CappedLogistic
from reticent.noise import Source
from reticent.privacy import Budget


def _contribution(a, weight):
    return np.concatenate([a, weight * np.square(a)])


@pytest.mark.parametrize("columns", [1, 2, 3, 6])
@pytest.mark.parametrize("weight", [1.0, 1.6])
@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_sensitivity_is_what_a_search_finds(columns, weight, neighbours):
    """The worst pair of rows, found by ascent over the ball from many starts."""
    rng = np.random.default_rng(columns)

    def distance(v):
        a, b = v[:columns], v[columns:]
        a, b = (x / max(1.0, np.linalg.norm(x)) for x in (a, b))
        first = _contribution(a, weight)
        return -np.linalg.norm(
            first - (_contribution(b, weight) if neighbours == "replace" else 0.0)
        )

    found = max(-minimize(distance, rng.standard_normal(2 * columns)).fun for _ in range(30))
    stated = moments_sensitivity(columns, weight, Budget(1.0, 1e-6, neighbours))
    assert found <= stated * (1.0 + 1e-9)
    if columns > 1 or neighbours == "zero-out":  # one column has no angle between two rows
        assert found >= stated * (1.0 - 1e-5)


def test_sensitivity_in_the_1_norm():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4000, 5))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    rows[0] = 1.0 / math.sqrt(5.0)
    made = np.hstack([rows, 1.3 * rows**2])
    blank = np.abs(made).sum(axis=1).max()
    assert blank == pytest.approx(moments_sensitivity(5, 1.3, Budget(1.0)), rel=1e-12)
    apart = np.abs(made[:2000] - made[2000:]).sum(axis=1).max()
    assert apart <= moments_sensitivity(5, 1.3, Budget(1.0, 0.0, "replace"))


def _table(n=40_000, seed=0):
    """Columns of different size and far from 0, in the unit ball."""
    rng = np.random.default_rng(seed)
    X = np.array([0.5, -0.3, 0.2]) + np.array([0.1, 0.02, 0.05]) * rng.uniform(-1, 1, (n, 3))
    z = (X - [0.5, -0.3, 0.2]) @ [20.0, -60.0, 10.0]
    return X, z, rng


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_units_are_those_of_the_columns(delta):
    X, _, _ = _table()
    scaling, _ = Scaling.of(Budget(1e4, delta), len(X), 3)
    units = scaling.units(X, 1.0, None, Source(0))
    np.testing.assert_allclose(units.center, X.mean(axis=0), atol=0.02)
    wide = X.std(axis=0)
    np.testing.assert_allclose(
        units.scale[:2] / units.scale[2], np.sqrt(wide[:2] / wide[2]), rtol=0.1
    )
    sizes = np.linalg.norm(units.scaled(X), axis=1)
    # a step of the histogram is a factor 2^(1/4)
    assert sizes.max() * 2.0**-0.25 < units.norm < sizes.max() * 2.0**0.5


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_fewer_rows_are_clipped_where_noise_is_small(delta):
    X, _, _ = _table()
    shares = []
    for epsilon in (0.05, 0.2, 2.0, 20.0):
        budget = Budget(epsilon, delta)
        scaling, _ = Scaling.of(budget, len(X), 3)
        noise = 3.0 / epsilon if delta == 0.0 else np.sqrt(3.0) / budget.mu
        assert scaling.beyond == pytest.approx(min(0.4, 16.0 * np.sqrt(3.0) * noise / len(X)))
        units = scaling.units(X, 1.0, None, Source(0))
        shares.append(np.mean(np.linalg.norm(units.scaled(X), axis=1) > units.norm))
        doubt = 2.0 * scaling.norms.deviation * np.sqrt(16.0) / len(X)
        assert shares[-1] <= max(scaling.beyond, doubt) + doubt
    assert shares[0] > 0.02
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 1e-3


def test_a_line_stays_a_line_whatever_is_clipped():
    """Far rows count less in a regression; bent, they would pull the slope of all others up."""
    rng = np.random.default_rng(0)
    X = 0.05 * rng.standard_t(3, (20_000, 4))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = X @ [1.0, -0.5, 0.25, 0.0]
    model = PrivateLinearRegression(
        0.5, feature_norm=1.0, label_bounds=(-1.5, 1.5), random_state=0
    ).fit(X, y)
    assert model.clipped_.features > 1_000
    np.testing.assert_allclose(model.coef_, [1.0, -0.5, 0.25, 0.0], atol=0.05)
    np.testing.assert_allclose(
        model.predict(X), np.clip(X @ model.coef_ + model.intercept_, -1.5, 1.5)
    )
    assert "constant and label scaled down alike" in model.guarantee_.explain()


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearSVC])
def test_it_pays_and_speaks_in_the_features_own_units(kind):
    X, z, rng = _table()
    y = (z + 0.5 * rng.logistic(size=len(z)) > 0).astype(int)
    scores = {}
    for scaling in ("auto", "none"):
        model = kind(0.1, classes=[0, 1], feature_norm=1.0, scaling=scaling, random_state=1)
        scores[scaling] = model.fit(X, y).score(X, y)
        assert model.guarantee_.meets(Budget(0.1, 1e-6))
        plain = model._units.clipped(X) @ model.coef_[0] + model.intercept_[0]
        np.testing.assert_allclose(model.decision_function(X), plain)
        assert model.scaling_.startswith("columns" if scaling == "auto" else "none: asked")
    assert scores["auto"] > scores["none"] + 0.03


def test_one_guarantee_and_one_charge():
    X, z, _ = _table(5_000)
    y = (z > 0).astype(int)
    for delta in (1e-6, 0.0):
        with reticent.Ledger(Budget(1.0, delta)) as ledger:
            model = PrivateLogisticRegression(1.0, delta, classes=[0, 1], random_state=0).fit(X, y)
        assert len(ledger.entries) == 1
        assert model.guarantee_.meets(Budget(1.0, delta))
        assert not model.guarantee_.meets(Budget(0.9, delta))
        words = model.guarantee_.explain()
        for what in ("sums of features and of their squares", "row norms", "counts of the classes"):
            assert what in words


def test_regression_pays():
    X, z, rng = _table()
    y = 50.0 + 5.0 * z + rng.standard_normal(len(z))
    scores = {}
    for scaling in ("auto", "none"):
        model = PrivateLinearRegression(
            0.2, label_bounds=(0.0, 100.0), feature_norm=1.0, scaling=scaling, random_state=0
        )
        scores[scaling] = model.fit(X, y).score(X, y)
        assert model.guarantee_.meets(Budget(0.2, 1e-6))
    assert scores["auto"] > scores["none"] + 0.1


@pytest.mark.parametrize(
    ("fields", "make", "why"),
    [
        ({"epsilon": 0.01}, lambda X: X[:500], "not small beside rows"),
        ({}, sp.csr_array, "sparse"),
        ({"fit_intercept": False}, lambda X: X, "needs an intercept"),
        ({"feature_norm": "private"}, lambda X: X, "intervals of the columns"),
    ],
)
def test_where_it_does_not_pay_it_says_so(fields, make, why):
    X, z, _ = _table(20_000)
    X = make(X)
    y = (z > 0).astype(int)[: X.shape[0]]
    model = PrivateLogisticRegression(classes=[0, 1], random_state=0).set_params(**fields)
    model.fit(X, y)
    assert model.scaling_.startswith("none")
    assert why in model.scaling_


def test_bad_scaling_is_refused():
    with pytest.raises(ValueError, match="scaling must be one of"):
        PrivateLogisticRegression(classes=[0, 1], scaling="full").fit([[0.0], [1.0]], [0, 1])


def test_persons_and_weights():
    X, z, rng = _table(6_000)
    y = (z > 0).astype(int)
    model = PrivateLogisticRegression(4.0, classes=[0, 1], random_state=0)
    model.fit(X, y, groups=rng.integers(0, 3_000, len(y)))
    assert model.guarantee_.unit == "person"
    assert model.guarantee_.meets(Budget(4.0, 1e-6))
    # a record of weight 0 is the null record: what is in it does not matter
    w = np.ones(len(y))
    w[:50] = 0.0
    other = X.copy()
    other[:50] = 100.0
    models = [
        PrivateLogisticRegression(4.0, classes=[0, 1], random_state=0).fit(A, y, sample_weight=w)
        for A in (X, other)
    ]
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, atol=1e-6)


def test_the_intercept_starts_from_the_rate():
    """With a ridge so strong that features hardly count, predictions are the base rate, not a half."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 20)) / math.sqrt(20.0)
    y = (rng.random(len(X)) < 0.03).astype(int)
    for influence in (0.5, 1.0):
        model = PrivateLogisticRegression(
            1.0, classes=[0, 1], regularizer=1e5, influence=influence, random_state=0
        )
        p = model.fit(X, y).predict_proba(X)[:, 1]
        np.testing.assert_allclose(p, y.mean(), atol=0.01)
    flat = PrivateLogisticRegression(
        1.0, classes=[0, 1], regularizer=1e5, scaling="none", random_state=0
    )
    assert flat.fit(X, y).predict_proba(X)[:, 1].min() > 0.3


@pytest.mark.parametrize("cap", [0.5, 0.6, 0.9])
def test_predictor_is_the_inverse_of_probability(cap):
    p = np.concatenate([np.geomspace(1e-9, 0.5, 40), 1.0 - np.geomspace(1e-9, 0.5, 40)])
    loss = CappedLogistic(cap)
    np.testing.assert_allclose(loss.probability(loss.predictor(p)), p, rtol=1e-6)


def test_rates_stay_away_from_0_and_1():
    counts = ClassCounts.of(Budget(1.0, 1e-6), 2, "lattice")
    rates = counts.rates(counts.seen(np.zeros(1000, int), None, Source(0)), 1000)
    assert rates.sum() == pytest.approx(1.0)
    assert rates.min() >= counts.scale / 1000 * (1 - 1e-12)


def _stream_table(n=6_000, seed=0):
    rng = np.random.default_rng(seed)
    X = np.array([0.5, -0.3, 0.2]) + np.array([0.1, 0.02, 0.05]) * rng.uniform(-1, 1, (n, 3))
    z = (X - [0.5, -0.3, 0.2]) @ [20.0, -60.0, 10.0]
    return X, (z > 0).astype(int)


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_a_stream_is_scaled_by_its_first_records_which_are_not_learnt_from(delta):
    X, y = _stream_table()
    scores = {}
    for scaling in ("auto", "none"):
        model = reticent.OnlineLogisticRegression(
            2.0, delta, classes=[0, 1], horizon=len(X), scaling=scaling, random_state=0
        )
        model.partial_fit(X[:4_000], y[:4_000])
        scores[scaling] = model.score(X[4_000:], y[4_000:])
        assert model.guarantee_.meets(Budget(2.0, delta))
        assert not model.guarantee_.meets(Budget(1.8, delta))
        if scaling == "auto":
            first, found = model._stream.plan.first, model._stream.found.units
            assert "found from the first" in model.guarantee_.explain()
            rows = X[: first.count]
            np.testing.assert_allclose(found.center, rows.mean(axis=0), atol=0.1)
            # neither the labels of the first records nor anything else of them is in the weights
            other = reticent.OnlineLogisticRegression(
                2.0, delta, classes=[0, 1], horizon=len(X), scaling=scaling, random_state=0
            )
            labels = y.copy()
            labels[: first.count] = 1 - labels[: first.count]
            other.partial_fit(X[:4_000], labels[:4_000])
            np.testing.assert_array_equal(other.coef_, model.coef_)
    assert scores["auto"] > scores["none"] + 0.05


def test_streams_one_by_one_and_from_a_state_are_scaled_alike():
    X, y = _stream_table(3_000)
    make = {"classes": [0, 1], "horizon": 3_000, "scaling": "auto", "random_state": 0}
    whole = reticent.OnlineLogisticRegression(4.0, **make).partial_fit(X, y)
    parts = reticent.OnlineLogisticRegression(4.0, **make)
    for start in range(0, 3_000, 250):
        parts.partial_fit(X[start : start + 250], y[start : start + 250])
        if start == 1_000:
            parts = reticent.OnlineLogisticRegression.from_state(parts.state())
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-9)
    pytest.importorskip("river")
    from reticent.estimators.river import OnlineLogisticRegression as Twin

    twin = Twin(
        4.0, features=["a", "b", "c"], classes=[0, 1], horizon=3_000, scaling="auto", seed=0
    )
    for row, label in zip(X, y.tolist(), strict=True):
        twin.learn_one(dict(zip("abc", row.tolist(), strict=True)), label)
    np.testing.assert_allclose(list(twin.weights.values()), whole.coef_[0], rtol=1e-9)


def test_a_stream_is_not_scaled_where_that_does_not_pay():
    X, y = _stream_table(200)
    for fields in (
        {"horizon": 201},
        {"max_records": 2, "horizon": 10**6},
        {"learner": "sparse-leader"},
    ):
        model = reticent.OnlineLogisticRegression(
            classes=[0, 1], scaling="auto", random_state=0, **fields
        )
        persons = {"person": np.arange(200)} if "max_records" in fields else {}
        assert model.partial_fit(X, y, **persons)._stream.plan.first is None
    with pytest.raises(ValueError, match="scaling must be one of"):
        reticent.OnlineLogisticRegression(classes=[0, 1], scaling="full").partial_fit(X, y)
