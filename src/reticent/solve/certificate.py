"""Proofs of how good a point is: by a duality gap, or by its distance from the minimiser.

An m-strongly convex function lies above its tangents plus (m/2) times the squared distance, so the minimum of this
over the set bounds the function from below (Jaggi 2013, section 2, for m = 0). And if v is in the set's normal cone
at x, then ``||x - x*|| <= ||grad f(x) + v|| / m``; a projection gives such a v. There a bound on the rounding error
of the gradient is added to its norm, so that the certificate holds for the real numbers that the floats represent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from reticent.checks import FloatArray
from reticent.solve.objective import Objective, Region

_UNIT = 2.0**-53


def least_of_tangent(region: Region, x: FloatArray, g: FloatArray, m: float) -> float:
    """A lower bound on <g, s - x> + (m/2) ||s - x||^2 over the points s of the region."""
    bound = float(g @ (region.minimize(g) - x)) if region.bounded else -math.inf
    if m > 0.0 and region.project is not None:
        d = region.project(x - g / m) - x
        across = float(g @ d)
        # The projection is the minimiser only up to rounding, so allow for the error.
        bound = max(bound, across + 0.5 * m * float(d @ d) - 1e-13 * abs(across))
    return bound


def duality_gap(region: Region, x: FloatArray, g: FloatArray, strong_convexity: float) -> float:
    """An upper bound on f(x) - min f from the gradient g at x; inf if there is none."""
    # By rounding, the minimum may seem to be slightly above the value at x, but a gap is never negative.
    return max(0.0, -least_of_tangent(region, x, g, strong_convexity))


@dataclass(frozen=True)
class Doubt:
    """Bounds on the effect of rounding on a gradient.

    Parameters
    ----------
    at_zero : float
        Bound on the norm of the gradient's rounding error at 0.
    growth : float
        Increase of this bound per unit of the point's norm.
    smoothness : float
        A bound on the second derivatives.
    dim : int
        Number of columns.
    is_free : bool
        Whether the region is the whole space, where nothing is projected.
    """

    at_zero: float
    growth: float
    smoothness: float
    dim: int
    is_free: bool

    def with_terms(self, linear: float, ridge: float) -> Doubt:
        """The bounds for the objective plus a linear term of norm ``linear`` and a ridge."""
        return Doubt(
            self.at_zero + 8.0 * _UNIT * linear,
            self.growth + 8.0 * _UNIT * ridge,
            self.smoothness + ridge,
            self.dim,
            self.is_free,
        )

    def gradient(self, size: float) -> float:
        """A bound on the norm of the gradient's rounding error at a point of this norm."""
        return self.at_zero + self.growth * size

    def projection(self, size: float) -> float:
        """A bound on the error of projecting a point of this size, expressed as a gradient.

        The error of the compiled projections (balls, boxes, simplices and products of them) is at most ``dim + 64``
        units of the point's size: a norm or a threshold is a sum of at most ``dim`` numbers.
        """
        return 2.0 * self.smoothness * (self.dim + 64.0) * _UNIT * size

    def reachable(self, radius: float) -> float:
        """A residual that a minimiser within this radius can reach, with room to spare."""
        found = self.gradient(radius)
        return 4.0 * (found if self.is_free else 2.0 * found + self.projection(radius))


def residual(
    objective: Objective, region: Region, doubt: Doubt, x: FloatArray, g: FloatArray
) -> tuple[FloatArray, float]:
    """A point of the region, and a bound on the norm of gradient plus normal there.

    Divided by the strong convexity, it bounds the distance of that point from the minimiser.
    """
    # allow for the rounding error of computing a norm
    room = 1.0 + (doubt.dim + 16.0) * 2.0 * _UNIT
    norm = float(np.linalg.norm(g)) * room
    if doubt.is_free:
        return x, norm + doubt.gradient(float(np.linalg.norm(x)))
    assert region.project is not None
    smoothness = doubt.smoothness
    point = region.project(x - g / smoothness)
    size = float(np.linalg.norm(x)) + norm / smoothness
    moved = objective.predictors_and_gradient(point)[1]
    rest = moved - g + smoothness * (x - point)
    unsure = 2.0 * doubt.gradient(float(np.linalg.norm(point))) + doubt.projection(size)
    return point, float(np.linalg.norm(rest)) * room + unsure
