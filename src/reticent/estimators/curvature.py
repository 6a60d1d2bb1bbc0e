"""Confidence intervals of a logistic regression: a noisy release of its curvature and of the products of its scores.

Both matrices are computed at the released coefficients and published in one release. Formulas, and what an interval
covers: docs/intervals.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from reticent.checks import FloatArray
from reticent.erm.passes import Sandwich, Scalar
from reticent.erm.rounded_sums import UNIT, as_matrix, as_vector
from reticent.estimators.summary import NoIntervals, check_clear
from reticent.losses import CappedLogistic, Logistic
from reticent.noise import Source, release
from reticent.privacy import Budget, Release
from reticent.solve.blocks import UNITS, InMemory, IsClass, summed

SHARE = 0.25
"""Share of the budget for this release: of mu squared, or of epsilon if delta = 0."""
_SCORES: dict[Any, float] = {Logistic: 4.0, CappedLogistic: 2.0}
"""Noise on the products of scores relative to that on the curvature. The curvature enters the variance twice, the
products once."""

_CLEAR = 1.5
"""The curvature must exceed the largest eigenvalue of its noise by this factor, or there are no intervals. The factor
is smaller than for A'A in least squares, because the curvature is needed only for errors and for a small correction."""


def moved_by_one(cap: float, times: float) -> float:
    """Joint sensitivity of the curvature and of the products of scores divided by ``times``, for a row of norm 1.

    Where the logistic loss has slope q its second derivative is ``q (1 - q)``; where the slope is capped it is 0. The
    sensitivity is therefore the largest ``sqrt((q (1 - q))^2 + (q^2 / times)^2)`` over q in [0, cap]. Its square has at
    most one interior maximum, at the smaller root of ``1 - 3 q + 2 (1 + 1/times^2) q^2 = 0``.


    Parameters
    ----------
    cap : float
        Largest slope of the loss, in [1/2, 1].
    times : float
        Divisor of the products of scores.

    Examples
    --------
    >>> round(moved_by_one(0.5, 2.0), 6), round(moved_by_one(1.0, 4.0), 6)
    (0.279508, 0.258877)
    """
    a = 1.0 + 1.0 / times**2
    places = [cap]
    root = 9.0 - 8.0 * a
    if root >= 0.0:
        places.append(min(cap, (3.0 - math.sqrt(root)) / (4.0 * a)))
    return max(math.hypot(q * (1.0 - q), q * q / times) for q in places)


@dataclass(frozen=True)
class Curvature:
    """Description of the noisy curvature and products of scores. Uses public numbers only.

    Parameters
    ----------
    loss : Logistic or CappedLogistic
        The loss; its ``feature_norm`` bounds the rows.
    dim : int
        Number of features, including the constant one.
    moved : float
        Joint sensitivity of both matrices, including the rounding of their sums.
    scale : float
        Scale of the noise on the curvature; the noise on the products of scores is ``times`` as large.
    noise : {"gaussian", "gamma"}
        Distribution of the noise.
    precision : {"lattice", "float"}
        Where noisy values lie; "float" is for simulations.
    """

    loss: Any
    dim: int
    moved: float
    scale: float
    noise: str
    precision: str

    @classmethod
    def of(cls, budget: Budget, loss: Any, dim: int, count: int, precision: str) -> Curvature:
        """The release that takes ``SHARE`` of a budget, for ``count`` records."""
        noise, level = release.share_of(budget, SHARE, pure="gamma")
        slope, bend = loss.scalar_bounds()
        times = _SCORES[type(loss)]
        square = loss.feature_norm**2 * (1.0 + (dim + 32) * 2.0**-50)
        # outer products have non-negative inner products, so replacing a record moves at most sqrt(2) as far
        each = math.sqrt(budget.sensitivity(1.0)) * moved_by_one(slope, times) * (1.0 + 2.0**-40)
        moved = square * (each + 2.0 * (UNITS + 4.0) * UNIT * count * (bend + slope**2 / times))
        size = dim * (dim + 1)
        if precision == "float":
            return cls(loss, dim, moved, moved / level, noise, precision)
        scale = release.scale_for(moved, level, size, noise)
        # entries must fit into the range of the lattice
        scale = max(scale, 2.0 * count * square * 2.0**-30)
        return cls(loss, dim, moved, scale, noise, precision)

    @property
    def times(self) -> float:
        """Noise on the products of scores, as a multiple of the noise on the curvature."""
        return _SCORES[type(self.loss)]

    @property
    def release(self) -> Release:
        """The release, with its cost."""
        return release.accounted(
            "curvature and products of scores",
            self.moved,
            self.scale,
            self.dim * (self.dim + 1),
            noise=self.noise,
            precision=self.precision,
            details=(f"products of scores were divided by {self.times:g}",),
        )

    def draw(self, rows: InMemory, numbers: Any, x: FloatArray, source: Source) -> dict[str, Any]:
        """Both matrices with noise, at the coefficients x, as keyword arguments of :class:`Errors`.

        Parameters
        ----------
        rows : InMemory
            The records.
        numbers : array of int
            Classes of the records, 0 or 1.
        x : array
            Released coefficients.
        source : Source
            Generator of the noise. :attr:`release` must have been charged before.
        """
        kind, params = self.loss.kernel
        slope, bend = self.loss.scalar_bounds()
        table = replace(rows, labels=numbers, labels_are=IsClass(1))
        M, G = summed(table.map(Sandwich(Scalar(kind, params, slope), bend, x)))
        d = self.dim
        parts = [as_vector(M.reshape(d, d)), as_vector(G.reshape(d, d)) / self.times]
        seen = release.noisy(
            np.concatenate(parts), self.scale, source, noise=self.noise, precision=self.precision
        )
        half = d * (d + 1) // 2
        spread = self.scale * (math.sqrt(2 * half + 1.0) if self.noise == "gamma" else 1.0)
        return {
            "curvature": as_matrix(seen[:half], d),
            "scores": as_matrix(seen[half:], d) * self.times,
            "curvature_noise": spread,
        }


