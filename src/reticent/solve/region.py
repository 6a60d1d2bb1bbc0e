"""A feasible set as the solvers see it: flat vectors, with or without a projection.

A linear minimiser is enough for a certificate (Jaggi 2013, section 2, the duality gap), so problems on a set without
a projection are solved by other methods but certified in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from reticent.checks import FloatArray
from reticent.sets import L1Ball, L2Ball, NuclearBall, Simplex, Spectrahedron, WholeSpace

Projection = Callable[[FloatArray], FloatArray]


class Region:
    """A set's linear minimiser and projection for flat vectors; the whole space if the set is None.

    Parameters
    ----------
    set : set or None
        The set.
    dim : int
        Number of coordinates.

    Attributes
    ----------
    free : bool
        Whether it is the whole space.
    bounded : bool
        Whether it has a linear minimiser.
    project : callable or None
        The projection, if the set has one.
    start : array
        A point of the set that depends on no data.
    """

    def __init__(self, set: Any, dim: int) -> None:
        if set is not None and int(set.dim) != dim:
            raise ValueError(
                f"set must have as many dimensions as the records have columns, {dim}; it has {set.dim}"
            )
        self.set = set
        self.dim = dim
        self.free = set is None or isinstance(set, WholeSpace)
        self.bounded = not self.free and math.isfinite(set.diameter)
        self.project: Projection | None = None
        if self.free:
            self.start = np.zeros(dim)
            self.project = _itself
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
        """The radius, if the set is a Euclidean ball around the origin."""
        return float(self.set.radius) if isinstance(self.set, L2Ball) else None

    @property
    def few_vertices(self) -> bool:
        """Whether good decisions are mixtures of few vertices, as in sets of sparse or low-rank points."""
        return isinstance(self.set, L1Ball | Simplex | NuclearBall | Spectrahedron)

    def minimize(self, g: FloatArray) -> FloatArray:
        """A point of the set that minimises <g, x>."""
        return _flat(self.set.linear_minimizer(g))

    def contains(self, x: FloatArray) -> bool:
        if self.free or not hasattr(self.set, "contains"):
            return True
        return bool(self.set.contains(x))

    def _project(self, x: FloatArray) -> FloatArray:
        return _flat(self.set.project(x))


def _itself(x: FloatArray) -> FloatArray:
    return x


def _flat(x: Any) -> FloatArray:
    return np.asarray(x, dtype=np.float64).ravel()
