"""The minimiser of a perturbed, strongly convex objective, to a certified distance.

    J(x) = sum_i phi(<a_i, x>, y_i) + (ridge/2) ||x||^2 + <b, x>      over a set with a projection

by proximal Newton steps (Lee, Sun and Saunders, *Proximal Newton-type methods*). If v lies in the
set's normal cone at x, then ``||x - x*|| <= ||grad J(x) + v|| / ridge``; a projection gives such a
v. Whatever floating point can hide in the gradient is added to its norm, so the certificate holds
for the real numbers that the floats stand for.

The one thing a reader would get wrong: the certificate, not the solver's own tolerance, is what
privacy rests on; a solver that stops anywhere else has no guarantee (Iyengar et al., *Towards
practical differentially private convex optimization*).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from tacit._checks import FloatArray
from tacit.erm._problem import Problem
from tacit.erm._sums import UNIT, UNITS, weighted_rows
from tacit.losses._objective import weighted_gram
from tacit.sets import L2Ball, WholeSpace

_DENSE = 2500
"""Up to this many columns (or records) second derivatives are kept as a matrix."""
_FEW = 2048
"""A run over more than four times so many records begins with about so many."""
_SURE = 1e-4
"""Where a step promises no more of the summed loss, nobody looks whether it keeps its promise."""
_STEPS = 1000
_PATIENCE = 40
"""So many steps without progress, and the run gives up."""
_INNER = 20_000


@dataclass(frozen=True)
class Minimum:
    """A point, how far from the minimiser it can be, and what it took."""

    point: FloatArray
    distance: float
    steps: int


class Objective:
    """J, its derivatives, and bounds on their rounding errors."""

    def __init__(self, problem: Problem, linear: FloatArray, ridge: float) -> None:
        self.problem = problem
        self.b = linear
        self.ridge = ridge
        slope, bend = problem.loss.scalar_bounds(problem.set)  # type: ignore[attr-defined]
        self.slope, self.bend = problem.weight_bound * slope, problem.weight_bound * bend

    @property
    def smoothness(self) -> float:
        p = self.problem
        return p.count * self.bend * p.feature_norm**2 + self.ridge

    def value(self, x: FloatArray, z: FloatArray) -> float:
        quadratic = 0.5 * self.ridge * float(x @ x)
        return self.problem.total_value(z) + quadratic + float(self.b @ x)

    def gradient(self, x: FloatArray, z: FloatArray) -> FloatArray:
        p = self.problem
        return weighted_rows(p.A, p.slopes(z)) + self.ridge * x + self.b

    def doubt(self, x: FloatArray) -> float:
        """A bound on the norm of the rounding error of the gradient at x."""
        p = self.problem
        size = float(np.linalg.norm(x))
        predictor = (p.dim + 2) * UNIT * p.feature_norm * size
        slopes = self.bend * predictor + 16.0 * UNIT * self.slope
        data = p.count * p.feature_norm * (slopes + (UNITS + 2.0) * UNIT * self.slope)
        return data + 8.0 * UNIT * (self.ridge * size + float(np.linalg.norm(self.b)))

    def projection_doubt(self, size: float) -> float:
        """The same for what a projection of a point of this size may be off by, as a gradient.

        The projections that are compiled (balls, boxes, simplices and products of them) are off by
        at most ``dim + 64`` units of the point's size: a norm or a threshold is a sum of at most
        ``dim`` numbers.
        """
        return 2.0 * self.smoothness * (self.problem.dim + 64.0) * UNIT * size

    def bends(self, z: FloatArray) -> FloatArray:
        return self.problem.bends(z)


def minimise(problem: Problem, linear: FloatArray, ridge: float, tolerance: float) -> Minimum:
    """A point within ``tolerance / ridge`` of the minimiser, certified; fails loudly otherwise."""
    objective = Objective(problem, linear, ridge)
    model = _model(objective)
    x = _start(objective)
    z = problem.predictors(x)
    f = objective.value(x, z)
    best, stalled, careful = math.inf, 0, False
    for step in range(_STEPS):
        g = objective.gradient(x, z)
        point, residual = _certify(objective, x, z, g)
        if residual <= tolerance:
            return Minimum(point, residual / ridge, step)
        d = model(x, z, g) - x
        before, gain = f, float(g @ d)
        length = 1.0
        if careful:
            # Values may be too coarse to tell why a step was no good; slopes along it are not.
            dz = problem.predictors(d)
            length = _along(objective, x, z, d, dz)
            f = objective.value(x + length * d, z + length * dz)
        elif gain < -_SURE:
            length, f = _length(objective, x, z, d, problem.predictors(d), f, gain)
        x = x + length * d
        z = problem.predictors(x)
        # far away the residual may well rise while the value falls
        better = residual < 0.9 * best or f < before - 1e-12 * abs(before)
        stalled = 0 if better else stalled + 1
        best = min(best, residual)
        careful = careful or stalled > 0
        if stalled > _PATIENCE:
            break
    raise ArithmeticError(
        f"the minimiser could not be certified: the gradient's norm is known to be below {best:.3g} "
        f"only, not below {tolerance:.3g}. Nothing was released, though the budget was charged; "
        "regularise more, or rescale the records. That it failed may depend on the records, which "
        "no guarantee covers: do not publish it"
    )


def _length(
    objective: Objective,
    x: FloatArray,
    z: FloatArray,
    d: FloatArray,
    dz: FloatArray,
    f: float,
    slope: float,
) -> tuple[float, float]:
    """A full step where the model was good; otherwise to the minimum along the way; and the value."""
    trial = objective.value(x + d, z + dz)
    if trial <= f + 0.25 * slope + 1e-13 * abs(f):
        return 1.0, trial
    length = _along(objective, x, z, d, dz)
    if length < 1.0:
        trial = objective.value(x + length * d, z + length * dz)
    return length, trial


def _along(
    objective: Objective, x: FloatArray, z: FloatArray, d: FloatArray, dz: FloatArray
) -> float:
    """About where the objective is least between x and x + d, by its slopes alone."""
    problem = objective.problem

    def derivative(t: float) -> float:
        point = x + t * d
        slopes = problem.slopes(z + t * dz)
        return float(slopes @ dz + objective.ridge * (point @ d) + objective.b @ d)

    low, high = 0.0, 1.0
    if derivative(high) <= 0.0:
        return high
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if derivative(middle) < 0.0 else (low, middle)
        if high - low <= 0.05 * high:
            break
    return high


def _start(objective: Objective) -> FloatArray:
    """Where to begin: 0, or about the minimiser for a few of the records where there are many.

    A step over all records costs as much as a whole run over a few of them, and begins far better.
    Only how long the run takes depends on it.
    """
    problem = objective.problem
    x = np.zeros(problem.dim)
    if not isinstance(problem.set, WholeSpace):
        return np.asarray(problem.set.project(problem.shaped(x)).ravel())
    every = problem.count // max(_FEW, 32 * problem.dim)
    if every < 4 or problem.dim > _DENSE:
        return x
    part = problem.thinned(every)
    share = part.count / problem.count
    some = Objective(part, share * objective.b, share * objective.ridge)
    z = np.zeros(part.count)
    f = some.value(x, z)
    for _ in range(12):
        g = some.gradient(x, z)
        d = -scipy.linalg.cho_solve(_factor(some, z), g)
        length, f = _length(some, x, z, d, part.predictors(d), f, float(g @ d))
        x = x + length * d
        z = part.predictors(x)
        # the part's own minimiser is off by more than this
        if abs(float(g @ d)) <= 1e-4 * problem.dim:
            break
    return x


def _certify(
    objective: Objective, x: FloatArray, z: FloatArray, g: FloatArray
) -> tuple[Any, float]:
    """A point of the set and a bound on the norm of gradient plus normal there."""
    problem = objective.problem
    # what the norm of a vector of floats may be off by itself
    room = 1.0 + (problem.dim + 16.0) * 2.0 * UNIT
    norm = float(np.linalg.norm(g)) * room
    if isinstance(problem.set, WholeSpace):
        return x, norm + objective.doubt(x)
    smoothness = objective.smoothness
    point = problem.set.project(problem.shaped(x - g / smoothness)).ravel()
    size = float(np.linalg.norm(x)) + norm / smoothness
    loose = objective.projection_doubt(size)
    moved = objective.gradient(point, problem.predictors(point))
    rest = moved - g + smoothness * (x - point)
    return point, float(np.linalg.norm(rest)) * room + 2.0 * objective.doubt(point) + loose


Model = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


def _model(objective: Objective) -> Model:
    """How to minimise the second-order model over the set."""
    problem = objective.problem
    free = isinstance(problem.set, WholeSpace)
    ball = isinstance(problem.set, L2Ball)
    if problem.dim <= _DENSE:
        if free:
            return _Kept(objective)
        if ball:
            return lambda x, z, g: _in_ball(_hessian(objective, z), g, x, problem.set.radius)
        return lambda x, z, g: _in_set(objective, _hessian(objective, z), g, x)
    if problem.count <= _DENSE and (free or ball):
        return _Wide(objective)
    if free:
        return lambda x, z, g: x + _conjugate(objective, z, g)
    return lambda x, z, g: _first_order(objective, x)


class _Kept:
    """Newton's steps in the whole space; second derivatives are kept while they serve well.

    A gradient costs less than a Hessian: where a step with old second derivatives made the gradient
    50 times smaller, so will the next one.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.last = 0.0
        self.factor: Any = None

    def __call__(self, x: FloatArray, z: FloatArray, g: FloatArray) -> FloatArray:
        size = float(np.linalg.norm(g))
        if self.factor is None or size > 0.02 * self.last:
            self.factor = _factor(self.objective, z)
        self.last = size
        return np.asarray(x - scipy.linalg.cho_solve(self.factor, g))


