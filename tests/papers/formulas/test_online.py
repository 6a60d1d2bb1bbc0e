"""The printed noise of private online learning and its true epsilon, recomputed independently."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reticent import papers

from .reference import close, gaussian_epsilon, pld_epsilon, tree_mu


def iterate_moves(inner: str, horizon: int, record: int, alpha: float, move: float) -> np.ndarray:
    """|x_(t+1) - x'_(t+1)| for t = 1..T-1: linear losses with a ridge, run on both data sets."""
    paths = []
    for sign in (0.0, move):
        x, path = 0.0, []
        for t in range(1, horizon):
            g = sign if t == record else 0.0
            if inner == "implicit":
                x = (x - g / (alpha * t)) / (1.0 + 1.0 / t)
            elif inner == "gradient":
                x = x - (g + alpha * x) / (alpha * t)
            elif t >= 2:  # the printed warm-up, with the least conditioned losses
                x = x - 2.0 / (alpha * t) * (g + alpha * x)
            path.append(x)
        paths.append(np.array(path))
    return np.abs(paths[1] - paths[0])


@pytest.mark.parametrize("inner", ["implicit", "gradient", "gradient-printed"])
@pytest.mark.parametrize("horizon", [2, 3, 40])
def test_perturbed_iterates_against_runs(inner, horizon):
    item = papers.perturbed_iterates(0.7, 1e-5, horizon=horizon, norm=1.5,
                                        strong_convexity=0.3, inner=inner)  # fmt: skip
    assert item.scale.shape == (horizon - 1,)
    for neighbours, move in (("zero-out", 1.5), ("replace", 3.0)):
        brute = max(
            float(np.linalg.norm(iterate_moves(inner, horizon, record, 0.3, move) / item.scale))
            for record in range(1, horizon)
        )
        assert close(item.curve(neighbours).mu, brute, 1e-9)
    both = papers.horizon_free(0.7, 1e-5, horizon=horizon, norm=1.5, strong_convexity=0.3)
    brute = np.linalg.norm(iterate_moves("implicit", horizon, 1, 0.3, 1.5) / both.scale)
    assert close(both.zero_out.mu, float(brute), 1e-9)


@pytest.mark.parametrize(
    ("horizon", "epsilon", "times", "true"),
    [(1000, 1 / 3, 12.8, 0.0651), (10**5, 1 / 3, 14.1, 0.0587), (1000, 10 / 3, 10.0, 0.765)],
)
def test_perturbed_iterates_figures(horizon, epsilon, times, true):
    item = papers.perturbed_iterates(epsilon, 5e-7, horizon=horizon, inner="gradient")
    assert item.claimed == (3 * epsilon, 1e-6)
    assert close(item.true_epsilon(neighbours="replace"), true)
    # beta = (lambda sqrt(T)/epsilon) sqrt(ln(2/delta) (ln(T/delta) + epsilon_1))
    small = epsilon * math.sqrt(2 / (horizon * math.log(2 / 5e-7)))
    beta = 2 * math.sqrt(horizon) / epsilon * math.sqrt(
        math.log(2 / 5e-7) * (math.log(horizon / 5e-7) + small)
    )  # fmt: skip
    assert close(item.scale[0], beta, 1e-9)
    assert close(item.scale[9], beta / 10, 1e-9)
    needed = {1 / 3: 0.236704, 10 / 3: 1.848132}[epsilon]
    assert close(gaussian_epsilon(needed, 1e-6), 3 * epsilon, 1e-4)
    assert close(item.scale[0] * needed / (2 * math.sqrt(horizon - 1)), times)


def test_the_other_reading_of_the_logarithm():
    other = {"horizon": 1000, "inner": "gradient", "reading": "product-of-logarithms"}
    item = papers.perturbed_iterates(1.0, 1e-5, **other)
    assert item.claimed == (3.0, 2e-5)
    assert close(item.true_epsilon(neighbours="replace"), 100.4)
    assert not item.claim_is_proved()
    item = papers.perturbed_iterates(10 / 3, 5e-7, **other)
    assert close(item.true_epsilon(neighbours="replace"), 2.64e7)
    with pytest.raises(ValueError, match="reading"):
        papers.perturbed_iterates(1.0, 1e-5, horizon=10, reading="loudly")


@pytest.mark.parametrize(("epsilon", "mu", "true"), [(0.1, 0.225, 0.786), (1.0, 0.708, 2.83)])
def test_horizon_free(epsilon, mu, true):
    item = papers.horizon_free(epsilon, 1e-6, horizon=10**6, inner="gradient")
    log2 = math.log2(1e6)
    assert close(item.claimed[0], 3 * epsilon * log2, 1e-12)
    assert close(item.claimed[1], 1e-6 * log2 + 2 / 1e6 ** (2 * epsilon), 1e-12)
    assert close(item.replace.mu, mu)
    assert close(item.true_epsilon(1e-6 * log2, "replace"), true)
    # block by block: 2^k steps share one beta
    total = 0.0
    for k in range(20):
        count = min(2 ** (k + 1), 10**6) - 2**k
        squared = 2 ** (k + 1) / epsilon * (math.log(2**k / 1e-6) + math.sqrt(epsilon / 2**k))
        total += count / squared
    assert close(item.replace.mu, math.sqrt(total), 1e-9)


