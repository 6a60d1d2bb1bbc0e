"""Exact densities and laws, against closed forms and against each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from reticent.audit import (
    densities,
)


@pytest.mark.parametrize("gap", [0.0, 0.3, 4.0])
def test_the_law_of_two_candidates(gap):
    """The difference of two Laplace numbers exceeds x >= 0 with probability e^-x (2 + x) / 4."""
    behind = math.exp(-gap) * (2.0 + gap) / 4.0
    law = densities.law("laplace", np.array([0.0, -3.0 * gap]), 3.0)
    np.testing.assert_allclose(law, [1.0 - behind, behind], rtol=1e-12)
    # of two exponential numbers: e^-x / 2
    law = densities.law("exponential", np.array([0.0, -3.0 * gap]), 3.0)
    np.testing.assert_allclose(law, [1.0 - math.exp(-gap) / 2, math.exp(-gap) / 2], rtol=1e-12)


@pytest.mark.parametrize("noise", ["gumbel", "laplace", "exponential"])
def test_the_law_of_many_candidates_adds_up(noise):
    law = densities.law(noise, np.array([0.0, 1.0, -2.0, 0.5, -30.0]), 0.7)
    assert law.sum() == pytest.approx(1.0, abs=1e-12)


def test_a_sample_of_everyone_is_the_gaussian_mechanism():
    for neighbours, mu in (("zero-out", 0.7), ("replace", 1.4)):
        for epsilon in (0.0, 0.5, 2.0):
            exact = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(
                -mu / 2 - epsilon / mu
            )
            found = densities.sampled_stick(0.7, 1.0 - 1e-15, neighbours, epsilon)
            assert found == pytest.approx(exact, rel=1e-6)


def test_the_plane_agrees_with_the_line():
    """A minimiser whose second coordinate no record touches has the hockey stick of its first."""
    grid = np.linspace(-6.5, 6.5, 23)
    here = np.stack(np.meshgrid(-grid, -grid, indexing="ij"), axis=2)
    there = here.copy()
    there[:, :, 0] -= 0.8 + 0.3 * np.tanh(here[:, :, 0])
    fine = np.linspace(-6.0, 6.0, 121)
    match = densities.carried_in_the_plane(grid, fine, here, there)
    plane = densities.log_ratio_in_the_plane(fine, match).reshape(121, 121)
    line = densities.log_ratio(
        grid, grid, grid + 0.8 - 0.3 * np.tanh(grid), densities.normal_log_density
    )
    middle = np.abs(grid) < 4.0
    at = plane[:, 60]
    np.testing.assert_allclose(np.interp(grid, fine, at)[middle], line[middle], atol=0.05)
