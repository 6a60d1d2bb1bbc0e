"""Accelerated projected gradients against the same problems solved otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from reticent import sets
from reticent.solve.accelerated import accelerated, settled


def problem(condition):
    rng = np.random.default_rng(0)
    A = np.linalg.qr(rng.standard_normal((20, 8)))[0] * np.geomspace(1.0, condition**-0.5, 8)
    return A, rng.standard_normal(20)


@pytest.mark.parametrize("condition", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("guess", [None, 1e-3, 1e3])
def test_bounded_least_squares(condition, guess):
    A, y = problem(condition)
    box = sets.LinfBall(8, 0.2)

    def gradient(x):
        return A.T @ (A @ x - y)

    def value(x):
        return 0.5 * float(np.sum((A @ x - y) ** 2))

    if guess is None:
        way = accelerated(gradient, box.project, np.zeros(8), 1.0)
    else:
        way = accelerated(gradient, box.project, np.zeros(8), guess, value)
    found = settled(way, np.zeros(8), 20_000, 1e-14)
    want = lsq_linear(A, y, (-0.2, 0.2), tol=1e-14).x
    np.testing.assert_allclose(found, want, atol=1e-6)


def test_it_is_accelerated():
    """The error falls like 1/k^2, not 1/k: the bound of Beck and Teboulle holds at every step."""
    A, y = problem(1e6)
    space = sets.WholeSpace(8)
    best = np.linalg.lstsq(A, y, rcond=None)[0]
    floor = 0.5 * np.sum((A @ best - y) ** 2)
    way = accelerated(lambda x: A.T @ (A @ x - y), space.project, np.zeros(8), 1.0)
    for k, x in zip(range(1, 200), way, strict=False):
        excess = 0.5 * np.sum((A @ x - y) ** 2) - floor
        assert excess <= 2.0 * (best @ best) / (k + 1) ** 2 + 1e-12


def test_a_point_that_stands_still_ends_it():
    steps = iter([np.ones(2), np.ones(2), np.zeros(2)])
    assert settled(steps, np.zeros(2), 10).tolist() == [1.0, 1.0]
    assert settled(iter([np.ones(2)] * 5), np.zeros(2), 0).tolist() == [0.0, 0.0]
