"""The contract on every set with random parameters, and that it catches what it should."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reticent import sets
from reticent.sets import kernels

sizes = st.floats(1e-3, 1e3)
dims = st.integers(1, 7)
few = settings(
    deadline=None, derandomize=True, max_examples=20, suppress_health_check=list(HealthCheck)
)


@few
@given(dims, sizes, st.integers(0, 99))
def test_balls_and_simplex(dim, size, seed):
    for convex in (
        sets.L2Ball(dim, size),
        sets.L1Ball(dim, size),
        sets.LinfBall(dim, size),
        sets.Simplex(dim, size),
        sets.KSparseBall(dim, 1 + seed % dim, size),
    ):
        sets.check(convex, seed=seed)


@few
@given(dims, st.integers(0, 999))
def test_box_and_ellipsoid(dim, seed):
    rng = np.random.default_rng(seed)
    low = 10 * rng.standard_normal(dim)
    sets.check(sets.Box(low, low + np.round(np.abs(rng.standard_normal(dim)), 0)), seed=seed)
    root = rng.standard_normal((dim, dim))
    form = root @ root.T + 0.05 * np.eye(dim)
    sets.check(sets.Ellipsoid(form, rng.standard_normal(dim)), seed=seed)


@few
@given(st.integers(1, 8), st.integers(0, 999))
def test_matroids_of_quotas(dim, seed):
    rng = np.random.default_rng(seed)
    sets.check(sets.HyperSimplex(dim, int(rng.integers(1, dim + 1))), seed=seed)
    labels = rng.integers(0, 3, dim)
    groups = [np.flatnonzero(labels == i).tolist() for i in np.unique(labels)]
    ranks = [int(rng.integers(0, len(group) + 1)) for group in groups]
    sets.check(sets.PartitionMatroid(groups, ranks), seed=seed)


@few
@given(st.integers(1, 4), st.integers(1, 4), sizes, st.integers(0, 99))
def test_matrix_sets(rows, columns, size, seed):
    sets.check(sets.NuclearBall((rows, columns), size), seed=seed)
    sets.check(sets.Spectrahedron(rows, size), seed=seed)
    sets.check(sets.Birkhoff(rows), seed=seed)


@few
@given(st.integers(2, 7), st.integers(0, 999))
def test_flows(nodes, seed):
    rng = np.random.default_rng(seed)
    edges = [(i, i + 1) for i in range(nodes - 1)]
    for _ in range(int(rng.integers(0, 8))):
        a, b = sorted(rng.choice(nodes, 2, replace=False).tolist())
        edges.append((a, b))
    order = rng.permutation(len(edges))
    sets.check(sets.FlowPolytope([edges[i] for i in order], 0, nodes - 1), seed=seed)


@few
@given(st.integers(2, 6), st.integers(0, 999))
def test_spanning_trees(nodes, seed):
    rng = np.random.default_rng(seed)
    edges = [(int(rng.integers(0, i)), i) for i in range(1, nodes)]
    for _ in range(int(rng.integers(0, 6))):
        edges.append(tuple(rng.choice(nodes, 2, replace=False).tolist()))
    sets.check(sets.SpanningTreePolytope(edges), seed=seed)


@few
@given(st.integers(1, 5), st.integers(0, 999))
def test_base_polytopes(dim, seed):
    rng = np.random.default_rng(seed)
    items = rng.random((dim, 6)) < 0.4
    weights = rng.integers(1, 4, 6)

    def coverage(mask: np.ndarray) -> float:
        return float(weights @ items[mask].any(axis=0))

    def concave(mask: np.ndarray) -> float:
        return math.sqrt(mask.sum()) - 0.3 * mask.sum()

    sets.check(sets.BasePolytope(coverage, dim, granularity=1), seed=seed)
    sets.check(sets.BasePolytope(concave, dim), seed=seed)


@few
@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 999))
def test_polytopes(dim, count, seed):
    rng = np.random.default_rng(seed)
    sets.check(sets.Polytope(rng.standard_normal((count, dim))), seed=seed)


@settings(deadline=None, derandomize=True, max_examples=5)
@given(st.integers(1, 4), st.integers(0, 999))
def test_polyhedra(dim, seed):
    rng = np.random.default_rng(seed)
    eye = np.eye(dim)
    rows = np.vstack([eye, -eye, rng.standard_normal((3, dim))])
    bounds = np.concatenate([np.ones(2 * dim), rng.uniform(0.1, 1.0, 3)])
    sets.check(sets.Polyhedron(rows, bounds), seed=seed)
    if dim > 1:
        flat = sets.Polyhedron(rows, bounds, [rng.standard_normal(dim)], [0.0])
        sets.check(flat, seed=seed)


@few
@given(st.integers(1, 12), st.integers(0, 999))
def test_products(count, seed):
    rng = np.random.default_rng(seed)
    parts = [sets.Simplex(3), sets.L2Ball(2, 0.5), sets.L1Ball(2), sets.Box([0, 1], [2, 1]),
             sets.Birkhoff(2), sets.HyperSimplex(4, 2)]  # fmt: skip
    chosen = [parts[i] for i in rng.integers(0, len(parts), count)]
    sets.check(sets.Product(chosen), seed=seed)


def test_examples_and_the_whole_space(example):
    report = sets.check(example, trials=25, seed=7)
    assert report.passed
    assert sets.check(sets.WholeSpace(3)).passed


# ------------------------------------------------------------------ sets of a user


class Diamond(sets.ConvexSet):
    dim = 2
    diameter = 2.0

    def linear_minimizer(self, g):
        vertex = np.zeros(2)
        i = int(np.argmax(np.abs(g)))
        vertex[i] = -np.copysign(1.0, g[i])
        return vertex


def test_a_set_with_nothing_but_a_linear_minimizer_gets_the_rest():
    diamond = Diamond()
    report = sets.check(diamond)
    assert report.passed
    assert not diamond.is_flat
    assert diamond.contains([0.5, 0.5])
    assert not diamond.contains([0.5, 0.51])
    assert diamond.rho is None
    with pytest.raises(sets.LocalLinearMinimizerUnavailable, match="mass_per_radius"):
        diamond.local_linear_minimizer([0.0, 0.0], 0.1, [1.0, 0.0])
    weights, corners = diamond.decompose([0.25, -0.25])
    assert np.allclose(weights @ corners, [0.25, -0.25])
    center, radius = diamond.inner_ball
    assert 0.0 < radius <= np.sqrt(0.5)
    assert diamond.contains(center)
    assert diamond.kernel is None


def test_a_polytope_of_a_user_gets_a_local_oracle_from_its_constant():
    class Known(Diamond):
        # Facets have slopes (+-1, +-1): norm sqrt(2), slack 2 at the far vertices, 2 of them tight.
        mass_per_radius = math.sqrt(2) * 2.0 / 2.0

    known = Known()
    assert known.rho == pytest.approx(2.0 * math.sqrt(2.0))
    assert sets.check(known, trials=40).passed


def test_a_projection_of_a_user_gives_a_local_oracle():
    class Disc(sets.ConvexSet):
        dim = 2
        diameter = 2.0

        def linear_minimizer(self, g):
            norm = np.linalg.norm(g)
            return -np.asarray(g) / norm if norm else np.zeros(2)

        def project(self, x):
            x = np.asarray(x, dtype=float)
            return x / max(1.0, np.linalg.norm(x))

    disc = Disc()
    assert disc.can_project
    assert disc.rho == 1.01
    assert sets.check(disc, trials=30).passed


# ------------------------------------------------------------------ planted faults


class WrongProjection(sets.LinfBall):
    def project(self, x):
        x = np.asarray(x, dtype=float)
        return x / max(1.0, np.abs(x).max() / self.radius)  # feasible and idempotent, not nearest


class ProjectsOutside(sets.L2Ball):
    def _project(self, x):
        return super()._project(x) * 1.001


class WrongMinimizer(sets.Simplex):
    def _linear_minimizer(self, g):
        vertex = np.zeros(self.dim)
        vertex[np.argmin(np.abs(g))] = self.mass
        return vertex


class LazyMinimizer(Diamond):
    def linear_minimizer(self, g):
        return np.array([-np.copysign(1.0, g[0]), 0.0])  # never looks at the second coordinate

    def sample(self, rng):
        return np.array([0.0, 1.0]) * rng.uniform(-1, 1)

    def contains(self, x, tol=1e-9):
        return bool(np.abs(x).sum() <= 1 + tol)


class SmallDiameter(Diamond):
    diameter = 1.9


class ShortLocal(sets.L1Ball):
    def _local_linear_minimizer(self, x, radius, g):
        return super()._local_linear_minimizer(x, 0.2 * radius / self.rho, g)


class FarLocal(sets.L1Ball):
    def _local_linear_minimizer(self, x, radius, g):
        return self.linear_minimizer(g)


class BigInnerBall(sets.Simplex):
    @property
    def inner_ball(self):
        center, radius = super().inner_ball
        return center, 1.2 * radius


class CrookedHull(sets.Simplex):
    @property
    def affine_hull(self):
        point, basis = super().affine_hull
        return point, 1.1 * basis


class NarrowHull(sets.Simplex):
    @property
    def affine_hull(self):
        point, basis = super().affine_hull
        return point, basis[:, 1:]


class StraySample(sets.L2Ball):
    def sample(self, rng):
        return 1.5 * super().sample(rng) / 0.9 + 1.0


class WrongKernel(sets.L2Ball):
    @property
    def kernel(self):
        return 1, np.array([2.0 * self.radius])


class NotANumber(sets.L2Ball):
    """Its kind has no branch, as in a compiled set without a linear minimiser."""

    @property
    def kernel(self):
        return kernels.PRODUCT + 1, np.array([self.radius])


class Mutates(sets.Box):
    def linear_minimizer(self, g):
        g[:] = 0.0
        return self.lower.copy()


@pytest.mark.parametrize(
    ("faulty", "part", "words"),
    [
        (WrongProjection(3), "projection", "not the nearest"),
        (ProjectsOutside(3), "projection", "not in the set"),
        (WrongMinimizer(3), "linear minimiser", "in the set has"),
        (LazyMinimizer(), "linear minimiser", "in the set has"),
        (SmallDiameter(), "diameter and norm bound", "apart"),
        (ShortLocal(3), "local linear minimiser", "nearby has"),
        (FarLocal(3), "local linear minimiser", "rho"),
        (BigInnerBall(4), "inner ball", "the set"),
        (CrookedHull(4), "affine hull", "orthonormal"),
        (NarrowHull(4), "affine hull", "from the affine hull"),
        (StraySample(3), "samples are inside", "refuses"),
        (WrongKernel(3), "compiled kernel", "compiled"),
        (NotANumber(3, 1e6), "compiled kernel", "nan"),
        (Mutates([0, 0], [1, 1]), "linear minimiser", "changed its argument"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, sets.ConvexSet) else "",
)
def test_planted_faults_are_caught(faulty, part, words):
    report = sets.check(faulty, trials=30, raise_on_failure=False)
    failed = {finding.name: finding.detail for finding in report.findings if not finding.passed}
    assert part in failed, str(report)
    assert words in failed[part]
    with pytest.raises(sets.ContractError, match="FAIL"):
        sets.check(faulty, trials=30)


def test_a_crash_is_a_finding_and_other_objects_are_refused():
    class Broken(Diamond):
        def linear_minimizer(self, g):
            raise ZeroDivisionError("oops")

    with pytest.raises(sets.ContractError, match="ZeroDivisionError: oops"):
        sets.check(Broken())
    with pytest.raises(TypeError, match="ConvexSet"):
        sets.check([1, 2, 3])
    nameless = type("Nameless", (Diamond,), {"diameter": float("nan")})()
    with pytest.raises(sets.ContractError, match="diameter"):
        sets.check(nameless)
