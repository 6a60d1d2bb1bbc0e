"""Mixtures of vertices, and the lemma on how much weight has to move, by linear programs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from reticent import sets
from reticent.sets.decomposition import heaviest_first, nearest_mixture

POLYTOPES = {
    "birkhoff": sets.Birkhoff(3),
    "flow": sets.FlowPolytope([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 3), (1, 3)], 0, 3),
    "trees": sets.SpanningTreePolytope([(0, 1), (1, 2), (2, 0), (2, 3), (3, 0), (1, 3)]),
    "two blocks": sets.SpanningTreePolytope([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2)]),
    "cut": sets.BasePolytope(
        lambda mask: float(sum(mask[a] != mask[b] for a, b in [(0, 1), (1, 2), (2, 3), (3, 0)])),
        4,
        granularity=2,
    ),
    "uniform": sets.BasePolytope(lambda mask: float(min(mask.sum(), 2)), 4, granularity=1),
}


@pytest.mark.parametrize("name", POLYTOPES)
def test_mixtures_give_the_point_back(name):
    convex = POLYTOPES[name]
    rng = np.random.default_rng(0)
    listed = convex.vertices().reshape(-1, convex.dim)
    for _ in range(20):
        x = rng.dirichlet(np.full(len(listed), 0.3)) @ listed
        weights, used = convex.decompose(x)
        assert np.allclose(weights @ used, x, atol=1e-10)
        assert weights.min() > 0.0
        assert weights.sum() == pytest.approx(1.0)
        for row in used:
            assert np.abs(listed - row).max(axis=1).min() < 1e-12
    with pytest.raises(ValueError, match="must"):
        convex.decompose(x + 1.0)


@pytest.mark.parametrize("name", POLYTOPES)
def test_the_weight_that_must_move_is_bounded_for_any_mixture(name):
    """min total weight moved, over all ways to reach y from a mixture that gives x, as an LP."""
    convex = POLYTOPES[name]
    rng = np.random.default_rng(1)
    listed = convex.vertices().reshape(-1, convex.dim)
    n = len(listed)
    worst = 0.0
    for _ in range(60):
        mixture = rng.dirichlet(np.full(n, 0.2))
        mixture[mixture < 1e-3] = 0.0
        mixture /= mixture.sum()
        x = mixture @ listed
        if rng.random() < 0.5:
            y = rng.dirichlet(np.full(n, 0.2)) @ listed
        else:  # an edge of the polytope, where the lemma is tightest
            a, b = rng.integers(0, n, 2)
            share = min(mixture[a], 0.2)
            y = x + share * (listed[b] - listed[a])
        distance = np.linalg.norm(y - x)
        if distance < 1e-6:
            continue
        # Unknowns: removed (n), added (n). mixture - removed + added mixes to y, totals agree.
        lp = linprog(
            np.concatenate([np.ones(n), np.zeros(n)]),
            A_eq=np.vstack(
                [
                    np.hstack([-listed.T, listed.T]),
                    np.concatenate([np.ones(n), -np.ones(n)])[None],
                ]
            ),
            b_eq=np.append(y - x, 0.0),
            bounds=[(0.0, m) for m in mixture] + [(0.0, None)] * n,
        )
        assert lp.status == 0
        worst = max(worst, lp.fun / (convex.mass_per_radius * distance))
    assert worst <= 1.0 + 1e-7
    assert worst > 0.2  # the constant is not wildly loose either


def test_membership_is_decided_by_the_oracle_alone():
    rng = np.random.default_rng(2)
    cube = sets.Polytope(
        np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).T.astype(float)
    )
    for _ in range(200):
        x = rng.uniform(-0.3, 1.3, 3)
        outside = np.maximum(np.maximum(-x, x - 1), 0)
        if 0 < np.linalg.norm(outside) < 1e-6:
            continue
        assert cube.contains(x) == (not outside.any())
    weights, vertices, certified = nearest_mixture(cube, np.array([2.0, 0.5, 0.5]), 1e-9)
    assert certified
    assert np.allclose((weights @ vertices)[0], 1.0)


def test_heaviest_first_takes_the_costliest():
    removed = heaviest_first(np.array([0.5, 0.2, 0.3]), np.array([1.0, 3.0, 2.0]), 0.4)
    assert np.allclose(removed, [0.0, 0.2, 0.2])
    assert np.allclose(heaviest_first(np.array([0.5, 0.5]), np.array([1.0, 1.0]), 1.0), [0.5, 0.5])
