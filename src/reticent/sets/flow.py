"""Unit flows from a source to a target on a directed acyclic graph: the mixtures of its paths.

The linear minimiser is a shortest path with weights of any sign: one compiled sweep over the edges in topological
order. Considered: rustworkx's Bellman-Ford, the fastest public function, which takes more than ten times as long;
csgraph, which reads a weight of zero as a missing edge. The local linear minimiser moves weight between paths of a
decomposition of x; any point within r of x needs at most ``sqrt(k) r`` of it, where k is the dimension of the flows:
docs/algorithms/local-linear-oracle.md.

A point has one entry per edge, in the order in which the edges were given. Edges on no path from source to target are
allowed and carry no flow.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import cached_property

import numpy as np

from reticent.checks import FloatArray
from reticent.compiling import compiled
from reticent.sets.base import VERTEX_LIMIT, ConvexSet, frozen, within_limit
from reticent.sets.decomposition import heaviest_first
from reticent.sets.hull import chebyshev_ball

DENSE_HULL = 400


class FlowPolytope(ConvexSet):
    """Flows of one unit from ``source`` to ``target``.

    Parameters
    ----------
    edges : sequence of (hashable, hashable)
        Pairs ``(tail, head)`` of node names; parallel edges are allowed, cycles are not.
    source : hashable
        The node at which paths begin.
    target : hashable
        The node at which they end.

    Examples
    --------
    >>> from reticent import sets
    >>> flows = sets.FlowPolytope([("s", "a"), ("s", "b"), ("a", "t"), ("b", "t")], "s", "t")
    >>> flows.linear_minimizer([1.0, -2.0, 1.0, 0.5])
    array([0., 1., 0., 1.])
    """

    def __init__(
        self, edges: Sequence[tuple[Hashable, Hashable]], source: Hashable, target: Hashable
    ) -> None:
        tails, heads, names = number_nodes(edges)
        for role, node in (("source", source), ("target", target)):
            if node not in names:
                raise ValueError(f"{role} {node!r} is on no edge; nodes are {list(names)[:10]}")
        if source == target:
            raise ValueError(f"source and target must differ, both are {source!r}")
        self.dim = tails.size
        self.source, self.target = source, target
        self._source, self._target = names[source], names[target]
        place = _topological_places(tails, heads, len(names), list(names))
        order = np.argsort(place[tails], kind="stable")
        live = _on_a_path(tails, heads, order, len(names), self._source, self._target)
        if not live.any():
            raise ValueError(f"no path leads from {source!r} to {target!r}: the set is empty")
        self._tails, self._heads = tails, heads
        self._live = live
        self._order = order[live[order]]
        self._nodes = len(names)
        nodes_used = np.union1d(tails[live], heads[live]).size
        self._free = int(live.sum()) - nodes_used + 1
        self._mass = math.sqrt(self._free) if self._free else 1.0
        self.mass_per_radius = self._mass

    # ---------------------------------------------------------------- oracles

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        path = np.zeros(self.dim)
        _shortest_path(
            self._order, self._tails, self._heads, self._nodes, self._source, self._target, g, path
        )
        return path

    def _paths(self, x: FloatArray) -> tuple[FloatArray, np.ndarray, np.ndarray]:
        """Weights of paths whose mixture is x, the positions at which the paths start, and their edges."""
        if not self.contains(x, 1e-7):
            raise ValueError("x must be a unit flow to be a mixture of paths")
        starts, outgoing = self._outgoing
        return _peel_paths(
            starts, outgoing, self._heads, self._nodes, self._source, self._target, x
        )

    @cached_property
    def _outgoing(self) -> tuple[np.ndarray, np.ndarray]:
        """Edges on some path, grouped by tail as in a compressed sparse row matrix."""
        live = np.flatnonzero(self._live)
        by_tail = live[np.argsort(self._tails[live], kind="stable")]
        counts = np.bincount(self._tails[live], minlength=self._nodes)
        return np.concatenate([[0], np.cumsum(counts)]), by_tail

    def decompose(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        flat, _ = self._enter(x, "x")
        weights, starts, edges = self._paths(flat)
        vertices = np.zeros((weights.size, self.dim))
        vertices[np.repeat(np.arange(weights.size), np.diff(starts)), edges] = 1.0
        return weights, vertices

    def _local_linear_minimizer(self, x: FloatArray, radius: float, g: FloatArray) -> FloatArray:
        best = self._linear_minimizer(g)
        if np.linalg.norm(best - x) <= self.rho * radius:
            return best
        weights, starts, edges = self._paths(x)
        costs = np.add.reduceat(g[edges], starts[:-1])
        removed = heaviest_first(weights, costs, min(1.0, self._mass * radius))
        kept = np.repeat(weights - removed, np.diff(starts))
        return np.bincount(edges, kept, minlength=self.dim) + removed.sum() * best

    @property
    def rho(self) -> float:
        return max(1.0, self._mass * self.diameter)

    def _contains(self, x: FloatArray, slack: float) -> bool:
        if x.min() < -slack or np.abs(x[~self._live]).max(initial=0.0) > slack:
            return False
        balance = np.bincount(self._tails, x, self._nodes) - np.bincount(
            self._heads, x, self._nodes
        )
        balance[self._source] -= 1.0
        balance[self._target] += 1.0
        return bool(np.linalg.norm(balance) <= slack * math.sqrt(self.dim))

    def vertices(self, limit: int = VERTEX_LIMIT) -> FloatArray:
        counts = np.zeros(self._nodes)
        counts[self._source] = 1.0
        for edge in self._order:
            counts[self._heads[edge]] += counts[self._tails[edge]]
        within_limit(counts[self._target], limit, repr(self))
        starts, outgoing = self._outgoing
        paths: list[FloatArray] = []
        unfinished: list[tuple[int, list[int]]] = [(self._source, [])]
        while unfinished:
            node, so_far = unfinished.pop()
            if node == self._target:
                row = np.zeros(self.dim)
                row[so_far] = 1.0
                paths.append(row)
                continue
            for edge in outgoing[starts[node] : starts[node + 1]]:
                unfinished.append((int(self._heads[edge]), [*so_far, int(edge)]))
        return np.array(paths)

    # ---------------------------------------------------------------- geometry

    @cached_property
    def diameter(self) -> float:  # type: ignore[override]
        """The exact diameter, from two units of flow that share as little as possible, found by two longest paths."""
        return math.sqrt(self._largest_difference())

    def _largest_difference(self) -> int:
        """The largest number of edges on which two paths can differ.

        A pair of paths is a flow of two units, where an edge gains 1 for its first unit and loses it for the second.
        Gains decrease, so two successive longest paths in the residual graph are optimal.
        """
        live = np.flatnonzero(self._live)
        tails, heads = self._tails[live], self._heads[live]
        first = self._linear_minimizer(np.where(self._live, -1.0, 0.0))[live] > 0.0
        gain = np.where(first, -1.0, 1.0)
        # Undoing the first unit on an edge costs the 1 it gained.
        residual_tails = np.concatenate([tails, heads[first]])
        residual_heads = np.concatenate([heads, tails[first]])
        residual_gain = np.concatenate([gain, np.full(int(first.sum()), -1.0)])
        best = np.full(self._nodes, -np.inf)
        best[self._source] = 0.0
        for _ in range(self._nodes):
            before = best.copy()
            np.maximum.at(best, residual_heads, before[residual_tails] + residual_gain)
            if np.array_equal(before, best):
                break
        return int(first.sum() + best[self._target])

    @property
    def norm_bound(self) -> float:
        return self._longest

    @cached_property
    def _longest(self) -> float:
        return math.sqrt(self._linear_minimizer(np.where(self._live, -1.0, 0.0)).sum())

    @property
    def is_flat(self) -> bool:
        return True

    @property
    def affine_hull(self) -> tuple[FloatArray, FloatArray]:
        return self._hull

    @cached_property
    def _hull(self) -> tuple[FloatArray, FloatArray]:
        """Circulations on the edges that are on some path: the null space of the incidence matrix."""
        live = np.flatnonzero(self._live)
        incidence = np.zeros((self._nodes, live.size))
        incidence[self._tails[live], np.arange(live.size)] += 1.0
        incidence[self._heads[live], np.arange(live.size)] -= 1.0
        right = np.linalg.svd(incidence, full_matrices=True)[2]
        basis = np.zeros((self.dim, self._free))
        basis[live] = right[live.size - self._free :].T
        return frozen(self._linear_minimizer(np.zeros(self.dim))), frozen(basis)

    @property
    def inner_ball(self) -> tuple[FloatArray, float]:
        center, radius = self._ball
        return center.copy(), radius

    @cached_property
    def _ball(self) -> tuple[FloatArray, float]:
        if self._free == 0:
            return self._linear_minimizer(np.zeros(self.dim)), 0.0
        if self.dim <= DENSE_HULL:
            return chebyshev_ball(-np.eye(self.dim), np.zeros(self.dim), *self._hull)
        return self._most_even_flow()

    def _most_even_flow(self) -> tuple[FloatArray, float]:
        """The flow whose smallest entry is largest; that entry is a valid radius."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_array, hstack

        live = np.flatnonzero(self._live)
        n = live.size
        signs = np.concatenate([np.ones(n), -np.ones(n)])
        ends = np.concatenate([self._tails[live], self._heads[live]])
        conserve = csr_array((signs, (ends, np.tile(np.arange(n), 2))), shape=(self._nodes, n))
        # x = t + (the rest, non-negative): the variables are the rest and t.
        balance = np.zeros(self._nodes)
        balance[self._source], balance[self._target] = 1.0, -1.0
        with_t = hstack([conserve, csr_array(conserve.sum(axis=1)[:, None])])
        cost = np.zeros(n + 1)
        cost[-1] = -1.0
        solution = linprog(cost, A_eq=with_t, b_eq=balance, method="highs")
        center = np.zeros(self.dim)
        center[live] = solution.x[:-1] + solution.x[-1]
        return center, float(center[live].min())

    def __repr__(self) -> str:
        return f"FlowPolytope(nodes={self._nodes}, edges={self.dim})"


