"""Bases of a partition matroid: fractional choices of a fixed number of items from every group.

This is a product of hypersimplices over groups of coordinates that need not be adjacent, such as recommendations with
a quota per category. Groups are independent, so every operation works group by group.

Every group meets its quota exactly, so each group with 0 < quota < size reduces the dimension of the affine hull by
one, and a group whose quota is 0 or its size is fixed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product

import numpy as np

from reticent.checks import FloatArray, integer
from reticent.sets.base import VERTEX_LIMIT, ConvexSet, within_limit
from reticent.sets.hull import zero_sum_basis
from reticent.sets.hypersimplex import capped_inner_radius, project_capped


class PartitionMatroid(ConvexSet):
    """``{x : 0 <= x <= 1, sum of x over groups[i] = ranks[i]}``.

    Parameters
    ----------
    groups : sequence of sequences of int
        Lists of coordinates; every coordinate 0, ..., dim - 1 is in exactly one.
    ranks : sequence of int
        Number of items to take from each group.

    Examples
    --------
    >>> from reticent import sets
    >>> sets.PartitionMatroid([[0, 1, 2], [3, 4]], [2, 1]).linear_minimizer([3, 1, 2, 5, 4])
    array([0., 1., 1., 0., 1.])
    """

    def __init__(self, groups: Sequence[Sequence[int]], ranks: Sequence[int]) -> None:
        if len(groups) != len(ranks) or not len(groups):
            raise ValueError(
                f"ranks must give one number per group: got {len(groups)} groups and {len(ranks)}"
            )
        self.groups = [
            np.array([integer(i, "a coordinate in groups", low=0) for i in group], dtype=np.int64)
            for group in groups
        ]
        self.dim = sum(group.size for group in self.groups)
        everything = np.concatenate(self.groups)
        if not np.array_equal(np.sort(everything), np.arange(self.dim)):
            raise ValueError(
                f"groups must hold every coordinate 0..{self.dim - 1} exactly once, got "
                f"{everything.tolist()[:20]}"
            )
        self.ranks = [
            integer(rank, f"ranks[{i}]", low=0, high=group.size)
            for i, (rank, group) in enumerate(zip(ranks, self.groups, strict=True))
        ]
        if any(group.size == 0 for group in self.groups):
            raise ValueError("every group must contain at least one coordinate; drop empty groups")
        self.diameter = math.sqrt(2.0 * sum(min(k, s.size - k) for s, k in self._parts()))

    def _parts(self) -> list[tuple[np.ndarray, int]]:
        return list(zip(self.groups, self.ranks, strict=True))

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        vertex = np.zeros(self.dim)
        for group, k in self._parts():
            if k == group.size:
                vertex[group] = 1.0
            elif k > 0:
                vertex[group[np.argpartition(g[group], k - 1)[:k]]] = 1.0
        return vertex

    def _project(self, x: FloatArray) -> FloatArray:
        out = np.zeros(self.dim)
        for group, k in self._parts():
            if k > 0:
                out[group] = project_capped(x[group], k)
        return out

    def _contains(self, x: FloatArray, slack: float) -> bool:
        if x.min() < -slack or x.max() > 1.0 + slack:
            return False
        return all(
            abs(x[group].sum() - k) <= slack * math.sqrt(group.size) for group, k in self._parts()
        )

    def vertices(self, limit: int = VERTEX_LIMIT) -> FloatArray:
        within_limit(
            math.prod(math.comb(group.size, k) for group, k in self._parts()), limit, repr(self)
        )
        choices = [list(combinations(group.tolist(), k)) for group, k in self._parts()]
        rows = []
        for choice in product(*choices):
            row = np.zeros(self.dim)
            row[[i for part in choice for i in part]] = 1.0
            rows.append(row)
        return np.array(rows)

    @property
    def affine_hull(self) -> tuple[FloatArray, FloatArray]:
        columns = []
        for group, k in self._parts():
            if 0 < k < group.size:
                block = np.zeros((self.dim, group.size - 1))
                block[group] = zero_sum_basis(group.size)
                columns.append(block)
        basis = np.concatenate(columns, axis=1) if columns else np.zeros((self.dim, 0))
        return self.inner_ball[0], basis

    @property
    def is_flat(self) -> bool:
        return True

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        center = np.zeros(self.dim)
        radii = []
        for group, k in self._parts():
            center[group] = k / group.size
            if 0 < k < group.size:
                radii.append(capped_inner_radius(group.size, k))
        return center, min(radii, default=0.0)

    @property
    def norm_bound(self) -> float:
        return math.sqrt(sum(self.ranks))

    def __repr__(self) -> str:
        return (
            f"PartitionMatroid(groups={len(self.groups)}, dim={self.dim}, rank={sum(self.ranks)})"
        )
