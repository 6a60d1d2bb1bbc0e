"""A bounded polyhedron given by linear inequalities and equalities, with HiGHS for its linear programs.

The linear minimiser is a linear program (``scipy.optimize.linprog``). The local linear minimiser is the same program
with every coordinate kept within ``radius`` of x: this cube contains the ball, and no point of it is further than
``sqrt(free) radius`` away, where free is the number of coordinates that can move; see
docs/algorithms/local-linear-oracle.md.

Building the set solves two linear programs per coordinate, to prove that it is bounded and not empty and to bound its
diameter; build it once.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import linprog

from reticent.checks import FloatArray, real_array, vector
from reticent.sets.base import ConvexSet, frozen
from reticent.sets.hull import FLAT, chebyshev_ball
from reticent.sets.polytope import TIGHT


class Polyhedron(ConvexSet):
    """``{x : A x <= b, E x = f}``, which must be bounded and not empty.

    Parameters
    ----------
    A : array_like
        Matrix with one inequality per row.
    b : array_like
        Right sides of the inequalities.
    E : array_like, optional
        Matrix with one equality per row.
    f : array_like, optional
        Right sides of the equalities.

    Raises
    ------
    ValueError
        The polyhedron is empty or not bounded.

    Examples
    --------
    >>> from reticent import sets
    >>> corner = sets.Polyhedron([[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], [1.0, 0.0, 0.0])
    >>> corner.linear_minimizer([-1.0, -2.0])
    array([0., 1.])
    """

    def __init__(self, A: Any, b: Any, E: Any = None, f: Any = None) -> None:
        rows = real_array(A, "A")
        if rows.ndim != 2 or rows.shape[1] == 0:
            raise ValueError(
                f"A must be a matrix with one inequality per row, got shape {rows.shape}"
            )
        if (E is None) != (f is None):
            raise ValueError("E and f must be given together, because the equalities are E x = f")
        self.dim = rows.shape[1]
        equal = np.zeros((0, self.dim)) if E is None else real_array(E, "E")
        if equal.ndim != 2 or equal.shape[1] != self.dim:
            raise ValueError(f"E must have {self.dim} columns like A, got shape {equal.shape}")
        if not (np.isfinite(rows).all() and np.isfinite(equal).all()):
            raise ValueError("A and E must be finite")
        self.A, self.b = frozen(rows), frozen(vector(b, "b", len(rows)))
        self.E = frozen(equal)
        self.f = frozen(vector([] if f is None else f, "f", len(equal)) if len(equal) else [])
        self._lower, self._upper = self._bounding_box()
        width = self._upper - self._lower
        self.diameter = float(np.linalg.norm(width))
        self._can_move = int((width > FLAT * max(self.diameter, 1e-300)).sum())

    def _bounding_box(self) -> tuple[FloatArray, FloatArray]:
        lower, upper = np.empty(self.dim), np.empty(self.dim)
        for i in range(self.dim):
            for sign, side in ((1.0, lower), (-1.0, upper)):
                cost = np.zeros(self.dim)
                cost[i] = sign
                side[i] = self._solve(cost, f"coordinate {i} {'below' if sign > 0 else 'above'}")[i]
        return np.minimum(lower, upper), np.maximum(lower, upper)

    def _solve(self, cost: FloatArray, what: str) -> FloatArray:
        solution = linprog(
            cost,
            A_ub=self.A if len(self.A) else None,
            b_ub=self.b if len(self.A) else None,
            A_eq=self.E if len(self.E) else None,
            b_eq=self.f if len(self.E) else None,
            bounds=(None, None),
            method="highs",
            options=TIGHT,
        )
        if solution.status == 2:
            raise ValueError("the polyhedron is empty: no x satisfies A x <= b and E x = f")
        if solution.status in (3, 4):
            raise ValueError(
                f"the polyhedron must be bounded, but nothing bounds {what}; add inequalities"
            )
        if solution.status != 0:
            raise RuntimeError(f"HiGHS could not solve a linear program: {solution.message}")
        return np.asarray(solution.x, dtype=np.float64) + 0.0  # HiGHS may write -0

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        largest = np.abs(g).max()
        return self._solve(g / largest if largest > 0.0 else g, "the direction g")

    def _local_linear_minimizer(self, x: FloatArray, radius: float, g: FloatArray) -> FloatArray:
        best = self._linear_minimizer(g)
        if np.linalg.norm(best - x) <= self.rho * radius:
            return best
        if radius == 0.0 or not g.any():
            return x.copy()
        # The unknown is (p - x) / radius, so that a small radius loses no digits. A constraint that x itself violates
        # by rounding is replaced by its value at x.
        room = np.maximum(self.b - self.A @ x, 0.0) / radius
        solution = linprog(
            g / np.linalg.norm(g),
            A_ub=self.A if len(self.A) else None,
            b_ub=room if len(self.A) else None,
            A_eq=self.E if len(self.E) else None,
            b_eq=np.zeros(len(self.E)) if len(self.E) else None,
            bounds=(-1.0, 1.0),
            method="highs",
            options=TIGHT,
        )
        if solution.status != 0:
            raise RuntimeError(f"the local problem could not be solved: {solution.message}")
        return x + radius * solution.x

    @property
    def rho(self) -> float:
        return max(1.0, math.sqrt(self._can_move))

    def _contains(self, x: FloatArray, slack: float) -> bool:
        over = (self.A @ x - self.b) <= slack * np.linalg.norm(self.A, axis=1)
        off = np.abs(self.E @ x - self.f) <= slack * np.linalg.norm(self.E, axis=1)
        return bool(over.all() and off.all())

    @cached_property
    def _hull(self) -> tuple[FloatArray, FloatArray]:
        """A point, and the null space of the equalities and of those inequalities that can never be strict."""
        always = np.concatenate([self.E, self.A[self._always_tight]])
        if not len(always):
            return self._point, np.eye(self.dim)
        _, sizes, right = np.linalg.svd(always, full_matrices=True)
        rank = int((sizes > 1e-10 * max(sizes.max(), 1e-300)).sum())
        return self._point, right[rank:].T.copy()

    @cached_property
    def _point(self) -> FloatArray:
        return frozen(self._linear_minimizer(np.zeros(self.dim)))

    @property
    def _always_tight(self) -> np.ndarray:
        """Which inequalities hold with equality everywhere, from one linear program for all of them.

        The point is scaled up, so that every slack that can be positive can be one.
        """
        count = len(self.A)
        if not count:
            return np.zeros(0, dtype=bool)
        cost = np.concatenate([np.zeros(self.dim + 1), -np.ones(count)])
        equalities = np.column_stack([self.E, -self.f, np.zeros((len(self.E), count))])
        solution = linprog(
            cost,
            A_ub=np.column_stack([self.A, -self.b, np.eye(count)]),
            b_ub=np.zeros(count),
            A_eq=equalities if len(self.E) else None,
            b_eq=np.zeros(len(self.E)) if len(self.E) else None,
            bounds=[(None, None)] * self.dim + [(1.0, None)] + [(0.0, 1.0)] * count,
            method="highs",
        )
        if solution.status != 0:
            raise RuntimeError(f"the affine hull could not be found: {solution.message}")
        return solution.x[self.dim + 1 :] < 0.5

    @property
    def affine_hull(self) -> tuple[FloatArray, FloatArray | None]:
        point, basis = self._hull
        return point, (basis if basis.shape[1] < self.dim else None)

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        center, radius = self._ball
        return center.copy(), radius

    @cached_property
    def _ball(self) -> tuple[FloatArray, float]:
        return chebyshev_ball(self.A, self.b, *self._hull)

    @property
    def norm_bound(self) -> float:
        return float(np.linalg.norm(np.maximum(np.abs(self._lower), np.abs(self._upper))))

    def __repr__(self) -> str:
        return f"Polyhedron(dim={self.dim}, inequalities={len(self.A)}, equalities={len(self.E)})"
