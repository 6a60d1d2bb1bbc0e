"""The base polytope of any submodular function, given as a Python function.

The greedy algorithm is its linear minimiser.

``B(f) = {x : x(S) <= f(S) for every S, x(everything) = f(everything)}``. Edmonds' greedy algorithm minimises a linear
function over it with ``dim`` calls of f. This is the decision set of the projection-free bandit paper (Ene, Nguyen
and Vladu). The local linear minimiser moves weight between greedy vertices; see
docs/algorithms/local-linear-oracle.md.

For a function that is not submodular, the greedy algorithm would silently return points outside any polytope. So f is
tested on all sets if there are few, else on random ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from itertools import combinations, permutations

import numpy as np

from reticent.checks import FloatArray, integer, positive
from reticent.sets.base import VERTEX_LIMIT, ConvexSet, within_limit
from reticent.sets.hull import chebyshev_ball

SetFunction = Callable[[np.ndarray], float]
EXACT_DIM = 10


class NotSubmodular(ValueError):
    """The function is not submodular: two sets were found on which it has increasing returns."""


class BasePolytope(ConvexSet):
    """The convex hull of the bases of a submodular function.

    Parameters
    ----------
    function : callable
        Takes a boolean mask of length ``dim`` and returns a number, which must be 0 for the empty set.
    dim : int
        Number of elements of the ground set.
    granularity : float, optional
        A number of which every value of the function is a multiple: 1 for integer values (ranks, cuts, coverage
        counts). The local linear minimiser needs it, because its constant depends on it.
    samples : int
        Number of random triples on which to test submodularity; with ``dim <= 10`` all are tested.

    Raises
    ------
    NotSubmodular
        The test found increasing returns.

    Examples
    --------
    >>> from reticent import sets
    >>> coverage = sets.BasePolytope(lambda mask: min(mask.sum(), 2), dim=4, granularity=1)
    >>> coverage.linear_minimizer([3.0, -1.0, 0.0, 2.0])
    array([0., 1., 1., 0.])
    """

    def __init__(
        self,
        function: SetFunction,
        dim: int,
        granularity: float | None = None,
        samples: int = 200,
    ) -> None:
        self.dim = integer(dim, "dim", low=1)
        if not callable(function):
            raise TypeError(f"function must be callable on a boolean mask, got {function!r}")
        self.function = function
        self._granularity = None if granularity is None else positive(granularity, "granularity")
        empty = np.zeros(self.dim, dtype=bool)
        if abs(self._value(empty)) > 1e-12:
            raise ValueError(
                f"function(empty set) must be 0, got {self._value(empty):g}; subtract that value"
            )
        self._refuse_increasing_returns(integer(samples, "samples", low=0))
        eye = np.eye(self.dim, dtype=bool)
        self._total = self._value(~empty)
        self._highest = np.array([self._value(row) for row in eye])
        self._lowest = np.array([self._total - self._value(~row) for row in eye])
        self.diameter = self._diameter_bound()
        if self._granularity is not None:
            self._check_granularity(self._granularity)
            chains = math.sqrt(self.dim * (self.dim**2 - 1) / 12.0)
            self.mass_per_radius = chains / self._granularity

    def _value(self, mask: np.ndarray) -> float:
        value = float(self.function(mask.copy()))
        if not math.isfinite(value):
            raise ValueError(
                "function must return a finite number; on elements "
                f"{np.flatnonzero(mask).tolist()} it returned {value}"
            )
        return value

    def _refuse_increasing_returns(self, samples: int) -> None:
        """Check submodularity: f(S + i) + f(S + j) >= f(S + i + j) + f(S) for all S, i and j."""
        if self.dim <= EXACT_DIM:
            values = self._all_values
            for mask in range(2**self.dim):
                outside = [i for i in range(self.dim) if not mask >> i & 1]
                for i, j in combinations(outside, 2):
                    a, b = mask | 1 << i, mask | 1 << j
                    self._compare(mask, i, j, values[mask], values[a], values[b], values[a | b])
            return
        rng = np.random.default_rng(0)
        for _ in range(samples):
            order = rng.permutation(self.dim)
            size = int(rng.integers(0, self.dim - 1))
            mask_array = np.zeros(self.dim, dtype=bool)
            mask_array[order[:size]] = True
            i, j = int(order[size]), int(order[size + 1])
            f_s = self._value(mask_array)
            mask_array[i] = True
            f_i = self._value(mask_array)
            mask_array[j] = True
            f_ij = self._value(mask_array)
            mask_array[i] = False
            f_j = self._value(mask_array)
            self._compare(order[:size].tolist(), i, j, f_s, f_i, f_j, f_ij)

    def _compare(
        self, base: int | list[int], i: int, j: int, f_s: float, f_i: float, f_j: float, f_ij: float
    ) -> None:
        scale = max(1.0, abs(f_s), abs(f_i), abs(f_j), abs(f_ij))
        if f_i + f_j < f_ij + f_s - 1e-9 * scale:
            listed = base if isinstance(base, list) else _elements(base, self.dim)
            raise NotSubmodular(
                f"function is not submodular: with S = {sorted(listed)}, i = {i}, j = {j}, "
                f"f(S+i) + f(S+j) = {f_i + f_j:g} is less than f(S+i+j) + f(S) = {f_ij + f_s:g}"
            )

    @cached_property
    def _all_values(self) -> FloatArray:
        """f on every set; bit i of the index says whether element i is in the set."""
        masks = np.arange(2**self.dim)[:, None] >> np.arange(self.dim) & 1
        return np.array([self._value(mask.astype(bool)) for mask in masks])

    def _check_granularity(self, unit: float) -> None:
        values = np.concatenate([self._highest, self._lowest, [self._total]])
        if self.dim <= EXACT_DIM:
            values = self._all_values
        steps = values / unit
        if np.abs(steps - np.round(steps)).max() > 1e-9 * max(1.0, np.abs(steps).max()):
            bad = values[np.abs(steps - np.round(steps)).argmax()]
            raise ValueError(
                f"granularity is {unit:g}, but the function takes the value {bad:g}, which is not a "
                "multiple of it; use a common divisor of all values, or None"
            )

    def _diameter_bound(self) -> float:
        """A bound from the range of each coordinate (last to first marginal gain) and from the fixed sum."""
        width = self._highest - self._lowest
        shift = min(self._highest.sum() - self._total, self._total - self._lowest.sum())
        by_shift = 2.0 * max(shift, 0.0) * width.max()
        return math.sqrt(max(min(float(width @ width), by_shift), 0.0))

    # ---------------------------------------------------------------- oracles

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        return self._greedy(np.argsort(g, kind="stable"))

    def _greedy(self, order: np.ndarray) -> FloatArray:
        base = np.empty(self.dim)
        mask = np.zeros(self.dim, dtype=bool)
        before = 0.0
        for i in order:
            mask[i] = True
            value = self._value(mask)
            base[i] = value - before
            before = value
        return base

    def _no_local_minimizer(self) -> str:
        return (
            "BasePolytope has a local linear minimiser only if granularity is set: the number of "
            "which every value of the function is a multiple (1 for integer values)"
        )

    def _contains(self, x: FloatArray, slack: float) -> bool:
        if abs(x.sum() - self._total) > slack * math.sqrt(self.dim):
            return False
        if self.dim <= EXACT_DIM:
            masks = np.arange(2**self.dim)[:, None] >> np.arange(self.dim) & 1
            over = masks @ x - self._all_values
            return bool((over <= slack * np.sqrt(np.maximum(masks.sum(axis=1), 1))).all())
        return super()._contains(x, slack)

    def vertices(self, limit: int = VERTEX_LIMIT) -> FloatArray:
        count = math.factorial(self.dim) if self.dim < 20 else math.inf
        within_limit(count, limit, f"the greedy search over orders of {self!r}")
        rows = [self._greedy(np.array(order)) for order in permutations(range(self.dim))]
        return np.unique(np.round(np.array(rows), 12) + 0.0, axis=0)

    @property
    def is_flat(self) -> bool:
        return True

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        center, radius = self._ball
        return center.copy(), radius

    @cached_property
    def _ball(self) -> tuple[FloatArray, float]:
        if self.dim > EXACT_DIM:
            return self._frame[2], self._frame[3]
        masks = np.arange(1, 2**self.dim - 1)[:, None] >> np.arange(self.dim) & 1
        if not len(masks):
            return self._frame[2], 0.0
        return chebyshev_ball(
            masks.astype(float), self._all_values[1:-1], self._frame[0], self._frame[1]
        )

    @property
    def norm_bound(self) -> float:
        return float(np.linalg.norm(np.maximum(np.abs(self._lowest), np.abs(self._highest))))


def _elements(mask: int, dim: int) -> list[int]:
    return [i for i in range(dim) if mask >> i & 1]
