"""Figures for Thakurta's chapter on private optimisation.

The chapter's neighbours add or remove a record, so its factor of two for replacement is ours to
take in the sensitivity, not in epsilon.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import kstest

from errata.common import FloatArray, frank_wolfe, gaussian_epsilon, vertex_of_l1


def exponential_mechanism(epsilon: float, relation: str) -> float:
    """Largest log-ratio of densities of Algorithm 1 on [0, 1] with loss theta, L = |C| = 1, as printed."""
    rate = epsilon / 2.0

    def log_density(theta: float, slope: float) -> float:
        top = max(0.0, -rate * slope)  # the largest exponent, taken out of the integral
        normal, _ = quad(lambda x: math.exp(-rate * slope * x - top), 0.0, 1.0, limit=400)
        return -rate * slope * theta - top - math.log(normal)

    # n records of slope +-1 may pull either way; a large total slope makes one end unlikely
    worst = 0.0
    for total in (-400.0, 0.0, 400.0):
        for first, second in ((0.0, 1.0), (-1.0, 1.0)) if relation == "replace" else ((0.0, 1.0),):
            for theta in (0.0, 1.0):
                ratio = log_density(theta, total + first) - log_density(theta, total + second)
                worst = max(worst, abs(ratio))
    return worst


def density_of_objective_perturbation(runs: int = 20_000) -> tuple[float, float]:
    """Kolmogorov distance of the minimiser's law from nu(b) det, and from the printed nu(b) / det."""
    rng = np.random.default_rng(0)
    ridge, epsilon = 0.5, 1.0

    def slope(theta: FloatArray | float) -> FloatArray | float:
        # one logistic record of slope 1 at 0, and the ridge
        return np.tanh(theta) * 2.0 + ridge * theta

    def curvature(theta: float) -> float:
        return 2.0 / math.cosh(theta) ** 2 + ridge

    scale = 2.0 / epsilon
    b = rng.laplace(scale=scale, size=runs)
    theta = np.array([brentq(lambda x, b=b_: slope(x) + b, -500.0, 500.0) for b_ in b])
    grid = np.linspace(-60.0, 60.0, 24_001)
    result = []
    for power in (1.0, -1.0):
        weights = np.exp(-np.abs(slope(grid)) / scale) * (2.0 / np.cosh(grid) ** 2 + ridge) ** power
        cdf = np.concatenate([[0.0], np.cumsum(0.5 * (weights[1:] + weights[:-1]))])
        cdf /= cdf[-1]
        result.append(float(kstest(theta, lambda x, c=cdf: np.interp(x, grid, c)).statistic))
    assert curvature(0.0) == 2.5
    return result[0], result[1]


def frank_wolfe_gaps(steps: int) -> tuple[float, float, float]:
    """Gaps of |x - p|^2 over the l1 ball: constant step 1/T, 2/(t+1), and of a linear loss with 1/T."""
    target = np.array([0.3, -0.2, 0.1])
    start = np.array([0.0, 0.0, -1.0])

    def gradient(x: FloatArray) -> FloatArray:
        return 2.0 * (x - target)

    constant = frank_wolfe(gradient, vertex_of_l1, start, [1.0 / steps] * (steps - 1))
    falling = frank_wolfe(gradient, vertex_of_l1, start, [2.0 / (t + 1) for t in range(1, steps)])
    slope = np.array([0.0, 0.0, 1.0])
    linear = frank_wolfe(lambda x: slope, vertex_of_l1, -start, [1.0 / steps] * (steps - 1))
    left = float(slope @ linear + 1.0) / 2.0
    return float(((constant - target) ** 2).sum()), float(((falling - target) ** 2).sum()), left


def get_sum(t: int, levels: int, base: int) -> float:
    """GetSum of section 6.3.2 without noise; the leaf counted k-th from 1 holds k, and t counts from ``base``."""
    size = 2**levels
    leaf = t - base
    bits = format(t if base == 1 else leaf, f"0{levels + 1}b")
    total = 0.0
    for depth, bit in enumerate(bits):
        if bit == "1":
            index = leaf >> (levels - depth)
            left = index - 1 if index % 2 == 1 else index
            width = size >> depth
            total += sum(range(left * width + 1, left * width + width + 1))
    return total


def curvature_ratio() -> float:
    """Curvature constant of theta' X' X theta against the bound of Remark 6.18, over a segment."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(5, 3))
    a, b = rng.normal(size=3), rng.normal(size=3)

    def f(theta: FloatArray) -> float:
        return float(theta @ x.T @ x @ theta)

    gradient = 2.0 * x.T @ x @ a
    gamma = 0.37
    mid = a + gamma * (b - a)
    constant = 2.0 / gamma**2 * (f(mid) - f(a) - float(gradient @ (mid - a)))
    return constant / float(((x @ (a - b)) ** 2).sum())


def determinant_ratio(
    rank: int, smoothness: float = 1.0, ridge: float = 2.0
) -> tuple[float, float, float]:
    """Largest det ratio of adding a Hessian of that rank, the sharp bound, and Claim 6.8's (inf if void)."""
    w = ridge * np.eye(rank + 1)
    e = np.diag([smoothness] * rank + [0.0])
    ratio = float(np.linalg.det(w + e) / np.linalg.det(w))
    printed = ridge / (ridge - rank * smoothness) if ridge > rank * smoothness else math.inf
    return ratio, (1.0 + smoothness / ridge) ** rank, printed


def figures() -> dict[str, float]:
    """The numbers of the page, by entry."""
    found: dict[str, float] = {
        "C1.zero-out": exponential_mechanism(1.0, "zero-out"),
        "C1.replace": exponential_mechanism(1.0, "replace"),
        "C5.printed": 1.0 / -math.expm1(-0.5),
        "C5.sharp": 1.0 / math.expm1(0.5),
        "C13.one": get_sum(8, 3, 1),
        "C13.zero": get_sum(7, 3, 0),  # the eighth total, when leaves are counted from 0
        "C19.ratio": curvature_ratio(),
    }
    found["C4.times"], found["C4.over"] = density_of_objective_perturbation()
    found["C18.constant"], found["C18.falling"], found["C18.linear"] = frank_wolfe_gaps(10_000)
    mu = math.sqrt(100) / (math.sqrt(2 * 100 * (math.log(1e6) + 1.0)) / 1.0)
    found["C22.zero-out"] = gaussian_epsilon(mu, 1e-6)
    found["C22.replace"] = gaussian_epsilon(2 * mu, 1e-6)
    return found
