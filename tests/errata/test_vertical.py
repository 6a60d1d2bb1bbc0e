"""Slips in Lou and Cheung (feature-distributed Frank-Wolfe), each shown wrong and right."""

from __future__ import annotations

import numpy as np
import pytest
from errata import vertical


def test_bound_of_the_table_uses_the_other_probability():
    """The table's own bound is Theorem 1 with K tau / d, and not with its square."""
    k, tau, d, h, c, t = 4, 3, 40, 1.7, 2.3, 25
    table = 2 * d * (k * tau * h + d * c) / ((tau * k) ** 2 * t + 2 * d * k * tau)

    def theorem(p):
        return 2 * (h + c / p) / (p * t + 2)

    assert theorem(k * tau / d) == pytest.approx(table)
    assert theorem((k * tau / d) ** 2) > 1.5 * table
    # and each party draws tau of its d / K coordinates
    rng = np.random.default_rng(0)
    hits = sum(0 in rng.choice(d // k, size=tau, replace=False) for _ in range(20_000))
    assert hits / 20_000 == pytest.approx(k * tau / d, abs=0.02)


def test_the_step_leaves_the_ball():
    printed, corrected = vertical.largest_norm()
    assert printed > 3.9
    assert corrected <= 1.0 + 1e-12


def test_sampling_shrinks_the_solution():
    for sampled, rate in ((20, 1.0), (10, 0.5), (5, 0.25)):
        assert vertical.sampled_limit(sampled, steps=2000) == pytest.approx(rate, abs=0.05)


def test_partial_gradient():
    printed, corrected = vertical.gradient_factor()
    assert printed > 100.0
    assert corrected < 1e-6


def test_update_of_the_prediction():
    """q = A x / n after every step only if eta / K and the features of the same step are used."""
    features = vertical.problem()[0]
    n, dim = features.shape
    rng = np.random.default_rng(1)
    x, q, without, late = np.zeros(dim), np.zeros(n), np.zeros(n), np.zeros(n)
    previous = np.zeros(n)
    radius, parties = 0.5, 2
    for t in range(20):
        chosen = rng.choice(dim, size=parties, replace=False)
        signs = rng.choice([-1.0, 1.0], size=parties)
        s = np.zeros(dim)
        s[chosen] = -signs * radius / parties
        step = 2.0 / (t + 2.0)
        x = (1 - step) * x + step * s
        share = -(features[:, chosen] @ signs) / n
        q = (1 - step) * q + step * radius / parties * share
        without = (1 - step) * without + step * share
        late = (1 - step) * late + step * radius / parties * previous
        previous = share
    truth = features @ x / n
    assert np.allclose(q, truth)
    assert not np.allclose(without, truth, atol=1e-5)
    assert not np.allclose(late, truth, atol=1e-5)


def test_two_minus_signs_ascend():
    start = 4.5
    assert vertical.final_loss("printed", "absolute") > start
    assert vertical.final_loss("corrected", "absolute") < 0.5 * start


def test_largest_signed_value_misses_half():
    assert vertical.final_loss("corrected", "positive") > 4.0
