"""Newton's method in the whole space, and proximal Newton on a set.

In the whole space a pass over the records for a gradient costs less than one for second derivatives, so these are
taken from a part of the records where there are many (Byrd, Chin, Neveitt and Nocedal, *On the use of stochastic
Hessian information in optimization methods for machine learning*), kept for as long as they serve, and what each step
tells of them is learnt by BFGS updates (Nocedal and Wright, *Numerical optimization*, section 7.2). On a set each step
minimises the second-order model over it and moves towards that point by a line search (Lee, Sun and Saunders,
*Proximal Newton-type methods*).

Nothing here needs to be exact but the gradient: where the search begins, single precision and old second
derivatives change how long it takes, and a certificate decides when it ends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from reticent.checks import FloatArray
from reticent.solve.objective import Objective
from reticent.solve.quadratic import QuadraticSolver
from reticent.solve.region import Region
from reticent.solve.search import Enough, Search, Way, follow

_FEW = 2048
"""A run over more than four times so many records begins with about so many."""
_GROWTH = 16
"""And goes on with so many times as many, as long as that is a small part."""
_PART, _PART_PER_COLUMN, _PART_SHARE = 2**15, 64, 32
"""Second derivatives are taken from at least so many records, so many per column, and such a part of all."""
_MOST = 2**19
"""More records than that are no part to begin with: all of them are read instead, wherever they lie."""
_FINER = 8
"""Where they do not serve, from so many times as many."""
_THIN_ABOVE, _THIN_TO = 60_000, 15_000
"""The same on a set, where a step over the part costs more than its records' share."""
_KEEP = 0.2
"""Where a step with old second derivatives shrank what is left to less than this, so will the next."""
_TRUST = 30
"""After so many steps none is taken unseen: fresh second derivatives, and a search along each."""
_SURE = 1e-4
"""Where a step promises no more of a summed loss, nobody looks whether it keeps its promise."""
_SINGLE = 2.0**16
"""Up to this condition number single precision serves for second derivatives."""

Model = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""Where the second-order model at x, with predictors z and gradient g, is least over the set."""


class _Curvature:
    """A factor of the Hessian at some point, and what the steps since have told of it."""

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
        """The gradient changed by y along the step s."""
        product = float(s @ y)
        if product > 0.0:
            self.pairs.append((s, y, 1.0 / product))


class _Part:
    """Where second derivatives come from: a part of the records, or all."""

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
            if self._thinned.count == before.count:  # no more are at hand
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
    """Points on the way to the minimiser in the whole space, from x on and for ever."""
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
            # the model was as good as it gets, and the step too long for it
            x = x + along(objective, x, z, d, objective.predictors(d)) * d
            z, g = objective.predictors_and_gradient(x)
            curvature = None
        else:
            curvature = None


def thinned_start(objective: Objective, record_norm: float) -> FloatArray:
    """Where to begin: 0, or about the minimiser for a few of the records where there are many.

    A step over all records costs as much as a whole run over a few of them, and begins far better.
    ``record_norm`` bounds the gradient of one record.
    """
    x, few = np.zeros(objective.dim), max(_FEW, 32 * objective.dim)
    while objective.count // few >= 4 and few <= _MOST:
        part = objective.thinned(objective.count // few)
        # the part's own minimiser is off by about ten times this gradient
        enough = 0.1 * math.sqrt(part.count) * record_norm
        for step, (point, _, g) in enumerate(newton(part, x)):
            if step == 12 or float(np.linalg.norm(g)) <= enough:
                x = point
                break
        few *= _GROWTH
    return x


def proximal_newton(objective: Objective, model: Model, x: FloatArray) -> Way:
    """Points on the way to the minimiser over a set, from x on and for ever."""
    z, g = objective.predictors_and_gradient(x)
    # A mean is followed to where steps promise far less, and skipping the look costs steps there.
    sure = 0.0 if objective.is_mean else _SURE
    while True:
        stalled = yield x, z, g
        d = model(x, z, g) - x
        gain, length = float(g @ d), 1.0
        if stalled % 2:
            # Values may be too coarse to tell why a step was no good; slopes along it are not. At
            # the border rounding may spoil these, so every other step is taken unseen.
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
    """A full step where the model was good; otherwise to the minimum along the way."""
    f, trial = objective.value(x, z), objective.value(x + d, z + dz)
    if trial <= f + 0.25 * slope + 1e-13 * abs(f):
        return 1.0
    return along(objective, x, z, d, dz)


def along(
    objective: Objective, x: FloatArray, z: FloatArray, d: FloatArray, dz: FloatArray
) -> float:
    """About where the objective is least between x and x + d, by its slopes alone.

    Near the minimum values are too coarse to tell; slopes are not.
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

    Whether rounding leaves them positive depends on the records, and a run must not end by that:
    a model that is off costs time only.
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
            raise ArithmeticError("second derivatives are not finite numbers")


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
    """Minimise until the search is satisfied or its limits are spent; the last point."""
    solver = quadratics or QuadraticSolver(region)
    # Where one solve is all it takes, a part of the records is no help.
    if objective.thins and not objective.is_quadratic and objective.count > _THIN_ABOVE:
        # A part of the records takes the iterate to their statistical error for a part of the price.
        part = search.part(1e-3)
        thin = objective.thinned(objective.count // _THIN_TO)
        start = minimize_by_newton(thin, region, part, start, strong_convexity, None, solver)
        search.iterations += part.iterations

    def model(x: FloatArray, z: FloatArray, g: FloatArray) -> FloatArray:
        H, gap = objective.hessian(z), search.absolute_gap
        wanted = 0.1 * search.gap * max(abs(search.value), 1e-300)
        accuracy = min(0.1 * gap, max(wanted, 1e-3 * gap)) if math.isfinite(gap) else wanted
        s = solver.minimize(H, g - H @ x, x, accuracy, search.deadline)
        # Too rough a solution may point uphill; the vertex that the gradient asks for never does.
        return s if float(g @ (s - x)) < 0.0 else region.minimize(g)

    free = region.free and quadratics is None
    way = newton(objective, start) if free else proximal_newton(objective, model, start)
    return follow(way, objective, region, search, strong_convexity, enough)
