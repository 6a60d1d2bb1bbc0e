"""How noise is spread over iterates: recomputed from the noise, against other schedules, and for ever."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import reticent
from reticent import losses, online, sets
from reticent.online import schedules

from .cases import BUDGET


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("precision", ["float", "lattice"])
@pytest.mark.parametrize("schedule", ["optimal", "proportional", "published"])
@pytest.mark.parametrize("kind", ["implicit", "gradient"])
def test_guarantee_is_recomputed_from_the_noise(schedule, precision, neighbours, kind):
    horizon, alpha = 1000, 0.3
    inner = online.ImplicitGradient() if kind == "implicit" else online.GradientDescent()
    learner = online.PerturbedIterates(
        sets.L2Ball(5, 2.0), losses.Logistic(ridge=alpha), inner=inner, schedule=schedule,
        budget=BUDGET.with_(neighbours=neighbours), horizon=horizon, noise_precision=precision,
    )  # fmt: skip
    deviations = np.array([learner.deviation(t) for t in (1, 2, 500, 1000)])
    t = np.arange(1, horizon + 1)
    moved = learner.lipschitz * (1 if neighbours == "zero-out" else 2)
    s = moved / (alpha * (t + (kind == "implicit")))
    reaches, _ = learner._reach.of(0, horizon, learner._reach.start)
    np.testing.assert_allclose(reaches, s, rtol=1e-12 if precision == "float" else 1e-7)
    assert (reaches >= s * (1 - 1e-12)).all()
    sd = learner._plan.deviations(0, reaches)
    np.testing.assert_allclose(sd[[0, 1, 499, 999]], deviations, rtol=1e-12)
    mu = math.sqrt(np.sum((s / sd) ** 2))
    assert mu * (1 - 1e-12) <= learner.guarantee.gdp <= mu * (1 + 2e-5)
    if schedule != "published":
        assert learner.guarantee.gdp <= BUDGET.mu * (1 + 1e-12)
        assert mu == pytest.approx(BUDGET.mu, rel=1e-6)
    else:
        lam = 2 * (learner.lipschitz + alpha * 2.0) / alpha
        eps, delta = 1 / 3, 5e-7
        c = math.log(math.log(2 / delta) / (2 * eps)) / (2 * math.log(horizon))
        power = horizon ** (0.5 + c)
        beta = lam * power * math.sqrt(
            2 / eps * (math.log(horizon / delta) + math.sqrt(eps) / power)
        )  # fmt: skip
        np.testing.assert_allclose(sd, beta / t, rtol=1e-12)
        assert learner.guarantee.epsilon(1e-6) < 1.0


def test_the_optimal_schedule_has_less_noise_than_any_other_of_its_kind():
    """sum of s_t subject to sum (r_t/s_t)^2 = mu^2, over powers of r_t: the best power is 2/3."""
    learner = online.PerturbedIterates(
        sets.L2Ball(5), losses.Logistic(ridge=1.0), budget=BUDGET, horizon=1000,
        noise_precision="float",
    )  # fmt: skip
    r, _ = learner._reach.of(0, 1000, learner._reach.start)
    mine = learner._plan.deviations(0, r).sum()

    def total(power):
        q = r**power
        return q.sum() * math.sqrt(np.sum((r / q) ** 2)) / BUDGET.mu

    best = minimize_scalar(total, bounds=(0.1, 1.5), method="bounded", options={"xatol": 1e-8})
    assert best.x == pytest.approx(2 / 3, abs=1e-4)
    assert mine == pytest.approx(best.fun, rel=1e-9)


def test_the_horizon_free_schedule_is_private_for_ever():
    learner = online.PerturbedIterates(sets.L2Ball(5), losses.Logistic(ridge=1.0), budget=BUDGET)
    assert learner.schedule == "horizon-free"
    first = 20_000  # the rest by Euler and Maclaurin
    constant = mpmath.fsum(1 / (n * mpmath.log(n) ** 2) for n in range(2, first))
    constant += 1 / mpmath.log(first) + 0.5 / (first * mpmath.log(first) ** 2)
    assert 0 < schedules._LOGARITHMIC - float(constant) < 5e-6
    t = np.arange(1, 200_001)
    r, _ = learner._reach.of(0, len(t), learner._reach.start)
    sd = learner._plan.deviations(0, r)
    spent = np.sum((r / sd) ** 2)
    left = 1.0 / math.log(len(t) + 1)  # the integral of what comes later
    assert math.sqrt(spent) < BUDGET.mu
    factor = (sd / (r * np.sqrt(t + 1) * np.log(t + 1)))[0]
    assert math.sqrt(spent + left / factor**2) == pytest.approx(BUDGET.mu, rel=1e-3)
    assert learner.guarantee.gdp == pytest.approx(BUDGET.mu, rel=1e-9)


def test_a_window_makes_it_endless():
    budget = BUDGET.with_(window=50)
    learner = online.PerturbedIterates(sets.L2Ball(5), losses.Logistic(ridge=1.0), budget=budget)
    assert learner.schedule == "proportional"
    r, _ = learner._reach.of(0, 5000, learner._reach.start)
    ratios = (r / learner._plan.deviations(0, r)) ** 2
    window = np.convolve(ratios, np.ones(50), mode="valid")
    assert math.sqrt(window.max()) == pytest.approx(BUDGET.mu, rel=1e-6)
    with pytest.raises(ValueError, match="cannot use a window"):
        online.PerturbedIterates(
            sets.L2Ball(5), losses.Logistic(ridge=1.0), budget=budget, schedule="optimal", horizon=9
        )


@pytest.mark.parametrize("schedule", [None, "horizon-free"])
def test_a_horizon_beyond_what_is_accounted_for_is_refused(schedule):
    """A schedule without a horizon counts the rounding of 2^40 iterates."""
    with pytest.raises(ValueError, match="horizon must be between 1 and 1099511627776"):
        online.PerturbedIterates(
            sets.L2Ball(2),
            losses.Logistic(ridge=0.1),
            budget=reticent.Budget(1.0, 1e-6),
            horizon=2**40 + 1,
            schedule=schedule,
        )
