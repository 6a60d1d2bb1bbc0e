"""The noise of a running total as an explicit matrix, and the privacy that linear algebra derives from it.

Row t of the matrix holds the weights of the independent draws in total t. It is read from the code that makes the
noise, by sending unit draws through it one at a time. A record that enters at step tau changes every total from tau on
by its contribution; with covariance ``C = M M'`` the exact mu is the square root of ``a' C^-1 a``
(docs/algorithms/running-totals.md). For Laplace and Gamma draws, any shift x of the draws with ``M x = a`` hides the
record at the cost ``sum |x_i| / scale_i``, and the smallest cost is a linear programme.

A mechanism of a user's own states its guarantee itself. :func:`refuse_false` compares it with the budget and with this
matrix before anything is charged.

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
from reticent.privacy import Guarantee
from reticent.sums.mechanism import Mechanism

_LARGE = 2.0**18
"""Factor by which unit draws exceed real ones, so that rounding to the lattice is negligible."""
_FEW = 512
"""Largest number of totals of a user's mechanism that are examined before it is started."""


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
    """The largest exact mu for sensitivity 1, and the record that attains it.

    It is infinite if a combination of totals has no noise: the last record in it is then seen exactly.
    """
    n = len(found.matrix)
    lower = _lower(found.scaled)
    bare = np.flatnonzero(np.diag(lower) == 0.0) if lower.shape == (n, n) else np.arange(n)
    if bare.size:
        return math.inf, int(bare[0])
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


def worst_triangular(found: Mix, window: int | None) -> tuple[float, int]:
    """The largest exact price of any record if each total has one fresh draw of pure noise, and that record.

    A single shift of the draws then hides a record, so that its price is attained. 0 if there are other draws, for
    which :func:`worst_price` is an upper bound only.
    """
    n = len(found.matrix)
    if found.matrix.shape != (n, n) or np.triu(found.matrix, 1).any():
        return 0.0, 0
    bare = np.flatnonzero(np.diag(found.matrix) == 0.0)
    if bare.size:
        return math.inf, int(bare[0])
    shifts = np.abs(solve_triangular(found.scaled, np.tril(np.ones((n, n))), lower=True))
    ends = np.full(n, n) if window is None else np.minimum(n, np.arange(n) + window)
    prices = np.cumsum(shifts, axis=0)[ends - 1, np.arange(n)]
    tau = int(np.argmax(prices))
    return float(prices[tau]), tau


def reach(mechanism: Mechanism) -> float:
    """How far one record moves a total: by an independent rule, unless the description states its own."""
    moved = mechanism.sensitivity
    if moved is None:
        moved = mechanism.norm * (1.0 if mechanism.budget.neighbours == "zero-out" else 2.0)
    # a vector of norm 1 has a 1-norm of up to sqrt(dim)
    return moved * math.sqrt(mechanism.dim) if mechanism.noise == "laplace" else moved


def refuse_false(mechanism: Mechanism, claim: Guarantee) -> None:
    """Refuse the guarantee of a user's mechanism if it exceeds the budget, or is false for the first totals.

    The first totals may cost less than all of them, so a false guarantee can pass. Guarantees for persons, and pure
    noise with more draws than totals, are not compared with the matrix.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    claim : Guarantee
        Its guarantee.
    """
    if not isinstance(claim, Guarantee):
        raise TypeError(f"_guarantee of {mechanism.kind} must return a Guarantee, got {claim!r}")
    if mechanism.calibration.is_exact and not claim.meets(mechanism.budget):
        raise ValueError(
            f"the guarantee of {mechanism.kind} is {claim}, which does not meet its budget ({mechanism.budget}); "
            "make the noise in _scale larger, or build the guarantee in _guarantee with sums.scales"
        )
    gaussian = mechanism.noise == "gaussian"
    stated, words = (
        (claim.gdp, "-GDP") if gaussian else (claim.pure, " as its epsilon at delta = 0")
    )
    if mechanism.participation is not None or stated is None:
        return
    lengths = [mechanism.stretch]
    if mechanism.has_epochs and mechanism.stretch is not None:
        lengths.append(2 * mechanism.stretch)  # the noise of a later epoch may have another scale
    for length in lengths:
        looked = min(_FEW, length or _FEW)
        found = mix(mechanism, looked, length)
        worst = worst_gaussian if gaussian else worst_triangular
        value = reach(mechanism) * worst(found, mechanism.budget.window)[0]
        # rounding to the lattice is a few millionths of a claim at most
        if not value <= stated * (1.0 + 1e-5):
            raise ValueError(
                f"the guarantee of {mechanism.kind} is false: it claims {stated:.6g}{words}, but for some record the "
                f"first {looked} totals give {value:.6g}; correct _scale and _guarantee, in particular the number of "
                "noisy quantities that a record affects, or mix"
            )
        if gaussian and mechanism.on_lattice and not _is_whole(found.matrix):
            _refuse_without_slack(mechanism, length, stated, value)


def _is_whole(matrix: FloatArray) -> bool:
    return bool((np.abs(matrix - np.rint(matrix)) < 2.0**-20).all())


def _refuse_without_slack(
    mechanism: Mechanism, length: int | None, stated: float, value: float
) -> None:
    """Refuse a claim that leaves nothing for the rounding of noise with weights that are not whole numbers."""
    step = mechanism.lattice_step(mechanism.scale(length), length)
    least = (
        0.25 * step / reach(mechanism)
    )  # an innovation can move by a step more in each coordinate
    if least > 1e-11 and stated < value * (1.0 + least):
        raise ValueError(
            f"the guarantee of {mechanism.kind} leaves out rounding: the weights of its noise are not whole numbers, "
            "so mix rounds to the lattice, and neighbours may be rounded differently; add that to the sensitivity of "
            "each innovation (docs/algorithms/correlated.md), or use noise_precision='float' for simulations"
        )
