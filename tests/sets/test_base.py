"""What is common to all sets: bad input, forms, defaults, laziness, geometry of the simple ones."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys

import numpy as np
import pytest

from reticent import sets
from reticent.sets.hull import zero_sum_basis


def test_nonfinite_and_misshapen_points_are_refused_everywhere(example):
    good = np.zeros(example.dim)
    for bad in (np.nan, np.inf, -np.inf):
        broken = good.copy()
        broken[-1] = bad
        with pytest.raises(ValueError, match=f"g must be finite; entry {example.dim - 1}"):
            example.linear_minimizer(broken)
        with pytest.raises(ValueError, match="g must be finite"):
            example.local_linear_minimizer(example.center, 0.1, broken)
        with pytest.raises(ValueError, match="x must be finite"):
            example.local_linear_minimizer(broken, 0.1, good)
        if example.can_project:
            with pytest.raises(ValueError, match="x must be finite"):
                example.project(broken)
        assert not example.contains(broken)
    both = np.zeros(example.dim)
    if example.dim > 1:
        both[0], both[1] = np.inf, -np.inf
        with pytest.raises(ValueError, match="finite"):
            example.linear_minimizer(both)
    long = np.zeros(example.dim + 1)
    for call in (example.linear_minimizer, example.contains, example.decompose):
        with pytest.raises(ValueError, match="shape"):
            call(long)
    with pytest.raises(TypeError, match="real numbers"):
        example.linear_minimizer(np.zeros(example.dim, dtype=complex))
    with pytest.raises(ValueError, match="radius"):
        example.local_linear_minimizer(example.center, -0.1, good)
    with pytest.raises(ValueError, match="radius"):
        example.local_linear_minimizer(example.center, np.nan, good)


def test_inputs_of_other_types_are_converted(example):
    whole = np.arange(example.dim)
    assert np.array_equal(
        example.linear_minimizer(whole), example.linear_minimizer(whole.astype(float))
    )
    assert np.allclose(
        example.linear_minimizer(whole.tolist()), example.linear_minimizer(whole.astype(np.float32))
    )
    apart = np.zeros((example.dim, 2))
    apart[:, 0] = whole
    assert np.array_equal(example.linear_minimizer(apart[:, 0]), example.linear_minimizer(whole))


def test_huge_but_finite_directions_pass(example):
    g = np.full(example.dim, 1e307)  # their sum overflows
    g[0] = -1e307
    assert example.contains(example.linear_minimizer(g))


def test_sets_survive_pickling(example):
    if isinstance(example, sets.BasePolytope):
        pytest.skip("its function decides")
    again = pickle.loads(pickle.dumps(example))
    g = np.linspace(-1, 1, example.dim)
    assert np.array_equal(again.linear_minimizer(g), example.linear_minimizer(g))
    assert repr(again) == repr(example)


def test_answers_do_not_share_memory_with_the_set(example):
    for get in (lambda: example.center, lambda: example.linear_minimizer(np.ones(example.dim))):
        before = get().copy()
        get()[...] = 99.0
        assert np.array_equal(get(), before)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: sets.L2Ball(0), "dim must be at least 1"),
        (lambda: sets.L2Ball(3, -1.0), "radius must be a finite number"),
        (lambda: sets.L2Ball(3, 0.0), "radius"),
        (lambda: sets.L1Ball(3, math.nan), "radius"),
        (lambda: sets.L1Ball(3, math.inf), "radius"),
        (lambda: sets.LinfBall(3, -2), "radius"),
        (lambda: sets.Simplex(3, mass=-1), "mass"),
        (lambda: sets.HyperSimplex(3, 4), "k must be between 1 and 3"),
        (lambda: sets.HyperSimplex(3, 0), "k must be"),
        (lambda: sets.KSparseBall(3, 4), "k must be"),
        (lambda: sets.KSparseBall(3, 1, tau=0), "tau"),
        (lambda: sets.Box([1.0], [0.0]), "the box is empty"),
        (lambda: sets.Box([0.0, 0.0], [1.0]), "agree on one number"),
        (lambda: sets.Box(0.0, 1.0), "set dim="),
        (lambda: sets.Box([0.0], [np.inf]), "finite"),
        (lambda: sets.Box([[0.0]], [[1.0]]), "vectors or numbers"),
        (lambda: sets.PartitionMatroid([[0, 1], [1, 2]], [1, 1]), "exactly once"),
        (lambda: sets.PartitionMatroid([[0, 1], [3]], [1, 1]), "exactly once"),
        (lambda: sets.PartitionMatroid([[0, 1]], [3]), r"ranks\[0\]"),
        (lambda: sets.PartitionMatroid([[0, 1]], [1, 1]), "one number per group"),
        (lambda: sets.PartitionMatroid([[0, 1], []], [1, 0]), "at least one coordinate"),
        (lambda: sets.Ellipsoid([1.0, -1.0]), "positive definite"),
        (lambda: sets.Ellipsoid([[1.0, 2.0], [0.0, 1.0]]), "symmetric"),
        (lambda: sets.Ellipsoid([[1.0, np.nan], [np.nan, 1.0]]), "finite"),
        (lambda: sets.Ellipsoid(np.ones((2, 3))), "square"),
        (lambda: sets.Ellipsoid([1.0, 1.0], center=[0.0]), "center must be a vector of length 2"),
        (lambda: sets.NuclearBall((2,)), "rows, columns"),
        (lambda: sets.NuclearBall((2, 0)), r"shape\[1\]"),
        (lambda: sets.Spectrahedron(2, trace=0.0), "trace"),
        (lambda: sets.Birkhoff(0), "n must be at least 1"),
    ],
)
def test_bad_parameters_are_refused_with_the_reason(build, words):
    with pytest.raises(ValueError, match=words):
        build()


def test_types_of_parameters():
    with pytest.raises(TypeError, match="whole number"):
        sets.L2Ball(2.5)
    with pytest.raises(TypeError, match="real number"):
        sets.L2Ball(2, radius="big")


def test_a_linear_function_has_no_minimum_over_the_whole_space():
    space = sets.WholeSpace(3)
    with pytest.raises(ValueError, match="bounded set"):
        space.linear_minimizer([1.0, 0.0, 0.0])
    assert space.diameter == math.inf
    assert space.contains([1e300, 0.0, 0.0])
    with pytest.raises(sets.VerticesUnavailable):
        space.vertices()


def test_vertices_are_listed_only_where_there_are_few():
    with pytest.raises(sets.VerticesUnavailable, match="cannot list"):
        sets.L2Ball(3).vertices()
    for big in (sets.LinfBall(40), sets.Birkhoff(12), sets.HyperSimplex(60, 30), sets.L1Ball(99),
                sets.KSparseBall(60, 30), sets.Product([sets.Simplex(9)] * 9),
                sets.PartitionMatroid([range(30), range(30, 60)], [15, 15])):  # fmt: skip
        with pytest.raises(sets.VerticesUnavailable, match="more than limit"):
            big.vertices(limit=100)


def test_inner_balls_of_the_simple_sets_touch_their_boundary(example):
    """No larger ball fits around the same centre, for sets that know their facets."""
    center, radius = example.inner_ball
    _, basis = example.affine_hull
    directions = np.eye(example.dim) if basis is None else basis
    if isinstance(example, sets.NuclearBall | sets.Ellipsoid):
        pytest.skip("its nearest face is not along a vertex direction")
    try:
        listed = example.vertices().reshape(-1, example.dim)
    except sets.VerticesUnavailable:
        pytest.skip("its vertices cannot be listed")
    from scipy.spatial import ConvexHull

    along = (listed - center.reshape(-1)) @ directions
    if directions.shape[1] == 1:
        exact = np.abs(along).min()
    elif directions.shape[1] > 6:
        pytest.skip("too many facets")
    else:
        exact = -ConvexHull(along).equations[:, -1].max()
    assert radius == pytest.approx(exact, abs=1e-7)


def test_zero_sum_basis():
    for n in (1, 2, 7):
        basis = zero_sum_basis(n)
        assert basis.shape == (n, n - 1)
        assert np.allclose(basis.T @ basis, np.eye(n - 1))
        assert np.allclose(basis.sum(axis=0), 0.0)


def test_the_default_frame_agrees_with_the_known_hull():
    simplex = sets.Simplex(5)
    _, basis, center, radius = simplex._frame
    _, known = simplex.affine_hull
    assert np.allclose(basis @ basis.T, known @ known.T)
    assert np.allclose(center, simplex.center)  # one simplex, so its inscribed ball is the ball
    assert radius == pytest.approx(simplex.inner_ball[1])


def test_names_load_when_used():
    code = (
        "import sys; from reticent import sets; "
        "assert 'numba' not in sys.modules and 'scipy.optimize' not in sys.modules; "
        "sets.L2Ball(3); assert 'scipy.optimize' not in sys.modules; "
        "assert all(getattr(sets, name) for name in dir(sets)); assert callable(sets.check)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = sets.Nonsense


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
