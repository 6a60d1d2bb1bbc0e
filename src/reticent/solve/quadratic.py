"""Minimise (1/2) s'Hs + q's over a set, to a proved gap: the inner step of the solvers for hindsight.

If the set has a projection, accelerated projected gradients are combined with Newton steps on the fixed point s =
project(s - t (Hs + q)), whose derivative is computed from the projection by finite differences: for a polyhedron the
projection is piecewise linear, so the derivative is exact. If it has none, vertices are collected and the minimum
over their hull is found by an active-set method (Wolfe 1976, "Finding the nearest point in a polytope", for a general
quadratic).

Gradient steps alone do not reach a certificate of 1e-6 on real data, where the condition number of H is about a
million; the Newton steps do.
"""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from reticent.checks import FloatArray
from reticent.sets.decomposition import minor_cycle
from reticent.solve.accelerated import accelerated
from reticent.solve.ball import in_ball
from reticent.solve.certificate import duality_gap
from reticent.solve.objective import Projection, Region

_FISTA_STEPS = 100
_NEWTON_STEPS = 20
_ROUNDS = 30
_VERTEX_STEPS = 2000


class Hull:
    """Vertices found so far and the weights of a point: a warm start from one solve to the next."""

    def __init__(self, vertices: FloatArray, weights: FloatArray) -> None:
        self.vertices = vertices
        self.weights = weights


class QuadraticSolver:
    """Minimises several quadratics over the same region.

    Which of the two methods is better depends more on the data than on the set, so the one that reached its tolerance
    last is tried first, and the other one if it fails.
    """

    def __init__(self, region: Region, hull: Hull | None = None) -> None:
        self.region = region
        self.hull = hull
        self.vertices_first = region.project is None or hull is not None

    def minimize(
        self,
        H: FloatArray,
        q: FloatArray,
        start: FloatArray,
        tolerance: float,
        deadline: float = math.inf,
    ) -> FloatArray:
        """A feasible point whose gap in the quadratic is at most the tolerance, or the best that was found.

        The deadline is in the units of ``time.perf_counter``.
        """
        exact = self._exact(H, q)
        if exact is not None:
            return exact
        region = self.region
        best, best_gap = start, math.inf
        for by_vertices in (self.vertices_first, not self.vertices_first):
            if by_vertices:
                self.hull = self.hull or Hull(region.minimize(q)[None, :], np.ones(1))
                s, gap = _by_vertices(region, H, q, tolerance, self.hull, deadline)
            elif region.project is not None:
                s, gap = _by_projection(region, H, q, start, tolerance, deadline)
            else:
                continue
            if gap < best_gap:
                best, best_gap = s, gap
                self.vertices_first = by_vertices
            if best_gap <= tolerance or time.perf_counter() > deadline:
                break
        return best

    def _exact(self, H: FloatArray, q: FloatArray) -> FloatArray | None:
        """The minimum, if there is a formula for it."""
        region = self.region
        if not H.any():
            return region.minimize(q)
        if region.project is None:
            return None
        scale = float(H[0, 0])
        if np.array_equal(H, scale * np.eye(len(q))):
            return region.project(-q / scale)
        if region.ball_radius is not None:
            return in_ball(H, q, region.ball_radius)
        # If the unconstrained minimum is in the set, it is the solution.
        free = _solve(H, -q)
        inside = region.project(free)
        if np.linalg.norm(inside - free) <= 1e-13 * np.linalg.norm(free):
            return inside
        return None


def projector(region: Region) -> Projection:
    """The set's projection, or one computed with its linear minimiser."""
    if region.project is not None:
        return region.project
    quadratics = QuadraticSolver(region)
    identity = np.eye(region.dim)

    def project(x: FloatArray) -> FloatArray:
        return quadratics.minimize(identity, -x, x, 1e-14 * (1.0 + float(x @ x)))

    return project


def _solve(H: FloatArray, b: FloatArray) -> FloatArray:
    try:
        return sla.cho_solve(sla.cho_factor(H), b)
    except sla.LinAlgError:
        return np.asarray(np.linalg.lstsq(H, b, rcond=None)[0], dtype=np.float64)


