"""One example of every set, and its description for an independent solver."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from reticent import sets

FLOW_EDGES = [
    ("s", "a"), ("s", "b"), ("a", "b"), ("a", "t"), ("b", "t"), ("s", "t"), ("b", "dead end"),
    ("a", "t"), ("nowhere", "t"),
]  # fmt: skip
TREE_EDGES = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3), (3, 4)]


def cut(mask: np.ndarray) -> float:
    """A directed cut on a path with a chord: submodular, not monotone, integer."""
    arcs = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 1)]
    return float(sum(mask[a] and not mask[b] for a, b in arcs))


def build() -> dict[str, sets.ConvexSet]:
    rng = np.random.default_rng(5)
    form = rng.standard_normal((4, 4))
    corners = rng.standard_normal((9, 3))
    return {
        "L2Ball": sets.L2Ball(4, 1.5),
        "L1Ball": sets.L1Ball(5, 2.0),
        "Box": sets.Box([0.0, -1.0, 2.0, 0.5], [1.0, 3.0, 2.0, 1.0]),
        "LinfBall": sets.LinfBall(3, 0.7),
        "Simplex": sets.Simplex(5, 2.0),
        "HyperSimplex": sets.HyperSimplex(6, 2),
        "PartitionMatroid": sets.PartitionMatroid([[0, 3, 4], [1, 2], [5]], [2, 1, 1]),
        "KSparseBall": sets.KSparseBall(5, 2, 0.8),
        "Ellipsoid": sets.Ellipsoid(form @ form.T + 0.1 * np.eye(4), rng.standard_normal(4)),
        "NuclearBall": sets.NuclearBall((3, 4), 1.5),
        "Spectrahedron": sets.Spectrahedron(3, 2.0),
        "Birkhoff": sets.Birkhoff(3),
        "FlowPolytope": sets.FlowPolytope(FLOW_EDGES, "s", "t"),
        "SpanningTreePolytope": sets.SpanningTreePolytope(TREE_EDGES),
        "BasePolytope": sets.BasePolytope(cut, 4, granularity=1),
        "Polytope": sets.Polytope(corners),
        "flat Polytope": sets.Polytope(np.column_stack([corners, corners.sum(axis=1)])),
        "Polyhedron": sets.Polyhedron(
            [[1.0, 1.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]],
            [1.0, 0.0, 0.0, 0.0],
        ),
        "flat Polyhedron": sets.Polyhedron(
            np.vstack([np.eye(4), -np.eye(4)]), np.ones(8), [[1.0, 1.0, 1.0, 1.0]], [0.5]
        ),
        "Product": sets.Product([sets.Simplex(3), sets.L2Ball(2), sets.Birkhoff(2)]),
        "long Product": sets.Product([sets.Simplex(2 + i % 2) for i in range(8)]),
    }


EXAMPLES = build()


def constraints(convex: sets.ConvexSet, x: Any) -> list[Any]:
    """The set as constraints on a flat cvxpy expression, from its definition."""
    if isinstance(convex, sets.L2Ball):
        return [cp.norm(x) <= convex.radius]
    if isinstance(convex, sets.L1Ball):
        return [cp.norm1(x) <= convex.radius]
    if isinstance(convex, sets.Box):
        return [x >= convex.lower, x <= convex.upper]
    if isinstance(convex, sets.Simplex):
        return [x >= 0, cp.sum(x) == convex.mass]
    if isinstance(convex, sets.HyperSimplex):
        return [x >= 0, x <= 1, cp.sum(x) == convex.k]
    if isinstance(convex, sets.PartitionMatroid):
        quotas = zip(convex.groups, convex.ranks, strict=True)
        return [x >= 0, x <= 1] + [cp.sum(x[group]) == k for group, k in quotas]
    if isinstance(convex, sets.KSparseBall):
        return [cp.norm1(x) <= convex.k * convex.tau, cp.norm_inf(x) <= convex.tau]
    if isinstance(convex, sets.Ellipsoid):
        root = np.linalg.cholesky(convex.matrix).T
        return [cp.norm(root @ (x - convex.center)) <= 1]
    if isinstance(convex, sets.NuclearBall):
        return [cp.normNuc(cp.reshape(x, convex.shape, order="C")) <= convex.radius]
    if isinstance(convex, sets.Spectrahedron):
        matrix = cp.Variable(convex.shape, PSD=True)
        return [cp.reshape(x, convex.shape, order="C") == matrix, cp.trace(matrix) == convex.trace]
    if isinstance(convex, sets.Birkhoff):
        square = cp.reshape(x, convex.shape, order="C")
        return [x >= 0, cp.sum(square, axis=0) == 1, cp.sum(square, axis=1) == 1]
    if isinstance(convex, sets.FlowPolytope):
        nodes = sorted({name for edge in FLOW_EDGES for name in edge})
        balance = np.zeros((len(nodes), len(FLOW_EDGES)))
        for i, (tail, head) in enumerate(FLOW_EDGES):
            balance[nodes.index(tail), i] += 1
            balance[nodes.index(head), i] -= 1
        wanted = np.array([(name == "s") - (name == "t") for name in nodes], dtype=float)
        return [x >= 0, balance @ x == wanted]
    if isinstance(convex, sets.SpanningTreePolytope):
        rows = [x >= 0, cp.sum(x) == 5]
        for size in range(2, 6):
            for chosen in combinations(range(6), size):
                inside = [i for i, (a, b) in enumerate(TREE_EDGES) if a in chosen and b in chosen]
                if inside:
                    rows.append(cp.sum(x[inside]) <= size - 1)
        return rows
    if isinstance(convex, sets.BasePolytope):
        rows = [cp.sum(x) == convex.function(np.ones(convex.dim, dtype=bool))]
        for size in range(1, convex.dim):
            for chosen in combinations(range(convex.dim), size):
                mask = np.isin(np.arange(convex.dim), chosen)
                rows.append(cp.sum(x[list(chosen)]) <= convex.function(mask))
        return rows
    if isinstance(convex, sets.Polytope):
        points = convex.vertices()
        weights = cp.Variable(len(points), nonneg=True)
        return [cp.sum(weights) == 1, points.T @ weights == x]
    if isinstance(convex, sets.Polyhedron):
        rows = [convex.A @ x <= convex.b]
        return rows + ([convex.E @ x == convex.f] if len(convex.E) else [])
    if isinstance(convex, sets.Product):
        rows, start = [], 0
        for block in convex.sets:
            rows += constraints(block, x[start : start + block.dim])
            start += block.dim
        return rows
    raise AssertionError(f"no description of {convex!r}")


@pytest.fixture(params=list(EXAMPLES), scope="session")
def example(request: pytest.FixtureRequest) -> sets.ConvexSet:
    return EXAMPLES[request.param]


@pytest.fixture(scope="session")
def describe() -> Callable[[sets.ConvexSet, Any], list[Any]]:
    return constraints
