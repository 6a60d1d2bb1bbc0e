"""Summaries: against ordinary least squares, against the noise itself, and refused where they cannot be trusted."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from reticent import PrivateLinearRegression, PrivateLogisticRegression
from reticent.estimators.summary import Moments, SquaredLabels
from reticent.noise import Source
from reticent.privacy import Budget

from . import intervals

TRUTH = np.array([3.0, -2.0])


def table(rows: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, 2)) / math.sqrt(2)
    y = 10 + X @ TRUTH + rng.uniform(-0.5, 0.5, rows)
    return pd.DataFrame(X, columns=["dose", "age"]), y


def model(epsilon: float = 1.0, **more) -> PrivateLinearRegression:
    return PrivateLinearRegression(
        epsilon, **{"feature_norm": 1.0, "label_bounds": (5, 15), "intervals": True,
                    "random_state": 0} | more
    )  # fmt: skip


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_one_guarantee(delta: float, neighbours: str) -> None:
    X, y = table(50_000)
    made = model(delta=delta, neighbours=neighbours)
    found = intervals.in_one_guarantee(made, X, y, Budget(1.0, delta, neighbours))
    assert np.allclose(found.estimate, [3.0, -2.0, 10.0], atol=0.5)
    assert (found.interval[:, 0] < found.estimate).all()
    assert "dose" in str(found)
    assert "95% interval" in str(found)
    html = found._repr_html_()
    assert html.count("<tr>") == 4
    assert f">{found.estimate[0]:.4g}</td>" in html
    assert "epsilon = 1" in html
    assert found.plot().get_xlabel().startswith("coefficient")


def test_without_noise_it_is_least_squares() -> None:
    X, y = table(4000)
    found = model(1e5, noise_precision="float").fit(X, y).summary()
    A = np.column_stack([X, np.ones(len(X))])
    x, left, *_ = np.linalg.lstsq(A, y, rcond=None)
    errors = np.sqrt(left[0] / (len(A) - 3) * np.diag(np.linalg.inv(A.T @ A)))
    assert np.allclose(found.estimate, x, rtol=1e-3)
    assert np.allclose(found.sampling_error, errors, rtol=1e-3)
    assert (found.privacy_error < 0.1 * found.sampling_error).all()


def test_private_bounds_too() -> None:
    X, y = table(50_000)
    found = model(2.0, feature_norm="private", label_bounds="private").fit(1000.0 * X, y).summary()
    assert np.allclose(found.estimate, [0.003, -0.002, 10.0], rtol=0.3)


def test_privacy_error_is_that_of_the_noise() -> None:
    X, y = table(4000)
    intervals.check_privacy_error(
        [model(noise_precision="float", random_state=k).fit(X, y).summary() for k in range(400)]
    )


def test_coverage() -> None:
    found = [
        model(noise_precision="float", random_state=k).fit(*table(3000, k)).summary()
        for k in range(300)
    ]
    intervals.check_coverage(found, np.append(TRUTH, 10.0))


def test_refusals() -> None:
    intervals.check_refusals(model, *table(100), {})
    with pytest.raises(ValueError, match="level"):
        model().fit(*table(50_000)).summary(level=1.0)


def test_squares_are_exact_and_move_by_one() -> None:
    rng = np.random.default_rng(0)
    labels = rng.uniform(-1, 1, 1000)
    sums = SquaredLabels(1e-9, "gaussian", "float")
    whole = sums.draw(labels, Source(0))
    assert whole == pytest.approx((labels**2).sum(), abs=1e-2)
    for k in range(50):
        assert -1e-6 <= whole - sums.draw(np.delete(labels, k), Source(0)) <= 1 + 1e-6
    for budget in (Budget(1.0, 1e-6), Budget(1.0)):
        item = SquaredLabels.of(budget, "lattice").release
        cost = (item.curve.gdp / budget.mu) ** 2 if budget.delta else item.curve.pure
        assert cost == pytest.approx(0.05, rel=1e-6)


def test_the_inverse_is_corrected_for_noise() -> None:
    """Noise on A'A shrinks its inverse; to first order that is taken off."""
    rng = np.random.default_rng(0)
    d, sigma = 8, 1.0
    V0, x0 = 60.0 * np.eye(d), np.ones(d)
    found = []
    for _ in range(4000):
        E = rng.normal(0, sigma, (d, d))
        E = (E + E.T) / 2
        found.append(Moments(V0 + E, V0 @ x0, sigma, 0.0, 0.0, 10**6).solution()[0])
    error = np.std(found, axis=0) / math.sqrt(4000)
    assert (np.abs(np.mean(found, axis=0) - x0) < 6 * error + 1e-4).all()


def test_a_later_fit_forgets_what_only_an_earlier_one_released() -> None:
    """Its guarantee would not cover the curvature of a fit with eighty times the budget."""
    X, y = table(20_000)
    later = {"intervals": False, "epsilon": 0.1}
    regression = model(8.0).fit(X, y).set_params(**later).fit(X, y)
    classifier = PrivateLogisticRegression(
        8.0, classes=[False, True], intervals=True, random_state=0
    )
    classifier.fit(X, y > 10.0).set_params(**later).fit(X, y > 10.0)
    for fitted in (regression, classifier):
        with pytest.raises(ValueError, match="needs a model that was fitted with intervals=True"):
            fitted.release().summary()
        fresh = clone(fitted)
        fresh.fit(X, y if fitted is regression else y > 10.0)
        assert set(vars(fitted)) | {"_ledgers"} == set(vars(fresh))
