"""Newton's method in the whole space, and proximal Newton on a set.

In the whole space, a pass over the records for a gradient costs less than one for second derivatives. So these are
computed from a part of the records if there are many (Byrd, Chin, Neveitt and Nocedal, *On the use of stochastic
Hessian information in optimization methods for machine learning*), kept as long as they are useful, and improved by
BFGS updates from each step (Nocedal and Wright, *Numerical optimization*, section 7.2). On a set, each step minimises
the second-order model over it and moves towards that point by a line search (Lee, Sun and Saunders, *Proximal
Newton-type methods*).

Nothing needs to be exact but the gradient: the starting point, single precision and old second derivatives affect
only how long it takes, and a certificate decides when it ends.

For runs that end with a proved distance, the model is minimised exactly in a ball, and elsewhere by accelerated
projected gradients; with more columns than records in the space of the records, and with too many of both by
first-order steps on the objective.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg
from scipy.linalg.lapack import dpotrf, dpotrs

from reticent.checks import FloatArray
from reticent.solve.accelerated import accelerated, settled
from reticent.solve.ball import in_ball, within
from reticent.solve.objective import Objective, Region
from reticent.solve.quadratic import QuadraticSolver
from reticent.solve.search import Enough, Search, Way, follow

_FEW = 2048
"""A run over more than four times this many records starts with about this many."""
_GROWTH = 16
"""Factor by which this part then grows, as long as it is a small part."""
_PART, _PART_PER_COLUMN, _PART_SHARE = 2**15, 64, 32
"""Second derivatives use at least this many records, this many per column, and one in this many of all."""
_MOST = 2**19
"""Largest number of records in such a part; beyond it all records are read, wherever they are."""
_FINER = 8
"""Factor by which the part grows if its second derivatives are not good enough."""
_THIN_ABOVE, _THIN_TO = 60_000, 15_000
"""That factor on a set, where a step over the part costs more than in proportion to its records."""
_KEEP = 0.2
"""If a step with old second derivatives reduced the gradient by at least this factor, they are used again."""
_TRUST = 30
"""After this many steps, each step uses new second derivatives and a line search."""
_SURE = 1e-4
"""A step with a predicted decrease of a summed loss below this is taken without a check; less for losses that are small
where they bend."""
_SINGLE = 2.0**16
"""Largest condition number for which second derivatives are computed in single precision."""
_MATRIX = 2500
"""Largest number of columns for which second derivatives are kept as a matrix."""
_INNER = 20_000

Model = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""Minimiser over the set of the second-order model at x, with predictors z and gradient g."""


class _Curvature:
    """A factor of the Hessian at some point, with updates from the steps since then."""

    def __init__(self, factor: FloatArray) -> None:
        self.factor = factor
        self.pairs: list[tuple[FloatArray, FloatArray, float]] = []

    def solve(self, g: FloatArray) -> FloatArray:
        v, shares = g, []
        for s, y, rho in reversed(self.pairs):
            share = rho * float(s @ v)
            v = v - share * y
            shares.append(share)
        v = dpotrs(self.factor, v, lower=1)[0]
        for (s, y, rho), share in zip(self.pairs, reversed(shares), strict=True):
            v = v + (share - rho * float(y @ v)) * s
        return np.asarray(v)

    def rest(self, g: FloatArray, new_g: FloatArray) -> float:
        """What another step would gain after one from g to ``new_g``; 0 where the gradient has all but vanished."""
        if float(new_g @ new_g) <= _KEEP**2 * float(g @ g):
            return 0.0
        return float(new_g @ self.solve(new_g))

    def learn(self, s: FloatArray, y: FloatArray) -> None:
        """Update from a step s along which the gradient changed by y."""
        product = float(s @ y)
        if product > 0.0:
            self.pairs.append((s, y, 1.0 / product))


