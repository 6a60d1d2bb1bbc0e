"""What the formulas are compared with: mpmath, dp_accounting and linear algebra, none of it the code under test."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np


def gaussian_delta(epsilon: mp.mpf, mu: mp.mpf) -> mp.mpf:
    return mp.ncdf(-epsilon / mu + mu / 2) - mp.e**epsilon * mp.ncdf(-epsilon / mu - mu / 2)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The exact Gaussian trade-off, inverted by bisection with 60 digits."""
    with mp.workdps(60):
        mu, delta = mp.mpf(mu), mp.mpf(delta)
        if gaussian_delta(mp.mpf(0), mu) <= delta:
            return 0.0
        low, high = mp.mpf(0), mu**2 / 2 + mu * mp.sqrt(2 * mp.log(2 / delta))
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if gaussian_delta(middle, mu) > delta else (low, middle)
        return float(high)


def composed_epsilon(step: float, steps: int, delta: float) -> float:
    """Optimal composition of pure steps from its binomial sum, with 60 digits."""
    with mp.workdps(60):
        e, k = mp.e ** mp.mpf(step), steps
        weights = [mp.binomial(k, i) / (1 + e) ** k for i in range(k + 1)]

        def at(epsilon: mp.mpf) -> mp.mpf:
            ratio = mp.e**epsilon
            return sum(w * max(0, e**i - ratio * e ** (k - i)) for i, w in enumerate(weights))

        if at(mp.mpf(0)) <= delta:
            return 0.0
        low, high = mp.mpf(0), k * mp.mpf(step)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if at(middle) > delta else (low, middle)
        return float(high)


def pld_epsilon(mu: float, delta: float, interval: float = 1e-5) -> float:
    from dp_accounting.pld import privacy_loss_distribution as pld

    distribution = pld.from_gaussian_mechanism(1.0 / mu, value_discretization_interval=interval)
    return distribution.get_epsilon_for_delta(delta)


def dyadic_nodes(first: int, last: int) -> list[tuple[int, int]]:
    """Maximal aligned dyadic intervals that partition [first, last], greedily."""
    nodes = []
    while first <= last:
        size = 1
        while (first - 1) % (2 * size) == 0 and first + 2 * size - 1 <= last:
            size *= 2
        nodes.append((first, first + size - 1))
        first += size
    return nodes


def tree_mu(horizon: int, window: int | None = None) -> float:
    """sqrt(a' Sigma^-1 a) of the released sums for the worst record, unit noise, unit move."""
    rows = [dyadic_nodes(1 if window is None else max(0, t - window) + 1, t)
            for t in range(1, horizon + 1)]  # fmt: skip
    names = sorted({node for row in rows for node in row})
    use = np.array([[float(name in row) for name in names] for row in rows])
    worst = 0.0
    for record in range(1, horizon + 1):
        last = horizon if window is None else min(horizon, record + window - 1)
        a = (np.arange(1, last + 1) >= record).astype(float)
        covariance = use[:last] @ use[:last].T
        worst = max(worst, float(a @ np.linalg.solve(covariance, a)))
    return math.sqrt(worst)


def close(value: float, expected: float, digits: float = 5e-3) -> bool:
    return abs(value - expected) <= digits * abs(expected)
