"""The nuclear-norm ball: matrices whose singular values sum to at most the radius, which favours low rank.

The linear minimiser needs one singular pair (``scipy.sparse.linalg.svds`` with ARPACK, the fastest public function;
PROPACK failed at k = 1), the projection all of them.

ARPACK starts from a fixed vector, not a random one, so that the same direction always gives the same matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.sparse.linalg import ArpackError, svds

from reticent.checks import FloatArray, integer, positive
from reticent.sets import kernels
from reticent.sets.base import ConvexSet

DENSE_BELOW = 100


def start_vector(size: int) -> FloatArray:
    return np.random.default_rng(0).standard_normal(size)


class NuclearBall(ConvexSet):
    """``{x of shape (rows, columns) : sum of singular values <= radius}``.

    Parameters
    ----------
    shape : (int, int)
        Numbers of rows and columns.
    radius : float
        Radius in the nuclear norm.

    Examples
    --------
    >>> from reticent import sets
    >>> sets.NuclearBall((2, 2)).project([[3.0, 0.0], [0.0, 2.5]])
    array([[0.75, 0.  ],
           [0.  , 0.25]])
    """

    def __init__(self, shape: Sequence[int], radius: float = 1.0) -> None:
        if len(shape) != 2:
            raise ValueError(f"shape must be (rows, columns), got {tuple(shape)}")
        self.rows = integer(shape[0], "shape[0]", low=1)
        self.columns = integer(shape[1], "shape[1]", low=1)
        self.dim = self.rows * self.columns
        self.radius = positive(radius, "radius")
        self.diameter = 2.0 * self.radius

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows, self.columns)

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        u, v = self._top_pair(g.reshape(self.rows, self.columns))
        return np.outer(-self.radius * u, v).reshape(-1)

    def _top_pair(self, matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
        smaller = min(self.rows, self.columns)
        if smaller > DENSE_BELOW and matrix.any():
            try:
                u, _, v = svds(matrix, k=1, v0=start_vector(smaller))
                return u[:, 0], v[0]
            except ArpackError:
                pass  # no convergence if many singular values are equal; the dense method always works
        u, _, v = np.linalg.svd(matrix, full_matrices=False)
        return u[:, 0], v[0]

    def _project(self, x: FloatArray) -> FloatArray:
        u, sizes, v = np.linalg.svd(x.reshape(self.rows, self.columns), full_matrices=False)
        if sizes.sum() <= self.radius:
            return x.copy()
        kernels.project_simplex(self.radius, sizes, np.empty(sizes.size))
        return ((u * sizes) @ v).reshape(-1)

    def _contains(self, x: FloatArray, slack: float) -> bool:
        sizes = np.linalg.svd(x.reshape(self.rows, self.columns), compute_uv=False)
        return float(sizes.sum()) <= self.radius + slack

    @property
    def affine_hull(self) -> tuple[FloatArray, None]:
        return np.zeros(self.dim), None

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        return np.zeros(self.shape), self.radius / math.sqrt(min(self.rows, self.columns))

    @property
    def norm_bound(self) -> float:
        return self.radius

    def __repr__(self) -> str:
        return f"NuclearBall(shape=({self.rows}, {self.columns}), radius={self.radius:g})"
