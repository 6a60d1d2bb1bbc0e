"""The k-sparse ball: the convex hull of vectors with at most k nonzero entries, each of size at most tau.

It is the intersection of the l1 ball of radius k tau and the cube of half-width tau (as in FrankWolfe.jl's
KSparseLMO). The linear minimiser selects the k largest |g_i| (``numpy.argpartition``); the projection clips |x| - t
between 0 and tau at a threshold t.

For k = 1 it is the l1 ball and for k = dim the cube. It is not the ball of the k-support norm, whose entries share an
l2 bound.
"""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np

from reticent.checks import FloatArray, integer, positive
from reticent.sets.base import VERTEX_LIMIT, ConvexSet, within_limit
from reticent.sets.thresholds import capped_threshold


class KSparseBall(ConvexSet):
    """``{x : ||x||_1 <= k * tau, ||x||_inf <= tau}``.

    Parameters
    ----------
    dim : int
        Number of coordinates.
    k : int
        Number of nonzero coordinates of a vertex, from 1 to ``dim``.
    tau : float
        Size of these coordinates.

    Examples
    --------
    >>> from reticent import sets
    >>> sets.KSparseBall(4, k=2, tau=0.5).linear_minimizer([3.0, -1.0, 0.0, -2.0])
    array([-0.5,  0. ,  0. ,  0.5])
    """

    def __init__(self, dim: int, k: int, tau: float = 1.0) -> None:
        self.dim = integer(dim, "dim", low=1)
        self.k = integer(k, "k", low=1, high=self.dim)
        self.tau = positive(tau, "tau")
        self.diameter = 2.0 * self.tau * math.sqrt(self.k)

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        vertex = np.zeros(self.dim)
        largest: slice | np.ndarray = slice(None)
        if self.k < self.dim:
            largest = np.argpartition(np.abs(g), self.dim - self.k)[self.dim - self.k :]
        vertex[largest] = -np.copysign(self.tau, g[largest])
        return vertex

    def _project(self, x: FloatArray) -> FloatArray:
        sizes = np.abs(x)
        kept = np.minimum(sizes, self.tau)
        if kept.sum() > self.k * self.tau:
            shift, threshold = capped_threshold(sizes, self.tau, self.k * self.tau)
            kept = np.clip((sizes - shift) - threshold, 0.0, self.tau)
        return np.copysign(kept, x)

    def _contains(self, x: FloatArray, slack: float) -> bool:
        sizes = np.abs(x)
        return bool(sizes.max() <= self.tau + slack and sizes.sum() <= self.k * self.tau + slack)

    def vertices(self, limit: int = VERTEX_LIMIT) -> FloatArray:
        count = math.comb(self.dim, self.k) * 2.0**self.k
        within_limit(count, limit, repr(self))
        rows = []
        for chosen in combinations(range(self.dim), self.k):
            for signs in product([-self.tau, self.tau], repeat=self.k):
                row = np.zeros(self.dim)
                row[list(chosen)] = signs
                rows.append(row)
        return np.array(rows)

    @property
    def affine_hull(self) -> tuple[FloatArray, None]:
        return np.zeros(self.dim), None

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        return np.zeros(self.dim), self.tau * min(1.0, self.k / math.sqrt(self.dim))

    @property
    def norm_bound(self) -> float:
        return self.tau * math.sqrt(self.k)

    def __repr__(self) -> str:
        return f"KSparseBall(dim={self.dim}, k={self.k}, tau={self.tau:g})"
