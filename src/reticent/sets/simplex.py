"""The simplex: non-negative weights with a given sum, such as probabilities or a portfolio.

The local linear minimiser moves mass from the worst coordinates to the best one. Any point within r of x is reached
by moving at most ``r sqrt(k (n - k) / n)``, where k is the number of coordinates that can give, so ``rho`` is at most
``sqrt(n / 2)``, smaller than the usual sqrt(n); see docs/algorithms/local-linear-oracle.md.

The set is flat (the sum is fixed), so its inner ball, and noise for probing, are in the hyperplane of vectors that
sum to zero.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.checks import FloatArray, integer, positive
from reticent.sets import kernels
from reticent.sets.base import VERTEX_LIMIT, ConvexSet, within_limit
from reticent.sets.hull import zero_sum_basis


class Simplex(ConvexSet):
    """``{x : x >= 0, sum(x) = mass}``.

    Parameters
    ----------
    dim : int
        Number of coordinates.
    mass : float
        The sum of the coordinates.

    Examples
    --------
    >>> from reticent import sets
    >>> simplex = sets.Simplex(4)
    >>> simplex.project([1.0, 1.0, 0.0, 0.0])
    array([0.5, 0.5, 0. , 0. ])
    >>> simplex.local_linear_minimizer([0.5, 0.5, 0.0, 0.0], 0.1, [1.0, 0.0, 0.0, -1.0])
    array([0.4, 0.5, 0. , 0.1])
    """

    def __init__(self, dim: int, mass: float = 1.0) -> None:
        self.dim = integer(dim, "dim", low=1)
        self.mass = positive(mass, "mass")
        self.diameter = math.sqrt(2.0) * self.mass if self.dim > 1 else 0.0

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        vertex = np.zeros(self.dim)
        vertex[g.argmin()] = self.mass
        return vertex

    def _project(self, x: FloatArray) -> FloatArray:
        out = x.copy()
        kernels.project_simplex(self.mass, out, np.empty(self.dim))
        return out

    def _local_linear_minimizer(self, x: FloatArray, radius: float, g: FloatArray) -> FloatArray:
        out = np.empty(self.dim)
        kernels.local_simplex(self.mass, x, radius, g, out)
        return out

    @property
    def rho(self) -> float:
        half = self.dim // 2
        return max(1.0, math.sqrt(2.0 * half * (self.dim - half) / self.dim))

    def _contains(self, x: FloatArray, slack: float) -> bool:
        return bool(x.min() >= -slack and abs(x.sum() - self.mass) <= slack * math.sqrt(self.dim))

    def sample(self, rng: np.random.Generator) -> FloatArray:
        return self.mass * rng.dirichlet(np.ones(self.dim))

    def vertices(self, limit: int = VERTEX_LIMIT) -> FloatArray:
        within_limit(self.dim, limit, repr(self))
        return self.mass * np.eye(self.dim)

    @property
    def affine_hull(self) -> tuple[FloatArray, FloatArray]:
        return self.inner_ball[0], zero_sum_basis(self.dim)

    @property
    def is_flat(self) -> bool:
        return True

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        center = np.full(self.dim, self.mass / self.dim)
        return center, (self.mass / math.sqrt(self.dim * (self.dim - 1)) if self.dim > 1 else 0.0)

    @property
    def norm_bound(self) -> float:
        return self.mass

    @property
    def kernel(self) -> tuple[int, FloatArray]:
        return kernels.SIMPLEX, np.array([self.mass])

    def __repr__(self) -> str:
        return f"Simplex(dim={self.dim}, mass={self.mass:g})"
