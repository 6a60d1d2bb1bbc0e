"""FTRL over records that come more than once: the accounting by explicit matrices."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import reticent
from reticent import erm, losses, online, sets
from reticent.erm.ftrl import overlap_of
from reticent.sums.toeplitz_search import toeplitz

from .reference import ball, gaussian_epsilon, logistic_slope, records

BUDGET = reticent.Budget(1.0, 1e-6)
LOSS = losses.Logistic()


def strategy(steps):
    """The matrix C with which noise of covariance (C'C)^-1, seen through the sums, is white."""
    c = toeplitz(horizon=steps).sensitivity_coefficients(steps)
    return np.array([[c[t - s] if t >= s else 0.0 for s in range(steps)] for t in range(steps)])


@pytest.mark.parametrize("visits", [
    np.tile(np.arange(8), 3), np.array([0, 0, 0, 1, 2, 3]), np.array([3, 1, 3, 0, 2, 3, 1, 3]),
    np.arange(12),
])  # fmt: skip
def test_overlap_by_linear_algebra(visits):
    steps, count = len(visits), int(visits.max()) + 1
    C = strategy(steps)
    whole = np.linalg.norm(C[:, 0])
    exact = max(np.linalg.norm(C[:, visits == i].sum(axis=1)) for i in range(count)) / whole
    found = overlap_of(visits, count, steps, gaussian=True)
    assert exact <= found * (1 + 1e-12)
    assert found <= 1.25 * exact
    assert overlap_of(visits, count, steps, gaussian=False) == np.bincount(visits).max()


def test_guarantee_of_several_passes_by_linear_algebra():
    A, y = records(count=40)
    fit = erm.ftrl(LOSS, sets.L2Ball(4), A, y, budget=BUDGET, passes=3, seed=0)
    sigma = float(fit.guarantee.releases[0].noise.split()[-1])
    C = strategy(120)
    slope = 1 / (1 + math.exp(-1.0))
    worst = max(np.linalg.norm(C[:, i::40].sum(axis=1)) for i in range(40))
    mu = slope * worst / sigma
    epsilon = gaussian_epsilon(1e-6, mu)
    assert 0.85 < epsilon <= 1.0
    assert fit.guarantee.meets(BUDGET)
    assert "up to 3 times" in fit.guarantee.explain()


class Wild(sets.ConvexSet):
    """It says that it is the unit ball, and projects to a ball four times as large."""

    dim = 4
    diameter = 2.0
    norm_bound = 1.0
    center = np.zeros(4)

    def linear_minimizer(self, g):
        return -g / np.linalg.norm(g)

    def project(self, x):
        return ball(np.asarray(x), 4.0)


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("precision", ["lattice", "float"])
def test_several_passes_trust_no_projection(delta, precision, monkeypatch):
    """What every visit really added, seen through explicit matrices (or counted at the tree's nodes)."""
    added, totals = [], []

    class Watched(online.FollowTheRegularizedLeader):
        def _python_step(self, gradient):
            before = self.total._total.copy()
            super()._python_step(gradient)
            added.append((self.total._total - before) * self.total._noise.step)
            totals.append(self.total)

    monkeypatch.setattr(sys.modules["reticent.erm.ftrl"], "FollowTheRegularizedLeader", Watched)
    count, passes = 30, 3
    A, y = records(count=count, regression=True)
    A /= np.linalg.norm(A, axis=1)[:, None] * 1.001
    budget = reticent.Budget(1.0, delta)
    fit = erm.ftrl(
        losses.Squared(), Wild(), A, y, budget=budget, passes=passes, order="given",
        regularizer=0.1, seed=0, noise_precision=precision,
    )  # fmt: skip
    G = np.array(added)
    lengths = np.linalg.norm(G, axis=1)
    assert lengths.max() <= 2.0 * (1 + 2e-5)  # |<a, x> - y| for |x| <= 1 and |y| <= 1
    assert totals[-1].clipped > count
    scale = totals[-1]._noise.scale
    if delta:
        C = strategy(count * passes)
        worst = max(np.linalg.norm(C[:, i::count] @ G[i::count]) for i in range(count))
        assert 0.7 < gaussian_epsilon(delta, worst / scale) <= 1.0
    else:
        nodes = (count * passes).bit_length()
        worst = max(lengths[i::count].sum() for i in range(count))
        assert 0.9 < nodes * worst / scale <= 1.0
    assert fit.guarantee.meets(budget)


def test_one_pass_against_a_plain_loop_without_noise():
    A, y = records(count=300)
    huge = reticent.Budget(1e6, 0.5)
    fit = erm.ftrl(
        LOSS, sets.L2Ball(4, 2.0), A, y, budget=huge, order="given", regularizer=7.0, seed=0
    )
    last = erm.ftrl(LOSS, sets.L2Ball(4, 2.0), A, y, budget=huge, order="given", regularizer=7.0,
                    average="last", seed=0)  # fmt: skip
    total, x, points = np.zeros(4), np.zeros(4), []
    for a, b in zip(A, y, strict=True):
        points.append(x)
        total += logistic_slope(a[None], np.array([b]), x)[0] * a
        x = ball(-total / 7.0, 2.0)
    np.testing.assert_allclose(last.point, x, atol=5e-3)
    np.testing.assert_allclose(fit.point, np.mean(points, axis=0), atol=5e-3)


def test_it_learns_and_resampling_is_accounted():
    A, y = records(count=4000)
    zero = LOSS.mean_value(np.zeros(4), A, y)
    best = losses.best_fixed(sets.L2Ball(4, 3.0), LOSS, A, y, gap=1e-6).value
    budget = reticent.Budget(8.0, 1e-5)
    for arguments in ({}, {"passes": 3}, {"order": "resample"}, {"average": "last"}):
        fit = erm.ftrl(LOSS, sets.L2Ball(4, 3.0), A, y, budget=budget, seed=1, **arguments)
        assert LOSS.mean_value(fit.point, A, y) < 0.5 * (zero + best)
        assert fit.guarantee.meets(budget)
    assert fit.trace.settings["visits of one record count as"] == 1.0
    pure = erm.ftrl(LOSS, sets.L2Ball(4, 3.0), A, y, budget=reticent.Budget(8.0), passes=2, seed=1)
    assert pure.guarantee.pure == pytest.approx(8.0, rel=1e-6)


def test_published_noise_tells_the_truth():
    A, y = records(count=1024)
    with pytest.warns(reticent.PrivacyLeakWarning, match="claims"):
        fit = erm.ftrl(LOSS, sets.L2Ball(4), A, y, budget=BUDGET.with_(neighbours="replace"), seed=0,
                       calibration="published")  # fmt: skip
    assert fit.guarantee.epsilon(1e-6) == pytest.approx(1.70, abs=0.01)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"passes": 0}, "passes must be"),
        ({"order": "sorted"}, "order must be one of"),
        ({"regularizer": 0.0}, "regularizer must be"),
        ({"calibration": "published", "passes": 2}, "calibration='published'"),
        ({"loss": losses.Squared(), "set": sets.WholeSpace(4)}, "not Lipschitz"),
    ],
)
def test_bad_input_spends_nothing(changes, message):
    A, y = records()
    arguments = {"loss": LOSS, "set": sets.L2Ball(4), "X": A, "y": y, "budget": BUDGET, **changes}
    with reticent.Ledger(BUDGET) as ledger, pytest.raises((TypeError, ValueError), match=message):
        erm.ftrl(**arguments)
    assert ledger.entries == ()
