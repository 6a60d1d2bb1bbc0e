"""Matrix sets: large sizes through ARPACK against dense decompositions, forms, degenerate input."""

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


def test_large_spectrahedra_find_the_lowest_eigenvector():
    rng = np.random.default_rng(1)
    g = rng.standard_normal((150, 150))
    spectrahedron = sets.Spectrahedron(150, 3.0)
    vertex = spectrahedron.linear_minimizer(g)
    lowest = np.linalg.eigvalsh(0.5 * (g + g.T))[0]
    assert np.sum(g * vertex) == pytest.approx(3.0 * lowest, rel=1e-10)
    assert spectrahedron.contains(vertex)
    assert spectrahedron.contains(spectrahedron.linear_minimizer(np.zeros((150, 150))))


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


def test_only_the_symmetric_part_counts():
    rng = np.random.default_rng(3)
    spectrahedron = sets.Spectrahedron(4)
    g = rng.standard_normal((4, 4))
    twist = g - g.T
    assert np.allclose(spectrahedron.linear_minimizer(g), spectrahedron.linear_minimizer(g + twist))
    assert np.allclose(spectrahedron.project(g), spectrahedron.project(g + twist))
    assert not spectrahedron.contains(spectrahedron.center + 1e-3 * twist)


@pytest.mark.parametrize(
    "convex", [sets.Birkhoff(3), sets.NuclearBall((2, 5)), sets.Spectrahedron(3)], ids=repr
)
def test_matrices_and_flat_vectors_are_both_welcome(convex):
    rng = np.random.default_rng(4)
    g = rng.standard_normal(convex.shape)
    x = convex.sample(rng)
    assert x.shape == convex.shape
    assert convex.contains(x)
    assert convex.contains(x.reshape(-1))
    assert convex.linear_minimizer(g).shape == convex.shape
    assert convex.linear_minimizer(g.reshape(-1)).shape == (convex.dim,)
    assert convex.local_linear_minimizer(x, 0.1, g).shape == convex.shape
    flat = convex.local_linear_minimizer(x.reshape(-1), 0.1, g)
    assert flat.shape == (convex.dim,)
    with pytest.raises(ValueError, match="must have shape"):
        convex.linear_minimizer(g[:1])
    with pytest.raises(ValueError, match="must have shape"):
        convex.contains(np.zeros(convex.dim + 1))


def test_birkhoff_decomposes_into_few_permutations():
    rng = np.random.default_rng(5)
    for n in (1, 2, 6):
        birkhoff = sets.Birkhoff(n)
        x = 0.5 * birkhoff.sample(rng) + 0.5 * birkhoff.center
        weights, permutations = birkhoff.decompose(x)
        assert np.allclose((weights @ permutations).reshape(n, n), x, atol=1e-11)
        assert len(weights) <= (n - 1) ** 2 + 1
        assert all(birkhoff.contains(row) for row in permutations)
    with pytest.raises(ValueError, match="doubly stochastic"):
        sets.Birkhoff(2).decompose([[0.5, 0.4], [0.5, 0.6]])
