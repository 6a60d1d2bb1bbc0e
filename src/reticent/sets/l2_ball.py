"""The Euclidean ball around the origin, with an exact local linear minimiser.

The local problem is over the intersection of two balls and has a closed form, so ``rho = 1``; see
docs/algorithms/local-linear-oracle.md.

The ball has no vertices, so vertex-based private Frank-Wolfe cannot use it.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.checks import FloatArray, integer, positive
from reticent.sets import kernels
from reticent.sets.base import ConvexSet


class L2Ball(ConvexSet):
    """``{x : ||x||_2 <= radius}``.

    Parameters
    ----------
    dim : int
        Number of coordinates.
    radius : float
        Radius in the l2 norm.

    Examples
    --------
    >>> from reticent import sets
    >>> sets.L2Ball(2, radius=2.0).project([3.0, 4.0])
    array([1.2, 1.6])
    """

    def __init__(self, dim: int, radius: float = 1.0) -> None:
        self.dim = integer(dim, "dim", low=1)
        self.radius = positive(radius, "radius")
        self.diameter = 2.0 * self.radius

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        out = np.empty(self.dim)
        kind, params = self.kernel
        kernels.linear_minimizer_inplace(kind)(params, g, out)
        return out

    def _project(self, x: FloatArray) -> FloatArray:
        out = x.copy()
        kernels.project_l2_ball(self.radius, out)
        return out

    def _local_linear_minimizer(self, x: FloatArray, radius: float, g: FloatArray) -> FloatArray:
        out = np.empty(self.dim)
        kernels.local_l2_ball(self.radius, x, radius, g, out)
        return out

    @property
    def rho(self) -> float:
        return 1.0

    def _contains(self, x: FloatArray, slack: float) -> bool:
        return float(np.linalg.norm(x)) <= self.radius + slack

    def sample(self, rng: np.random.Generator) -> FloatArray:
        direction = rng.standard_normal(self.dim)
        scale = self.radius * rng.random() ** (1.0 / self.dim) / math.sqrt(direction @ direction)
        return scale * direction

    @property
    def affine_hull(self) -> tuple[FloatArray, None]:
        return np.zeros(self.dim), None

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        return np.zeros(self.dim), self.radius

    @property
    def norm_bound(self) -> float:
        return self.radius

    @property
    def kernel(self) -> tuple[int, FloatArray]:
        return kernels.L2BALL, np.array([self.radius])

    def __repr__(self) -> str:
        return f"L2Ball(dim={self.dim}, radius={self.radius:g})"
