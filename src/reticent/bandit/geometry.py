"""What a bandit needs to know of a set: its hull, a ball inside, and how far it reaches.

A one-point gradient estimate (Flaxman, Kalai and McMahan 2005) probes the loss on a small sphere
around the decision. Under ``"shrink"`` decisions are pulled toward the center of a ball inside the
set, so that the sphere stays inside; under ``"overflow"`` it may stick out. A flat set is probed
within its affine hull, and everything (noise, totals, the dimension n in the formulas) lives there.

N is the dimension of the hull, not the length of a point. A simplex with eleven corners has n = 10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from reticent.checks import FloatArray
from reticent.sets import ConvexSet, VerticesUnavailable

FEW = 256


@dataclass(frozen=True, eq=False)
class Geometry:
    """Center, ball, hull and size of a set; every array is flat."""

    center: FloatArray
    inner_radius: float
    basis: FloatArray | None
    reach: float
    diameter: float

    @property
    def dim(self) -> int:
        """Dimension of the hull."""
        return self.center.size if self.basis is None else int(self.basis.shape[1])

    def lift(self, vectors: FloatArray) -> FloatArray:
        """Directions of the hull, one a row or a single one, as vectors of the space."""
        return vectors if self.basis is None else vectors @ self.basis.T


def survey(convex: ConvexSet, shrink: bool) -> Geometry:
    """The geometry of a set; the inner ball is looked for only where it is needed."""
    if not math.isfinite(convex.diameter):
        raise ValueError(f"set must be bounded, got {convex!r}; use a ball or a box that is large")
    basis = convex.affine_hull[1]
    if shrink:
        center, radius = convex.inner_ball
    else:
        center, radius = convex.center, 0.0
    flat = np.array(center, np.float64).reshape(-1)
    if (basis is not None and basis.shape[1] == 0) or (shrink and radius <= 0.0):
        raise ValueError(f"{convex!r} is a single point: there is nothing to learn")
    frame = None if basis is None else np.ascontiguousarray(basis, np.float64)
    return Geometry(flat, float(radius), frame, _reach(convex, flat), float(convex.diameter))


def _reach(convex: ConvexSet, center: FloatArray) -> float:
    """The largest distance of a point of the set from the center, or a bound on it."""
    try:
        vertices = convex.vertices(FEW).reshape(-1, center.size)
        return float(np.linalg.norm(vertices - center, axis=1).max())
    except VerticesUnavailable:
        # |x - c|^2 = |x|^2 - 2 <c, x> + |c|^2, each part at its largest
        least = float(center @ np.reshape(convex.linear_minimizer(center), -1))
        square = convex.norm_bound**2 - 2.0 * least + float(center @ center)
        return min(float(convex.diameter), math.sqrt(max(square, 0.0)))
