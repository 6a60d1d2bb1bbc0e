"""Subsampled Gaussian releases against integration of their worst pairs."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import integrate, special, stats

from reticent.privacy import Gaussian, Pure, SubsampledGaussian, compose, curves, gaussian


def mixture(x: np.ndarray, q: float, z: float, mean: float) -> np.ndarray:
    return (1 - q) * stats.norm.pdf(x, 0, z) + q * stats.norm.pdf(x, mean, z)


def one_step(q: float, z: float, neighbours: str, epsilon: float) -> float:
    x = np.linspace(-14 * z - 2, 14 * z + 2, 400_001)
    p = mixture(x, q, z, 1.0)
    other = stats.norm.pdf(x, 0, z) if neighbours == "zero-out" else mixture(x, q, z, -1.0)
    sticks = [np.maximum(a - math.exp(epsilon) * b, 0) for a, b in ((p, other), (other, p))]
    return max(float(integrate.simpson(stick, x=x)) for stick in sticks)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize(("q", "z"), [(0.01, 1.0), (0.2, 0.7), (0.5, 3.0), (1.0, 2.0)])
def test_one_step(q: float, z: float, neighbours: str) -> None:
    curve = SubsampledGaussian(q, z, 1, neighbours)
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        exact = one_step(q, z, neighbours, epsilon)
        assert curve.delta(epsilon) >= exact * (1 - 1e-6)
        assert curve.delta(epsilon) == pytest.approx(exact, rel=2e-2, abs=2e-11)
    exact = one_step(q, z, neighbours, 0.5)
    if exact > 1e-9:
        assert curve.epsilon(exact) == pytest.approx(0.5, rel=1e-2)


def test_known_figure() -> None:
    assert SubsampledGaussian(0.01, 1.0, 1).delta(0.5) == pytest.approx(2.2e-7, rel=0.02)


@pytest.mark.parametrize(("q", "z"), [(0.01, 1.0), (0.2, 0.7), (0.5, 3.0), (1.0, 2.0)])
@pytest.mark.parametrize("alpha", [2.0, 5.0, 20.0])
def test_divergence_by_integration(q: float, z: float, alpha: float) -> None:
    x = np.linspace(-40 * z, 40 * z + alpha, 800_001)
    log_n = stats.norm.logpdf(x, 0, z)
    log_p = np.logaddexp(
        math.log1p(-q) + log_n if q < 1 else -np.inf, math.log(q) + stats.norm.logpdf(x, 1, z)
    )
    values = []
    for a, b in ((log_p, log_n), (log_n, log_p)):
        total = special.logsumexp(alpha * a + (1 - alpha) * b) + math.log(x[1] - x[0])
        values.append(total / (alpha - 1))
    curve = SubsampledGaussian(q, z, 7)
    assert curve.rdp(alpha) == pytest.approx(7 * values[0], rel=1e-6)
    assert values[1] <= values[0] * (1 + 1e-9)  # the other direction is never worse


def test_steps_and_mixtures() -> None:
    curve = SubsampledGaussian(0.02, 1.1, 200)
    epsilon = curve.epsilon(1e-6)
    assert epsilon < curve.gdp_bound * 10
    by_divergence = min(
        curve.rdp(a) + math.log1p(-1 / a) - (math.log(1e-6) + math.log(a)) / (a - 1)
        for a in np.arange(2.0, 200.0)
    )
    assert epsilon <= by_divergence
    assert epsilon >= 0.7 * by_divergence
    assert curve.delta(epsilon) == pytest.approx(1e-6, rel=1e-3)
    both = compose([curve, Gaussian(0.3), Pure(0.1)])
    assert max(epsilon, gaussian.epsilon(1e-6, 0.3)) < both.epsilon(1e-6)
    assert both.epsilon(1e-6) < epsilon + gaussian.epsilon(5e-7, 0.3) + 0.1
    assert both.delta(both.epsilon(1e-6)) == pytest.approx(1e-6, rel=1e-2)
    # two halves are the whole
    halves = compose([(SubsampledGaussian(0.02, 1.1, 100), 2)])
    assert halves.epsilon(1e-6) == pytest.approx(epsilon, rel=1e-3)
    # far below the resolution of Fourier transforms only divergences count
    assert curve.epsilon(1e-30) > epsilon
    assert (curve.pure, curve.gdp, curve.zcdp) == (None, None, None)


def test_replacement_costs_more_and_sampling_never_more_than_none() -> None:
    zero = SubsampledGaussian(0.05, 1.0, 50).epsilon(1e-6)
    replace = SubsampledGaussian(0.05, 1.0, 50, "replace").epsilon(1e-6)
    assert zero < replace < gaussian.epsilon(1e-6, 2 * math.sqrt(50))


def test_dp_accounting_is_loaded_only_when_needed(monkeypatch) -> None:
    code = "import sys, reticent.privacy; print('dp_accounting' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match="pip install dp-accounting"):
        SubsampledGaussian(0.0123, 1.0, 1).epsilon(1e-6)


def test_round_trip_and_bad_input() -> None:
    curve = SubsampledGaussian(0.05, 1.0, 50, "replace")
    assert curves.from_dict(json.loads(json.dumps(curve.to_dict()))) == curve
    for bad in [(0.0, 1.0, 1), (1.1, 1.0, 1), (0.5, 0.0, 1), (0.5, 1.0, 0)]:
        with pytest.raises(ValueError, match="must be"):
            SubsampledGaussian(*bad)
    with pytest.raises(ValueError, match="neighbours"):
        SubsampledGaussian(0.5, 1.0, 1, "add")


@pytest.mark.parametrize(("mu", "steps"), [(1.0, 100_000), (20.0, 30_000)])
def test_rounding_of_long_compositions_is_paid_for(mu: float, steps: int):
    # With every record in every step the truth is known; the Fourier transforms alone are some
    # 1e-12 below it here, which a delta of 2e-11 can feel.
    sampled = SubsampledGaussian(1.0, math.sqrt(steps) / mu, steps)
    both = compose([sampled, Gaussian(0.5 * mu)])
    for delta in (1e-6, 1e-9, 1e-10, 2e-11):
        for curve, truth in ((sampled, mu), (both, math.sqrt(1.25) * mu)):
            epsilon = gaussian.epsilon(delta, truth)
            assert curve.delta(epsilon) >= delta * (1.0 - 1e-9)
            assert curve.epsilon(delta) >= epsilon * (1.0 - 1e-9)
