"""Linear minimisers against the fastest public call for each.

Ours is the public method of the set, with its checks of the argument and the vertex it returns; theirs is the bare
call on an input that is already in its favourite form. Inputs change from round to round, so that neither profits
from a branch predictor that has learnt the data.

Below 1 means that ours is faster, and the aim is no ratio above 1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, pairwise
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse.linalg import eigsh, svds
from table import Table
from timing import Measured, Ratio, measure

from questions import Run
from reticent import sets

QUESTION = 3
LIMIT = 1.2
INPUTS = 5

Case = tuple[str, str, Callable[[Any], Any], Callable[[Any], Any], list[tuple[Any, Any]], int]


def layered_graph() -> list[tuple[int, int]]:
    """A DAG of 11,640 edges: 30 layers of 20 nodes, fully joined, between a source and a target."""
    layers, width = 30, 20
    node = np.arange(layers * width).reshape(layers, width) + 1
    edges = [(0, int(v)) for v in node[0]]
    for a, b in pairwise(node):
        edges += [(int(u), int(v)) for u in a for v in b]
    return edges + [(int(u), layers * width + 1) for u in node[-1]]


def flow_case(rng: np.random.Generator) -> Case:
    import rustworkx

    edges = layered_graph()
    target = max(v for _, v in edges)
    flows = sets.FlowPolytope(edges, 0, target)
    inputs = []
    for _ in range(INPUTS):
        g = rng.standard_normal(len(edges))
        graph = rustworkx.PyDiGraph()
        graph.add_nodes_from(range(target + 1))
        graph.add_edges_from([(u, v, w) for (u, v), w in zip(edges, g.tolist(), strict=True)])
        inputs.append((g, graph))

    def theirs(graph: Any) -> Any:
        return rustworkx.digraph_bellman_ford_shortest_paths(graph, 0, target, weight_fn=float)

    name = f"unit flow, {len(edges):,}-edge DAG"
    return name, "rustworkx Bellman-Ford", flows.linear_minimizer, theirs, inputs, 8


def tree_case(rng: np.random.Generator) -> Case:
    import rustworkx

    nodes, edge_count = 500, 5000
    ring = [(i, (i + 1) % nodes) for i in range(nodes)]
    tails = rng.integers(0, nodes, edge_count - nodes)
    heads = (tails + rng.integers(1, nodes, edge_count - nodes)) % nodes
    edges = ring + list(zip(tails.tolist(), heads.tolist(), strict=True))
    trees = sets.SpanningTreePolytope(edges)
    inputs = []
    for _ in range(INPUTS):
        g = rng.standard_normal(edge_count)
        graph = rustworkx.PyGraph()
        graph.add_nodes_from(range(nodes))
        graph.add_edges_from([(u, v, w) for (u, v), w in zip(edges, g.tolist(), strict=True)])
        inputs.append((g, graph))

    def theirs(graph: Any) -> Any:
        return rustworkx.minimum_spanning_edges(graph, weight_fn=float)

    name = "spanning tree, 500 nodes, 5,000 edges"
    return name, "rustworkx", trees.linear_minimizer, theirs, inputs, 8


def cases(rng: np.random.Generator, large: bool) -> Iterator[Case]:
    yield flow_case(rng)
    yield tree_case(rng)

    def draws(shape: Any) -> list[np.ndarray]:
        return [rng.standard_normal(shape) for _ in range(INPUTS)]

    for n, inner in ((100, 20), (500, 1)):
        pairs = [(g, g) for g in draws((n, n))]
        ours = sets.Birkhoff(n).linear_minimizer
        yield (
            f"Birkhoff n = {n}",
            "linear_sum_assignment",
            ours,
            linear_sum_assignment,
            pairs,
            inner,
        )
    for n in (500, 1000) if large else (500,):
        pairs = [(g, g) for g in draws((n, n))]
        ours = sets.NuclearBall((n, n)).linear_minimizer
        yield f"nuclear ball n = {n}", "svds(k=1)", ours, lambda g: svds(g, k=1), pairs, 1
        pairs = [(g + g.T, g + g.T) for g in draws((n, n))]
        ours = sets.Spectrahedron(n).linear_minimizer
        call = "eigsh(k=1, which='SA')"
        yield f"spectrahedron n = {n}", call, ours, lambda g: eigsh(g, k=1, which="SA"), pairs, 1
    d, k = 10**5, 100
    pairs = [(g, g) for g in draws(d)]
    top = sets.HyperSimplex(d, k).linear_minimizer
    yield "top-k, d = 10^5", "argpartition", top, lambda g: np.argpartition(g, k), pairs, 5
    sparse = sets.KSparseBall(d, k).linear_minimizer
    call = "argpartition(abs)"
    theirs = lambda g: np.argpartition(np.abs(g), d - k)  # noqa: E731
    yield "k-sparse ball, d = 10^5", call, sparse, theirs, pairs, 5
    pairs = [(g, g) for g in draws(10**6)]
    ball = sets.L1Ball(10**6).linear_minimizer
    yield "l1 ball, d = 10^6", "argmax(abs)", ball, lambda g: np.argmax(np.abs(g)), pairs, 5


def repeated(call: Callable[[Any], Any], inputs: list[Any], inner: int) -> Callable[[], None]:
    turn = count()

    def task() -> None:
        argument = inputs[next(turn) % len(inputs)]
        for _ in range(inner):
            call(argument)

    return task


def minimizers(run: Run) -> Table:
    table = Table(
        "minimizers",
        QUESTION,
        "Linear minimisers compared with the fastest public call",
        ["set", "public call", "ours, ms", "theirs, ms", "ours / theirs", "target"],
        "The public method of the set against a direct call of the other library on input in its "
        "preferred format; "
        "below 1 ours is faster.",
    )
    for name, call, ours, theirs, inputs, inner in cases(np.random.default_rng(0), run.full):
        mine, others = (list(side) for side in zip(*inputs, strict=True))
        tasks = {"ours": repeated(ours, mine, inner), "theirs": repeated(theirs, others, inner)}
        seconds = measure(tasks, [("ours", "theirs")], seconds=run.choose(5, 20))
        each = [Measured.of(1e3 / inner * seconds[k]) for k in ("ours", "theirs")]
        table.add(name, call, *each, Ratio.of(seconds["ours"], seconds["theirs"]), LIMIT)
    return table
