"""Minimisers of the second-order model over a set, for runs that end with a proved distance.

In a ball it is minimised exactly, elsewhere by accelerated projected gradients; with more columns than records in the
space of the records, and with too many of both by first-order steps on the objective.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from reticent.checks import FloatArray
from reticent.solve.accelerated import accelerated, settled
from reticent.solve.ball import in_ball, within
from reticent.solve.newton import Model, model_hessian, newton, proximal_newton, thinned_start
from reticent.solve.objective import Objective
from reticent.solve.region import Region
from reticent.solve.search import Way

_MOST = 2500
"""Largest number of columns for which second derivatives are kept as a matrix."""
_INNER = 20_000


def steps(
    objective: Objective, region: Region, record_norm: float, start: FloatArray | None = None
) -> Way:
    """Points on the way to the minimiser, without end, by a method that suits the set and the size.

    Parameters
    ----------
    objective : Objective
        Strongly convex, with a known smoothness.
    region : Region
        With a projection.
    record_norm : float
        A bound on the gradient of one record.
    start : array, optional
        Starting point; by default an approximate minimiser for a part of the records, or 0.
    """
    if region.free and objective.dim <= _MOST:
        found = thinned_start(objective, record_norm) if start is None else start
        return newton(objective, found)
    assert region.project is not None
    start = region.project(np.zeros(objective.dim) if start is None else start)
    return proximal_newton(objective, _model(objective, region), start)


def _model(objective: Objective, region: Region) -> Model:
    radius = region.ball_radius
    if objective.dim <= _MOST:
        return lambda x, z, g: _least(model_hessian(objective, z), g, x, region)
    if objective.count <= _MOST and (region.free or radius is not None):
        return _Wide(objective, radius)
    if region.free:
        return lambda x, z, g: x + _conjugate(objective, z, g)
    return lambda x, z, g: _first_order(objective, region, x)


def _least(H: FloatArray, g: FloatArray, x: FloatArray, region: Region) -> FloatArray:
    """The minimiser of <g, s - x> + (s - x)'H(s - x)/2 over the set."""
    assert region.project is not None
    if region.ball_radius is not None:
        return in_ball(H, g - H @ x, region.ball_radius)
    top = float(np.linalg.eigvalsh(H)[-1])
    way = accelerated(lambda s: g + H @ (s - x), region.project, x, top)
    return settled(way, x, _INNER, 1e-15)


class _Wide:
    """For more columns than records: solve in the space of the records, by Woodbury's identity."""

    def __init__(self, objective: Objective, radius: float | None) -> None:
        self.objective = objective
        self.radius = radius
        A = objective.terms.A
        self.products = np.asarray((A @ A.T).toarray() if sp.issparse(A) else A @ A.T)

    def __call__(self, x: FloatArray, z: FloatArray, g: FloatArray) -> FloatArray:
        A, ridge = self.objective.terms.A, self.objective.least_curvature
        roots = np.sqrt(self.objective.terms.bends(z))
        inner = roots[:, None] * self.products * roots

        def solve(v: FloatArray, shift: float) -> FloatArray:
            level = ridge + shift
            matrix = inner + level * np.eye(len(roots))
            factor = scipy.linalg.cho_factor(matrix, lower=True)
            return (v - A.T @ (roots * scipy.linalg.cho_solve(factor, roots * (A @ v)))) / level

        if self.radius is None:
            return x - solve(g, 0.0)
        # The model's linear term at 0; H x = A'(w A x) + ridge x.
        c = A.T @ (roots * roots * (A @ x)) + ridge * x - g
        return within(solve, c, self.radius)


def _conjugate(objective: Objective, z: FloatArray, g: FloatArray) -> FloatArray:
    dim = objective.dim

    def times(v: FloatArray) -> FloatArray:
        return objective.terms.gram_times(z, v) + objective.least_curvature * v

    operator = scipy.sparse.linalg.LinearOperator((dim, dim), matvec=times)
    found, _ = scipy.sparse.linalg.cg(operator, -g, rtol=1e-10, maxiter=2000)
    return found


def _first_order(objective: Objective, region: Region, x: FloatArray) -> FloatArray:
    """For many columns and records on a set: accelerated projected gradients on the objective itself."""
    assert region.project is not None

    def gradient(s: FloatArray) -> FloatArray:
        return objective.predictors_and_gradient(s)[1]

    way = accelerated(gradient, region.project, x, objective.smoothness)
    return settled(way, x, _INNER // 20)
