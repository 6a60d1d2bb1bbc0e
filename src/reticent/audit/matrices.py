"""The noise of a running total as an explicit matrix, and the privacy that linear algebra derives from it.

Row t of the matrix holds the weights of the independent draws in total t. It is read from the code that makes the
noise, by sending unit draws through it one at a time. A record that enters at step tau changes every total from tau on
by its contribution; with covariance ``C = M M'`` the exact mu is the square root of ``a' C^-1 a``
(docs/algorithms/running-totals.md). For Laplace and Gamma draws, any shift x of the draws with ``M x = a`` hides the
record at the cost ``sum |x_i| / scale_i``, and the smallest cost is a linear programme.

With a window, only totals up to ``tau + window - 1`` are covered by the guarantee, but the noise of all earlier ones is
correlated with theirs and counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import linprog

from reticent.checks import FloatArray
from reticent.sums import Mechanism

_LARGE = 2.0**18
"""Factor by which unit draws exceed real ones, so that rounding to the lattice is negligible."""


@dataclass(frozen=True)
class Mix:
    """The weights of the unit draws in each total (``matrix``), and the scale of each draw."""

    matrix: FloatArray
    scales: FloatArray

    @property
    def scaled(self) -> FloatArray:
        """The weights of draws that are scaled to 1."""
        return self.matrix * self.scales

    def covariance(self, variance: float = 1.0) -> FloatArray:
        """The covariance of the totals, for draws of this variance at scale 1."""
        return variance * self.scaled @ self.scaled.T


def mix(mechanism: Mechanism, steps: int, stretch: int | None = None) -> Mix:
    """The noise of the first ``steps`` totals of a stretch of the stream (an epoch, or all of it)."""
    process = mechanism.process(stretch)
    draws = process.draws(0, steps)
    probe = mechanism.with_(dim=draws).process(stretch)
    relative = process.relative_scales(0, steps)
    relative = np.ones(draws) if relative is None else np.asarray(relative, dtype=np.float64)
    unit = _LARGE * (process.scale / process.step if process.lattice else 1.0)
    fresh: Any = np.diag(np.full(draws, unit))
    if process.lattice:
        fresh = np.rint(fresh).astype(np.int64)
    matrix = np.asarray(probe.mix(fresh, 0, steps), dtype=np.float64) / unit
    return Mix(matrix, process.scale * relative)


def moved(steps: int, tau: int) -> FloatArray:
    """How a record that enters at step tau (counted from 0) moves each of the first totals."""
    return np.where(np.arange(steps) >= tau, 1.0, 0.0)


def _lower(scaled: FloatArray) -> FloatArray:
    """The lower triangle L with L L' the covariance, without forming the covariance."""
    triangle: Any = np.linalg.qr(scaled.T, mode="r")
    return np.asarray(triangle).T


def worst_gaussian(found: Mix, window: int | None) -> tuple[float, int]:
    """The largest exact mu for sensitivity 1, and the record that attains it."""
    n = len(found.matrix)
    lower = _lower(found.scaled)
    # The innovations of the first totals do not change when more totals are seen.
    innovations = solve_triangular(lower, np.tril(np.ones((n, n))), lower=True)
    squares = np.cumsum(innovations**2, axis=0)
    ends = np.arange(n) if window is None else np.minimum(n - 1, np.arange(n) + window - 1)
    if window is None:
        ends[:] = n - 1
    values = squares[ends, np.arange(n)]
    tau = int(np.argmax(values))
    return math.sqrt(float(values[tau])), tau


def least_price(found: Mix, tau: int, end: int) -> float:
    """The least ``sum |x_i| / scale_i`` that hides a record of size 1: an upper bound on epsilon."""
    matrix = found.matrix[:end]
    used = np.flatnonzero(np.any(matrix != 0.0, axis=0))
    prices = 1.0 / found.scales[used]
    both = np.hstack([matrix[:, used], -matrix[:, used]])
    answer = linprog(
        np.concatenate([prices, prices]),
        A_eq=both,
        b_eq=moved(end, tau),
        bounds=(0, None),
        method="highs",
    )
    if not answer.success:
        raise ArithmeticError(f"the linear programme of record {tau} failed: {answer.message}")
    return float(answer.fun)


def worst_price(found: Mix, window: int | None) -> tuple[float, int]:
    """The largest least price of any record, and that record."""
    n = len(found.matrix)
    worst, at = 0.0, 0
    for tau in range(n):
        end = n if window is None else min(n, tau + window)
        price = least_price(found, tau, end)
        if price > worst * (1.0 + 1e-9):
            worst, at = price, tau
    return worst, at