@dataclass(frozen=True, eq=False)
class Errors:
    """A fit of a regularised loss and what is known about its errors, in the units in which it was learnt.

    Attributes
    ----------
    point : array of shape (d,)
        Released coefficients.
    ridge : float
        Coefficient of ``||x||^2 / 2`` in the summed loss.
    linear_noise : float
        Standard deviation of the random linear term.
    point_noise : float
        Standard deviation of the noise on the minimiser.
    curvature : array of shape (d, d)
        Noisy curvature of the summed loss of the records, without the ridge.
    scores : array of shape (d, d)
        Noisy products of the scores.
    curvature_noise : float
        Standard deviation of the noise on the diagonal of ``curvature``.
    regularised : bool
        Whether intervals are for the minimiser of the expected loss with the ridge (True) or without it (False).
    """

    point: FloatArray
    ridge: float
    linear_noise: float
    point_noise: float
    curvature: FloatArray
    scores: FloatArray
    curvature_noise: float
    regularised: bool = False

    def within(self, basis: FloatArray) -> Self:
        """The fit and its errors for coefficients in the span of an orthonormal basis.

        The noise keeps its distribution.
        """
        return replace(
            self,
            point=basis.T @ self.point,
            curvature=basis.T @ self.curvature @ basis,
            scores=basis.T @ self.scores @ basis,
        )

    def solution(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """An estimate of the target, and the covariances of its sampling error and of its privacy error."""
        one = np.eye(len(self.point))
        H = self.curvature + (self.ridge if self.regularised else 0.0) * one
        check_clear(H, self.curvature_noise, _CLEAR, "the curvature")
        inverse: FloatArray = np.asarray(np.linalg.inv(H), dtype=np.float64)
        blur, carry, x = self.linear_noise**2 * one, one, self.point
        if not self.regularised:
            # one Newton step removes the ridge, corrected to first order for the bias that noise causes in the inverse
            half = 0.5 * self.curvature_noise**2
            step = self.ridge * inverse @ x
            x = x + step - inverse @ (half * (np.trace(inverse) * step + inverse @ step))
            blur = blur + half * (float(step @ step) * one + np.outer(step, step))
            carry = one + self.ridge * inverse
        sampling = inverse @ self.scores @ inverse
        if not (np.diag(sampling) > 0.0).all():
            raise NoIntervals(
                "no reliable intervals: the noise is larger than the products of the scores. "
                "Use more records, a larger epsilon, or fewer or better scaled features"
            )
        return x, sampling, inverse @ blur @ inverse + self.point_noise**2 * carry @ carry.T