def number_nodes(
    edges: Sequence[tuple[Hashable, Hashable]],
) -> tuple[np.ndarray, np.ndarray, dict[Hashable, int]]:
    """Tails and heads as integers, and the number of each node name in order of appearance."""
    names: dict[Hashable, int] = {}
    pairs = np.empty((len(edges), 2), dtype=np.int64)
    for i, edge in enumerate(edges.tolist() if isinstance(edges, np.ndarray) else edges):
        if not isinstance(edge, tuple | list) or len(edge) != 2:
            raise ValueError(f"edges[{i}] must be a pair (tail, head), got {edge!r}")
        for j in (0, 1):
            pairs[i, j] = names.setdefault(edge[j], len(names))
    if not len(edges):
        raise ValueError("edges must contain at least one pair; without edges the set is empty")
    return pairs[:, 0].copy(), pairs[:, 1].copy(), names


def _topological_places(
    tails: np.ndarray, heads: np.ndarray, count: int, names: list[Hashable]
) -> np.ndarray:
    order = np.argsort(tails, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(tails, minlength=count))])
    waiting = np.bincount(heads, minlength=count)
    place = np.full(count, -1)
    ready = np.flatnonzero(waiting == 0).tolist()
    done = 0
    while ready:
        node = ready.pop()
        place[node] = done
        done += 1
        for edge in order[starts[node] : starts[node + 1]]:
            head = heads[edge]
            waiting[head] -= 1
            if waiting[head] == 0:
                ready.append(int(head))
    if done < count:
        raise ValueError(
            "the graph must be acyclic, but there is a cycle: "
            + " -> ".join(map(repr, _cycle(tails, heads, place, names)))
        )
    return place


