"""Nuclear balls: large sizes through ARPACK against dense decompositions, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest

from reticent import sets
from reticent.sets import nuclear_ball


@pytest.mark.parametrize("shape", [(150, 150), (120, 300), (300, 120)])
def test_large_nuclear_balls_find_the_top_singular_pair(shape):
    rng = np.random.default_rng(0)
    g = rng.standard_normal(shape)
    ball = sets.NuclearBall(shape, 2.0)
    vertex = ball.linear_minimizer(g)
    assert np.sum(g * vertex) == pytest.approx(-2.0 * np.linalg.norm(g, 2), rel=1e-10)
    assert np.linalg.norm(vertex) == pytest.approx(2.0)
    assert np.array_equal(vertex, ball.linear_minimizer(g))  # the same every time
    assert ball.contains(ball.linear_minimizer(np.zeros(shape)))


@pytest.mark.parametrize("size", [120, 150])
def test_equal_singular_values_are_no_trouble(size):
    identity = np.eye(size)
    vertex = sets.NuclearBall((size, size)).linear_minimizer(identity)
    assert np.sum(identity * vertex) == pytest.approx(-1.0)
    vertex = sets.Spectrahedron(size).linear_minimizer(-identity)
    assert np.sum(-identity * vertex) == pytest.approx(-1.0)


def test_no_convergence_falls_back_to_the_dense_way(monkeypatch):
    def refuse(*args, **kwargs):
        raise nuclear_ball.ArpackError(-1)

    monkeypatch.setattr(nuclear_ball, "svds", refuse)
    g = np.random.default_rng(2).standard_normal((110, 110))
    vertex = sets.NuclearBall((110, 110)).linear_minimizer(g)
    assert np.sum(g * vertex) == pytest.approx(-np.linalg.norm(g, 2))
