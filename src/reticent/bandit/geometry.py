"""What a bandit needs to know about a set: its affine hull, a ball inside it, and its size.

A one-point gradient estimate (Flaxman, Kalai and McMahan 2005) probes the loss on a small sphere around the decision.
With ``"shrink"``, decisions are moved towards the centre of a ball inside the set, so that the sphere stays inside;
with ``"overflow"``, it may extend outside. A flat set is probed within its affine hull, and everything (noise,
totals, the dimension n in the formulas) is in the coordinates of the hull.

n is the dimension of the hull, not the length of a point: a simplex with eleven corners has n = 10.
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
    """Centre, inner ball, affine hull and size of a set; every array is flat.

    Parameters
    ----------
    center : array
        Centre of the inner ball, or of the set.
    inner_radius : float
        Radius of the inner ball; 0 if it is not needed.
    basis : array or None
        Orthonormal basis of the directions of the affine hull, one per column; None if that is the whole space.
    reach : float
        Largest distance of a point of the set from the centre, or a bound on it.
    diameter : float
        Diameter of the set.
    """

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
        """Convert directions of the affine hull to vectors of the space.

        Parameters
        ----------
        vectors : array
            One direction, or several, one per row, in the coordinates of the hull.
        """
        return vectors if self.basis is None else vectors @ self.basis.T


def survey(convex: ConvexSet, shrink: bool) -> Geometry:
    """The geometry of a set; the inner ball is computed only if it is needed."""
    if not math.isfinite(convex.diameter):
        raise ValueError(f"set must be bounded, got {convex!r}; use a large ball or box instead")
    basis = convex.affine_hull[1]
    if shrink:
        center, radius = convex.inner_ball
    else:
        center, radius = convex.center, 0.0
    flat = np.array(center, np.float64).reshape(-1)
    if (basis is not None and basis.shape[1] == 0) or (shrink and radius <= 0.0):
        raise ValueError(
            f"set must have more than one point, got {convex!r}: there is nothing to learn"
        )
    frame = None if basis is None else np.ascontiguousarray(basis, np.float64)
    return Geometry(flat, float(radius), frame, _reach(convex, flat), float(convex.diameter))


def _reach(convex: ConvexSet, center: FloatArray) -> float:
    """The largest distance of a point of the set from the centre, or a bound on it."""
    try:
        vertices = convex.vertices(FEW).reshape(-1, center.size)
        return float(np.linalg.norm(vertices - center, axis=1).max())
    except VerticesUnavailable:
        # |x - c|^2 = |x|^2 - 2 <c, x> + |c|^2, with each part replaced by its maximum
        least = float(center @ np.reshape(convex.linear_minimizer(center), -1))
        square = convex.norm_bound**2 - 2.0 * least + float(center @ center)
        return min(float(convex.diameter), math.sqrt(max(square, 0.0)))
