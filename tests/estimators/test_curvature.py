"""Summaries of logistic regression: errors by hand, the sensitivity of what is released, coverage, refusals."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit

from reticent import PrivateLogisticRegression
from reticent.estimators.curvature import Curvature, moved_by_one
from reticent.losses import CappedLogistic, Logistic
from reticent.noise import Source
from reticent.privacy import Budget, Ledger
from reticent.solve.blocks import Form, InMemory

from . import intervals

TRUTH = np.array([2.0, -1.5, 0.3])


def table(rows: int, cap: float = 1.0, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, 2)) / math.sqrt(2)
    z = X @ TRUTH[:2] + TRUTH[2]
    share = expit(z) if cap == 1.0 else CappedLogistic(cap).probability(z)
    return pd.DataFrame(X, columns=["dose", "age"]), (rng.random(rows) < share).astype(int)


def model(epsilon: float = 1.0, **more) -> PrivateLogisticRegression:
    return PrivateLogisticRegression(
        epsilon, **{"feature_norm": 1.0, "classes": [0, 1], "influence": 1.0, "intervals": True,
                    "random_state": 0} | more
    )  # fmt: skip


def both(A: np.ndarray, signs: np.ndarray, x: np.ndarray, cap: float) -> tuple[np.ndarray, ...]:
    """Curvature and products of scores, record by record."""
    M, G = np.zeros((len(x), len(x))), np.zeros((len(x), len(x)))
    for a, s in zip(A, signs, strict=True):
        m = s * float(a @ x)
        q = 1.0 / (1.0 + math.exp(m))
        M += (q * (1 - q) if q <= cap else 0.0) * np.outer(a, a)
        G += min(q, cap) ** 2 * np.outer(a, a)
    return M, G


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_one_guarantee(delta: float, neighbours: str) -> None:
    X, y = table(20_000)
    made = model(delta=delta, neighbours=neighbours)
    found = intervals.in_one_guarantee(made, X, y, Budget(1.0, delta, neighbours))
    assert np.allclose(found.estimate, TRUTH, atol=0.5)
    assert "log-odds" in str(found)
    ridged = made.summary(target="regularised")
    assert np.allclose(ridged.estimate, [*made.coef_[0], *made.intercept_])
    assert (np.abs(ridged.estimate[:2]) < np.abs(found.estimate[:2])).all()
    assert "ridge" in ridged.about


@pytest.mark.parametrize("cap", [1.0, 0.5])
def test_without_noise_it_is_the_sandwich(cap: float) -> None:
    X, y = table(3000, cap)
    made = model(1e5, influence=cap, noise_precision="float").fit(X, y)
    found = made.summary(target="regularised")
    A = np.column_stack([X, np.ones(len(X))])
    M, G = both(A, np.where(y == 1, 1.0, -1.0), found.estimate, cap)
    # the ridge is next to nothing at this epsilon
    errors = np.sqrt(np.diag(np.linalg.inv(M) @ G @ np.linalg.inv(M)))
    assert np.allclose(found.sampling_error, errors, rtol=2e-2)
    assert (found.privacy_error < 0.1 * found.sampling_error).all()
    words = "log-odds" if cap == 1.0 else "capped"
    assert words in found.about


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("cap", [1.0, 0.5, 0.75])
def test_what_is_released_moves_as_stated(cap: float, kind) -> None:
    """Against sums by hand, and against the bound: a record blanked, a record replaced, worst rows among them."""
    rng = np.random.default_rng(0)
    loss = Logistic() if cap == 1.0 else CappedLogistic(cap)
    X = rng.standard_normal((400, 3))
    X /= np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
    numbers = rng.integers(0, 2, 400)
    worst = 0.0
    for replace in (False, True):
        budget = Budget(1.0, 1e-6, "replace" if replace else "zero-out")
        made = Curvature.of(budget, loss, 3, 400, "lattice")
        still = Curvature(loss, 3, made.moved, 1e-9, "gaussian", "float")

        def seen(x, rows, classes, made=still):
            drawn = made.draw(InMemory(kind(rows), form=Form(length=1.0)), classes, x, Source(0))
            return drawn["curvature"], drawn["scores"] / made.times

        for k in range(25):
            x = 8.0 * rng.standard_normal(3) / rng.integers(1, 20)
            M, G = seen(x, X, numbers)
            if k == 0:
                exact = both(X, 2.0 * numbers - 1.0, x, cap)
                assert np.allclose(M, exact[0], atol=1e-6)
                assert np.allclose(G * made.times, exact[1], atol=1e-6)
            other, classes = X.copy(), numbers.copy()
            other[k] = 0.0
            if replace:
                v = rng.standard_normal(3)
                other[k], classes[k] = v / np.linalg.norm(v), rng.integers(0, 2)
            M2, G2 = seen(x, other, classes)
            moved = math.sqrt(np.sum((M - M2) ** 2) + np.sum((G - G2) ** 2))
            assert moved <= made.moved + 1e-6
            worst = max(worst, moved / made.moved)
    assert worst > 0.6


@pytest.mark.parametrize("cap", [0.5, 0.6, 0.75, 0.9, 1.0])
@pytest.mark.parametrize("times", [1.0, 2.0, 3.0, 4.0, 9.0])
def test_largest_move_on_a_grid(cap: float, times: float) -> None:
    q = np.linspace(0.0, cap, 100_001)
    assert moved_by_one(cap, times) == pytest.approx(
        np.hypot(q * (1 - q), q * q / times).max(), rel=1e-8
    )


def test_cost_is_the_share() -> None:
    for budget in (Budget(1.0, 1e-6), Budget(1.0), Budget(1.0, 1e-6, "replace")):
        item = Curvature.of(budget, CappedLogistic(0.5), 4, 10**6, "lattice").release
        cost = (item.curve.gdp / budget.mu) ** 2 if budget.delta else item.curve.pure
        assert cost == pytest.approx(0.25, rel=1e-6)


def test_privacy_error_is_that_of_the_noise() -> None:
    X, y = table(2000)
    intervals.check_privacy_error(
        [model(noise_precision="float", random_state=k).fit(X, y).summary() for k in range(80)]
    )


@pytest.mark.parametrize("cap", [pytest.param(1.0, marks=pytest.mark.slow), 0.5])
def test_coverage(cap: float) -> None:
    found = []
    for k in range(100):
        made = model(influence=cap, noise_precision="float", random_state=k)
        found.append(made.fit(*table(4000, cap, k)).summary())
    intervals.check_coverage(found, TRUTH)


def test_refusals() -> None:
    X, y = table(200)
    wrong = {"two classes": {"classes": [0, 1, 2]}, "class_weight": {"class_weight": {0: 1.0}}}
    intervals.check_refusals(model, X, y, wrong)
    with Ledger(Budget(9.0, 1e-6)) as ledger, pytest.raises(ValueError, match="groups"):
        model().fit(X, y, groups=np.arange(200))
    assert ledger.entries == ()
    with pytest.raises(ValueError, match="target"):
        model().fit(*table(20_000)).summary(target="coef")
