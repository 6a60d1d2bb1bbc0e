"""Slips in Lou and Cheung (projection-free online learning with privacy expiration), each shown wrong and right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from errata import common, window
from scipy.stats import chi2


def test_projection_without_division_has_linear_regret():
    short, long = window.losses(1000), window.losses(2000)
    printed = [window.regret(window.printed_projection, c) for c in (short, long)]
    assert printed[1] > 1.8 * printed[0] > 500.0
    assert window.regret(window.corrected_projection, long) < 5.0


def test_the_corrected_projection_minimises_the_printed_objective():
    rng = np.random.default_rng(0)
    decisions, g = rng.dirichlet(np.ones(5), size=7), rng.normal(size=5)
    x = window.corrected_projection(7, g, decisions.sum(axis=0), decisions[-1])

    def objective(p):
        return g @ p + 0.5 * window.MU * ((p - decisions) ** 2).sum()

    others = rng.dirichlet(np.ones(5), size=2000)
    assert objective(x) <= min(objective(p) for p in others)


def test_gradients_move_by_twice_the_lipschitz_constant():
    """One dimension, a set of length D: slopes rise by at least mu and stay within +-L."""
    lipschitz, mu, diameter = 1.0, 0.1, 1.0
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(2000):
        x = rng.uniform(0.0, diameter)
        # the least and the largest slope at x that any such function can have
        low, high = -lipschitz + mu * x, lipschitz - mu * (diameter - x)
        worst = max(worst, high - low)
        assert high - low == pytest.approx(2.0 * lipschitz - mu * diameter)
    assert worst > 1.7 * (lipschitz + mu * diameter)


@pytest.mark.parametrize("horizon", [1, 2, 7, 8, 9, 31, 32])
def test_nodes_that_a_record_touches(horizon):
    """Released totals 1, ..., n: the first record is in bit_length(n) nodes, and no record in more."""
    counts = [common.nodes_of_record(k, horizon) for k in range(1, horizon + 1)]
    assert counts[0] == max(counts) == horizon.bit_length()
    for w in range(1, 20):
        most = max(common.nodes_of_record(k, 4 * w, w) for k in range(1, 2 * w + 1))
        assert most == w.bit_length()
        assert most <= math.ceil(math.log2(w)) + 1


def test_exponential_radius_gives_no_privacy():
    assert window.exponential_radius_ratio(2, 1e-6) > 1e5
    assert window.exponential_radius_ratio(10, 1e-3) > 1e20
    # the density of the vector itself is bounded by e^(|x - y|)
    assert window.exponential_radius_ratio(1, 1e-9) <= math.e


def test_norm_bound_of_a_gaussian_vector():
    assert chi2.cdf(20.0 * math.log(1.0 / 0.7), 10) < 0.3
    for d in (1, 2, 10, 100):
        for delta in (0.5, 0.1, 1e-6):
            assert chi2.cdf(2 * d * math.log(1.0 / delta), d) >= 1.0 - delta


def test_radius_depends_on_the_unit_of_length():
    """Lengths times two and losses times four, strong convexity as before: a radius should double."""

    def radius(scale, mended):
        lipschitz, diameter, strength = 3.0 * scale, 2.0 * scale, 10.0
        eta = (26.0 * (lipschitz + diameter)) ** 2 / strength
        length = 2.0 * (lipschitz + diameter) / strength
        square = 4.0 * eta / strength
        return math.sqrt(square) + length if mended else math.sqrt(square + length)

    assert radius(2.0, True) == pytest.approx(2.0 * radius(1.0, True))
    assert abs(radius(2.0, False) / radius(1.0, False) - 2.0) > 1e-4


def test_printed_direction_does_not_learn():
    centers = window.losses(1500)
    printed = window.regret(window.LinearOracle("printed", "printed"), centers)
    frozen = window.regret(window.LinearOracle("corrected", "corrected"), centers)
    free = window.regret(window.LinearOracle("corrected", "corrected", anchored=False), centers)
    assert printed > 300.0
    assert frozen > 100.0  # the anchor of (25 rho^2)^2
    assert free < 10.0
    assert window.regret(window.Certified(), centers) < 3.0


def test_the_local_oracle_has_both_its_properties():
    rng = np.random.default_rng(2)
    rho = math.sqrt(5 / 2)
    for _ in range(300):
        x, y, c = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5)), rng.normal(size=5)
        r = float(np.linalg.norm(x - y))
        p = window.local_oracle(x, r, c)
        assert c @ p <= c @ y + 1e-12
        assert np.linalg.norm(p - x) <= rho * r + 1e-12
        assert p.min() >= -1e-15
        assert p.sum() == pytest.approx(1.0)


def test_utility_bound_of_small_windows():
    """Binomial: 40,000 draws, so that 0.6 is hundreds of deviations below 0.9."""
    assert window.lemma_2_holds(2, 1, 0.1) < 0.6
    # with (log2 W + 1)^1.5 in place of log2^1.5 W it would hold: here a window where both are close
    assert window.lemma_2_holds(1024, 10, 0.1, runs=2000) > 0.9


@pytest.mark.parametrize("w", [2, 4, 8, 32])
def test_noise_of_a_node_is_drawn_once(w):
    """Clean expired blocks are sound: the exact mu stays below the count of nodes; redrawn noise does not."""
    kept, redrawn = window.redrawn_mu(w)
    assert kept <= math.sqrt(w.bit_length())
    assert redrawn >= kept
    if w == 32:
        assert redrawn > math.sqrt(w.bit_length())
