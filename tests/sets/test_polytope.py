"""Polytopes that are lists of vertices: many, in many dimensions, one or two."""

from __future__ import annotations

import numpy as np
import pytest

from reticent import sets


def test_higher_dimensions_fall_back_to_the_frame():
    rng = np.random.default_rng(2)
    cloud = sets.Polytope(rng.standard_normal((30, 8)))
    center, radius = cloud.inner_ball
    assert radius > 0.0
    assert cloud.contains(center)
    many = sets.Polytope(rng.standard_normal((3100, 2)))
    points = many.vertices()
    hull = points[np.linalg.norm(points, axis=1) > 2.0]
    assert np.linalg.norm(hull[:, None] - hull[None], axis=2).max() <= many.diameter


def test_single_points_and_segments():
    point = sets.Polytope([[1.0, 2.0]])
    assert point.diameter == 0.0
    assert point.inner_ball[1] == 0.0
    assert point.affine_hull[1].shape == (2, 0)
    segment = sets.Polytope([[0.0, 0.0], [3.0, 4.0], [1.5, 2.0]])
    assert segment.inner_ball[1] == pytest.approx(2.5)
    assert segment.affine_hull[1].shape == (2, 1)
