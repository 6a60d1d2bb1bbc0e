"""A polytope given by its vertices, or by any finite list of points whose convex hull it is.

The linear minimiser inspects every point. The local linear minimiser is a linear program over the weights of the
points, in which the ball around x is replaced by the cube that contains it in the coordinates of the affine hull, so
``rho = sqrt(k)``, where k is the dimension of the hull. The general constant for moving weight between vertices is
never smaller: docs/algorithms/local-linear-oracle.md.

Points that are not extreme are allowed and stay in ``vertices()``.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from reticent.checks import FloatArray, real_array
from reticent.sets.base import VERTEX_LIMIT, ConvexSet, frozen, within_limit
from reticent.sets.hull import FLAT, chebyshev_ball

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
FACETS_UP_TO = 5


class Polytope(ConvexSet):
    """The convex hull of the rows of ``vertices``.

    Parameters
    ----------
    vertices : array_like
        Matrix with one point per row, at least one.

    Examples
    --------
    >>> from reticent import sets
    >>> triangle = sets.Polytope([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> triangle.linear_minimizer([-1.0, 0.5])
    array([1., 0.])
    >>> triangle.contains([0.4, 0.4]), triangle.contains([0.6, 0.6])
    (True, False)
    """

    def __init__(self, vertices: Any) -> None:
        points = real_array(vertices, "vertices")
        if points.ndim != 2 or points.size == 0:
            raise ValueError(
                f"vertices must be a matrix, one point per row, at least one; got {points.shape}"
            )
        if not np.isfinite(points).all():
            raise ValueError("vertices must be finite")
        self._points = frozen(points)
        self.dim = points.shape[1]
        self.diameter = _largest_distance(self._points)

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        return self._points[np.argmin(self._points @ g)].copy()

    def _local_linear_minimizer(self, x: FloatArray, radius: float, g: FloatArray) -> FloatArray:
        best = self._linear_minimizer(g)
        if np.linalg.norm(best - x) <= self.rho * radius:
            return best
        if radius == 0.0 or not g.any():
            return x.copy()
        from scipy.optimize import linprog

        weights = self._weights(x)
        count = len(self._points)
        # The unknowns are changes of weight divided by the radius, so that a small radius loses no digits.
        shifts = (self._points @ self._directions).T
        solution = linprog(
            self._points @ (g / np.linalg.norm(g)),
            A_ub=np.concatenate([shifts, -shifts]),
            b_ub=np.ones(2 * len(shifts)),
            A_eq=np.ones((1, count)),
            b_eq=[0.0],
            bounds=np.column_stack([-weights / radius, np.full(count, np.inf)]),
            method="highs",
            options=TIGHT,
        )
        if solution.status != 0:
            raise RuntimeError(f"the local problem could not be solved: {solution.message}")
        moved = np.maximum(weights + radius * solution.x, 0.0)
        return (moved / moved.sum()) @ self._points

    def _weights(self, x: FloatArray) -> FloatArray:
        """Weights on all listed points whose mixture is x."""
        weights, used = self.decompose(x)
        everywhere = np.zeros(len(self._points))
        for weight, row in zip(weights, used, strict=True):
            everywhere[np.abs(self._points - row).max(axis=1).argmin()] += weight
        return everywhere

    @property
    def rho(self) -> float:
        return max(1.0, math.sqrt(self._directions.shape[1]))

    def vertices(self, limit: int = VERTEX_LIMIT) -> FloatArray:
        within_limit(len(self._points), limit, repr(self))
        return self._points.copy()

    @cached_property
    def _directions(self) -> FloatArray:
        """An orthonormal basis of the directions of the affine hull, of shape (dim, k)."""
        centred = self._points - self._points.mean(axis=0)
        _, sizes, right = np.linalg.svd(centred, full_matrices=False)
        rank = int((sizes > FLAT * max(self.diameter, 1e-300)).sum())
        return right[:rank].T

    @property
    def affine_hull(self) -> tuple[FloatArray, FloatArray | None]:
        flat = self._directions.shape[1] < self.dim
        return self._points.mean(axis=0), (self._directions if flat else None)

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        center, radius = self._ball
        return center.copy(), radius

    @cached_property
    def _ball(self) -> tuple[FloatArray, float]:
        k = self._directions.shape[1]
        mean = self._points.mean(axis=0)
        if k == 0:
            return mean, 0.0
        along = (self._points - mean) @ self._directions
        if k == 1:
            middle = 0.5 * (along.min() + along.max())
            return mean + self._directions[:, 0] * middle, 0.5 * float(np.ptp(along))
        if k > FACETS_UP_TO:
            return self._frame[2], self._frame[3]
        from scipy.spatial import ConvexHull

        facets = ConvexHull(along).equations
        center, radius = chebyshev_ball(facets[:, :-1], -facets[:, -1], np.zeros(k), None)
        return mean + self._directions @ center, radius

    @property
    def norm_bound(self) -> float:
        return float(np.linalg.norm(self._points, axis=1).max())

    def __repr__(self) -> str:
        return f"Polytope(vertices={len(self._points)}, dim={self.dim})"


def _largest_distance(points: FloatArray) -> float:
    """The largest distance of two points.

    For more than 3,000 points twice the largest distance to the middle, a bound.
    """
    if len(points) > 3000:
        middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
        return 2.0 * float(np.linalg.norm(points - middle, axis=1).max())
    largest = 0.0
    for i in range(len(points)):
        largest = max(largest, float(np.linalg.norm(points[i:] - points[i], axis=1).max()))
    return largest
