"""POL against a plain loop; its sensitivities against the runs that attain them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

import reticent
from reticent import erm, losses, sets
from reticent.erm.averaged_iterate import factor, iterate
from reticent.erm.reading import read
from reticent.noise import Source
from reticent.noise.release import noisy

from .reference import ball, gaussian_epsilon, records

BUDGET = reticent.Budget(1.0, 1e-6)
LOSS = losses.Logistic()


def prepared(loss, where, A, y, budget=BUDGET):
    return read(loss, where, A, y, budget, noise_precision="lattice")


def plain(A, y, alpha, inner, average, radius):
    """Logistic loss, one pass in order."""
    x, iterates = np.zeros(A.shape[1]), [np.zeros(A.shape[1])]
    for t, (a, b) in enumerate(zip(A, y, strict=True), 1):
        if inner == "implicit":
            eta = 1 / (alpha * t)

            def excess(s, x=x, a=a, b=b, eta=eta):
                u = (x - eta * s * a) / (1 + eta * alpha)
                return -b / (1 + math.exp(b * (a @ u))) - s

            s = brentq(excess, -1.5, 1.5, xtol=1e-15)
            x = (x - eta * s * a) / (1 + eta * alpha)
        else:
            eta = min(1 / (alpha * t), 2 / (2 * alpha + 0.25))
            x = x - eta * (-b / (1 + math.exp(b * (a @ x))) * a + alpha * x)
        x = ball(x, radius)
        iterates.append(x)
    T = len(iterates)
    weights = {"uniform": np.ones(T), "weighted": np.arange(1, T + 1), "last": np.eye(T)[-1]}[
        average
    ]
    return weights @ np.array(iterates) / weights.sum()


@pytest.mark.parametrize("inner", ["implicit", "gradient"])
@pytest.mark.parametrize("average", ["uniform", "weighted", "last"])
def test_against_a_plain_loop(inner, average):
    A, y = records(count=150)
    fit = erm.averaged_iterate(LOSS, sets.L2Ball(4, 1.2), A, y, budget=BUDGET, regularizer=0.1,
                               inner=inner, average=average, seed=6)  # fmt: skip
    release = fit.guarantee.releases[0]
    source = Source(6)
    order = np.argsort(source.words(150), kind="stable")
    noise = noisy(np.zeros(4), release.sensitivity / release.curve.mu, source)
    want = plain(A[order], y[order], 0.1, inner, average, 1.2)
    np.testing.assert_allclose(fit.point, ball(want + noise, 1.2), atol=1e-7)


@pytest.mark.parametrize("inner", ["implicit", "gradient"])
@pytest.mark.parametrize("average", ["uniform", "weighted", "last"])
def test_linear_losses_attain_the_sensitivity(inner, average):
    A = np.zeros((40, 2))
    A[:, 0] = 1.0
    loss = losses.Linear()
    blank = A.copy()
    blank[0] = 0.0
    ends = [
        iterate(prepared(loss, sets.WholeSpace(2), data, None), np.arange(40), 0.3, average, inner)
        for data in (A, blank)
    ]
    bound = factor(40, average, inner) / 0.3
    distance = np.linalg.norm(ends[0] - ends[1])
    # explicit steps are capped at first, which only helps
    assert distance <= bound * (1 + 1e-12)
    if inner == "implicit":
        assert distance == pytest.approx(bound, rel=1e-12)
    assert distance > 0.5 * bound


def test_no_pair_of_neighbours_exceeds_the_sensitivity():
    rng = np.random.default_rng(0)
    for trial in range(60):
        A, y = records(count=30, dim=3, seed=trial)
        A /= np.linalg.norm(A, axis=1)[:, None]
        other, labels = A.copy(), y.copy()
        i = int(rng.integers(30))
        other[i], labels[i] = -A[i], y[i]
        for inner in ("implicit", "gradient"):
            for average in ("uniform", "weighted", "last"):
                a, b = (
                    iterate(prepared(LOSS, sets.L2Ball(3, 0.8), data, target), np.arange(30), 0.05,
                            average, inner)
                    for data, target in ((A, y), (other, labels))
                )  # fmt: skip
                limit = 2 * factor(30, average, inner) / 0.05 / (1 + math.exp(-0.8))
                assert np.linalg.norm(a - b) <= limit


def test_closed_forms():
    harmonic = sum(1 / s for s in range(1, 1001))
    assert factor(999, "uniform", "implicit") == pytest.approx((harmonic - 1) / 1000)
    assert 2 * factor(999, "uniform", "implicit") == pytest.approx(1.30e-2, abs=1e-4)
    assert 2 * factor(999, "weighted", "implicit") == pytest.approx(3.99e-3, abs=1e-5)
    assert 2 * factor(999, "last", "implicit") == pytest.approx(2.0e-3, abs=1e-6)


def test_guarantee_by_hand():
    A, y = records(count=500)
    for budget, times in ((BUDGET, 1), (BUDGET.with_(neighbours="replace"), 2)):
        fit = erm.averaged_iterate(
            LOSS, sets.L2Ball(4), A, y, budget=budget, regularizer=0.2, seed=0
        )
        scale = float(fit.guarantee.releases[0].noise.split()[-1])
        moved = times / (1 + math.exp(-1.0)) / (0.2 * 501)
        assert gaussian_epsilon(1e-6, moved / scale) == pytest.approx(1.0, abs=1e-4)
        assert fit.guarantee.releases[0].sensitivity > moved
    pure = erm.averaged_iterate(LOSS, sets.L2Ball(4), A, y, budget=reticent.Budget(1.0), seed=0)
    assert pure.guarantee.pure == pytest.approx(1.0, rel=1e-6)


def test_published_noise_tells_the_truth():
    A, y = records(count=999)
    fit = erm.averaged_iterate(LOSS, sets.L2Ball(4), A, y, budget=BUDGET, regularizer=0.01,
                               average="uniform", calibration="published", seed=0)  # fmt: skip
    slope = 1 / (1 + math.exp(-1.0))
    beta = 2 * math.sqrt(2) * (slope + 0.01) * math.log(1000) / 1000
    beta *= math.sqrt(math.log(1e6) + 1)
    assert float(fit.guarantee.releases[0].noise.split()[-1]) == pytest.approx(beta, rel=1e-5)
    assert fit.guarantee.epsilon(1e-6) > 50
    assert "claims epsilon = 1" in fit.guarantee.caveats[0]
    with pytest.raises(ValueError, match="average='uniform'"):
        erm.averaged_iterate(LOSS, sets.L2Ball(4), A, y, budget=BUDGET, calibration="published")


def test_without_noise_it_learns():
    A, y = records(count=20_000)
    loss = losses.Logistic(ridge=0.02)
    best = losses.best_fixed(sets.L2Ball(4, 3.0), loss, A, y, gap=1e-8)
    for average in ("last", "weighted"):
        fit = erm.averaged_iterate(loss, sets.L2Ball(4, 3.0), A, y, average=average, seed=0,
                                   budget=reticent.Budget(1e6, 1e-6), regularizer=0.0)  # fmt: skip
        assert loss.mean_value(fit.point, A, y) - best.lower_bound < 3e-3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"average": "mode"}, "average must be one of"),
        ({"inner": "newton"}, "inner must be one of"),
        ({"regularizer": 0.0}, "strongly convex"),
        ({"loss": losses.Hinge(), "inner": "gradient"}, "smooth loss"),
        ({"set": sets.NuclearBall((2, 2))}, "exact up to rounding"),
        ({"loss": losses.CustomLoss(lambda x, a, y: 0.0, lambda x, a, y: x, lipschitz=1.0)},
         "generalised linear"),
    ],
)  # fmt: skip
def test_bad_input_spends_nothing(changes, message):
    A, y = records()
    arguments = {"loss": LOSS, "set": sets.L2Ball(4), "X": A, "y": y, "budget": BUDGET, **changes}
    with reticent.Ledger(BUDGET) as ledger, pytest.raises((TypeError, ValueError), match=message):
        erm.averaged_iterate(**arguments)
    assert ledger.entries == ()
