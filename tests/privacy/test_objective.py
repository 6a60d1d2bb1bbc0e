"""Objective perturbation in one dimension, where the density of the minimiser is known exactly."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from reticent.privacy import Budget, ObjectivePerturbation, calibration, gaussian

GRID = np.linspace(-60.0, 60.0, 600_001)


def logistic(label: float):
    """Gradient and curvature of log(1 + exp(-label theta)); bounds 1 and 1/4."""
    s = 1.0 / (1.0 + np.exp(np.clip(label * GRID, -700, 700)))
    return -label * s, s * (1 - s)


def huber(shift: float, width: float):
    """Gradient and curvature of a Huber loss with slope at most 1; curvature 1/width."""
    u = (GRID - shift) / width
    return np.clip(u, -1, 1), (np.abs(u) < 1) / width


NOTHING = (np.zeros_like(GRID), np.zeros_like(GRID))


def density(parts, regulariser: float, sigma: float) -> np.ndarray:
    """Of the minimiser: the noise is minus the gradient, times the Jacobian."""
    slope = sum(part[0] for part in parts) + regulariser * GRID
    curvature = sum(part[1] for part in parts) + regulariser
    p = np.exp(-0.5 * (slope / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi)) * curvature
    return p / (p.sum() * (GRID[1] - GRID[0]))


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * (GRID[1] - GRID[0]))


def divergence(p: np.ndarray, q: np.ndarray, alpha: float) -> float:
    kept = (p > 1e-280) & (q > 1e-280)
    total = np.exp(alpha * np.log(p[kept]) + (1 - alpha) * np.log(q[kept])).sum()
    return float(np.log(total * (GRID[1] - GRID[0])) / (alpha - 1))


RECORDS = {"logistic": (logistic(1.0), 0.25), "huber": (huber(0.3, 0.5), 2.0),
           "steep": (huber(-2.0, 0.1), 10.0)}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("sigma", [0.7, 2.0, 5.0])
@pytest.mark.parametrize("regulariser", [0.5, 4.0])
def test_zero_out_against_exact_densities(name: str, sigma: float, regulariser: float) -> None:
    record, curvature = RECORDS[name]
    curve = ObjectivePerturbation(1 / sigma, math.log1p(curvature / regulariser))
    for others in ([NOTHING], [logistic(-1.0), huber(1.0, 1.0)]):
        p = density([*others, record], regulariser, sigma)
        q = density(others, regulariser, sigma)
        for epsilon in (0.0, 0.3, 1.0, 2.0, 4.0):
            exact = max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
            assert exact <= curve.delta(epsilon) * (1 + 1e-6) + 1e-9
        for alpha in (1.5, 3.0):
            exact = max(divergence(p, q, alpha), divergence(q, p, alpha))
            assert exact <= curve.rdp(alpha) + 1e-6


@pytest.mark.parametrize("sigma", [1.0, 4.0])
def test_replacement_against_exact_densities(sigma: float) -> None:
    curve = ObjectivePerturbation(1 / sigma, math.log1p(2.0 / 3.0), "replace")
    records = [logistic(1.0), logistic(-1.0), huber(0.0, 0.5), huber(3.0, 0.5), huber(-3.0, 0.5)]
    for first in records:
        for second in records:
            p = density([logistic(1.0), first], 3.0, sigma)
            q = density([logistic(1.0), second], 3.0, sigma)
            for epsilon in (0.0, 0.5, 1.5, 3.0):
                assert hockey_stick(p, q, epsilon) <= curve.delta(epsilon) * (1 + 1e-6) + 1e-9
            assert divergence(p, q, 2.0) <= curve.rdp(2.0) + 1e-6


def test_figures() -> None:
    budget = Budget(1.0, 1e-6)
    for ratio, sigma in [(2.0, 6.86), (9.5, 4.66)]:  # regularisation over curvature
        c = math.log1p(1 / ratio)
        found = calibration.objective_perturbation(budget, 1.0, c)
        assert found == pytest.approx(sigma, abs=0.01)
        best = min(gaussian.mu(1.0, 5e-7), gaussian.mu(1.0 - c, 1e-6))
        assert found == pytest.approx(1 / best, rel=1e-6)
        curve = ObjectivePerturbation(1 / found, c)
        assert curve.epsilon(1e-6) <= 1.0 + 1e-12
        assert curve.delta(1.0) <= 1e-6 * (1 + 1e-9)
    replace = calibration.objective_perturbation(budget.with_(neighbours="replace"), 1.0, c)
    assert 1.9 * found < replace < 3 * found


def test_zcdp_bounds_the_divergence() -> None:
    for mu, c in [(0.1, 0.05), (2.0, 1.0)]:
        for neighbours in ("zero-out", "replace"):
            curve = ObjectivePerturbation(mu, c, neighbours)
            for alpha in (1 + 1e-6, 1.1, 2.0, 10.0, 1e3):
                assert curve.rdp(alpha) <= curve.zcdp * alpha
            orders = np.linspace(1.001, 50, 100)
            assert (np.diff([(a - 1) * curve.rdp(a) for a in orders]) > 0).all()


def test_profile_falls_and_inverts() -> None:
    for neighbours in ("zero-out", "replace"):
        curve = ObjectivePerturbation(0.2, 0.1, neighbours)
        values = [curve.delta(e) for e in np.linspace(0, 5, 40)]
        assert (np.diff(values) <= 1e-12).all()
        for delta in (1e-9, 1e-6, 1e-3):
            epsilon = curve.epsilon(delta)
            assert curve.delta(epsilon) <= delta * (1 + 1e-6)
            assert curve.delta(0.99 * epsilon) > delta


def test_bad_input() -> None:
    for bad in [(0.0, 0.1), (1.0, -0.1), (math.inf, 0.1)]:
        with pytest.raises(ValueError, match="must be"):
            ObjectivePerturbation(*bad)
    with pytest.raises(ValueError, match="neighbours"):
        ObjectivePerturbation(1.0, 0.1, "swap")
    with pytest.raises(ValueError, match="regularise more"):
        calibration.objective_perturbation(Budget(1.0, 1e-6), 1.0, 1.5)
    with pytest.raises(ValueError, match="delta > 0"):
        calibration.objective_perturbation(Budget(1.0), 1.0, 0.1)
    assert calibration.objective_perturbation(Budget(1.0, 1e-6), 0.0, 0.1) == 0.0


@pytest.mark.parametrize("mu", [1e-12, 1e-6, 1.3e-5, 0.3])
@pytest.mark.parametrize("alpha", [1 + 1e-6, 1.9, 2.0, 1e3])
def test_the_divergence_is_not_below_its_formula(mu: float, alpha: float) -> None:
    with mpmath.workdps(60):
        gap = mpmath.mpf(alpha) - 1
        tail = mpmath.log(1 + mpmath.erf(gap * mu / mpmath.sqrt(2))) / gap
        exact = mpmath.mpf(alpha) * mpmath.mpf(mu) ** 2 / 2 + tail
        assert ObjectivePerturbation(mu, 0.0).rdp(alpha) >= exact * (1 - mpmath.mpf(10) ** -15)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_delta_is_not_below_its_formula(neighbours: str) -> None:
    curve = ObjectivePerturbation(0.3, 0.0, neighbours, one_sided=True)
    for epsilon in np.linspace(0.01, 6.0, 50).tolist():
        with mpmath.workdps(60):

            def stick(mu: float, e: float = epsilon) -> mpmath.mpf:
                a, b = (
                    mpmath.mpf(e) / mu - mpmath.mpf(mu) / 2,
                    mpmath.mpf(e) / mu + mpmath.mpf(mu) / 2,
                )
                root = mpmath.sqrt(2)
                return mpmath.erfc(a / root) / 2 - mpmath.exp(e) * mpmath.erfc(b / root) / 2

            exact = stick(0.3)
            if neighbours == "replace":
                exact = min(stick(0.6), stick(0.6) + 2 * stick(0.3))
            assert mpmath.mpf(curve.delta(epsilon)) >= exact