def _factor(objective: Objective, z: FloatArray) -> Any:
    """Cholesky's factor of the second derivatives.

    Whether rounding leaves them positive depends on the records, and a run must not end by that:
    a model that is off costs time only.
    """
    try:
        return scipy.linalg.cho_factor(_hessian(objective, z), lower=True)
    except np.linalg.LinAlgError:
        H = _hessian(objective, z, exact=True)
    shift = 0.0
    while True:
        try:
            return scipy.linalg.cho_factor(H + shift * np.eye(len(H)), lower=True)
        except np.linalg.LinAlgError:
            shift = max(4.0 * shift, objective.ridge)
            if not shift < 4.0 * objective.smoothness * len(H):
                raise ArithmeticError("second derivatives are not finite numbers") from None


def _hessian(objective: Objective, z: FloatArray, *, exact: bool = False) -> FloatArray:
    # A model need not be exact where the ridge is far above single precision's rounding.
    single = not exact and objective.smoothness < 2.0**16 * objective.ridge
    kind = np.float32 if single else np.float64
    H = weighted_gram(objective.problem.A, objective.bends(z), kind)
    H[np.diag_indices_from(H)] += objective.ridge
    return H


def _solve(H: FloatArray, g: FloatArray) -> FloatArray:
    return scipy.linalg.cho_solve(scipy.linalg.cho_factor(H, lower=True), g)