def _by_projection(
    region: Region,
    H: FloatArray,
    q: FloatArray,
    start: FloatArray,
    tolerance: float,
    deadline: float,
) -> tuple[FloatArray, float]:
    project = region.project
    assert project is not None
    top = _largest_eigenvalue(H)
    # A small step stays with the current active set, a large one looks for better ones; try several.
    typical = len(q) / float(np.trace(H))
    steps = (typical, 1.0 / top, 10.0 * typical)
    best = project(start)
    best_value, best_gap = _value(H, q, best), duality_gap(region, best, H @ best + q, 0.0)
    idle = 0
    for round_ in range(_ROUNDS):
        if best_gap <= tolerance or idle == len(steps) or time.perf_counter() > deadline:
            break
        before = best_gap
        way = accelerated(lambda v: H @ v + q, project, best, top)
        s = next(itertools.islice(way, _FISTA_STEPS - 1, None))
        value, gap = _value(H, q, s), duality_gap(region, s, H @ s + q, 0.0)
        if value <= best_value or gap < best_gap:
            best, best_value, best_gap = s, value, gap
        for _ in range(_NEWTON_STEPS):
            if best_gap <= tolerance:
                break
            s = _fixed_point_newton(project, H, q, best, steps[round_ % len(steps)])
            value, gap = _value(H, q, s), duality_gap(region, s, H @ s + q, 0.0)
            if gap > 0.9 * best_gap and value > best_value - 1e-3 * best_gap:
                break
            best, best_value, best_gap = s, value, gap
        idle = idle + 1 if best_gap > 0.5 * before else 0
    return best, best_gap


def _fixed_point_newton(
    project: Projection, H: FloatArray, q: FloatArray, s: FloatArray, step: float
) -> FloatArray:
    dim = len(q)
    v = s - step * (H @ s + q)
    p = project(v)
    h = 1e-7 * (1.0 + float(np.abs(v).max()))
    jacobian = np.empty((dim, dim))
    for i in range(dim):
        moved = v.copy()
        moved[i] += h
        jacobian[:, i] = (project(moved) - p) / h
    system = np.eye(dim) - jacobian + step * (jacobian @ H)
    try:
        move = np.linalg.solve(system, p - s)
    except np.linalg.LinAlgError:
        move = np.linalg.lstsq(system, p - s, rcond=None)[0]
    if not np.isfinite(move).all():
        return s
    return project(s + move)


def _by_vertices(
    region: Region,
    H: FloatArray,
    q: FloatArray,
    tolerance: float,
    hull: Hull,
    deadline: float,
) -> tuple[FloatArray, float]:
    V, weights = hull.vertices, hull.weights
    HV = V @ H
    K, p = HV @ V.T, V @ q
    keep, weights = _least_weights(K, p, weights, weights > 0.0)
    best, best_gap = weights @ V, math.inf
    idle = 0
    for _ in range(_VERTEX_STEPS):
        V, HV, K, p, weights = V[keep], HV[keep], K[np.ix_(keep, keep)], p[keep], weights[keep]
        hull.vertices, hull.weights = V, weights
        s = weights @ V
        g = weights @ HV + q
        vertex = region.minimize(g)
        gap = float(g @ (s - vertex))
        if gap < best_gap:
            best, best_gap, idle = s, gap, 0
        else:
            idle += 1
        if gap <= tolerance or idle > 50 or time.perf_counter() > deadline:
            break
        row = H @ vertex
        across = V @ row
        K = np.block([[K, across[:, None]], [across[None, :], np.array([[vertex @ row]])]])
        V, HV = np.vstack([V, vertex]), np.vstack([HV, row])
        p, weights = np.append(p, vertex @ q), np.append(weights, 0.0)
        keep, weights = _least_weights(K, p, weights, np.append(weights[:-1] > 0.0, True))
    return best, best_gap


def _least_weights(
    K: FloatArray, p: FloatArray, weights: FloatArray, keep: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], FloatArray]:
    """Weights of the minimum over a hull; K and p are the quadratic in terms of the weights."""
    return minor_cycle(
        weights, keep, lambda active: _affine_minimum(K[np.ix_(active, active)], p[active])
    )


def _affine_minimum(K: FloatArray, p: FloatArray) -> FloatArray:
    count = len(p)
    if count == 1:
        return np.ones(1)
    # Eliminating one weight leaves a positive semidefinite system, which Cholesky solves best.
    base = 0
    others = np.arange(1, count)
    M = K[1:, 1:] - K[base, 1:][None, :] - K[1:, base][:, None] + K[base, base]
    r = -(p[others] - p[base]) - (K[others, base] - K[base, base])
    jitter = 1e-14 * max(float(np.trace(M)) / (count - 1), 1e-300)
    try:
        factor = sla.cho_factor(M + jitter * np.eye(count - 1))
        inner = sla.cho_solve(factor, r)
        inner += sla.cho_solve(factor, r - M @ inner)
    except sla.LinAlgError:
        inner = np.linalg.lstsq(M, r, rcond=1e-13)[0]
    return np.concatenate([[1.0 - inner.sum()], inner])


def _value(H: FloatArray, q: FloatArray, s: FloatArray) -> float:
    return float(s @ (0.5 * (H @ s) + q))


def _largest_eigenvalue(H: FloatArray) -> float:
    if len(H) <= 400:
        return float(np.linalg.eigvalsh(H)[-1])
    from scipy.sparse.linalg import eigsh

    top = float(eigsh(H, k=1, which="LA", return_eigenvectors=False, tol=1e-3)[0])
    return 1.01 * top
