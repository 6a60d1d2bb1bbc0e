"""Proximal Newton steps over a set, and what takes their place where there are too many columns.

Each step minimises the second-order model over the set (Lee, Sun and Saunders, *Proximal Newton-type
methods*): exactly in a ball, by accelerated projected gradients elsewhere; with more columns than
records in the space of the records, and with too many of both by first-order steps on the objective.

The one thing a reader would get wrong: as in ``reticent.erm._newton``, nothing here is part of the
promise; ``reticent.erm._minimise`` certifies the point where it ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from reticent._checks import FloatArray
from reticent.erm._newton import MOST, along, hessian
from reticent.erm._objective import Objective
from reticent.sets import L2Ball, WholeSpace

_SURE = 1e-4
"""Where a step promises no more of the summed loss, nobody looks whether it keeps its promise."""
_INNER = 20_000

Model = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


def steps(objective: Objective) -> Generator[tuple[FloatArray, FloatArray], int]:
    """Points and gradients on the way to the minimiser, for ever.

    It is told for how many steps the certificate has not become better.
    """
    problem = objective.problem
    model = _model(objective)
    x = np.asarray(problem.set.project(problem.shaped(np.zeros(problem.dim))).ravel())
    z, g = objective.predictors_and_gradient(x)
    while True:
        stalled = yield x, g
        d = model(x, z, g) - x
        gain, length = float(g @ d), 1.0
        if stalled % 2:
            # Values may be too coarse to tell why a step was no good; slopes along it are not. At
            # the border rounding may spoil these, so every other step is taken unseen.
            length = along(objective, x, z, d, problem.predictors(d))
        elif gain < -_SURE:
            length = _length(objective, x, z, d, problem.predictors(d), gain)
        x = x + length * d
        z, g = objective.predictors_and_gradient(x)


def _length(
    objective: Objective,
    x: FloatArray,
    z: FloatArray,
    d: FloatArray,
    dz: FloatArray,
    slope: float,
) -> float:
    """A full step where the model was good; otherwise to the minimum along the way."""
    f, trial = objective.value(x, z), objective.value(x + d, z + dz)
    if trial <= f + 0.25 * slope + 1e-13 * abs(f):
        return 1.0
    return along(objective, x, z, d, dz)


def _model(objective: Objective) -> Model:
    """How to minimise the second-order model over the set."""
    problem = objective.problem
    free, ball = isinstance(problem.set, WholeSpace), isinstance(problem.set, L2Ball)
    if problem.dim <= MOST:
        if ball:
            return lambda x, z, g: _in_ball(hessian(objective, z), g, x, problem.set.radius)
        return lambda x, z, g: _in_set(objective, hessian(objective, z), g, x)
    if problem.count <= MOST and (free or ball):
        return _Wide(objective)
    if free:
        return lambda x, z, g: x + _conjugate(objective, z, g)
    return lambda x, z, g: _first_order(objective, x)


def _solve(H: FloatArray, g: FloatArray) -> FloatArray:
    return scipy.linalg.cho_solve(scipy.linalg.cho_factor(H, lower=True), g)


def _in_ball(H: FloatArray, g: FloatArray, x: FloatArray, radius: float) -> FloatArray:
    """min <g, s - x> + (s - x)'H(s - x)/2 over a ball around 0: a trust-region subproblem."""
    values, vectors = np.linalg.eigh(H)
    c = vectors.T @ (g - H @ x)
    s = c / values
    if float(np.linalg.norm(s)) > radius:
        s = c / (values + multiplier(lambda shift: c / (values + shift), c, values[0], radius))
    return -(vectors @ s)


def multiplier(
    at: Callable[[float], FloatArray], c: FloatArray, least: float, radius: float
) -> float:
    """The shift at which the solution's norm is the radius; the norm falls as it grows."""
    low, high = 0.0, max(0.0, float(np.linalg.norm(c)) / radius - least)
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if float(np.linalg.norm(at(middle))) > radius:
            low = middle
        else:
            high = middle
    return high


def _in_set(objective: Objective, H: FloatArray, g: FloatArray, x: FloatArray) -> FloatArray:
    """The same over any set with a projection, by accelerated projected gradients."""
    problem = objective.problem
    top = float(np.linalg.eigvalsh(H)[-1])
    q = math.sqrt(objective.ridge / top)
    momentum = (1.0 - q) / (1.0 + q)
    s, t = x.copy(), x.copy()
    for _ in range(_INNER):
        move = g + H @ (t - x)
        new = problem.set.project(problem.shaped(t - move / top)).ravel()
        change = new - s
        t = new + momentum * change
        if float(move @ change) > 0.0:
            t = new.copy()
        s = new
        if float(np.linalg.norm(change)) <= 1e-15 * (1.0 + float(np.linalg.norm(s))):
            break
    return s


class _Wide:
    """More columns than records: solve in the space of the records, by Woodbury's identity."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        A = objective.problem.A
        self.products = np.asarray((A @ A.T).toarray() if sp.issparse(A) else A @ A.T)

    def __call__(self, x: FloatArray, z: FloatArray, g: FloatArray) -> FloatArray:
        problem, ridge = self.objective.problem, self.objective.ridge
        roots = np.sqrt(self.objective.problem.bends(z))
        inner = roots[:, None] * self.products * roots

        def solve(v: FloatArray, shift: float) -> FloatArray:
            level = ridge + shift
            matrix = inner + level * np.eye(len(roots))
            return (v - problem.A.T @ (roots * _solve(matrix, roots * (problem.A @ v)))) / level

        direction = solve(g, 0.0)
        if isinstance(problem.set, WholeSpace):
            return x - direction
        radius = problem.set.radius
        # The model's linear term at 0; H x = A'(w A x) + ridge x.
        c = g - problem.A.T @ (roots * roots * (problem.A @ x)) - ridge * x
        s = solve(c, 0.0)
        if float(np.linalg.norm(s)) > radius:
            shift = multiplier(lambda value: solve(c, value), c, ridge, radius)
            s = solve(c, shift)
        return -s


def _conjugate(objective: Objective, z: FloatArray, g: FloatArray) -> FloatArray:
    problem, weights = objective.problem, objective.problem.bends(z)

    def times(v: FloatArray) -> FloatArray:
        return problem.A.T @ (weights * (problem.A @ v)) + objective.ridge * v

    operator = scipy.sparse.linalg.LinearOperator((problem.dim, problem.dim), matvec=times)
    found, _ = scipy.sparse.linalg.cg(operator, -g, rtol=1e-10, maxiter=2000)
    return found


def _first_order(objective: Objective, x: FloatArray) -> FloatArray:
    """Many columns and records on a set: accelerated projected gradients on J itself."""
    problem = objective.problem
    top = objective.doubt.smoothness
    q = math.sqrt(objective.ridge / top)
    momentum = (1.0 - q) / (1.0 + q)
    s, t = x.copy(), x.copy()
    for _ in range(_INNER // 20):
        move = objective.predictors_and_gradient(t)[1]
        new = problem.set.project(problem.shaped(t - move / top)).ravel()
        t = new + momentum * (new - s)
        s = new
    return s