def _in_ball(H: FloatArray, g: FloatArray, x: FloatArray, radius: float) -> FloatArray:
    """min <g, s - x> + (s - x)'H(s - x)/2 over a ball around 0: a trust-region subproblem."""
    values, vectors = np.linalg.eigh(H)
    c = vectors.T @ (g - H @ x)
    s = c / values
    if float(np.linalg.norm(s)) > radius:
        s = c / (values + _multiplier(lambda shift: c / (values + shift), c, values[0], radius))
    return -(vectors @ s)


def _multiplier(
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
    top = float(scipy.linalg.eigh(H, eigvals_only=True, subset_by_index=[len(H) - 1] * 2)[0])
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
        roots = np.sqrt(self.objective.bends(z))
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
            shift = _multiplier(lambda value: solve(c, value), c, ridge, radius)
            s = solve(c, shift)
        return -s


def _conjugate(objective: Objective, z: FloatArray, g: FloatArray) -> FloatArray:
    problem, weights = objective.problem, objective.bends(z)

    def times(v: FloatArray) -> FloatArray:
        return problem.A.T @ (weights * (problem.A @ v)) + objective.ridge * v

    operator = scipy.sparse.linalg.LinearOperator((problem.dim, problem.dim), matvec=times)
    found, _ = scipy.sparse.linalg.cg(operator, -g, rtol=1e-10, maxiter=2000)
    return found


def _first_order(objective: Objective, x: FloatArray) -> FloatArray:
    """Many columns and records on a set: accelerated projected gradients on J itself."""
    problem = objective.problem
    top = objective.smoothness
    q = math.sqrt(objective.ridge / top)
    momentum = (1.0 - q) / (1.0 + q)
    s, t = x.copy(), x.copy()
    for _ in range(_INNER // 20):
        move = objective.gradient(t, problem.predictors(t))
        new = problem.set.project(problem.shaped(t - move / top)).ravel()
        t = new + momentum * (new - s)
        s = new
    return s