def _cycle(
    tails: np.ndarray, heads: np.ndarray, place: np.ndarray, names: list[Hashable]
) -> list[Hashable]:
    """A cycle among the nodes without a place, each of which has a predecessor without one."""
    into = {
        int(head): int(tail) for tail, head in zip(tails, heads, strict=True) if place[tail] < 0
    }
    node = int(np.flatnonzero(place < 0)[0])
    seen: list[int] = []
    while node not in seen:
        seen.append(node)
        node = into[node]
    loop = [*seen[seen.index(node) :], node][::-1]
    return [names[i] for i in loop]


@compiled
def _on_a_path(
    tails: np.ndarray, heads: np.ndarray, order: np.ndarray, nodes: int, source: int, target: int
) -> np.ndarray:
    reached = np.zeros(nodes, np.bool_)
    reaches = np.zeros(nodes, np.bool_)
    reached[source] = True
    reaches[target] = True
    for edge in order:
        reached[heads[edge]] |= reached[tails[edge]]
    for edge in order[::-1]:
        reaches[tails[edge]] |= reaches[heads[edge]]
    live = np.empty(tails.size, np.bool_)
    for edge in range(tails.size):
        live[edge] = reached[tails[edge]] and reaches[heads[edge]]
    return live


@compiled
def _shortest_path(
    order: np.ndarray,
    tails: np.ndarray,
    heads: np.ndarray,
    nodes: int,
    source: int,
    target: int,
    g: FloatArray,
    path: FloatArray,
) -> None:
    cost = np.full(nodes, np.inf)
    came_by = np.full(nodes, -1)
    cost[source] = 0.0
    for edge in order:
        through = cost[tails[edge]] + g[edge]
        if through < cost[heads[edge]] or came_by[heads[edge]] < 0:
            cost[heads[edge]] = through
            came_by[heads[edge]] = edge
    node = target
    while node != source:
        path[came_by[node]] = 1.0
        node = tails[came_by[node]]


@compiled
def _peel_paths(
    starts: np.ndarray,
    outgoing: np.ndarray,
    heads: np.ndarray,
    nodes: int,
    source: int,
    target: int,
    x: FloatArray,
) -> tuple[FloatArray, np.ndarray, np.ndarray]:
    """Follow the widest edges from source to target, subtract the smallest width, and repeat."""
    rest = np.maximum(x, 0.0)
    edges = np.empty(max(64, x.size), np.int64)
    weights = np.empty(outgoing.size + 1)
    path_starts = np.zeros(outgoing.size + 2, np.int64)
    count = 0
    used = 0
    left = 1.0
    while left > 1e-13 and count <= outgoing.size:
        if used + nodes > edges.size:
            grown = np.empty(2 * edges.size + nodes, np.int64)
            grown[:used] = edges[:used]
            edges = grown
        node = source
        narrowest = np.inf
        at = used
        while node != target:
            widest = outgoing[starts[node]]
            for place in range(starts[node], starts[node + 1]):
                if rest[outgoing[place]] > rest[widest]:
                    widest = outgoing[place]
            narrowest = min(narrowest, rest[widest])
            edges[at] = widest
            at += 1
            node = heads[widest]
        if narrowest <= 0.0:
            break
        for place in range(used, at):
            rest[edges[place]] -= narrowest
        left -= narrowest
        weights[count] = narrowest
        used = at
        count += 1
        path_starts[count] = used
    total = weights[:count].sum()
    return weights[:count] / total, path_starts[: count + 1], edges[:used]
