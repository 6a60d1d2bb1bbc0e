"""The spanning-tree polytope of a connected graph: the mixtures of its spanning trees.

The linear minimiser is Kruskal's algorithm on a sorted edge list with a compiled union-find. Considered: rustworkx
(the fastest public function) and csgraph (which reads a weight of zero as a missing edge); both are slower, and the
graph must be rebuilt for new weights. The local linear minimiser moves weight between trees; its constant comes from
chains of tight sets, as for every matroid: docs/algorithms/local-linear-oracle.md.

An edge that is a bridge is in every tree, so each biconnected block of the graph reduces the dimension of the affine
hull by one, and a bridge is fixed at one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from reticent.checks import FloatArray, integer
from reticent.compiling import compiled
from reticent.sets.base import VERTEX_LIMIT, ConvexSet, frozen, within_limit
from reticent.sets.flow import number_nodes
from reticent.sets.hull import chebyshev_ball, zero_sum_basis

EXACT_BALL_NODES = 10


class SpanningTreePolytope(ConvexSet):
    """Mixtures of the spanning trees of a connected graph, with one coordinate per edge.

    Parameters
    ----------
    edges : sequence of (hashable, hashable)
        Pairs of node names; parallel edges are allowed, loops are not.
    nodes : int or sequence of hashable, optional
        The node names, or their number; by default the nodes that the edges mention.

    Examples
    --------
    >>> from reticent import sets
    >>> triangle = sets.SpanningTreePolytope([(0, 1), (1, 2), (2, 0)])
    >>> triangle.linear_minimizer([1.0, 3.0, -1.0])
    array([1., 0., 1.])
    """

    def __init__(
        self,
        edges: Sequence[tuple[Hashable, Hashable]],
        nodes: int | Sequence[Hashable] | None = None,
    ) -> None:
        tails, heads, names = number_nodes(edges)
        self._nodes = _count_nodes(nodes, names)
        if (tails == heads).any():
            i = int(np.argmax(tails == heads))
            raise ValueError(f"edges[{i}] is a loop, which is in no tree; drop it")
        self.dim = tails.size
        self._tails, self._heads = tails, heads
        self.rank = self._nodes - 1
        if self._grow(np.arange(self.dim), np.zeros(self.dim)) < self.rank:
            raise ValueError(
                f"the graph must be connected to have a spanning tree; its {self.dim} edges leave "
                f"its {self._nodes} nodes in several parts"
            )
        self._blocks = _blocks(tails, heads, self._nodes)
        ranks = [np.union1d(tails[b], heads[b]).size - 1 for b in self._blocks]
        spare = sum(min(r, b.size - r) for b, r in zip(self._blocks, ranks, strict=True))
        self.diameter = math.sqrt(2.0 * spare)
        masses = [matroid_mass(b.size, r) for b, r in zip(self._blocks, ranks, strict=True)]
        self.mass_per_radius = math.hypot(*masses)

    def _grow(self, order: np.ndarray, tree: FloatArray) -> int:
        return _kruskal(order, self._tails, self._heads, self._nodes, tree)

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        few = 4 * self._nodes
        if self.dim > 2 * few:
            # The lightest edges nearly always contain a tree: sort only those, and the rest if necessary.
            tree = np.zeros(self.dim)
            light = np.argpartition(g, few)[:few]
            if self._grow(light[np.argsort(g[light], kind="stable")], tree) == self.rank:
                return tree
        tree = np.zeros(self.dim)
        self._grow(np.argsort(g, kind="stable"), tree)
        return tree

    def _contains(self, x: FloatArray, slack: float) -> bool:
        if x.min() < -slack or abs(x.sum() - self.rank) > slack * math.sqrt(self.dim):
            return False
        return super()._contains(x, slack)

    def vertices(self, limit: int = VERTEX_LIMIT) -> FloatArray:
        laplacian = np.zeros((self._nodes, self._nodes))
        np.add.at(laplacian, (self._tails, self._tails), 1.0)
        np.add.at(laplacian, (self._heads, self._heads), 1.0)
        np.add.at(laplacian, (self._tails, self._heads), -1.0)
        np.add.at(laplacian, (self._heads, self._tails), -1.0)
        count = round(float(np.linalg.det(laplacian[1:, 1:])))  # Kirchhoff's theorem
        within_limit(count, limit, repr(self))
        within_limit(
            math.comb(self.dim, self.rank), 20 * limit, f"the search for trees in {self!r}"
        )
        trees = []
        for chosen in combinations(range(self.dim), self.rank):
            row = np.zeros(self.dim)
            if self._grow(np.array(chosen, dtype=np.int64), row) == self.rank:
                trees.append(row)
        return np.array(trees)

    @property
    def is_flat(self) -> bool:
        return True

    @property
    def affine_hull(self) -> tuple[FloatArray, FloatArray]:
        return self._hull

    @cached_property
    def _hull(self) -> tuple[FloatArray, FloatArray]:
        """Within every block the sum is fixed, and nothing else is (blocks are the matroid's components)."""
        columns = []
        for block in self._blocks:
            columns.append(np.zeros((self.dim, block.size - 1)))
            columns[-1][block] = zero_sum_basis(block.size)
        tree = self._linear_minimizer(np.zeros(self.dim))
        return frozen(tree), frozen(np.concatenate(columns, axis=1))

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        center, radius = self._ball
        return center.copy(), radius

    @cached_property
    def _ball(self) -> tuple[FloatArray, float]:
        if self._nodes > EXACT_BALL_NODES:
            return self._ball_of_exchanges()
        # The complete description: x(edges inside S) <= |S| - 1 for all node sets S, and x >= 0.
        rows, bounds = [-np.eye(self.dim)], [np.zeros(self.dim)]
        for mask in range(1, 2**self._nodes):
            inside = np.array([mask >> i & 1 for i in range(self._nodes)], dtype=bool)
            rows.append((inside[self._tails] & inside[self._heads]).astype(float)[None])
            bounds.append(np.array([inside.sum() - 1.0]))
        matrix, limits = np.concatenate(rows), np.concatenate(bounds)
        used = matrix.any(axis=1)
        return chebyshev_ball(matrix[used], limits[used], *self._hull)

    def _ball_of_exchanges(self) -> tuple[FloatArray, float]:
        """The ball inscribed in a simplex of trees: one tree, and its neighbours by single swaps.

        Swaps (e in, f out) that link the elements of a block like the edges of a tree make the neighbours affinely
        independent. The barycentric coordinate of a swap is then the sum of x over the elements on e's side of its
        link, so its gradient within the hull is known without inverting a matrix, for graphs of any size.
        """
        tree = self._linear_minimizer(np.zeros(self.dim))
        swaps, sides, heights = _swap_links(
            self._tails, self._heads, self._nodes, tree, self._blocks
        )
        # Gradient norms: sqrt(|A| |B - A| / |B|) for a side A of block B, and the tree's own.
        own = math.sqrt(sum(float(np.var(heights[b]) * b.size) for b in self._blocks))
        total = own + float(sides.sum())
        center = tree.copy()
        np.add.at(center, swaps[:, 0], sides / max(total, 1e-300))
        np.add.at(center, swaps[:, 1], -sides / max(total, 1e-300))
        return center, (1.0 / total if total > 0.0 else 0.0)

    @property
    def norm_bound(self) -> float:
        return math.sqrt(self.rank)

    def __repr__(self) -> str:
        return f"SpanningTreePolytope(nodes={self._nodes}, edges={self.dim})"


def matroid_mass(dim: int, rank: int) -> float:
    """The ``mass_per_radius`` of the bases of a matroid of this rank on dim elements."""
    chains = math.sqrt(dim * (dim * dim - 1) / 12.0)
    return min(chains, 0.5 * min(rank, dim - rank) * math.sqrt(dim))


def _count_nodes(nodes: Any, names: dict[Hashable, int]) -> int:
    if nodes is None:
        return len(names)
    if isinstance(nodes, int | np.integer):
        count = integer(nodes, "nodes", low=2)
    else:
        listed = set(nodes)
        unknown = [name for name in names if name not in listed]
        if unknown:
            raise ValueError(f"edges mention {unknown[0]!r}, which is not among nodes")
        count = len(listed)
    if count < len(names):
        raise ValueError(f"nodes is {count}, but edges mention {len(names)} different nodes")
    return count


@compiled
def _kruskal(
    order: np.ndarray, tails: np.ndarray, heads: np.ndarray, nodes: int, tree: FloatArray
) -> int:
    parent = np.arange(nodes)
    taken = 0
    for edge in order:
        a = tails[edge]
        b = heads[edge]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if a != b:
            parent[a] = b
            tree[edge] = 1.0
            taken += 1
            if taken == nodes - 1:
                break
    return taken


def _blocks(tails: np.ndarray, heads: np.ndarray, nodes: int) -> list[np.ndarray]:
    """Edges grouped into biconnected blocks (Hopcroft and Tarjan), without recursion."""
    around: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
    for edge, (a, b) in enumerate(zip(tails.tolist(), heads.tolist(), strict=True)):
        around[a].append((b, edge))
        around[b].append((a, edge))
    depth = [-1] * nodes
    low = [0] * nodes
    blocks: list[np.ndarray] = []
    open_edges: list[int] = []
    depth[0] = 0
    stack: list[tuple[int, int, Any]] = [(0, -1, iter(around[0]))]
    while stack:
        node, by, neighbours = stack[-1]
        for other, edge in neighbours:
            if edge == by:
                continue
            if depth[other] < 0:
                depth[other] = low[other] = depth[node] + 1
                open_edges.append(edge)
                stack.append((other, edge, iter(around[other])))
                break
            if depth[other] < depth[node]:
                open_edges.append(edge)
                low[node] = min(low[node], depth[other])
        else:
            stack.pop()
            if stack:
                above = stack[-1][0]
                low[above] = min(low[above], low[node])
                if low[node] >= depth[above]:
                    cut = open_edges.index(by)
                    blocks.append(np.array(sorted(open_edges[cut:]), dtype=np.int64))
                    del open_edges[cut:]
    return blocks


def _swap_links(
    tails: np.ndarray, heads: np.ndarray, nodes: int, tree: FloatArray, blocks: list[np.ndarray]
) -> tuple[np.ndarray, FloatArray, FloatArray]:
    """Swaps (e in, f out) that link each block's elements, their gradient norms, and heights.

    The height of an element is the number of swaps on whose entering side it lies, up to a constant per block.
    """
    partners: list[list[int]] = [[] for _ in range(tails.size)]
    for entering, cycle in _fundamental_paths(tails, heads, nodes, tree):
        for leaving in cycle:
            partners[entering].append(leaving)
            partners[leaving].append(entering)
    swaps: list[tuple[int, int]] = []
    norms: list[float] = []
    heights = np.zeros(tails.size)
    for block in blocks:
        root = max(block.tolist(), key=lambda element: len(partners[element]))
        parent = {root: root}
        order = [root]
        for element in order:  # grows during the loop: breadth first, so that most sides are small
            for other in partners[element]:
                if other not in parent:
                    parent[other] = element
                    order.append(other)
                    heights[other] = heights[element] + (-1.0 if tree[other] else 1.0)
        below = dict.fromkeys(order, 1)
        for element in order[:0:-1]:
            below[parent[element]] += below[element]
            pair = (parent[element], element) if tree[element] else (element, parent[element])
            swaps.append(pair)
            side = below[element]
            norms.append(math.sqrt(side * (block.size - side) / block.size))
    return np.array(swaps, dtype=np.int64).reshape(-1, 2), np.array(norms), heights


def _fundamental_paths(
    tails: np.ndarray, heads: np.ndarray, nodes: int, tree: FloatArray
) -> list[tuple[int, list[int]]]:
    """For every edge outside the tree, the path in the tree between its ends."""
    around: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
    for edge in np.flatnonzero(tree).tolist():
        around[tails[edge]].append((int(heads[edge]), edge))
        around[heads[edge]].append((int(tails[edge]), edge))
    depth = {0: 0}
    above: dict[int, tuple[int, int]] = {}
    order = [0]
    for node in order:
        for other, edge in around[node]:
            if other not in depth:
                depth[other] = depth[node] + 1
                above[other] = (node, edge)
                order.append(other)
    paths = []
    for edge in np.flatnonzero(tree == 0.0).tolist():
        a, b = int(tails[edge]), int(heads[edge])
        path = []
        while a != b:
            if depth[a] < depth[b]:
                a, b = b, a
            a, step = above[a]
            path.append(step)
        paths.append((edge, path))
    return paths
