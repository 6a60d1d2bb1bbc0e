"""The local linear minimiser of any set with a projection: a scalar search along its projections.

The point ``p(t) = project(x - t g)`` minimises ``<g, .>`` over the part of the set within ``||p(t) - x||`` of x, and
this distance grows continuously with t. So any t with ``radius <= ||p(t) - x|| <= 1.01 radius`` gives both properties
of a local linear oracle (Assumption 1 of Lou and Cheung) with ``rho = 1.01``. Proof:
docs/algorithms/local-linear-oracle.md.

It takes about ten projections, so it serves to compare with projection-free methods, not for speed; on such a set a
learner should project.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from reticent.checks import FloatArray

if TYPE_CHECKING:
    from reticent.sets.base import ConvexSet

RHO = 1.01
MOST_ROUNDS = 200


def search_along_projections(
    convex: ConvexSet, x: FloatArray, radius: float, g: FloatArray
) -> FloatArray:
    slope = float(np.linalg.norm(g))
    if slope == 0.0 or radius == 0.0:
        return x.copy()
    lowest = convex.linear_minimizer(g)
    if np.linalg.norm(lowest - x) <= RHO * radius:
        return lowest
    unit = g / slope
    floor = float(unit @ lowest)
    near_enough = 1e-13 * max(convex.diameter, abs(floor))
    # The projection is nonexpansive, so the first step is too short or exactly right.
    low, high = math.log(radius), math.inf
    t = low
    point = x
    for _ in range(MOST_ROUNDS):
        point = convex.project(x - math.exp(t) * unit)
        distance = float(np.linalg.norm(point - x))
        if radius <= distance <= RHO * radius:
            return point
        if distance < radius:
            if unit @ point - floor <= near_enough:
                return point  # already on the best face, and closer than the radius
            low = t
            t = t + 1.0 if high == math.inf else 0.5 * (low + high)
        else:
            high = t
            t = 0.5 * (low + high)
        if high - low < 1e-15 * abs(t) or t > 60.0 + math.log(max(convex.diameter, radius)):
            break
    return _stretch(x, point, lowest, RHO * radius)


def _stretch(x: FloatArray, point: FloatArray, lowest: FloatArray, reach: float) -> FloatArray:
    """If rounding prevents convergence, move from the point towards the best one as far as is allowed."""
    low, high = 0.0, 1.0
    if np.linalg.norm(point - x) > reach:
        return x + (point - x) * (reach / np.linalg.norm(point - x))
    for _ in range(60):
        middle = 0.5 * (low + high)
        if np.linalg.norm(point + middle * (lowest - point) - x) <= reach:
            low = middle
        else:
            high = middle
    return point + low * (lowest - point)
