"""A decision set as the hindsight solvers see it: flat vectors, with or without a projection.

The one thing a reader would get wrong: a linear minimiser is all that a certificate needs (Jaggi
2013, section 2, the duality gap), so a set without a projection is solved by other means but
certified in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from reticent.losses.base import FloatArray
from reticent.sets.l1_ball import L1Ball
from reticent.sets.l2_ball import L2Ball
from reticent.sets.nuclear_ball import NuclearBall
from reticent.sets.simplex import Simplex
from reticent.sets.spectrahedron import Spectrahedron


class Region:
    """Flat views of a set's linear minimiser and projection; the whole space if the set is None."""

    def __init__(self, set: Any, dim: int) -> None:
        self.set = set
        self.dim = dim
        self.project: Callable[[FloatArray], FloatArray] | None = None
        if set is not None and int(set.dim) != dim:
            raise ValueError(f"the set has dimension {set.dim}, the records have {dim} columns")
        if set is None or set.diameter == math.inf:
            self.set = None
            self.start = np.zeros(dim)
            return
        center = getattr(set, "center", None)
        if callable(center):
            center = center()
        self.start = _flat(center) if center is not None else self.minimize(np.ones(dim))
        if hasattr(set, "project"):
            try:
                set.project(self.start)
            except NotImplementedError:
                return
            self.project = self._project

    @property
    def ball_radius(self) -> float | None:
        """The radius, if the set is a Euclidean ball about the origin."""
        return self.set.radius if isinstance(self.set, L2Ball) else None

    @property
    def few_vertices(self) -> bool:
        """Whether good decisions are mixtures of few vertices, as in a sparse or low-rank set."""
        return isinstance(self.set, L1Ball | Simplex | NuclearBall | Spectrahedron)

    @property
    def bounded(self) -> bool:
        return self.set is not None

    def minimize(self, g: FloatArray) -> FloatArray:
        """A point of the set where <g, x> is least."""
        return _flat(self.set.linear_minimizer(g))

    def contains(self, x: FloatArray) -> bool:
        if not self.bounded or not hasattr(self.set, "contains"):
            return True
        return bool(self.set.contains(x))

    def _project(self, x: FloatArray) -> FloatArray:
        return _flat(self.set.project(x))

    def gap(self, x: FloatArray, g: FloatArray) -> float:
        """max over the set of <g, x - s>: no decision of the set is better than x by more."""
        if not self.bounded:
            return math.inf
        # Rounding may put a corner a hair short of x itself: a gap is never negative.
        return max(0.0, float(g @ (x - self.minimize(g))))


class SimplexRegion(Region):
    """Weights of vertices: non-negative, summing to one."""

    def __init__(self, dim: int) -> None:
        self.set = "simplex"
        self.dim = dim
        self.project = None
        self.start = np.full(dim, 1.0 / dim)

    def minimize(self, g: FloatArray) -> FloatArray:
        corner = np.zeros(self.dim)
        corner[int(np.argmin(g))] = 1.0
        return corner


def _flat(x: Any) -> FloatArray:
    return np.asarray(x, dtype=np.float64).ravel()
