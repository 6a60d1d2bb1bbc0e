"""The whole space, for learners whose decisions are bounded by their regulariser.

It is the only set here that is not bounded, so it has no linear minimiser, and learners that need a diameter refuse it.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.checks import FloatArray, integer
from reticent.sets import kernels
from reticent.sets.base import ConvexSet, VerticesUnavailable


class WholeSpace(ConvexSet):
    """All of R^dim.

    Parameters
    ----------
    dim : int
        Number of coordinates.

    Examples
    --------
    >>> from reticent import sets
    >>> sets.WholeSpace(2).local_linear_minimizer([1.0, 1.0], 0.5, [0.0, 2.0])
    array([1. , 0.5])
    """

    def __init__(self, dim: int) -> None:
        self.dim = integer(dim, "dim", low=1)
        self.diameter = math.inf

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        if np.any(g):
            raise ValueError(
                "a linear function has no minimum over the whole space; use a bounded set such as "
                "sets.L2Ball"
            )
        return np.zeros(self.dim)

    def _project(self, x: FloatArray) -> FloatArray:
        return x.copy()

    def _local_linear_minimizer(self, x: FloatArray, radius: float, g: FloatArray) -> FloatArray:
        out = np.empty(self.dim)
        kernels.local_whole_space(x, radius, g, out)
        return out

    @property
    def rho(self) -> float:
        return 1.0

    def _contains(self, x: FloatArray, slack: float) -> bool:
        return True

    def sample(self, rng: np.random.Generator) -> FloatArray:
        return rng.standard_normal(self.dim)

    def vertices(self, limit: int = 0) -> FloatArray:
        raise VerticesUnavailable("the whole space has no vertices")

    @property
    def affine_hull(self) -> tuple[FloatArray, None]:
        return np.zeros(self.dim), None

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        return np.zeros(self.dim), math.inf

    @property
    def norm_bound(self) -> float:
        return math.inf

    @property
    def kernel(self) -> tuple[int, FloatArray]:
        return kernels.UNCONSTRAINED, np.zeros(0)
