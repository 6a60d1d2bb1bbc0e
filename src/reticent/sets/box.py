"""Boxes, in which every coordinate has its own bounds; `LinfBall` is the cube around the origin.

The local linear minimiser moves along -g, stopping each coordinate at its bound, until it has moved by ``radius``.
This is the exact local minimiser, so ``rho = 1``; see docs/algorithms/local-linear-oracle.md.

A coordinate whose bounds coincide makes the box flat; the inner ball is then in the other coordinates.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from reticent.checks import FloatArray, integer, positive, real_array
from reticent.sets import kernels
from reticent.sets.base import VERTEX_LIMIT, ConvexSet, frozen, within_limit


class Box(ConvexSet):
    """``{x : lower <= x <= upper}``, coordinate by coordinate.

    Parameters
    ----------
    lower : array_like
        Vector of lower bounds, or a number that holds for every coordinate.
    upper : array_like
        Vector of upper bounds, or a number that holds for every coordinate.
    dim : int, optional
        Number of coordinates, which is needed if both bounds are numbers.

    Examples
    --------
    >>> from reticent import sets
    >>> sets.Box([0.0, -1.0], [1.0, 1.0]).project([2.0, 0.5])
    array([1. , 0.5])
    >>> sets.Box(0, 1, dim=3).linear_minimizer([1.0, -1.0, 1.0])
    array([0., 1., 0.])
    """

    def __init__(self, lower: Any, upper: Any, dim: int | None = None) -> None:
        low, high = real_array(lower, "lower"), real_array(upper, "upper")
        if low.ndim > 1 or high.ndim > 1:
            raise ValueError(
                f"lower and upper must be vectors or numbers, got shapes {low.shape}, {high.shape}"
            )
        lengths = {real_array(bound, "bound").size for bound in (lower, upper) if np.ndim(bound)}
        if dim is not None:
            lengths.add(integer(dim, "dim", low=1))
        if len(lengths) != 1:
            given = ", ".join(map(str, sorted(lengths))) or "none"
            raise ValueError(
                "lower, upper and dim must agree on one number of coordinates, "
                f"got {given}; set dim= if both bounds are numbers"
            )
        self.dim = integer(lengths.pop(), "dim", low=1)
        self.lower = frozen(np.broadcast_to(low, self.dim))
        self.upper = frozen(np.broadcast_to(high, self.dim))
        if not (np.isfinite(self.lower).all() and np.isfinite(self.upper).all()):
            raise ValueError(
                "lower and upper must be finite, because a set of decisions is bounded"
            )
        if (self.lower > self.upper).any():
            i = int(np.argmax(self.lower > self.upper))
            raise ValueError(
                f"the box is empty: lower[{i}] = {self.lower[i]:g} exceeds upper[{i}] = "
                f"{self.upper[i]:g}"
            )
        self.diameter = float(np.linalg.norm(self.upper - self.lower))
        self._params = frozen(np.concatenate([self.lower, self.upper]))
        self._free = np.flatnonzero(self.upper > self.lower)

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        return np.where(g >= 0.0, self.lower, self.upper)

    def _project(self, x: FloatArray) -> FloatArray:
        return np.clip(x, self.lower, self.upper)

    def _local_linear_minimizer(self, x: FloatArray, radius: float, g: FloatArray) -> FloatArray:
        out = np.empty(self.dim)
        kernels.local_box(self._params, x, radius, g, out)
        return out

    @property
    def rho(self) -> float:
        return 1.0

    def _contains(self, x: FloatArray, slack: float) -> bool:
        return bool((x >= self.lower - slack).all() and (x <= self.upper + slack).all())

    def sample(self, rng: np.random.Generator) -> FloatArray:
        return rng.uniform(self.lower, self.upper)

    def vertices(self, limit: int = VERTEX_LIMIT) -> FloatArray:
        within_limit(2.0**self._free.size, limit, repr(self))
        choices = [sorted({low, high}) for low, high in zip(self.lower, self.upper, strict=True)]
        return np.array(list(product(*choices)))

    @property
    def affine_hull(self) -> tuple[FloatArray, FloatArray | None]:
        flat = self._free.size < self.dim
        return self.inner_ball[0], (np.eye(self.dim)[:, self._free] if flat else None)

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        half = 0.5 * (self.upper - self.lower)
        radius = float(half[self._free].min()) if self._free.size else 0.0
        return self.lower + half, radius

    @property
    def norm_bound(self) -> float:
        return float(np.linalg.norm(np.maximum(np.abs(self.lower), np.abs(self.upper))))

    @property
    def kernel(self) -> tuple[int, FloatArray]:
        return kernels.BOX, self._params.copy()


class LinfBall(Box):
    """``{x : ||x||_inf <= radius}``.

    Parameters
    ----------
    dim : int
        Number of coordinates.
    radius : float
        Half the width of the cube.

    Examples
    --------
    >>> from reticent import sets
    >>> sets.LinfBall(2, radius=0.5).diameter
    1.4142135623730951
    """

    def __init__(self, dim: int, radius: float = 1.0) -> None:
        self.radius = positive(radius, "radius")
        super().__init__(-self.radius, self.radius, dim=dim)

    def __repr__(self) -> str:
        return f"LinfBall(dim={self.dim}, radius={self.radius:g})"
