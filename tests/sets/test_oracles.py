"""Every oracle of every set against an independent conic solver (cvxpy with Clarabel)."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from reticent import sets

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")

ACCURACY = 2e-6  # of the conic solver, relative to the size of the problem


def solve(problem: cp.Problem) -> float:
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert problem.status in ("optimal", "optimal_inaccurate")
    return float(problem.value)


def test_linear_minimizer_is_a_minimizer(example, describe):
    rng = np.random.default_rng(1)
    x, g = cp.Variable(example.dim), cp.Parameter(example.dim)
    problem = cp.Problem(cp.Minimize(g @ x), describe(example, x))
    for _ in range(4):
        g.value = rng.standard_normal(example.dim)
        best = solve(problem)
        vertex = example.linear_minimizer(g.value)
        assert g.value @ vertex == pytest.approx(best, abs=ACCURACY * max(1.0, example.norm_bound))
        assert example.contains(vertex)


def test_linear_minimizer_matches_brute_force_over_vertices(example):
    try:
        listed = example.vertices().reshape(-1, example.dim)
    except sets.VerticesUnavailable:
        pytest.skip("its vertices cannot be listed")
    rng = np.random.default_rng(2)
    for _ in range(50):
        g = np.round(rng.standard_normal(example.dim), int(rng.integers(0, 4)))
        assert g @ example.linear_minimizer(g) == pytest.approx((listed @ g).min(), abs=1e-9)


def test_projection_is_the_nearest_point(example, describe):
    if not example.can_project:
        with pytest.raises(sets.ProjectionUnavailable, match=r"FollowTheApproximateLeader.*frank"):
            example.project(np.zeros(example.dim))
        return
    rng = np.random.default_rng(3)
    p, x = cp.Variable(example.dim), cp.Parameter(example.dim)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(p - x)), describe(example, p))
    for scale in (0.3, 1.0, 10.0):
        x.value = scale * rng.standard_normal(example.dim)
        solve(problem)
        nearest = example.project(x.value)
        assert np.linalg.norm(nearest - p.value) <= 1e-4 * max(1.0, scale)
        # The distance is second order in the point, so it is the sharper comparison.
        theirs = np.linalg.norm(p.value - x.value)
        assert np.linalg.norm(nearest - x.value) <= theirs + ACCURACY * max(1.0, scale)
        assert example.contains(nearest)


def test_local_linear_minimizer_obeys_both_inequalities(example, describe):
    rng = np.random.default_rng(4)
    y, x, g = cp.Variable(example.dim), cp.Parameter(example.dim), cp.Parameter(example.dim)
    r = cp.Parameter(nonneg=True)
    near = cp.norm(y - x) <= r
    problem = cp.Problem(cp.Minimize(g @ y), [*describe(example, y), near])
    for trial in range(6):
        x.value = np.reshape(example.sample(rng), -1)
        if trial % 2:
            x.value = np.reshape(example.linear_minimizer(rng.standard_normal(example.dim)), -1)
        g.value = rng.standard_normal(example.dim)
        r.value = example.diameter * 10.0 ** rng.uniform(-2.5, 0.0)
        best = solve(problem)
        p = example.local_linear_minimizer(x.value, r.value, g.value)
        assert example.contains(p)
        assert g.value @ p <= best + ACCURACY * max(1.0, example.norm_bound)
        assert np.linalg.norm(p - x.value) <= example.rho * r.value * (1 + 1e-9)


def test_exact_local_oracles_are_exact(describe):
    rng = np.random.default_rng(5)
    for convex in (sets.L2Ball(4, 1.5), sets.Box([0.0, -1, 2], [1.0, 3, 2]), sets.LinfBall(3, 0.7)):
        y, x, g = cp.Variable(convex.dim), cp.Parameter(convex.dim), cp.Parameter(convex.dim)
        r = cp.Parameter(nonneg=True)
        problem = cp.Problem(cp.Minimize(g @ y), [*describe(convex, y), cp.norm(y - x) <= r])
        for _ in range(10):
            x.value = convex.sample(rng)
            g.value = rng.standard_normal(convex.dim)
            r.value = convex.diameter * rng.uniform(0.01, 1.0)
            p = convex.local_linear_minimizer(x.value, r.value, g.value)
            assert g.value @ p == pytest.approx(solve(problem), abs=ACCURACY)


def test_contains_agrees_with_the_description(example, describe):
    rng = np.random.default_rng(6)
    p, x = cp.Variable(example.dim), cp.Parameter(example.dim)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(p - x)), describe(example, p))
    _, basis = example.affine_hull
    for _ in range(4):
        inside = np.reshape(example.sample(rng), -1)
        step = rng.standard_normal(example.dim)
        if basis is not None:
            step = basis @ (basis.T @ step)
        x.value = inside + 0.3 * example.diameter * step / np.linalg.norm(step)
        distance = np.sqrt(max(solve(problem), 0.0))
        if distance > 1e-3:
            assert not example.contains(x.value)
        elif distance < 1e-6:
            assert example.contains(x.value, 1e-5)


def test_diameter_is_exact_where_vertices_are_listed(example):
    try:
        listed = example.vertices().reshape(-1, example.dim)
    except sets.VerticesUnavailable:
        pytest.skip("its vertices cannot be listed")
    apart = np.linalg.norm(listed[:, None] - listed[None], axis=2).max()
    assert apart <= example.diameter + 1e-9
    assert np.linalg.norm(listed, axis=1).max() <= example.norm_bound + 1e-9
    if not isinstance(example, sets.BasePolytope):
        assert apart == pytest.approx(example.diameter, abs=1e-9)
        assert np.linalg.norm(listed, axis=1).max() == pytest.approx(example.norm_bound, abs=1e-9)


def test_affine_hull_has_the_dimension_of_the_vertices(example):
    try:
        listed = example.vertices().reshape(-1, example.dim)
    except sets.VerticesUnavailable:
        pytest.skip("its vertices cannot be listed")
    rank = np.linalg.matrix_rank(listed - listed.mean(axis=0), tol=1e-9)
    _, basis = example.affine_hull
    assert (example.dim if basis is None else basis.shape[1]) == rank
    assert example.is_flat == (rank < example.dim)
