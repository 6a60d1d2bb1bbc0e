"""The Birkhoff polytope: doubly stochastic matrices, the mixtures of permutations.

The linear minimiser is the assignment problem (``scipy.optimize.linear_sum_assignment``, the fastest public
function). The local linear minimiser moves weight between permutations (Birkhoff's decomposition); any point within r
of x needs at most ``n / 2 * r`` of it, so ``rho = n / 2 * sqrt(2 n)``: docs/algorithms/local-linear-oracle.md.

Points are n x n matrices; flat vectors of length n^2 are accepted everywhere and returned flat.
"""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
from scipy.optimize import linear_sum_assignment

from reticent.checks import FloatArray, integer
from reticent.sets.base import VERTEX_LIMIT, ConvexSet, within_limit
from reticent.sets.hull import zero_sum_basis


class Birkhoff(ConvexSet):
    """``{x of shape (n, n) : x >= 0, every row and column sums to one}``.

    Parameters
    ----------
    n : int
        Number of rows and columns.

    Examples
    --------
    >>> from reticent import sets
    >>> sets.Birkhoff(2).linear_minimizer([[1.0, 0.0], [0.0, 1.0]])
    array([[0., 1.],
           [1., 0.]])
    """

    def __init__(self, n: int) -> None:
        self.n = integer(n, "n", low=1)
        self.dim = self.n * self.n
        self.diameter = math.sqrt(2.0 * self.n) if self.n > 1 else 0.0
        self.mass_per_radius = 0.5 * self.n

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n, self.n)

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        rows, columns = linear_sum_assignment(g.reshape(self.n, self.n))
        vertex = np.zeros((self.n, self.n))
        vertex[rows, columns] = 1.0
        return vertex.reshape(-1)

    def decompose(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Write a point as a mixture of permutations, by Birkhoff's algorithm.

        Each permutation reduces its smallest entry to zero.

        Parameters
        ----------
        x : array of shape (n, n) or (n * n,)
            A doubly stochastic matrix.

        Returns
        -------
        weights : array
            Positive weights with sum 1, one for each permutation.
        vertices : array of shape (len(weights), n * n)
            The permutation matrices, flat, one per row.
        """
        flat, _ = self._enter(x, "x")
        if not self.contains(flat, 1e-7):
            raise ValueError("x must be doubly stochastic to be a mixture of permutations")
        rest = np.maximum(flat, 0.0).reshape(self.n, self.n).copy()
        rows = np.arange(self.n)
        weights, permutations_used = [], []
        left = 1.0
        while left > 1e-12:
            # A forbidden entry costs more than all allowed ones together can gain.
            cost = np.where(rest > 1e-14, -rest, 2.0 * self.n)
            columns = linear_sum_assignment(cost)[1]
            amount = float(rest[rows, columns].min())
            if amount <= 1e-14:
                break
            rest[rows, columns] -= amount
            left -= amount
            weights.append(amount)
            permutations_used.append(columns)
        vertices = np.zeros((len(weights), self.n, self.n))
        vertices[np.arange(len(weights))[:, None], rows, np.array(permutations_used)] = 1.0
        return np.array(weights) / sum(weights), vertices.reshape(len(weights), self.dim)

    def _contains(self, x: FloatArray, slack: float) -> bool:
        matrix = x.reshape(self.n, self.n)
        sums = np.concatenate([matrix.sum(axis=0), matrix.sum(axis=1)])
        return bool(x.min() >= -slack and np.abs(sums - 1.0).max() <= slack * math.sqrt(self.n))

    def vertices(self, limit: int = VERTEX_LIMIT) -> FloatArray:
        within_limit(math.factorial(self.n) if self.n < 20 else math.inf, limit, repr(self))
        return np.eye(self.n)[np.array(list(permutations(range(self.n))))]

    @property
    def affine_hull(self) -> tuple[FloatArray, FloatArray]:
        side = zero_sum_basis(self.n)
        basis = np.asarray(np.kron(side, side), dtype=np.float64)
        return np.full(self.dim, 1.0 / self.n), basis

    @property
    def is_flat(self) -> bool:
        return True

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        center = np.full((self.n, self.n), 1.0 / self.n)
        return center, (1.0 / (self.n - 1) if self.n > 1 else 0.0)

    @property
    def norm_bound(self) -> float:
        return math.sqrt(self.n)

    def __repr__(self) -> str:
        return f"Birkhoff(n={self.n})"