class _Part:
    """The records from which second derivatives are computed: a part, or all."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        share = min(objective.count // _PART_SHARE, _MOST)
        wanted = max(_PART, _PART_PER_COLUMN * objective.dim, share)
        self.every = max(1, objective.count // wanted) if objective.thins else 1
        self._thinned: Objective | None = None

    @property
    def is_all(self) -> bool:
        return self.every == 1

    def refine(self) -> None:
        before = self._thinned
        self.every, self._thinned = max(1, self.every // _FINER), None
        if before is not None and not self.is_all:
            self._thinned = self.objective.thinned(self.every)
            if self._thinned.count == before.count:  # no larger part is available
                self.every, self._thinned = 1, None

    def curvature(self, x: FloatArray, z: FloatArray) -> _Curvature:
        if self.is_all:
            return _Curvature(_factor(self.objective, z))
        if self._thinned is None:
            self._thinned = self.objective.thinned(self.every)
        part = self._thinned
        share = 1.0 if part.is_mean else part.count / self.objective.count
        return _Curvature(_factor(part, part.predictors(x)) / math.sqrt(share))


def newton(objective: Objective, x: FloatArray) -> Way:
    """Points on the way to the minimiser in the whole space, starting at x, without end."""
    z, g = objective.predictors_and_gradient(x)
    part, curvature, fresh = _Part(objective), None, False
    for step in itertools.count():
        yield x, z, g
        if step > _TRUST:
            while not part.is_all:
                part.refine()
        if curvature is None:
            curvature, fresh = part.curvature(x, z), True
        d = -curvature.solve(g)
        left = -float(g @ d)
        new = x + d
        new_z, new_g = objective.predictors_and_gradient(new)
        if step > _TRUST:
            rest, fresh = math.inf, True
        else:
            rest = curvature.rest(g, new_g)
        if rest <= _KEEP**2 * left:
            curvature.learn(d, new_g - g)
            x, z, g, fresh = new, new_z, new_g, False
        elif rest <= 0.5 * left:
            x, z, g, curvature = new, new_z, new_g, None
        elif fresh and not part.is_all:
            part.refine()
            curvature = None
        elif fresh:
            # the model could not be better, so the step was too long
            x = x + along(objective, x, z, d, objective.predictors(d)) * d
            z, g = objective.predictors_and_gradient(x)
            curvature = None
        else:
            curvature = None


def thinned_start(objective: Objective, record_norm: float) -> FloatArray:
    """A starting point: 0, or an approximate minimiser for a part of the records if there are many.

    A step over all records costs as much as a whole run over a few of them, which gives a far better start.
    ``record_norm`` bounds the gradient of one record.
    """
    x, few = np.zeros(objective.dim), max(_FEW, 32 * objective.dim)
    while objective.count // few >= 4 and few <= _MOST:
        part = objective.thinned(objective.count // few)
        # this gradient is about a tenth of what the part's own minimiser is off by
        enough = 0.1 * math.sqrt(part.count) * record_norm
        for step, (point, _, g) in enumerate(newton(part, x)):
            if step == 12 or float(np.linalg.norm(g)) <= enough:
                x = point
                break
        few *= _GROWTH
    return x


def proximal_newton(objective: Objective, model: Model, x: FloatArray, sure: float = _SURE) -> Way:
    """Points on the way to the minimiser over a set, starting at x, without end."""
    z, g = objective.predictors_and_gradient(x)
    # A mean is minimised until predicted decreases are far smaller; skipping the check would cost steps there.
    sure = 0.0 if objective.is_mean else sure
    while True:
        stalled = yield x, z, g
        d = model(x, z, g) - x
        gain, length = float(g @ d), 1.0
        if stalled % 2:
            # Values may be too inaccurate to tell why a step did not help, but slopes along it are not. At the
            # border rounding may spoil these too, so every other step is taken without a check.
            length = along(objective, x, z, d, objective.predictors(d))
        elif gain < -sure:
            length = _length(objective, x, z, d, objective.predictors(d), gain)
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
    """A full step if the model was good, otherwise a step to the minimum along the direction."""
    f, trial = objective.value(x, z), objective.value(x + d, z + dz)
    if trial <= f + 0.25 * slope + 1e-13 * abs(f):
        return 1.0
    return along(objective, x, z, d, dz)


def along(
    objective: Objective, x: FloatArray, z: FloatArray, d: FloatArray, dz: FloatArray
) -> float:
    """The approximate minimum of the objective between x and x + d, from its slopes alone.

    Near the minimum, differences of values are lost in rounding; slopes are not.
    """

    def derivative(t: float) -> float:
        return objective.slope(x + t * d, z + t * dz, d, dz)

    low, high = 0.0, 1.0
    if derivative(high) <= 0.0:
        return high
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if derivative(middle) < 0.0 else (low, middle)
        if high - low <= 0.05 * high:
            break
    return high


def _factor(objective: Objective, z: FloatArray) -> FloatArray:
    """Cholesky's factor of the second derivatives.

    Whether they are positive definite after rounding depends on the records, and must not end a run: an inexact model
    only costs time.
    """
    found, wrong = dpotrf(model_hessian(objective, z), lower=1)
    if not wrong:
        return found
    H, shift = objective.hessian(z), 0.0
    size = float(np.abs(np.diagonal(H)).sum())
    least = max(objective.least_curvature, 1e-15 * size / len(H), 1e-300)
    while True:
        found, wrong = dpotrf(H + shift * np.eye(len(H)), lower=1)
        if not wrong:
            return found
        shift = max(4.0 * shift, least)
        if not shift < 4.0 * max(size, least) * len(H):
            raise ArithmeticError(
                "second derivatives are not finite; check the scale of the records"
            )


def model_hessian(objective: Objective, z: FloatArray) -> FloatArray:
    """Second derivatives for a model, which need not be exact."""
    single = objective.smoothness < _SINGLE * objective.least_curvature
    return objective.hessian(z, np.float32 if single else np.float64)


def minimize_by_newton(
    objective: Objective,
    region: Region,
    search: Search,
    start: FloatArray,
    strong_convexity: float,
    enough: Enough | None = None,
    quadratics: QuadraticSolver | None = None,
) -> FloatArray:
    """Minimise until the search is satisfied or its limits are reached; return the last point."""
    solver = quadratics or QuadraticSolver(region)
    # If one solve is enough, a part of the records does not help.
    if objective.thins and not objective.is_quadratic and objective.count > _THIN_ABOVE:
        # A part of the records reduces the error to their statistical error at a part of the cost.
        part = search.part(1e-3)
        thin = objective.thinned(objective.count // _THIN_TO)
        start = minimize_by_newton(thin, region, part, start, strong_convexity, None, solver)
        search.iterations += part.iterations

    def model(x: FloatArray, z: FloatArray, g: FloatArray) -> FloatArray:
        H, gap = objective.hessian(z), search.absolute_gap
        wanted = 0.1 * search.gap * max(abs(search.value), 1e-300)
        accuracy = min(0.1 * gap, max(wanted, 1e-3 * gap)) if math.isfinite(gap) else wanted
        s = solver.minimize(H, g - H @ x, x, accuracy, search.deadline)
        # An inaccurate solution may point uphill; the vertex from the linear minimiser never does.
        return s if float(g @ (s - x)) < 0.0 else region.minimize(g)

    free = region.free and quadratics is None
    way = newton(objective, start) if free else proximal_newton(objective, model, start)
    return follow(way, objective, region, search, strong_convexity, enough)


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
    if region.free and objective.dim <= _MATRIX:
        found = thinned_start(objective, record_norm) if start is None else start
        return newton(objective, found)
    assert region.project is not None
    start = region.project(np.zeros(objective.dim) if start is None else start)
    # the squared slope divided by the bend: the size of one record's loss where it bends
    bend = objective.smoothness - objective.least_curvature
    size = record_norm * record_norm * objective.count / bend if bend > 0.0 else 1.0
    return proximal_newton(objective, _model(objective, region), start, _SURE * min(1.0, size))


def _model(objective: Objective, region: Region) -> Model:
    radius = region.ball_radius
    if objective.dim <= _MATRIX:
        return lambda x, z, g: _least(model_hessian(objective, z), g, x, region)
    if objective.count <= _MATRIX and (region.free or radius is not None):
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
