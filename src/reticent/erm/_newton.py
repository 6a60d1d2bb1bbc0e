"""Newton's method in the whole space, with a gradient that is certified and a Hessian that need not be.

A pass over the records for a gradient costs less than one for second derivatives, so a Hessian is
kept for as long as it serves, and what each step tells of it is learnt by BFGS updates (Nocedal and
Wright, *Numerical optimization*, section 7.2). With many records the run begins at the minimiser
for a few of them.

The one thing a reader would get wrong: nothing here needs to be exact but the gradient. Where the
search begins, single precision and old second derivatives change how long it takes, and the
certificate of ``reticent.erm._minimise`` decides when it ends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from reticent._checks import FloatArray
from reticent.erm._objective import Objective
from reticent.losses._objective import weighted_gram

MOST = 2500
"""Up to this many columns second derivatives are kept as a matrix."""
_FEW = 2048
"""A run over more than four times so many records begins with about so many."""
_KEEP = 0.2
"""Where a step with old second derivatives shrank what is left to less than this, so will the next."""
_TRUST = 30
"""After so many steps none is taken unseen: fresh second derivatives, and a search along each."""


class _Curvature:
    """A factor of the Hessian at some point, and what the steps since have told of it."""

    def __init__(self, objective: Objective, z: FloatArray) -> None:
        self.factor = factor(objective, z)
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

    def learn(self, s: FloatArray, y: FloatArray) -> None:
        """The gradient changed by y along the step s."""
        product = float(s @ y)
        if product > 0.0:
            self.pairs.append((s, y, 1.0 / product))


def steps(objective: Objective, x: FloatArray) -> Generator[tuple[FloatArray, FloatArray], int]:
    """Points and gradients on the way to the minimiser, from x on and for ever."""
    z, g = objective.predictors_and_gradient(x)
    curvature, fresh = None, False
    for step in itertools.count():
        yield x, g
        if curvature is None:
            curvature, fresh = _Curvature(objective, z), True
        d = -curvature.solve(g)
        left = -float(g @ d)
        new = x + d
        new_z, new_g = objective.predictors_and_gradient(new)
        if step > _TRUST:
            rest, fresh = math.inf, True
        elif float(new_g @ new_g) <= _KEEP**2 * float(g @ g):
            rest = 0.0
        else:
            rest = float(new_g @ curvature.solve(new_g))
        if rest <= _KEEP**2 * left:
            curvature.learn(d, new_g - g)
            x, z, g, fresh = new, new_z, new_g, False
        elif rest <= 0.5 * left:
            x, z, g, curvature = new, new_z, new_g, None
        elif fresh:
            # the model was as good as it gets, and the step too long for it
            x = x + along(objective, x, z, d, objective.problem.predictors(d)) * d
            z, g = objective.predictors_and_gradient(x)
            curvature = None
        else:
            curvature = None


def start(objective: Objective) -> FloatArray:
    """Where to begin: 0, or about the minimiser for a few of the records where there are many.

    A step over all records costs as much as a whole run over a few of them, and begins far better.
    """
    problem = objective.problem
    x = np.zeros(problem.dim)
    every = problem.count // max(_FEW, 32 * problem.dim)
    if every < 4:
        return x
    part = problem.thinned(every)
    share = part.count / problem.count
    some = Objective(part, share * objective.b, share * objective.ridge)
    # the part's own minimiser is off by about ten times this gradient
    enough = 0.1 * math.sqrt(part.count) * problem.norm
    for step, (point, g) in enumerate(steps(some, x)):
        if step == 12 or float(np.linalg.norm(g)) <= enough:
            return point
    return x


def along(
    objective: Objective, x: FloatArray, z: FloatArray, d: FloatArray, dz: FloatArray
) -> float:
    """About where the objective is least between x and x + d, by its slopes alone.

    Near the minimum values are too coarse to tell; slopes are not.
    """
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


def factor(objective: Objective, z: FloatArray) -> FloatArray:
    """Cholesky's factor of the second derivatives.

    Whether rounding leaves them positive depends on the records, and a run must not end by that:
    a model that is off costs time only.
    """
    found, wrong = dpotrf(hessian(objective, z), lower=1)
    if not wrong:
        return found
    H, shift = hessian(objective, z, exact=True), 0.0
    while True:
        found, wrong = dpotrf(H + shift * np.eye(len(H)), lower=1)
        if not wrong:
            return found
        shift = max(4.0 * shift, objective.ridge)
        if not shift < 4.0 * objective.doubt.smoothness * len(H):
            raise ArithmeticError("second derivatives are not finite numbers")


def hessian(objective: Objective, z: FloatArray, *, exact: bool = False) -> FloatArray:
    # A model need not be exact where the ridge is far above single precision's rounding.
    single = not exact and objective.doubt.smoothness < 2.0**16 * objective.ridge
    kind = np.float32 if single else np.float64
    H = weighted_gram(objective.problem.A, objective.problem.bends(z), kind)
    H[np.diag_indices_from(H)] += objective.ridge
    return H
