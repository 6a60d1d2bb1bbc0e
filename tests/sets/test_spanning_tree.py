"""Spanning trees: against another library, Kirchhoff's count, blocks, bad graphs."""

from __future__ import annotations

import numpy as np
import pytest

from reticent import sets


def random_graph(rng, nodes: int, extra: int) -> list[tuple[int, int]]:
    edges = [(int(rng.integers(0, i)), i) for i in range(1, nodes)]
    edges += [tuple(rng.choice(nodes, 2, replace=False).tolist()) for _ in range(extra)]
    return edges


def test_lightest_trees_match_rustworkx():
    rx = pytest.importorskip("rustworkx")
    rng = np.random.default_rng(0)
    # Dense graphs take the short cut through the lightest edges; stars of ties do not find a tree there.
    for nodes, extra in ((30, 20), (30, 600), (5, 300), (60, 3000)):
        for decimals in (0, 1, 9):
            edges = random_graph(rng, nodes, extra)
            g = np.round(rng.standard_normal(len(edges)), decimals)
            graph = rx.PyGraph()
            graph.add_nodes_from(range(nodes))
            graph.add_edges_from([(u, v, w) for (u, v), w in zip(edges, g.tolist(), strict=True)])
            weight = sum(w for _, _, w in rx.minimum_spanning_edges(graph, weight_fn=float))
            tree = sets.SpanningTreePolytope(edges).linear_minimizer(g)
            assert g @ tree == pytest.approx(weight, abs=1e-9)
            assert tree.sum() == nodes - 1


def test_the_short_cut_falls_back_when_light_edges_hold_no_tree():
    # Node 0 hangs on the heaviest edge only; hundreds of light edges join the others.
    rng = np.random.default_rng(1)
    edges = [(0, 1)] + [tuple(rng.choice(np.arange(1, 6), 2, replace=False)) for _ in range(300)]
    edges += [(i, i + 1) for i in range(1, 5)]
    g = rng.random(len(edges))
    g[0] = 100.0
    tree = sets.SpanningTreePolytope(edges).linear_minimizer(g)
    assert tree[0] == 1.0
    assert tree.sum() == 5.0


def test_vertices_are_all_the_trees():
    complete = sets.SpanningTreePolytope([(i, j) for j in range(5) for i in range(j)])
    assert len(complete.vertices()) == 5**3  # Cayley
    assert complete.diameter == pytest.approx(np.sqrt(8))  # two disjoint trees
    with pytest.raises(sets.VerticesUnavailable, match="125"):
        complete.vertices(limit=100)


def test_blocks_fix_bridges_and_split_the_hull():
    edges = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3), (3, 4)]
    trees = sets.SpanningTreePolytope(edges)
    origin, basis = trees.affine_hull
    assert basis.shape[1] == 2 + 0 + 3
    assert np.allclose(basis[3], 0.0)
    assert origin[3] == 1.0
    assert trees.contains(trees.center)
    assert not trees.contains(np.where(np.arange(8) == 3, 0.9, trees.center + 0.1 / 7))


def test_larger_graphs_have_a_center_and_decompose():
    rng = np.random.default_rng(2)
    trees = sets.SpanningTreePolytope(random_graph(rng, 14, 16))
    center, radius = trees.inner_ball
    assert radius > 0.0
    assert trees.contains(center)
    weights, vertices = trees.decompose(center)
    assert np.allclose(weights @ vertices, center, atol=1e-9)
    assert len(weights) <= trees.dim + 1


def test_bad_graphs_are_refused():
    with pytest.raises(ValueError, match="connected"):
        sets.SpanningTreePolytope([(0, 1), (2, 3)])
    with pytest.raises(ValueError, match="connected"):
        sets.SpanningTreePolytope([(0, 1)], nodes=3)
    with pytest.raises(ValueError, match="loop"):
        sets.SpanningTreePolytope([(0, 1), (1, 1)])
    with pytest.raises(ValueError, match="not among nodes"):
        sets.SpanningTreePolytope([(0, 1)], nodes=[0, 2])
    with pytest.raises(ValueError, match="3 different nodes"):
        sets.SpanningTreePolytope([(0, 1), (1, 2)], nodes=2)
    with pytest.raises(ValueError, match="at least one pair"):
        sets.SpanningTreePolytope([])
    assert sets.SpanningTreePolytope([("a", "b"), ("b", "c")], nodes=["a", "b", "c"]).rank == 2


def test_the_ball_of_exchanges_is_the_ball_inscribed_in_its_simplex():
    from reticent.sets.hull import _inscribed
    from reticent.sets.spanning_tree import _swap_links

    rng = np.random.default_rng(3)
    for _ in range(10):
        trees = sets.SpanningTreePolytope(random_graph(rng, 7, 8))
        tree = trees.linear_minimizer(np.zeros(trees.dim))
        swaps, _, _ = _swap_links(trees._tails, trees._heads, 7, tree, trees._blocks)
        points = np.tile(tree, (len(swaps) + 1, 1))
        points[np.arange(1, len(points)), swaps[:, 0]] += 1.0
        points[np.arange(1, len(points)), swaps[:, 1]] -= 1.0
        listed = trees.vertices()
        assert all((np.abs(listed - point).max(axis=1) == 0).any() for point in points)
        center, radius = trees._ball_of_exchanges()
        expected_center, expected = _inscribed(points, trees.affine_hull[1])
        assert radius == pytest.approx(expected)
        assert np.allclose(center, expected_center)
        assert radius <= trees.inner_ball[1] + 1e-9


def test_five_hundred_nodes_have_a_center_at_once():
    rng = np.random.default_rng(4)
    trees = sets.SpanningTreePolytope(random_graph(rng, 500, 4500))
    center, radius = trees.inner_ball
    assert radius > 1e-5
    u = rng.standard_normal(trees.dim)
    _, basis = trees.affine_hull
    u = basis @ (basis.T @ u)
    assert u @ (center - trees.linear_minimizer(u)) >= radius * np.linalg.norm(u)
