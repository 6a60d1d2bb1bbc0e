"""The minimiser of a perturbed, strongly convex objective, to a certified distance.

    J(x) = sum_i phi(<a_i, x>, y_i) + (ridge/2) ||x||^2 + <b, x>      over a set with a projection

by Newton's steps in the whole space, and proximal ones elsewhere. If v lies in the set's normal cone
at x, then ``||x - x*|| <= ||grad J(x) + v|| / ridge``; a projection gives such a v. Whatever floating
point can hide in the gradient is added to its norm, so the certificate holds for the real numbers
that the floats stand for.

The one thing a reader would get wrong: the certificate, not the solver's own tolerance, is what
privacy rests on; a solver that stops anywhere else has no guarantee (Iyengar et al., *Towards
practical differentially private convex optimization*).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent._checks import FloatArray
from reticent.erm import _newton, _proximal
from reticent.erm._objective import Objective
from reticent.erm._problem import Problem
from reticent.erm._sums import UNIT
from reticent.sets import WholeSpace

_STEPS = 1000
_PATIENCE = 200
"""So many steps without progress, and the run gives up."""


@dataclass(frozen=True)
class Minimum:
    """A point, how far from the minimiser it can be, and what it took."""

    point: FloatArray
    distance: float
    steps: int


def minimise(problem: Problem, linear: FloatArray, ridge: float, tolerance: float) -> Minimum:
    """A point within ``tolerance / ridge`` of the minimiser, certified; fails loudly otherwise."""
    objective = Objective(problem, linear, ridge)
    way = _steps(objective)
    x, g = next(way)
    best, stalled = math.inf, 0
    for step in range(_STEPS):
        point, residual = _certify(objective, x, g)
        if residual <= tolerance:
            return Minimum(point, residual / ridge, step)
        # far away the residual may well rise while the value falls
        stalled = 0 if residual < 0.9 * best else stalled + 1
        best = min(best, residual)
        if stalled > _PATIENCE:
            break
        x, g = way.send(stalled)
    raise ArithmeticError(
        f"the minimiser could not be certified: the gradient's norm is known to be below {best:.3g} "
        f"only, not below {tolerance:.3g}. Nothing was released, though the budget was charged; "
        "regularise more, or rescale the records. That it failed may depend on the records, which "
        "no guarantee covers: do not publish it"
    )


def _steps(objective: Objective) -> Generator[tuple[FloatArray, FloatArray], int]:
    """Points and gradients of a method that suits the set and the size."""
    problem = objective.problem
    if isinstance(problem.set, WholeSpace) and problem.dim <= _newton.MOST:
        return _newton.steps(objective, _newton.start(objective))
    return _proximal.steps(objective)


def _certify(objective: Objective, x: FloatArray, g: FloatArray) -> tuple[Any, float]:
    """A point of the set and a bound on the norm of gradient plus normal there."""
    problem, doubt = objective.problem, objective.doubt
    # what the norm of a vector of floats may be off by itself
    room = 1.0 + (problem.dim + 16.0) * 2.0 * UNIT
    norm = float(np.linalg.norm(g)) * room
    if isinstance(problem.set, WholeSpace):
        return x, norm + doubt.gradient(float(np.linalg.norm(x)))
    smoothness = doubt.smoothness
    point = problem.set.project(problem.shaped(x - g / smoothness)).ravel()
    size = float(np.linalg.norm(x)) + norm / smoothness
    loose = doubt.projection(size)
    moved = objective.predictors_and_gradient(point)[1]
    rest = moved - g + smoothness * (x - point)
    unsure = 2.0 * doubt.gradient(float(np.linalg.norm(point))) + loose
    return point, float(np.linalg.norm(rest)) * room + unsure
