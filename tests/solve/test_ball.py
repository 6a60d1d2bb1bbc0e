"""A quadratic over a ball, by its optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.solve.ball import in_ball


def conditions_hold(H, q, s, radius):
    """(H + shift) s = -q for one shift >= 0, which is 0 inside the ball: necessary and sufficient."""
    scale = np.linalg.norm(q) + np.linalg.norm(H, 2) * radius
    g = H @ s + q
    assert np.linalg.norm(s) <= radius * (1 + 1e-14)
    if np.linalg.norm(s) < radius * (1 - 1e-9):
        assert np.linalg.norm(g) <= 1e-12 * scale
    else:
        shift = -(g @ s) / (s @ s)
        assert shift >= -1e-12 * scale / radius
        assert np.linalg.norm(g + shift * s) <= 1e-12 * scale


@pytest.mark.parametrize("radius", [1e-6, 0.3, 1.0, 40.0, 1e6])
@pytest.mark.parametrize("rank", [1, 5, 12])
@pytest.mark.parametrize("condition", [1.0, 1e4, 1e12])
def test_optimality(radius, rank, condition):
    rng = np.random.default_rng(rank)
    U = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    values = np.concatenate([np.geomspace(1.0, 1.0 / condition, rank), np.zeros(12 - rank)])
    H = (U * values) @ U.T
    q = rng.standard_normal(12)
    conditions_hold(H, q, in_ball(H, q, radius), radius)
    # the linear term within the range of H, so that there is a minimum inside a large ball
    q = H @ rng.standard_normal(12)
    conditions_hold(H, q, in_ball(H, q, radius), radius)


def test_nothing_to_do():
    assert in_ball(np.eye(3), np.zeros(3), 2.0).tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(in_ball(np.zeros((2, 2)), np.array([3.0, -4.0]), 2.0), [-1.2, 1.6])
