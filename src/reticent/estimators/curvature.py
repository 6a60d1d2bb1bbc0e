"""What intervals of a logistic regression need beside the fit: curvature and products of scores, with noise.

Both are taken at the coefficients that were released, in one release. Formulas, and what an interval covers:
docs/intervals.md.
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
from reticent.privacy import Budget, Gaussian, Pure, Release
from reticent.solve.blocks import UNITS, InMemory, IsClass, summed

SHARE = 0.25
"""Of the budget: of mu squared, or of epsilon where delta = 0."""
_SCORES: dict[Any, float] = {Logistic: 4.0, CappedLogistic: 2.0}
"""Products of scores have so many times the noise of the curvature: they enter the variance once, it enters twice."""

_CLEAR = 1.5
"""The curvature must stand out of the largest eigenvalue of its noise by this factor, or there are no intervals. Less
than A'A of least squares must: it is only needed for the errors, and for a correction that is small."""


def moved_by_one(cap: float, times: float) -> float:
    """How far a row of norm 1 moves the curvature, and the products of scores divided by ``times``, together.

    With slope q the logistic loss bends by ``q (1 - q)``, and one that is capped does not bend beyond its cap. So this
    is the largest ``sqrt((q (1 - q))^2 + (q^2 / times)^2)`` over q in [0, cap], and its square has at most one inner
    maximum: where ``1 - 3 q + 2 (1 + 1/times^2) q^2 = 0``.

    Parameters
    ----------
    cap : float
        The largest slope, in [1/2, 1].
    times : float
        What the products of scores are divided by.

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
    """Curvature and products of scores with noise, before they are drawn; public, decided before a record is read.

    Parameters
    ----------
    loss : Logistic or CappedLogistic
        Whose they are; its ``feature_norm`` bounds the rows.
    dim : int
        How many features, the constant one included.
    moved : float
        How far a record moves both, the rounding of their sums included.
    scale : float
        Of the noise, on the curvature; the products of scores have ``times`` as much.
    noise : {"gaussian", "gamma"}
        Its kind.
    precision : {"lattice", "float"}
        "float" is for simulations.
    """

    loss: Any
    dim: int
    moved: float
    scale: float
    noise: str
    precision: str

    @classmethod
    def of(cls, budget: Budget, loss: Any, dim: int, count: int, precision: str) -> Curvature:
        """The release that takes a share of a budget, for so many records."""
        pure = budget.delta == 0.0
        level = SHARE * budget.epsilon if pure else math.sqrt(SHARE) * budget.mu
        noise = "gamma" if pure else "gaussian"
        slope, bend = loss.scalar_bounds()
        times = _SCORES[type(loss)]
        square = loss.feature_norm**2 * (1.0 + (dim + 32) * 2.0**-50)
        # two records have products at no obtuse angle, so that replacing one by the other moves sqrt(2) as much
        each = math.sqrt(budget.sensitivity(1.0)) * moved_by_one(slope, times) * (1.0 + 2.0**-40)
        moved = square * (each + 2.0 * (UNITS + 4.0) * UNIT * count * (bend + slope**2 / times))
        size = dim * (dim + 1)
        if precision == "float":
            return cls(loss, dim, moved, moved / level, noise, precision)
        scale = release.scale_for(moved, level, size, noise)
        # entries must fit on the lattice
        scale = max(scale, 2.0 * count * square * 2.0**-30)
        return cls(loss, dim, moved, scale, noise, precision)

    @property
    def times(self) -> float:
        """The noise of the products of scores, in units of the curvature's."""
        return _SCORES[type(self.loss)]

    @property
    def release(self) -> Release:
        """What it costs."""
        moved, size = self.moved, self.dim * (self.dim + 1)
        if self.precision == "lattice":
            moved = release.widened(moved, self.scale, size, self.noise)
        pure = self.noise == "gamma"
        curve = Pure(moved / self.scale) if pure else Gaussian(moved / self.scale)
        words = "Gamma, scale" if pure else "Gaussian, standard deviation"
        return Release(
            "curvature and products of scores",
            curve,
            moved,
            f"{words} {self.scale:.6g}",
            details=(f"products of scores were divided by {self.times:g}",),
        )

    def draw(self, rows: InMemory, numbers: Any, x: FloatArray, source: Source) -> dict[str, Any]:
        """Both with noise, at the coefficients x; what :class:`Errors` takes.

        Parameters
        ----------
        rows : InMemory
            The records.
        numbers : array of int
            Their classes, 0 and 1.
        x : array
            Coefficients that were released.
        source : Source
            Where the noise comes from. The release must have been charged.
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
    """A fit of a regularised loss with what is known of its errors, in the units that it was learnt in.

    Attributes
    ----------
    point : array of shape (d,)
        What was released.
    ridge : float
        Of the summed loss.
    linear_noise, point_noise : float
        Standard deviations of the random linear term, and of the noise on the minimiser.
    curvature : array of shape (d, d)
        Of the records' part of the loss, with noise of standard deviation ``curvature_noise`` on the diagonal.
    scores : array of shape (d, d)
        Products of the scores, with noise.
    curvature_noise : float
        Standard deviation.
    regularised : bool
        Whether the target is the minimiser of the expected loss with its ridge, or without.
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
        """The same with coefficients in a subspace, by an orthonormal basis of it: the noise keeps its law."""
        return replace(
            self,
            point=basis.T @ self.point,
            curvature=basis.T @ self.curvature @ basis,
            scores=basis.T @ self.scores @ basis,
        )

    def solution(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """An estimate of the target, and the covariances of its sampling and of its privacy error."""
        one = np.eye(len(self.point))
        H = self.curvature + (self.ridge if self.regularised else 0.0) * one
        check_clear(H, self.curvature_noise, _CLEAR, "the curvature")
        inverse: FloatArray = np.asarray(np.linalg.inv(H), dtype=np.float64)
        blur, carry, x = self.linear_noise**2 * one, one, self.point
        if not self.regularised:
            # one Newton step takes the ridge off; to first order noise shrinks the inverse
            half = 0.5 * self.curvature_noise**2
            step = self.ridge * inverse @ x
            x = x + step - inverse @ (half * (np.trace(inverse) * step + inverse @ step))
            blur = blur + half * (float(step @ step) * one + np.outer(step, step))
            carry = one + self.ridge * inverse
        sampling = inverse @ self.scores @ inverse
        if not (np.diag(sampling) > 0.0).all():
            raise NoIntervals(
                "there are no intervals that could be trusted: noise outweighs the products of the scores. "
                "More records, a larger epsilon, fewer or better scaled features would help"
            )
        return x, sampling, inverse @ blur @ inverse + self.point_noise**2 * carry @ carry.T
