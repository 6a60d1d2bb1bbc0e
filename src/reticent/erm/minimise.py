"""The minimiser of a perturbed, strongly convex objective, to a certified distance.

    J(x) = sum_i phi(<a_i, x>, y_i) + (ridge/2) ||x - c||^2 + <b, x>      over a set with a projection

It is found by the Newton steps of :mod:`reticent.solve`. Privacy rests on the certificate, not on a solver's own
tolerance; without a certificate there is no guarantee (Iyengar et al., *Towards practical differentially private convex
optimization*).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from reticent.checks import FloatArray
from reticent.erm.problem import OfflineProblem
from reticent.erm.rounded_sums import UNIT
from reticent.sets import WholeSpace
from reticent.solve.certificate import Doubt, residual
from reticent.solve.newton import steps
from reticent.solve.objective import Objective, Region
from reticent.state import current_run

_STEPS = 1000
_PATIENCE = 200
"""The run gives up after this many steps without progress."""


@dataclass(frozen=True)
class Minimum:
    """A point, a bound on its distance from the minimiser, and the number of steps."""

    point: FloatArray
    distance: float
    steps: int


def doubt_of(problem: OfflineProblem) -> Doubt:
    """Bounds on the rounding error of the gradient of the summed loss, from public numbers.

    They hold for the gradient as it is computed here, with blocks of rows and compensated sums
    (``reticent.erm.rounded_sums``), and for no other way of computing it.
    """
    slope, bend = [problem.weight_bound * bound for bound in problem.scalar_bounds]
    norm, count, dim = problem.feature_norm, problem.count, problem.dim
    return Doubt(
        at_zero=UNIT * count * norm * (16.0 + problem.table.units + 2.0) * slope,
        growth=UNIT * count * norm * bend * (dim + 2) * norm,
        smoothness=count * bend * norm**2,
        dim=dim,
        is_free=isinstance(problem.set, WholeSpace),
    )


def pull_of(linear: float, ridge: float, center: float) -> float:
    """Twice a bound on the norm of ``b - ridge c``; the factor 2 covers its own rounding."""
    return 2.0 * (linear + ridge * center)


def minimise(
    problem: OfflineProblem,
    linear: FloatArray,
    ridge: float,
    tolerance: float,
    center: FloatArray | None = None,
    part: int = 0,
) -> Minimum:
    """A point certified to be within ``tolerance / ridge`` of the minimiser; raises if that cannot be certified.

    In a resumable fit, ``part`` is the number under which the progress is stored.
    """
    pull = float(np.linalg.norm(linear))
    if center is not None:
        pull = pull_of(pull, ridge, float(np.linalg.norm(center)))
        linear = linear - ridge * center
    doubt = doubt_of(problem).with_terms(pull, ridge)
    objective = Objective(problem, ridge, linear, smoothness=doubt.smoothness)
    region = Region(problem.set, problem.dim)
    file = current_run()
    way = steps(objective, region, problem.norm, None if file is None else file.last(part))
    x, _, g = next(way)
    best, stalled = math.inf, 0
    for step in range(_STEPS):
        point, left = residual(objective, region, doubt, x, g)
        if left <= tolerance:
            return Minimum(point, left / ridge, step)
        # far from the minimiser the residual may rise while the value falls
        stalled = 0 if left < 0.9 * best else stalled + 1
        best = min(best, left)
        if stalled > _PATIENCE:
            break
        x, _, g = way.send(stalled)
        if file is not None:
            file.note(part, x)
    raise ArithmeticError(
        f"the minimiser could not be certified: the norm of the gradient is known to be below {best:.3g}, "
        f"not below {tolerance:.3g}. Nothing was released, but the budget was charged; use a larger regularizer, "
        "or rescale the records. The failure itself may depend on the records, which no guarantee covers: do not "
        "publish it"
    )
