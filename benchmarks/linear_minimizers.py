"""Linear minimisers against the fastest public call for each, as ratios in one run.

Ours is the public method of the set, with its checks of the argument and the vertex it returns;
theirs is the bare call on an input that is already in its favourite form. Repeats are interleaved,
so that a slow moment of the machine hits both, and inputs change from repeat to repeat, so that
neither profits from a branch predictor that has learnt the data. Run with one BLAS thread, as is
set below.

The one thing a reader would get wrong: below 1 means that ours is faster, and the aim is no ratio
above 1.2; a ratio is the median over pairs of repeats, not the quotient of the two medians. The
number of repeats is even: half begin with ours, half with theirs, so that order cannot decide.

    python benchmarks/linear_minimizers.py [--repeats 24]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402
from scipy.optimize import linear_sum_assignment  # noqa: E402
from scipy.sparse.linalg import eigsh, svds  # noqa: E402

from tacit import sets  # noqa: E402

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

    nodes, count = 500, 5000
    ring = [(i, (i + 1) % nodes) for i in range(nodes)]
    tails = rng.integers(0, nodes, count - nodes)
    heads = (tails + rng.integers(1, nodes, count - nodes)) % nodes
    edges = ring + list(zip(tails.tolist(), heads.tolist(), strict=True))
    trees = sets.SpanningTreePolytope(edges)
    inputs = []
    for _ in range(INPUTS):
        g = rng.standard_normal(count)
        graph = rustworkx.PyGraph()
        graph.add_nodes_from(range(nodes))
        graph.add_edges_from([(u, v, w) for (u, v), w in zip(edges, g.tolist(), strict=True)])
        inputs.append((g, graph))

    def theirs(graph: Any) -> Any:
        return rustworkx.minimum_spanning_edges(graph, weight_fn=float)

    name = "spanning tree, 500 nodes, 5,000 edges"
    return name, "rustworkx", trees.linear_minimizer, theirs, inputs, 8


def cases(rng: np.random.Generator) -> Iterator[Case]:
    yield flow_case(rng)
    yield tree_case(rng)
    for n, inner in ((100, 20), (500, 1)):
        ours = sets.Birkhoff(n).linear_minimizer
        squares = [rng.standard_normal((n, n)) for _ in range(INPUTS)]
        pairs = [(g, g) for g in squares]
        yield (
            f"Birkhoff n = {n}",
            "linear_sum_assignment",
            ours,
            linear_sum_assignment,
            pairs,
            inner,
        )
    for n in (500, 1000):
        ours = sets.NuclearBall((n, n)).linear_minimizer
        pairs = [(g, g) for g in (rng.standard_normal((n, n)) for _ in range(INPUTS))]
        yield f"nuclear ball n = {n}", "svds(k=1)", ours, lambda g: svds(g, k=1), pairs, 1
    for n in (500, 1000):
        ours = sets.Spectrahedron(n).linear_minimizer
        pairs = [(g + g.T, g + g.T) for g in (rng.standard_normal((n, n)) for _ in range(INPUTS))]
        call = "eigsh(k=1, which='SA')"
        yield f"spectrahedron n = {n}", call, ours, lambda g: eigsh(g, k=1, which="SA"), pairs, 1
    d, k = 10**5, 100
    pairs = [(g, g) for g in (rng.standard_normal(d) for _ in range(INPUTS))]
    top = sets.HyperSimplex(d, k).linear_minimizer
    yield "top-k, d = 10^5", "argpartition", top, lambda g: np.argpartition(g, k), pairs, 5
    sparse = sets.KSparseBall(d, k).linear_minimizer
    call = "argpartition(abs)"
    yield (
        "k-sparse ball, d = 10^5",
        call,
        sparse,
        lambda g: np.argpartition(np.abs(g), d - k),
        pairs,
        5,
    )
    pairs = [(g, g) for g in (rng.standard_normal(10**6) for _ in range(INPUTS))]
    ball = sets.L1Ball(10**6).linear_minimizer
    yield "l1 ball, d = 10^6", "argmax(abs)", ball, lambda g: np.argmax(np.abs(g)), pairs, 5


def clock(call: Callable[[Any], Any], argument: Any, inner: int) -> float:
    call(argument)  # untimed: whoever comes first must not pay for bringing the input into cache
    begin = time.perf_counter()
    for _ in range(inner):
        call(argument)
    return (time.perf_counter() - begin) / inner


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=24)
    repeats = parser.parse_args().repeats
    repeats += repeats % 2
    rng = np.random.default_rng(0)
    print(f"{'set':40} {'fastest public call':24} {'ours ms':>9} {'theirs ms':>9} {'ratio':>6}")
    slow = []
    for name, call, ours, theirs, inputs, inner in cases(rng):
        ours(inputs[0][0])
        theirs(inputs[0][1])
        times = np.empty((repeats, 2))
        for i in range(repeats):
            mine, other = inputs[i % len(inputs)]
            if i % 2:
                times[i] = clock(ours, mine, inner), clock(theirs, other, inner)
            else:
                times[i, ::-1] = clock(theirs, other, inner), clock(ours, mine, inner)
        a, b = 1e3 * np.median(times, axis=0)
        ratio = float(np.median(times[:, 0] / times[:, 1]))
        print(f"{name:40} {call:24} {a:9.3f} {b:9.3f} {ratio:6.2f}", flush=True)
        if ratio > LIMIT:
            slow.append(name)
    verdict = f"slower than {LIMIT} times: {', '.join(slow)}" if slow else f"none above {LIMIT}"
    print(verdict)
    return len(slow) > 0


if __name__ == "__main__":
    sys.exit(main())
