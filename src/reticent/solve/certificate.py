"""Proofs of how good a point is, by a duality gap.

An m-strongly convex function lies above its tangents plus (m/2) times the squared distance, so the minimum of this
over the set bounds the function from below (Jaggi 2013, section 2, for m = 0).
"""

from __future__ import annotations

import math

from reticent.checks import FloatArray
from reticent.solve.objective import Region


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
