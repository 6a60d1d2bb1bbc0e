"""The printed noise of the window tree and its true epsilon, recomputed independently."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reticent import papers

from .reference import close, gaussian_epsilon, pld_epsilon, tree_mu


@pytest.mark.parametrize(
    ("window", "epsilon", "scale", "zero_out", "replace"),
    [(64, 1.0, 287.3, 0.0308, 0.0650), (4, 1.0, 123.1, 0.0486, 0.1023),
     (1, 1.0, 41.04, 0.0877, 0.1841), (64, 8.0, 35.91, 0.2863, 0.6010)],
)  # fmt: skip
def test_window_gaussian(window, epsilon, scale, zero_out, replace):
    item = papers.window_tree_gaussian(epsilon, 1e-6, window=window)
    assert close(item.scale, scale)
    assert close(item.true_epsilon(), zero_out)
    assert close(item.true_epsilon(neighbours="replace"), replace)
    mu = math.sqrt(math.floor(math.log2(window)) + 1) / item.scale
    assert close(item.true_epsilon(), gaussian_epsilon(mu, 1e-6), 1e-9)
    assert close(item.true_epsilon(), pld_epsilon(mu, 1e-6), 2e-3)
    assert item.claim_is_proved()


@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, 8, 11])
def test_window_tree_ratio_by_linear_algebra(window):
    item = papers.window_tree_gaussian(1.0, 1e-6, window=window, norm=3.0)
    brute = tree_mu(3 * window + 2, window) * 3.0 / item.scale
    assert close(item.zero_out.mu, brute, 1e-9)
    assert close(item.replace.mu, 2.0 * brute, 1e-9)


def test_window_gamma_inherits_the_sensitivity():
    item = papers.window_tree_gamma(1.0, window=64, norm=2.0, strong_convexity=0.1, diameter=2.0)
    assert close(item.scale, 2.2 * 7, 1e-12)
    assert close(item.true_epsilon(), 1 / 1.1, 1e-12)
    assert close(item.true_epsilon(neighbours="replace"), 2 / 1.1, 1e-12)
    assert not item.claim_is_proved()
    # In one dimension, and trusting the losses to be strongly convex, two derivatives at one point
    # differ by 2 L - mu D at most, and some do: epsilon 1.73 instead of 1.82.
    x = np.linspace(0.0, 2.0, 2001)
    steepest, flattest = 2.0 - 0.1 * (2.0 - x), -2.0 + 0.1 * x
    in_one_dimension = float(np.max(steepest - flattest))
    assert close(7 * in_one_dimension / item.scale, 1.727, 1e-3)
    # one level too many for windows that are not powers of two
    assert close(papers.window_tree_gamma(1.0, window=100).true_epsilon(), 7 / 8, 1e-12)
