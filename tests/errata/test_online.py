"""Slips in Jain, Kothari and Thakurta (private online learning), each shown wrong and right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from errata import online


def test_implicit_descent_attains_its_sensitivity():
    largest, smallest = online.implicit_ratio()
    assert largest == pytest.approx(1.0, abs=1e-9)
    assert smallest == pytest.approx(1.0, abs=1e-9)


def test_a_skipped_step_is_not_a_null_record():
    for radius in (0.5, 3.0):
        assert online.skipped_record_ratio(radius=radius) == pytest.approx(1.0 + radius)


def test_printed_steps_double_the_sensitivity():
    assert online.descent_ratio("printed", kappa=3.0, horizon=200) == pytest.approx(2.0, abs=1e-9)


def test_capped_steps_need_no_warm_up():
    for kappa in (1.0, 3.0, 10.0):
        assert online.descent_ratio("capped", kappa) <= 1.0 + 1e-9
    assert online.descent_ratio("uncapped", 10.0) > 50.0


def test_norm_of_the_quadratic_leader():
    norm, printed, correct = online.quadratic_norm(10.0, 100.0)
    assert norm > 2.0 * printed
    assert norm == pytest.approx(correct)
    rng = np.random.default_rng(0)
    for _ in range(300):
        bound, alpha, t = (
            rng.uniform(0.2, 5.0),
            10.0 ** rng.uniform(-2, 2),
            int(rng.integers(1, 20)),
        )
        v = rng.normal(size=(t, 3))
        v *= (bound * rng.random(t) / np.linalg.norm(v, axis=1))[:, None]
        y = rng.uniform(-bound, bound, t)
        x = np.linalg.solve(t * alpha * np.eye(3) + v.T @ v, v.T @ y)
        assert np.linalg.norm(x) <= min(bound**2 / alpha, bound / (2 * math.sqrt(alpha))) + 1e-12


def test_one_node_of_private_sum():
    claimed, blanked, replaced = online.node_epsilon(16)
    assert claimed < blanked < replaced
    assert replaced > 2.0 * claimed


def test_labels_of_private_sum():
    values = [float(k) for k in range(1, 9)]
    literal = online.literal_private_sum(values[:7], 3, 0)
    assert all(math.isnan(total) for total in literal)
    shifted = online.literal_private_sum(values, 3, 1)
    assert shifted[:7] == np.cumsum(values)[:7].tolist()
    assert shifted[7] == 10.0  # a fourth bit is needed
    assert online.literal_private_sum(values, 4, 1) == np.cumsum(values).tolist()


def test_the_noisy_matrix_is_often_indefinite():
    assert online.indefinite_share(horizon=256) > 0.5


def test_exponent_of_the_logarithm():
    printed, implied = online.logarithm_exponents()
    assert printed == pytest.approx(1.5, abs=0.02)
    assert implied == pytest.approx(2.5, abs=0.02)


def test_sensitivity_of_the_average():
    for horizon, alpha in ((10, 1.0), (1000, 0.01)):
        moved, formula = online.average_sensitivity(horizon, alpha)
        assert moved == pytest.approx(formula, rel=1e-9)
        assert moved > 2.0 * math.log(horizon) / horizon * 0.5 / alpha
    # and the printed sum is above its bound
    assert sum(1.0 / (t - 1) for t in range(2, 1001)) > math.log(1000)


def test_exact_privacy_without_a_horizon():
    claimed, delta, mu, exact = online.horizon_free(0.1, horizon=10_000)
    assert delta > 0.1
    assert exact < claimed
    assert 0.0 < mu < 1.0


def test_the_harmonic_sum_is_above_its_integral():
    for horizon in (3, 10, 1000):
        assert sum(1.0 / t for t in range(1, horizon)) > math.log(horizon - 1)


def test_hoeffding_with_the_whole_range():
    """Coins of +-e: the printed tail is exceeded, by exact binomial probabilities."""
    from scipy.stats import binom

    horizon, epsilon_1 = 400, 0.1
    epsilon = 1.0  # the sum exceeds it where more than half of the coins are heads by 5 or more
    exact = float(binom.sf(horizon / 2 + epsilon / (2 * epsilon_1) - 1, horizon, 0.5))
    printed = 2.0 * math.exp(-2.0 * epsilon**2 / (horizon * epsilon_1**2))
    mended = math.exp(-2.0 * epsilon**2 / (horizon * (2 * epsilon_1) ** 2))
    assert exact <= mended
    deep = 6.0
    rare = float(binom.sf(horizon / 2 + deep / (2 * epsilon_1) - 1, horizon, 0.5))
    assert rare > 2.0 * math.exp(-2.0 * deep**2 / (horizon * epsilon_1**2))
    assert rare <= math.exp(-2.0 * deep**2 / (horizon * (2 * epsilon_1) ** 2))
    assert printed > 0.0
    wrong, right = online.hoeffding(1.0, 1000, 1e-5)
    assert wrong == pytest.approx(1e-5)
    assert right > 1000 * wrong