def test_private_sum_figures():
    one = papers.private_sum(1.0, 1e-6, horizon=16, logarithm="binary")
    node = 1.0 / one.scale  # one node, which the paper takes to be epsilon/4, delta/4
    assert close(gaussian_epsilon(node, 2.5e-7), 0.267)
    assert close(gaussian_epsilon(2 * node, 2.5e-7), 0.557)
    two = papers.private_sum(1.0, 1e-6, horizon=2)
    assert close(two.true_epsilon(), 2.535)
    assert close(papers.private_sum(1.0, 1e-6, horizon=2, logarithm="binary").true_epsilon(), 1.672)
    assert papers.private_sum(1.0, 1e-6, horizon=1024).true_epsilon(neighbours="replace") > 1.0
    assert papers.private_sum(1.0, 1e-6, horizon=2048).claim_is_proved()
    # with binary logarithms the last violation of the claim is a little above T = 32
    last = max(t for t in range(2, 200) if not papers.private_sum(
        1.0, 1e-6, horizon=t, logarithm="binary").claim_is_proved())  # fmt: skip
    assert 32 <= last < 48
    none = papers.private_sum(1.0, 1e-6, horizon=1)
    assert none.scale == 0.0
    assert math.isinf(none.true_epsilon())
    for horizon in (5, 8, 13):
        item = papers.private_sum(1.0, 1e-6, horizon=horizon, norm=2.0)
        assert close(item.zero_out.mu, 2.0 * tree_mu(horizon) / item.scale, 1e-9)
        less = papers.private_sum(1.0, 1e-6, horizon=horizon, norm=2.0, released=horizon - 1)
        assert close(less.zero_out.mu, 2.0 * tree_mu(horizon - 1) / item.scale, 1e-9)


@pytest.mark.parametrize("norm", [0.5, 1.0, 1.5, 10.0])
def test_quadratic_leader_joint_ratio_by_search(norm):
    item = papers.quadratic_leader(1.0, 1e-6, horizon=9, norm=norm)
    sigma_v, sigma_u = item.scale
    assert close(sigma_v / sigma_u, norm, 1e-12)
    nodes = 4
    rng = np.random.default_rng(5)
    best = 0.0
    for _ in range(4):
        angles = rng.uniform(0, math.pi, 50_000)
        r, q = np.sqrt(rng.uniform(0, 1, (2, 50_000))) ** rng.choice([0.0, 1.0], (2, 50_000)) * norm
        y, z = rng.choice([-1, 1], (2, 50_000)) * norm
        v = np.stack([r, 0 * r])
        w = np.stack([q * np.cos(angles), q * np.sin(angles)])
        outer = np.einsum("ik,jk->ijk", v, v) - np.einsum("ik,jk->ijk", w, w)
        matrix, vector = (outer**2).sum((0, 1)), ((y * v - z * w) ** 2).sum(0)
        best = max(best, float((matrix / sigma_v**2 + vector / sigma_u**2).max()))
    brute = math.sqrt(nodes * best)
    assert brute <= item.replace.mu * (1 + 1e-9)
    assert close(item.replace.mu, brute, 1e-3)
    assert close(item.zero_out.mu, math.sqrt(nodes * norm**4 * (sigma_v**-2 + sigma_u**-2)), 1e-9)
    if norm == 1.0:  # equal noise: 4.5, not 2 + 4
        assert close(item.replace.mu**2 * sigma_v**2 / nodes, 4.5, 1e-9)


def test_quadratic_leader_figures():
    for logarithm, zero_out, replace in (("binary", 1.706, 3.645), ("natural", 2.580, 5.591)):
        item = papers.quadratic_leader(1.0, 1e-6, horizon=1024, norm=10.0, logarithm=logarithm)
        assert close(item.true_epsilon(), zero_out, 1e-3)
        assert close(item.true_epsilon(neighbours="replace"), replace, 1e-3)


@pytest.mark.parametrize(
    ("alpha", "replace", "zero_out"), [(0.01, 226.1, 76.2), (0.1, 8.22, 3.71), (1.0, 0.339, 0.162)]
)
def test_averaged_iterate(alpha, replace, zero_out):
    item = papers.averaged_iterate(1.0, 1e-6, horizon=1000, strong_convexity=alpha, radius=1.0)
    assert close(item.true_epsilon(neighbours="replace"), replace)
    assert close(item.true_epsilon(), zero_out)
    move = iterate_moves("implicit", 1000, 1, alpha, 2.0).sum() / 1000
    assert close(item.replace.mu, move / item.scale, 1e-9)
    if alpha == 0.01:
        assert close(item.scale, 0.076)
        assert close(move / 0.236704, 5.48)
        assert close(item.true_epsilon(), pld_epsilon(item.zero_out.mu, 1e-6, 1e-3), 1e-3)
