"""The perturbed objective of all records, its derivatives, and bounds on their rounding errors.

    J(x) = sum_i phi(<a_i, x>, y_i) + (ridge/2) ||x||^2 + <b, x>

The one thing a reader would get wrong: ``doubt`` bounds the rounding of the gradient as it is computed
here, blocks of rows and compensated sums (``reticent.erm._sums``) included; a gradient computed in
another way has another bound.
"""

from __future__ import annotations

import numpy as np

from reticent._checks import FloatArray
from reticent.erm._problem import Problem
from reticent.erm._sums import UNIT, UNITS
from reticent.sets import WholeSpace


class Doubt:
    """Bounds on what rounding may take from the gradient; they follow from public numbers.

    ``pull`` is the norm of the linear term, or a bound on it.
    """

    def __init__(self, problem: Problem, pull: float, ridge: float) -> None:
        slope, bend = (problem.weight_bound * bound for bound in problem.scalar_bounds)
        norm, count, dim = problem.feature_norm, problem.count, problem.dim
        fixed = count * norm * (16.0 + UNITS + 2.0) * slope
        self.at_zero = UNIT * (fixed + 8.0 * pull)
        self.growth = UNIT * (count * norm * bend * (dim + 2) * norm + 8.0 * ridge)
        self.smoothness = count * bend * norm**2 + ridge
        self.dim = dim
        self.is_free = isinstance(problem.set, WholeSpace)

    def gradient(self, size: float) -> float:
        """Of the norm of the gradient's rounding error at a point of this norm."""
        return self.at_zero + self.growth * size

    def reachable(self, radius: float) -> float:
        """A residual that a minimiser within this radius reaches, with room to spare."""
        found = self.gradient(radius)
        return 4.0 * (found if self.is_free else 2.0 * found + self.projection(radius))

    def projection(self, size: float) -> float:
        """The same for what a projection of a point of this size may be off by, as a gradient.

        The projections that are compiled (balls, boxes, simplices and products of them) are off by
        at most ``dim + 64`` units of the point's size: a norm or a threshold is a sum of at most
        ``dim`` numbers.
        """
        return 2.0 * self.smoothness * (self.dim + 64.0) * UNIT * size


class Objective:
    """J and its derivatives."""

    def __init__(self, problem: Problem, linear: FloatArray, ridge: float) -> None:
        self.problem = problem
        self.b = linear
        self.ridge = ridge
        self.doubt = Doubt(problem, float(np.linalg.norm(linear)), ridge)

    def value(self, x: FloatArray, z: FloatArray) -> float:
        quadratic = 0.5 * self.ridge * float(x @ x)
        return self.problem.total_value(z) + quadratic + float(self.b @ x)

    def predictors_and_gradient(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        z, total = self.problem.predictors_and_sum(x)
        return z, total + self.ridge * x + self.b
