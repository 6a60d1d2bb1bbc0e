"""Unit flows: paths by another library, decompositions, diameters by brute force, bad graphs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from reticent import sets


def random_dag(rng, nodes: int, extra: int) -> list[tuple[int, int]]:
    edges = [(i, i + 1) for i in range(nodes - 1)]
    for _ in range(extra):
        a, b = sorted(rng.choice(nodes, 2, replace=False).tolist())
        edges.append((a, b))
    return [edges[i] for i in rng.permutation(len(edges))]


def test_shortest_paths_with_weights_of_any_sign_match_bellman_ford():
    rx = pytest.importorskip("rustworkx")
    rng = np.random.default_rng(0)
    for _ in range(20):
        nodes = int(rng.integers(5, 60))
        edges = random_dag(rng, nodes, int(rng.integers(0, 200)))
        g = np.round(rng.standard_normal(len(edges)), 1)  # zeros and ties among them
        flows = sets.FlowPolytope(edges, 0, nodes - 1)
        path = flows.linear_minimizer(g)
        graph = rx.PyDiGraph()
        graph.add_nodes_from(range(nodes))
        graph.add_edges_from([(u, v, w) for (u, v), w in zip(edges, g.tolist(), strict=True)])
        length = rx.digraph_bellman_ford_shortest_path_lengths(graph, 0, float, goal=nodes - 1)
        assert g @ path == pytest.approx(length[nodes - 1], abs=1e-9)
        assert flows.contains(path)
        assert set(np.unique(path)) <= {0.0, 1.0}


def test_the_large_graph_of_the_benchmark():
    layers, width = 30, 20
    node = np.arange(layers * width).reshape(layers, width) + 1
    edges = [(0, int(v)) for v in node[0]]
    for a, b in pairwise(node):
        edges += [(int(u), int(v)) for u in a for v in b]
    edges += [(int(u), layers * width + 1) for u in node[-1]]
    flows = sets.FlowPolytope(edges, 0, layers * width + 1)
    assert flows.dim == 11_640
    assert flows.diameter == pytest.approx(np.sqrt(2 * (layers + 1)))
    assert flows.norm_bound == pytest.approx(np.sqrt(layers + 1))
    center, radius = flows.inner_ball
    assert radius == pytest.approx(1 / width**2, rel=1e-6)  # the most even flow splits 400 ways
    assert flows.contains(center)
    rng = np.random.default_rng(0)
    x = flows.sample(rng)
    g = rng.standard_normal(flows.dim)
    p = flows.local_linear_minimizer(x, 1e-3, g)
    assert flows.contains(p)
    assert g @ p < g @ x
    assert np.linalg.norm(p - x) <= flows.rho * 1e-3


def test_decomposition_gives_the_flow_back_with_few_paths():
    rng = np.random.default_rng(1)
    for _ in range(20):
        edges = random_dag(rng, 9, 20)
        flows = sets.FlowPolytope(edges, 0, 8)
        x = 0.7 * flows.sample(rng) + 0.3 * flows.center
        weights, paths = flows.decompose(x)
        assert np.allclose(weights @ paths, x, atol=1e-12)
        assert weights.min() > 0
        assert weights.sum() == pytest.approx(1.0)
        assert len(weights) <= len(edges)
        assert all(flows.contains(path) for path in paths)
    with pytest.raises(ValueError, match="unit flow"):
        flows.decompose(2 * x)


def test_diameter_matches_brute_force_over_pairs_of_paths():
    rng = np.random.default_rng(2)
    for _ in range(40):
        nodes = int(rng.integers(2, 8))
        flows = sets.FlowPolytope(random_dag(rng, nodes, int(rng.integers(0, 10))), 0, nodes - 1)
        paths = flows.vertices()
        assert len(np.unique(paths, axis=0)) == len(paths)
        apart = np.linalg.norm(paths[:, None] - paths[None], axis=2).max()
        assert flows.diameter == pytest.approx(apart)


def test_dead_edges_carry_nothing():
    flows = sets.FlowPolytope([("s", "t"), ("s", "x"), ("y", "t"), ("s", "t")], "s", "t")
    assert np.array_equal(flows.linear_minimizer([1.0, -9.0, -9.0, 0.5]), [0, 0, 0, 1])
    assert not flows.contains([0.5, 0.1, 0.0, 0.5])
    assert flows.affine_hull[1].shape == (4, 1)
    assert np.allclose(flows.center, [0.5, 0, 0, 0.5])
    assert flows.inner_ball[1] == pytest.approx(np.sqrt(0.5))


def test_a_single_path_is_a_point():
    only = sets.FlowPolytope([(0, 1), (1, 2)], 0, 2)
    assert only.diameter == 0.0
    assert only.inner_ball[1] == 0.0
    assert np.array_equal(only.local_linear_minimizer([1.0, 1.0], 0.5, [1.0, 2.0]), [1.0, 1.0])


def test_bad_graphs_are_refused():
    with pytest.raises(ValueError, match=r"cycle: .*->"):
        sets.FlowPolytope([("s", "a"), ("a", "b"), ("b", "a"), ("b", "t")], "s", "t")
    with pytest.raises(ValueError, match="cycle: 'a' -> 'a'"):
        sets.FlowPolytope([("s", "a"), ("a", "a"), ("a", "t")], "s", "t")
    with pytest.raises(ValueError, match="no path leads from 's' to 't'"):
        sets.FlowPolytope([("s", "a"), ("b", "t")], "s", "t")
    with pytest.raises(ValueError, match="source 'q' is on no edge"):
        sets.FlowPolytope([("s", "t")], "q", "t")
    with pytest.raises(ValueError, match="must differ"):
        sets.FlowPolytope([("s", "t")], "s", "s")
    with pytest.raises(ValueError, match="at least one pair"):
        sets.FlowPolytope([], "s", "t")
    with pytest.raises(ValueError, match=r"edges\[1\] must be a pair"):
        sets.FlowPolytope([("s", "t"), ("s", "t", 3.0)], "s", "t")
    flows = sets.FlowPolytope([("s", "t"), ("s", "t")], "s", "t")
    with pytest.raises(ValueError, match="finite"):
        flows.linear_minimizer([np.nan, 0.0])
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        flows.linear_minimizer([1.0])


def test_edges_may_be_an_array():
    flows = sets.FlowPolytope(np.array([[0, 1], [1, 2], [0, 2]]), 0, 2)
    assert np.array_equal(flows.linear_minimizer([1.0, 1.0, 3.0]), [1, 1, 0])
