"""The printed noise of the private bandit and its true epsilon, recomputed independently."""

from __future__ import annotations

import math

import pytest

from reticent import papers

from .reference import close, dyadic_nodes, gaussian_epsilon, tree_mu


@pytest.mark.parametrize(
    ("horizon", "dim", "laplace", "laplace_epsilon", "gaussian", "gaussian_epsilon_"),
    [(10**4, 5, 4605.0, 0.0930, 2.135e5, 8.05e-4), (10**6, 10, 1.382e5, 0.0252, 3.071e6, 2.25e-4),
     (10**6, 100, 1.382e6, 0.0301, 5.440e6, 5.46e-4)],
)  # fmt: skip
def test_bandit(horizon, dim, laplace, laplace_epsilon, gaussian, gaussian_epsilon_):
    pure = papers.bandit_laplace(1.0, horizon=horizon, dim=dim, values="non-negative")
    assert close(pure.scale, laplace, 1e-3)
    assert close(pure.true_epsilon(), laplace_epsilon)
    assert pure.true_epsilon() == pure.true_epsilon(neighbours="replace")
    normal = papers.bandit_gaussian(1.0, 1e-6, horizon=horizon, dim=dim)
    assert close(normal.scale, gaussian, 1e-3)
    assert close(normal.true_epsilon(), gaussian_epsilon_)
    # By hand: with zeta from Algorithm 1 and D = 3 (it cancels), one value enters one batch.
    zeta = 3.0 * math.sqrt(dim) / horizon**0.25
    move = dim / zeta * 1.0 * (3.0 + zeta)
    rounds = math.ceil(math.sqrt(horizon))
    used = {node for t in range(1, rounds - 1) for node in dyadic_nodes(1, t)}
    nodes = max(sum(a <= r <= b for a, b in used) for r in (1, 2, rounds // 2))
    assert close(pure.zero_out.pure, nodes * math.sqrt(dim) * move / pure.scale, 1e-9)
    mu = math.sqrt(nodes) * move / normal.scale
    assert close(normal.zero_out.mu, mu, 1e-9)
    assert close(normal.true_epsilon(neighbours="replace"), gaussian_epsilon(2 * mu, 1e-6), 1e-6)


@pytest.mark.parametrize(
    ("logarithm", "low", "high"), [("natural", 1.44, 1.7), ("binary", 1.0, 1.17)]
)
def test_tree_aggregation_under_protects(logarithm, low, high):
    for horizon in (64, 1000, 1024, 10**6):
        item = papers.tree_aggregation_laplace(2.0, horizon=horizon, logarithm=logarithm)
        assert low < item.true_epsilon() / 2.0 < high
        assert close(item.true_epsilon(neighbours="replace"), 2 * item.true_epsilon(), 1e-12)
    item = papers.tree_aggregation_gaussian(1.0, 1e-6, horizon=13, logarithm=logarithm)
    depth = math.log(13) if logarithm == "natural" else math.log2(13)
    assert close(item.scale, depth * math.log(depth / 1e-6), 1e-12)
    assert close(item.zero_out.mu, tree_mu(13) / item.scale, 1e-9)


def test_bandit_with_nothing_to_release():
    assert papers.bandit_laplace(1.0, horizon=4, dim=3).true_epsilon() == 0.0
    assert papers.bandit_gaussian(1.0, 1e-6, horizon=3, dim=3).true_epsilon() == 0.0
