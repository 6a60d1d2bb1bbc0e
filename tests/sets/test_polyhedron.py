"""Polyhedra: they agree with polytopes that describe the same set; empty, unbounded and flat ones."""

from __future__ import annotations

import numpy as np
import pytest

from reticent import sets

CUBE = np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).T.astype(float)


def cube_by_inequalities() -> sets.Polyhedron:
    return sets.Polyhedron(np.vstack([np.eye(3), -np.eye(3)]), [1, 1, 1, 0, 0, 0])


def test_two_descriptions_of_the_cube_agree_with_the_box():
    box, listed, cut_out = sets.Box(0, 1, dim=3), sets.Polytope(CUBE), cube_by_inequalities()
    rng = np.random.default_rng(0)
    for _ in range(10):
        g = rng.standard_normal(3)
        assert np.allclose(listed.linear_minimizer(g), box.linear_minimizer(g))
        assert np.allclose(cut_out.linear_minimizer(g), box.linear_minimizer(g))
        x = box.sample(rng)
        # Both replace the ball by the cube around x, in the coordinates of space.
        cube = np.clip(x - 0.2 * np.sign(g), 0, 1)
        assert g @ cut_out.local_linear_minimizer(x, 0.2, g) <= g @ cube + 1e-9
    for convex in (listed, cut_out):
        assert convex.diameter == pytest.approx(box.diameter)
        assert convex.norm_bound == pytest.approx(box.norm_bound)
        assert convex.inner_ball[1] == pytest.approx(0.5)
        assert not convex.is_flat
        assert convex.rho == pytest.approx(np.sqrt(3))


def test_small_radii_lose_no_digits():
    rng = np.random.default_rng(1)
    for convex in (sets.Polytope(CUBE), cube_by_inequalities()):
        for radius in (1e-9, 1e-6, 1e-3):
            x = convex.sample(rng)
            g = rng.standard_normal(3)
            p = convex.local_linear_minimizer(x, radius, g)
            assert np.linalg.norm(p - x) <= convex.rho * radius * (1 + 1e-6) + 1e-14
            exact = sets.Box(0, 1, dim=3).local_linear_minimizer(np.clip(x, 0, 1), radius, g)
            assert g @ (p - x) <= g @ (exact - x) + 1e-6 * radius + 1e-14


def test_implicit_equalities_are_found():
    # x + y <= 1 and x + y >= 1 leave a segment, without any equality being stated.
    segment = sets.Polyhedron([[1, 1], [-1, -1], [-1, 0], [0, -1]], [1, -1, 0, 0])
    _, basis = segment.affine_hull
    assert basis.shape == (2, 1)
    center, radius = segment.inner_ball
    assert np.allclose(center, [0.5, 0.5])
    assert radius == pytest.approx(np.sqrt(0.5))
    point = sets.Polyhedron([[1.0], [-1.0]], [2.0, -2.0])
    assert point.affine_hull[1].shape == (1, 0)
    assert point.inner_ball[1] == 0.0
    only_equal = sets.Polyhedron(np.zeros((0, 2)), [], np.eye(2), [1.0, 2.0])
    assert np.allclose(only_equal.center, [1.0, 2.0])


def test_bad_descriptions_are_refused():
    with pytest.raises(ValueError, match="empty"):
        sets.Polyhedron([[1.0], [-1.0]], [0.0, -1.0])
    with pytest.raises(ValueError, match=r"must be bounded.*coordinate 0 below"):
        sets.Polyhedron([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="given together"):
        sets.Polyhedron(np.eye(2), np.ones(2), E=np.ones((1, 2)))
    with pytest.raises(ValueError, match="b must be a vector of length 2"):
        sets.Polyhedron(np.eye(2), np.ones(3))
    with pytest.raises(ValueError, match="E must have 2 columns"):
        sets.Polyhedron(np.eye(2), np.ones(2), np.ones((1, 3)), [1.0])
    with pytest.raises(ValueError, match="finite"):
        sets.Polyhedron([[np.nan, 1.0]], [1.0])
    with pytest.raises(ValueError, match="one inequality per row"):
        sets.Polyhedron([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="at least one"):
        sets.Polytope(np.zeros((0, 3)))
    with pytest.raises(ValueError, match="finite"):
        sets.Polytope([[np.inf, 0.0]])
