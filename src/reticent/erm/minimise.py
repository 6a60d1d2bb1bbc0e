"""The minimiser of a perturbed, strongly convex objective, to a certified distance.

    J(x) = sum_i phi(<a_i, x>, y_i) + (ridge/2) ||x - c||^2 + <b, x>      over a set with a projection

by the Newton steps of :mod:`reticent.solve`. The certificate, not a solver's own tolerance, is what
privacy rests on; a solver that stops anywhere else has no guarantee (Iyengar et al., *Towards practical
differentially private convex optimization*).
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
from reticent.solve.objective import Objective
from reticent.solve.proximal import steps
from reticent.solve.region import Region
from reticent.state import current_run

_STEPS = 1000
_PATIENCE = 200
"""So many steps without progress, and the run gives up."""


@dataclass(frozen=True)
class Minimum:
    """A point, how far from the minimiser it can be, and what it took."""

    point: FloatArray
    distance: float
    steps: int


def doubt_of(problem: OfflineProblem, pull: float, ridge: float) -> Doubt:
    """Bounds on what rounding may take from the gradient; they follow from public numbers.

    They hold for the gradient as it is computed here, blocks of rows and compensated sums
    (``reticent.erm.rounded_sums``) included; one computed in another way has another bound. ``pull`` is the
    norm of the linear term, or a bound on it.
    """
    slope, bend = (problem.weight_bound * bound for bound in problem.scalar_bounds)
    norm, count, dim = problem.feature_norm, problem.count, problem.dim
    fixed = count * norm * (16.0 + problem.table.units + 2.0) * slope
    return Doubt(
        at_zero=UNIT * (fixed + 8.0 * pull),
        growth=UNIT * (count * norm * bend * (dim + 2) * norm + 8.0 * ridge),
        smoothness=count * bend * norm**2 + ridge,
        dim=dim,
        is_free=isinstance(problem.set, WholeSpace),
    )


def pull_of(linear: float, ridge: float, center: float) -> float:
    """What stands for the norm of ``b - ridge c``, twice as much so that its own rounding is counted."""
    return 2.0 * (linear + ridge * center)


def minimise(
    problem: OfflineProblem,
    linear: FloatArray,
    ridge: float,
    tolerance: float,
    center: FloatArray | None = None,
    part: int = 0,
) -> Minimum:
    """A point within ``tolerance / ridge`` of the minimiser, certified; fails loudly otherwise.

    Where the fit is resumable, ``part`` is the number under which it is kept how far this has come.
    """
    pull = float(np.linalg.norm(linear))
    if center is not None:
        pull = pull_of(pull, ridge, float(np.linalg.norm(center)))
        linear = linear - ridge * center
    doubt = doubt_of(problem, pull, ridge)
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
        # far away the residual may well rise while the value falls
        stalled = 0 if left < 0.9 * best else stalled + 1
        best = min(best, left)
        if stalled > _PATIENCE:
            break
        x, _, g = way.send(stalled)
        if file is not None:
            file.note(part, x)
    raise ArithmeticError(
        f"the minimiser could not be certified: the gradient's norm is known to be below {best:.3g} "
        f"only, not below {tolerance:.3g}. Nothing was released, though the budget was charged; "
        "regularise more, or rescale the records. That it failed may depend on the records, which "
        "no guarantee covers: do not publish it"
    )
