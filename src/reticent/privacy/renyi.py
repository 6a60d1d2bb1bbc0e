"""From Rényi divergences to (epsilon, delta), at the best order.

Canonne, Kamath and Steinke, *The discrete Gaussian for differential privacy*, Proposition 12: a
release whose Rényi divergence of order ``alpha > 1`` is at most ``R`` is (epsilon, delta)-private
with

    epsilon = R + log(1 - 1/alpha) - (log delta + log alpha) / (alpha - 1).

Every order gives a valid bound, so a careless minimisation is never unsound, only wasteful. The
order is searched over fifteen decades, for the best one is near 1 for little privacy and in the
thousands for much of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

LOWEST, HIGHEST = 1e-6, 1e9
"""Bounds of ``alpha - 1`` in the search."""

_GRID = np.linspace(math.log(LOWEST), math.log(HIGHEST), 116)

Divergence = Callable[[float], float]


def best_order(cost: Callable[[float], float]) -> tuple[float, float]:
    """The order with the least cost, and that cost (infinite where every order is)."""

    def at(logarithm: float) -> float:
        value = cost(1.0 + math.exp(logarithm))
        return math.inf if math.isnan(value) else value

    values = [at(point) for point in _GRID]
    k = int(np.argmin(values))
    if not math.isfinite(values[k]):
        return 2.0, values[k]
    bounds = (_GRID[max(k - 1, 0)], _GRID[min(k + 1, len(_GRID) - 1)])
    # A finite stand-in, because infinity minus infinity would derail the parabola.
    found = minimize_scalar(
        lambda point: min(at(point), 1e300),
        bounds=bounds,
        method="bounded",
        options={"xatol": 1e-9},
    )
    if found.fun < values[k]:
        return 1.0 + math.exp(float(found.x)), float(found.fun)
    return 1.0 + math.exp(_GRID[k]), values[k]


def _log_shrink(alpha: float) -> float:
    """``log(1 - 1/alpha)``, accurate at both ends."""
    return -math.log1p(1.0 / (alpha - 1.0))


def allowance(alpha: float, epsilon: float, log_delta: float) -> float:
    """The largest Rényi divergence of order alpha that is still (epsilon, delta)-private."""
    return epsilon - _log_shrink(alpha) + (log_delta + math.log(alpha)) / (alpha - 1.0)


def epsilon_from(rdp: Divergence, delta: float) -> float:
    """The smallest epsilon that the divergences ``rdp(alpha)`` prove at this delta, in (0, 1)."""
    log_delta = math.log(delta)
    _, value = best_order(lambda alpha: rdp(alpha) - allowance(alpha, 0.0, log_delta))
    return max(0.0, value)


def delta_from(rdp: Divergence, epsilon: float) -> float:
    """The smallest delta that the divergences ``rdp(alpha)`` prove at this epsilon."""

    def log_delta(alpha: float) -> float:
        return (alpha - 1.0) * (rdp(alpha) - epsilon + _log_shrink(alpha)) - math.log(alpha)

    _, value = best_order(log_delta)
    # Never 0: divergences of finite order cannot prove pure privacy.
    return min(1.0, max(math.exp(min(value, 0.0)), 5e-324))
