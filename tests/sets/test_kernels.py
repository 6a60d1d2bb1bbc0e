"""The compiled kernels against plain references that sort and bisect."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from reticent import sets
from reticent.sets import kernels
from reticent.sets.thresholds import capped_threshold, simplex_threshold

finite = st.floats(-1e3, 1e3, allow_subnormal=False)
vectors = npst.arrays(np.float64, st.integers(1, 12), elements=finite)


def sorted_simplex_projection(x: np.ndarray, mass: float) -> np.ndarray:
    """The textbook way: sort, find the last coordinate that stays positive."""
    descending = np.sort(x)[::-1]
    excess = (np.cumsum(descending) - mass) / np.arange(1, x.size + 1)
    last = np.flatnonzero(descending > excess)[-1]
    return np.maximum(x - excess[last], 0.0)


def projected(kind: int, params: list[float], x: np.ndarray) -> np.ndarray:
    out = x.copy()
    kernels.project_inplace(kind)(np.array(params, dtype=float), out, np.full(2 * x.size, np.nan))
    return out


@settings(deadline=None, derandomize=True, max_examples=200)
@given(vectors, st.floats(0.01, 100.0))
def test_simplex_projection_equals_the_sorted_one(x, mass):
    theirs = sorted_simplex_projection(x, mass)
    assert np.allclose(projected(kernels.SIMPLEX, [mass], x), theirs, atol=1e-11)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(vectors, st.floats(0.01, 100.0))
def test_l1_projection_equals_the_sorted_one(x, radius):
    theirs = x
    if np.abs(x).sum() > radius:
        theirs = np.sign(x) * sorted_simplex_projection(np.abs(x), radius)
    assert np.allclose(projected(kernels.L1BALL, [radius], x), theirs, atol=1e-11)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(vectors, st.floats(0.01, 100.0))
def test_ball_and_box_projections(x, size):
    norm = np.linalg.norm(x)
    assert np.allclose(projected(kernels.L2BALL, [size], x), x * min(1.0, size / max(norm, 1e-300)))
    bounds = [-size] * x.size + [0.5 * size] * x.size
    assert np.array_equal(projected(kernels.BOX, bounds, x), np.clip(x, -size, 0.5 * size))
    assert np.array_equal(projected(kernels.UNCONSTRAINED, [], x), x)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(vectors, st.floats(0.01, 0.99), st.floats(0.1, 10.0))
def test_capped_threshold_solves_its_equation(x, share, cap):
    total = share * cap * x.size
    shift, t = capped_threshold(x, cap, total)
    assert np.clip((x - shift) - t, 0.0, cap).sum() == pytest.approx(total, abs=1e-9 * cap)


def test_huge_entries_do_not_swallow_the_mass():
    for x in ([1e17, 0.0, 1e17], [1e200, 1.0, -1e200], [-1e17, -1e17 - 64, 0.0]):
        x = np.array(x)
        p = sets.Simplex(3).project(x)
        assert p.sum() == pytest.approx(1.0)
        assert sets.L1Ball(3).contains(sets.L1Ball(3).project(x))
        assert sets.HyperSimplex(3, 2).project(x).sum() == pytest.approx(2.0)
        assert np.linalg.norm(sets.L2Ball(3).project(x)) == pytest.approx(1.0)
    assert np.allclose(sets.Simplex(3).project([1e17, 0.0, 1e17]), [0.5, 0.0, 0.5])


def test_slow_discarding_falls_back_to_sorting():
    # Each pass of discarding drops one coordinate only: the gaps double from one to the next.
    x = -(2.0 ** np.arange(200.0)) / 2.0**100
    mass = 1e60
    work = np.empty(x.size)
    shift, t = simplex_threshold(x, mass, work)
    assert np.maximum(x - shift - t, 0.0).sum() == pytest.approx(mass)
    assert np.allclose(sets.Simplex(200, mass).project(x), sorted_simplex_projection(x, mass))


def test_projection_leaves_its_argument_alone_and_is_exact_inside():
    rng = np.random.default_rng(0)
    for convex in (sets.L2Ball(4), sets.L1Ball(4), sets.LinfBall(4), sets.WholeSpace(4)):
        x = 0.4 * rng.standard_normal(4) / 4
        before = x.copy()
        p = convex.project(x)
        assert np.array_equal(p, before)
        assert p is not x
        assert np.array_equal(x, before)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(npst.arrays(np.float64, 5, elements=finite), st.integers(0, 3))
def test_linear_minimizers_equal_the_formulas(g, which):
    kinds = [
        (kernels.L1BALL, [2.0]), (kernels.SIMPLEX, [2.0]), (kernels.L2BALL, [2.0]),
        (kernels.BOX, [-1.0] * 5 + [2.0] * 5),
    ]  # fmt: skip
    kind, params = kinds[which]
    out = np.full(5, np.nan)
    kernels.linear_minimizer_inplace(kind)(np.array(params), g, out)
    lowest = [-2 * np.abs(g).max(), 2 * g.min(), -2 * np.linalg.norm(g),
              np.minimum(-g, 2 * g).sum()]  # fmt: skip
    assert g @ out == pytest.approx(lowest[which], rel=1e-12, abs=1e-12)


def test_product_kernel_works_block_by_block():
    inner = sets.Product([sets.Simplex(3), sets.L2Ball(2, 0.5)])
    outer = sets.Product([inner, sets.L1Ball(4), sets.Box([0, 0], [1, 2]), sets.WholeSpace(1)])
    kind, params = outer.kernel
    assert kind == kernels.PRODUCT
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = 3 * rng.standard_normal(outer.dim)
        parts = [
            sorted_simplex_projection(x[:3], 1.0),
            x[3:5] * min(1.0, 0.5 / np.linalg.norm(x[3:5])),
            sets.L1Ball(4).project(x[5:9]),
            np.clip(x[9:11], [0, 0], [1, 2]),
            x[11:],
        ]
        out = x.copy()
        kernels.project_inplace(kind)(params, out, np.empty(2 * outer.dim))
        assert np.allclose(out, np.concatenate(parts))
    bounded = sets.Product([inner, sets.L1Ball(4), sets.Box([0, 0], [1, 2])])
    g = rng.standard_normal(bounded.dim)
    out = np.empty(bounded.dim)
    kind, params = bounded.kernel
    kernels.linear_minimizer_inplace(kind)(params, g, out)
    assert np.allclose(out, bounded.linear_minimizer(g))
    assert sets.Product([sets.Birkhoff(2), sets.L2Ball(2)]).kernel is None


def local(kind: int, params: list[float], x, radius: float, g) -> np.ndarray:
    out = np.full(x.size, np.nan)
    kernels.local_linear_minimizer_inplace(kind)(np.array(params), x, radius, g, out)
    return out


def test_local_l1_ball_solves_its_linear_program():
    from scipy.optimize import linprog

    rng = np.random.default_rng(1)
    for _ in range(60):
        d = int(rng.integers(1, 7))
        x = sets.L1Ball(d, 1.5).sample(rng) * rng.choice([0.3, 1.0])
        if rng.random() < 0.3:
            x[rng.random(d) < 0.5] = 0.0
        g = np.round(rng.standard_normal(d), 1)
        radius = float(10 ** rng.uniform(-2, 0.5))
        p = local(kernels.L1BALL, [1.5], x, radius, g)
        # p = a - b; |p - x| <= u + v: everything split into positive parts.
        eye, one, none = np.eye(d), np.ones(d), np.zeros(d)
        lp = linprog(
            np.concatenate([g, -g, none, none]),
            A_ub=[np.concatenate([one, one, none, none]), np.concatenate([none, none, one, one])],
            b_ub=[1.5, np.sqrt(d) * radius],
            A_eq=np.hstack([eye, -eye, -eye, eye]),
            b_eq=x,
        )
        assert g @ p == pytest.approx(lp.fun, abs=1e-9)
        assert np.abs(p).sum() <= 1.5 + 1e-12
        assert np.abs(p - x).sum() <= np.sqrt(d) * radius + 1e-12


def test_local_simplex_moves_the_promised_mass_and_meets_its_bound():
    rng = np.random.default_rng(2)
    largest = 0.0
    for _ in range(300):
        n = int(rng.integers(2, 8))
        simplex = sets.Simplex(n, 2.0)
        x = simplex.sample(rng)
        if rng.random() < 0.5:
            x = np.zeros(n)
            x[rng.choice(n, 2, replace=False)] = 1.0
        radius = float(10 ** rng.uniform(-2, 0.5))
        g = rng.standard_normal(n)
        p = local(kernels.SIMPLEX, [2.0], x, radius, g)
        k = min(np.count_nonzero(x), n // 2)
        moved = min(radius * np.sqrt(k * (n - k) / n), 2.0)
        assert np.maximum(x - p, 0).sum() <= moved + 1e-12
        assert p.sum() == pytest.approx(2.0)
        assert p.min() >= 0.0
        largest = max(largest, np.linalg.norm(p - x) / (simplex.rho * radius))
        assert largest <= 1.0 + 1e-12
    # Equality: one coordinate holds enough to give everything that has to move.
    x = np.array([2.0 - 3e-3, 1e-3, 1e-3, 1e-3])
    p = local(kernels.SIMPLEX, [2.0], x, 0.1, np.array([1.0, 0.0, 0.0, -1.0]))
    assert np.linalg.norm(p - x) == pytest.approx(0.1 * np.sqrt(4 / 2))


@pytest.mark.parametrize("radius", [1e-12, 1e-9, 1e-6, 1e-3])
def test_local_oracles_keep_their_digits_at_tiny_radii(radius):
    rng = np.random.default_rng(3)
    for convex in (sets.L2Ball(4), sets.L1Ball(4), sets.LinfBall(4), sets.Simplex(4)):
        for _ in range(20):
            x = convex.project(rng.standard_normal(4))
            g = rng.standard_normal(4)
            p = convex.local_linear_minimizer(x, radius, g)
            assert np.linalg.norm(p - x) <= convex.rho * radius * (1 + 1e-6) + 1e-15
            # Towards the global minimiser there is always something to gain.
            v = convex.linear_minimizer(g)
            way = min(1.0, radius / np.linalg.norm(v - x)) if np.any(v != x) else 0.0
            assert g @ (p - x) <= way * (g @ (v - x)) + 1e-15 + 1e-9 * radius


def test_zero_radius_stays_and_zero_direction_is_harmless():
    for convex in (sets.L2Ball(3), sets.L1Ball(3), sets.LinfBall(3), sets.Simplex(3)):
        x = convex.linear_minimizer(np.array([1.0, -2.0, 0.5]))
        assert np.allclose(convex.local_linear_minimizer(x, 0.0, np.ones(3)), x)
        assert convex.contains(convex.local_linear_minimizer(x, 0.5, np.zeros(3)))
        assert convex.contains(convex.linear_minimizer(np.zeros(3)))


def test_l1_linear_minimizer_takes_the_first_largest_entry_at_any_length():
    rng = np.random.default_rng(4)
    for d in (1, 7, 1023, 1024, 1025, 5000):
        g = np.round(rng.standard_normal(d), 1)
        vertex = sets.L1Ball(d, 3.0).linear_minimizer(g)
        first = np.argmax(np.abs(g))
        assert np.flatnonzero(vertex).tolist() == [first]
        assert vertex[first] == -np.copysign(3.0, g[first])
        out = np.empty(d)
        kernels.linear_minimizer_inplace(kernels.L1BALL)(np.array([3.0]), g, out)
        assert np.array_equal(out, vertex)
        g[d // 2] = np.nan
        with pytest.raises(ValueError, match=f"entry {d // 2} is nan"):
            sets.L1Ball(d).linear_minimizer(g)
    huge = np.full(2000, 1e306)  # the sum overflows, no entry does
    assert sets.L1Ball(2000).linear_minimizer(huge)[0] == -1.0
