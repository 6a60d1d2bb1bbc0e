"""The minimiser of a perturbed, strongly convex objective, to a certified distance.

    J(x) = sum_i phi(<a_i, x>, y_i) + (ridge/2) ||x - c||^2 + <b, x>      over a set with a projection

It is found by the Newton steps of :mod:`reticent.solve`. Privacy rests on the certificate, not on a solver's own
tolerance; without a certificate there is no guarantee (Iyengar et al., *Towards practical differentially private convex
optimization*). If v is in the set's normal cone at x, then ``||x - x*|| <= ||grad J(x) + v|| / ridge``; a projection
gives such a v. A bound on the rounding error of the gradient is added to that norm, so that the certificate holds for
the real numbers that the floats represent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from reticent.checks import FloatArray
from reticent.erm.problem import OfflineProblem
from reticent.erm.rounded_sums import UNIT
from reticent.sets import WholeSpace
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


@dataclass(frozen=True)
class Doubt:
    """Bounds on the effect of rounding on a gradient.

    Parameters
    ----------
    at_zero : float
        Bound on the norm of the gradient's rounding error at 0.
    growth : float
        Increase of this bound per unit of the point's norm.
    smoothness : float
        A bound on the second derivatives.
    dim : int
        Number of columns.
    is_free : bool
        Whether the region is the whole space, where nothing is projected.
    """

    at_zero: float
    growth: float
    smoothness: float
    dim: int
    is_free: bool

    def with_terms(self, linear: float, ridge: float) -> Doubt:
        """The bounds for the objective plus a linear term of norm ``linear`` and a ridge."""
        return Doubt(
            self.at_zero + 8.0 * UNIT * linear,
            self.growth + 8.0 * UNIT * ridge,
            self.smoothness + ridge,
            self.dim,
            self.is_free,
        )

    def gradient(self, size: float) -> float:
        """A bound on the norm of the gradient's rounding error at a point of this norm."""
        return self.at_zero + self.growth * size

    def projection(self, size: float) -> float:
        """A bound on the error of projecting a point of this size, expressed as a gradient.

        The error of the compiled projections (balls, boxes, simplices and products of them) is at most ``dim + 64``
        units of the point's size: a norm or a threshold is a sum of at most ``dim`` numbers.
        """
        return 2.0 * self.smoothness * (self.dim + 64.0) * UNIT * size

    def reachable(self, radius: float) -> float:
        """A residual that a minimiser within this radius can reach, with room to spare."""
        found = self.gradient(radius)
        return 4.0 * (found if self.is_free else 2.0 * found + self.projection(radius))


def residual(
    objective: Objective, region: Region, doubt: Doubt, x: FloatArray, g: FloatArray
) -> tuple[FloatArray, float]:
    """A point of the region, and a bound on the norm of gradient plus normal there.

    Divided by the strong convexity, it bounds the distance of that point from the minimiser.
    """
    # allow for the rounding error of computing a norm
    room = 1.0 + (doubt.dim + 16.0) * 2.0 * UNIT
    norm = float(np.linalg.norm(g)) * room
    if doubt.is_free:
        return x, norm + doubt.gradient(float(np.linalg.norm(x)))
    assert region.project is not None
    smoothness = doubt.smoothness
    point = region.project(x - g / smoothness)
    size = float(np.linalg.norm(x)) + norm / smoothness
    moved = objective.predictors_and_gradient(point)[1]
    rest = moved - g + smoothness * (x - point)
    unsure = 2.0 * doubt.gradient(float(np.linalg.norm(point))) + doubt.projection(size)
    return point, float(np.linalg.norm(rest)) * room + unsure


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
