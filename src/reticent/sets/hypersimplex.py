"""The hypersimplex: fractional choices of k of n items, the base polytope of the uniform matroid.

The linear minimiser selects the k smallest entries (``numpy.argpartition``, the fastest public function). The
projection clips at a threshold that is found exactly on a piecewise linear function.

The sum is exactly k, not at most k, so the set is flat; `KSparseBall` is the signed set with "at most k".
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from reticent.checks import FloatArray, integer
from reticent.sets.base import VERTEX_LIMIT, ConvexSet, within_limit
from reticent.sets.hull import zero_sum_basis
from reticent.sets.thresholds import capped_threshold


class HyperSimplex(ConvexSet):
    """``{x : 0 <= x <= 1, sum(x) = k}``.

    Parameters
    ----------
    dim : int
        Number of coordinates.
    k : int
        The sum of the coordinates, from 1 to ``dim``.

    Examples
    --------
    >>> from reticent import sets
    >>> sets.HyperSimplex(4, 2).linear_minimizer([3.0, -1.0, 0.0, 2.0])
    array([0., 1., 1., 0.])
    """

    def __init__(self, dim: int, k: int) -> None:
        self.dim = integer(dim, "dim", low=1)
        self.k = integer(k, "k", low=1, high=self.dim)
        self.diameter = math.sqrt(2.0 * min(self.k, self.dim - self.k))

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        if self.k == self.dim:
            return np.ones(self.dim)
        vertex = np.zeros(self.dim)
        vertex[np.argpartition(g, self.k - 1)[: self.k]] = 1.0
        return vertex

    def _project(self, x: FloatArray) -> FloatArray:
        return project_capped(x, self.k)

    def _contains(self, x: FloatArray, slack: float) -> bool:
        in_cube = x.min() >= -slack and x.max() <= 1.0 + slack
        return bool(in_cube and abs(x.sum() - self.k) <= slack * math.sqrt(self.dim))

    def vertices(self, limit: int = VERTEX_LIMIT) -> FloatArray:
        count = math.comb(self.dim, self.k)
        within_limit(count, limit, repr(self))
        chosen = np.array(list(combinations(range(self.dim), self.k)))
        vertices = np.zeros((count, self.dim))
        np.put_along_axis(vertices, chosen, 1.0, axis=1)
        return vertices

    @property
    def affine_hull(self) -> tuple[FloatArray, FloatArray]:
        basis = zero_sum_basis(self.dim)
        return self.inner_ball[0], (basis if self.k < self.dim else basis[:, :0])

    @property
    def is_flat(self) -> bool:
        return True

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        share = self.k / self.dim
        radius = capped_inner_radius(self.dim, self.k)
        return np.full(self.dim, share), radius

    @property
    def norm_bound(self) -> float:
        return math.sqrt(self.k)

    def __repr__(self) -> str:
        return f"HyperSimplex(dim={self.dim}, k={self.k})"


def project_capped(x: FloatArray, k: int) -> FloatArray:
    if k == x.size:
        return np.ones(x.size)
    shift, threshold = capped_threshold(x, 1.0, float(k))
    return np.clip((x - shift) - threshold, 0.0, 1.0)


def capped_inner_radius(dim: int, k: int) -> float:
    """Distance from the centre to the facets x_i = 0 and x_i = 1, within the hyperplane."""
    if k == dim:
        return 0.0
    share = k / dim
    return min(share, 1.0 - share) / math.sqrt(1.0 - 1.0 / dim)
