"""Products: the shared radius of the local oracle, both ways, and the geometry of blocks."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest

from reticent import sets


def test_rho_is_the_smaller_of_the_two_bounds():
    two = sets.Product([sets.L2Ball(2), sets.L2Ball(3)])
    assert two.rho == pytest.approx(math.sqrt(2.0))
    many = sets.Product([sets.L2Ball(2)] * 50)
    assert many.rho == pytest.approx(math.sqrt(3.25))
    mixed = sets.Product([sets.Simplex(8), sets.L1Ball(9)])
    assert mixed.rho == pytest.approx(math.hypot(2.0, 3.0))


def test_the_shared_radius_beats_every_split_of_it():
    rng = np.random.default_rng(0)
    blocks = [sets.L2Ball(2), sets.Simplex(3), sets.LinfBall(2, 0.3), sets.L1Ball(3)] * 5
    product = sets.Product(blocks)
    assert product.rho == pytest.approx(math.sqrt(3.25) * max(b.rho for b in blocks))
    y, x, g = cp.Variable(product.dim), cp.Parameter(product.dim), cp.Parameter(product.dim)
    r = cp.Parameter(nonneg=True)
    rows, start = [cp.norm(y - x) <= r], 0
    for block in blocks:
        part = y[start : start + block.dim]
        start += block.dim
        if isinstance(block, sets.L2Ball):
            rows.append(cp.norm(part) <= 1)
        elif isinstance(block, sets.Simplex):
            rows += [part >= 0, cp.sum(part) == 1]
        elif isinstance(block, sets.LinfBall):
            rows.append(cp.norm_inf(part) <= 0.3)
        else:
            rows.append(cp.norm1(part) <= 1)
    problem = cp.Problem(cp.Minimize(g @ y), rows)
    for trial in range(12):
        x.value = product.sample(rng)
        g.value = rng.standard_normal(product.dim)
        if trial % 3 == 0:  # most of the gain in one block: the radius must go there
            g.value = g.value * np.repeat(10.0 ** rng.uniform(-3, 0, 20), [b.dim for b in blocks])
        r.value = product.diameter * 10.0 ** rng.uniform(-3, 0)
        problem.solve(solver=cp.CLARABEL)
        p = product.local_linear_minimizer(x.value, r.value, g.value)
        assert g.value @ p <= problem.value + 1e-6
        assert np.linalg.norm(p - x.value) <= product.rho * r.value * (1 + 1e-9)
        assert product.contains(p)


def test_blocks_keep_their_geometry():
    product = sets.Product([sets.Simplex(3), sets.Birkhoff(2), sets.Box([1, 0], [1, 4])])
    assert product.diameter == pytest.approx(math.sqrt(2 + 4 + 16))
    assert product.norm_bound == pytest.approx(math.sqrt(1 + 2 + 17))
    assert product.is_flat
    assert product.affine_hull[1].shape == (9, 2 + 1 + 1)
    assert product.inner_ball[1] == pytest.approx(1 / math.sqrt(6))
    assert len(product.vertices()) == 3 * 2 * 2
    first, square, box = product.split(product.center)
    assert first.shape == (3,)
    assert square.shape == (2, 2)
    assert np.allclose(box, [1, 2])
    weights, vertices = product.decompose(product.center)
    assert np.allclose(weights @ vertices, product.center)


def test_a_block_without_projection_or_local_oracle_is_named():
    product = sets.Product([sets.Simplex(3), sets.Birkhoff(2)])
    assert not product.can_project
    with pytest.raises(sets.ProjectionUnavailable, match=r"Birkhoff\(n=2\)"):
        product.project(np.zeros(7))
    rough = sets.BasePolytope(lambda mask: float(np.sqrt(mask.sum())), 3)
    lacking = sets.Product([sets.Simplex(3), rough])
    assert lacking.rho is None
    with pytest.raises(sets.LocalLinearMinimizerUnavailable, match="granularity"):
        lacking.local_linear_minimizer(lacking.center, 0.1, np.ones(6))


def test_bad_blocks_are_refused():
    with pytest.raises(ValueError, match="at least one set"):
        sets.Product([])
    with pytest.raises(TypeError, match=r"sets\[1\] must be a ConvexSet"):
        sets.Product([sets.L2Ball(2), "ball"])


def test_a_block_whose_kernel_the_compiled_loop_does_not_know():
    """A product of such sets has no kernel; one that did would leave the block where it is."""

    class Newer(sets.L2Ball):
        kernel = (sets.kernels.PRODUCT + 1, np.ones(1))

    product = sets.Product([Newer(2), sets.Simplex(2)])
    assert product.kernel is None
    assert np.allclose(product.project([3.0, 4.0, 1.0, 0.0]), [0.6, 0.8, 1.0, 0.0])
