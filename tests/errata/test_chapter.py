"""Slips in Thakurta's chapter on private optimisation, each shown wrong and right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from errata import chapter
from scipy.optimize import minimize


def test_range_of_the_exponential_mechanism():
    assert 0.48 < chapter.exponential_mechanism(1.0, "zero-out") <= 0.5
    assert 0.98 < chapter.exponential_mechanism(1.0, "replace") <= 1.0
    # with twice the exponent, zero-out gets what was asked for
    assert 0.98 < chapter.exponential_mechanism(2.0, "zero-out") <= 1.0


def test_density_of_objective_perturbation():
    """Kolmogorov: 5,000 draws are within 0.04 of their law but for a probability below 1e-6."""
    times, over = chapter.density_of_objective_perturbation(5000)
    assert times < 0.04
    assert over > 0.15


def test_ratio_of_determinants():
    rng = np.random.default_rng(0)
    for rank in (1, 2, 3):
        ratio, sharp, printed = chapter.determinant_ratio(rank, ridge=4.0)
        assert ratio == pytest.approx(sharp)
        assert ratio < printed
        for _ in range(100):
            base = rng.normal(size=(5, 5))
            w = base @ base.T + 4.0 * np.eye(5)
            u, _ = np.linalg.qr(rng.normal(size=(5, rank)))
            e = u @ np.diag(rng.random(rank)) @ u.T
            assert np.linalg.det(w + e) / np.linalg.det(w) <= sharp + 1e-9
    # the sharp regulariser gives exactly the half of epsilon that is left for the determinant
    for epsilon in (0.1, 1.0, 8.0):
        ridge = 1.0 / math.expm1(epsilon / 2)
        assert math.log1p(1.0 / ridge) == pytest.approx(epsilon / 2)


def test_distance_of_perturbed_minimisers():
    rng = np.random.default_rng(1)
    features, ridge = rng.normal(size=(6, 2)), 0.7
    for _ in range(10):
        b = rng.normal(size=2) * 3.0

        def loss(x, b=b):
            return np.logaddexp(0.0, -features @ x).sum() + 0.5 * ridge * x @ x + b @ x

        first = minimize(lambda x: loss(x, np.zeros(2)), np.zeros(2), tol=1e-12).x
        second = minimize(loss, np.zeros(2), tol=1e-12).x
        assert np.linalg.norm(first - second) <= np.linalg.norm(b) / ridge + 1e-5


def test_prefix_sums_by_the_path_to_a_leaf():
    for t in range(1, 17):
        assert chapter.get_sum(t, 4, 1) == t * (t + 1) / 2
    # leaves counted from 0: the last value is missed
    for t in range(1, 16):
        assert chapter.get_sum(t, 4, 0) == t * (t + 1) / 2 != (t + 1) * (t + 2) / 2


def test_frank_wolfe_with_a_constant_step_stalls():
    gaps = [chapter.frank_wolfe_gaps(steps) for steps in (100, 1000, 4000)]
    constant, falling, linear = zip(*gaps, strict=True)
    # no faster than the start's weight 1/e allows, whatever T
    assert min(constant) > 0.01
    assert abs(constant[2] / constant[1] - 1.0) < 0.05
    assert falling[2] < 1e-5
    assert linear[2] == pytest.approx(math.exp(-1.0), rel=1e-3)


def test_curvature_of_a_quadratic():
    assert chapter.curvature_ratio() == pytest.approx(2.0)


def test_replacement_costs_more_than_a_factor_of_two():
    found = chapter.figures()
    assert found["C22.replace"] > 2.1 * found["C22.zero-out"]


def test_units_of_the_strongly_convex_bound():
    """Multiply every loss by c: an excess risk must grow by c."""

    def printed(lipschitz, strength):
        return lipschitz / strength

    def mended(lipschitz, strength):
        return lipschitz**2 / strength

    c = 7.0
    assert printed(c * 2.0, c * 3.0) == pytest.approx(printed(2.0, 3.0))
    assert mended(c * 2.0, c * 3.0) == pytest.approx(c * mended(2.0, 3.0))
