"""Slips in Ene, Nguyen and Vladu (projection-free bandit optimisation), each shown wrong and right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from errata import bandit


def test_printed_sign_ascends():
    printed, corrected = (bandit.regret_of_sign(sign, horizon=10_000) for sign in (-1.0, 1.0))
    assert printed > 5_000
    assert corrected < 0.2 * printed


def test_one_point_gradient():
    """200,000 draws: the mean is within 0.01 but for chance far below 1e-6."""
    mean, unit = bandit.gradient_estimate()
    assert unit == pytest.approx(1.0, abs=0.03)
    assert mean == pytest.approx(0.3 / 4, abs=0.003)


def test_one_record_moves_one_summand():
    """Values in [-B, B] at public points: the batch's gradient moves by at most 2 n B / zeta, in l1 by sqrt(n) more."""
    rng = np.random.default_rng(0)
    n, zeta, bound, batch = 5, 0.2, 1.3, 40
    largest = 0.0
    for _ in range(300):
        u = rng.normal(size=(batch, n))
        u /= np.linalg.norm(u, axis=1)[:, None]
        values = rng.uniform(-bound, bound, batch)
        other = values.copy()
        other[rng.integers(batch)] = rng.choice([-bound, bound])
        move = n / zeta * (values - other) @ u
        largest = max(largest, float(np.abs(move).sum()))
        assert np.linalg.norm(move) <= 2 * n * bound / zeta + 1e-9
    assert largest <= math.sqrt(n) * 2 * n * bound / zeta


def test_norm_of_a_batch():
    bound, constant, chosen = bandit.batch_norms()
    assert constant > bound
    assert chosen > 5 * bound


def test_values_outside_the_domain():
    """A loss that is 0 within a ball of diameter D reaches L (D + zeta) where it is queried."""
    diameter, zeta = 2.0, 0.5
    zero, query = np.array([-1.0, 0.0]), np.array([1.0, 0.0]) + zeta * np.array([1.0, 0.0])
    assert float(np.linalg.norm(query - zero)) == pytest.approx(diameter + zeta)


@pytest.mark.parametrize("horizon", [16, 100, 10_000, 10**6])
def test_depth_of_the_tree_that_is_played(horizon):
    """The totals that decide a played point, by following Algorithm 1 round by round."""
    rounds = math.isqrt(horizon - 1) + 1
    used = set()
    for current in range(1, rounds + 1):
        played = current - 1  # x~ of the round before is played
        if played - 1 >= 1:
            used.add(played - 1)  # and was computed from the total of the round before that
    assert used == set(range(1, rounds - 1))
    assert max(used, default=0).bit_length() <= math.log2(rounds) + 1


def test_inner_precision():
    for steps in (5, 50, 400):
        gap, bound = bandit.conditional_gradient_gap(steps)
        assert gap <= bound


def test_a_concave_function_is_strongly_convex_as_printed():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 100, 3))
    gradient_gap = -2.0 * (x - y)  # of -|x|^2
    distance = np.linalg.norm(x - y, axis=1)
    assert (np.linalg.norm(gradient_gap, axis=1) >= 2.0 * distance - 1e-12).all()
    assert ((gradient_gap * (x - y)).sum(axis=1) < 0.0).all()


def test_second_moments_of_ball_and_sphere():
    """Lemma 9: I/n belongs to the sphere, the ball has I/(n + 2). Five deviations of 200,000 draws are 0.004."""
    rng = np.random.default_rng(2)
    n, runs = 6, 200_000
    sphere = rng.normal(size=(runs, n))
    sphere /= np.linalg.norm(sphere, axis=1)[:, None]
    ball = sphere * rng.random(runs)[:, None] ** (1.0 / n)
    assert (sphere[:, 0] ** 2).mean() == pytest.approx(1.0 / n, abs=0.004)
    assert (ball[:, 0] ** 2).mean() == pytest.approx(1.0 / (n + 2), abs=0.004)
