"""Tools that several papers' figures share: the Gaussian trade-off, projections, dyadic nodes, Frank-Wolfe.

Nothing here comes from the library, so that the page's figures are a second opinion on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr

FloatArray = NDArray[np.float64]


def log_delta(epsilon: float, mu: float) -> float:
    """Logarithm of the exact delta of a mu-GDP release."""
    first = float(log_ndtr(-epsilon / mu + mu / 2))
    second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    return first + math.log(-math.expm1(second - first)) if second < first else -math.inf


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The exact epsilon at delta of a mu-GDP release."""
    target = math.log(delta)
    if mu == 0.0 or log_delta(0.0, mu) <= target:
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(2 * (1 - target))
    return float(brentq(lambda e: log_delta(e, mu) - target, 0.0, high, xtol=1e-12))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose epsilon at delta is not above."""
    return float(brentq(lambda m: gaussian_epsilon(m, delta) - epsilon, 1e-6, 100.0, xtol=1e-13))


def dyadic(first: int, last: int) -> list[tuple[int, int]]:
    """The fewest aligned dyadic intervals that make up first, ..., last."""
    nodes = []
    while first <= last:
        size = 1
        while (first - 1) % (2 * size) == 0 and first + 2 * size - 1 <= last:
            size *= 2
        nodes.append((first, first + size - 1))
        first += size
    return nodes


def nodes_of_record(record: int, last: int, window: int | None = None) -> int:
    """How many noisy nodes contain a record, over all totals up to the last one that protects it."""
    used: set[tuple[int, int]] = set()
    end = last if window is None else min(last, record + window - 1)
    for t in range(record, end + 1):
        start = 1 if window is None else max(0, t - window) + 1
        used |= {node for node in dyadic(start, t) if node[0] <= record <= node[1]}
    return len(used)


def onto_ball(x: FloatArray, radius: float = 1.0) -> FloatArray:
    """The nearest point of the Euclidean ball."""
    length = float(np.linalg.norm(x))
    return x if length <= radius else x * (radius / length)


def onto_simplex(x: FloatArray) -> FloatArray:
    """The nearest point of the probability simplex."""
    ordered = np.sort(x)[::-1]
    excess = np.cumsum(ordered) - 1.0
    count = np.nonzero(ordered - excess / np.arange(1, x.size + 1) > 0)[0][-1]
    return np.maximum(x - excess[count] / (count + 1), 0.0)


def frank_wolfe(
    gradient: Callable[[FloatArray], FloatArray],
    vertex: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    steps: list[float],
) -> FloatArray:
    """Frank-Wolfe with given step sizes."""
    x = start.copy()
    for step in steps:
        x = x + step * (vertex(gradient(x)) - x)
    return x


def vertex_of_l1(gradient: FloatArray, radius: float = 1.0) -> FloatArray:
    """The vertex of the l1 ball that minimises a linear function."""
    s = np.zeros_like(gradient)
    i = int(np.argmax(np.abs(gradient)))
    s[i] = -radius * math.copysign(1.0, float(gradient[i]))
    return s
