"""Private linear minimisers for Frank-Wolfe: which point of the set to move towards.

There are three: vertices of an l1 ball or a simplex by noisy selection, listed vertices by noisy selection, and any
linear minimiser applied to a noisy gradient. Selection is the exponential mechanism with scores
``-<vertex, gradient>``; sensitivities are derived in docs/algorithms/frank-wolfe.md.

Scores are computed in floating point, so each oracle's ``moved`` includes their rounding; the selection itself is exact
for the given floats.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from reticent.checks import FloatArray
from reticent.erm.corner_selection import Corners
from reticent.erm.problem import OfflineProblem
from reticent.erm.rounded_sums import UNIT, UNITS
from reticent.noise import Source, select
from reticent.noise.release import noisy
from reticent.privacy import Budget, Release, curves
from reticent.privacy import calibration as calibrations
from reticent.privacy.prescribed import Prescription
from reticent.sets import L1Ball, Simplex


class Oracle(ABC):
    """A private way to find a point of the set with a small inner product with the gradient."""

    name: str

    def __init__(self, problem: OfflineProblem) -> None:
        self.problem = problem

    @property
    @abstractmethod
    def moved(self) -> float:
        """Sensitivity of a score, or of the gradient."""

    @abstractmethod
    def shortfall(self, steps: int) -> float:
        """Approximately how much worse the answers are than the best, for the summed loss."""

    @abstractmethod
    def calibrate(self, steps: int) -> tuple[float, Release]:
        """The scale of the noise for this many answers, and the release with its cost."""

    @abstractmethod
    def choose(self, gradient: FloatArray, scale: float, source: Source) -> FloatArray:
        """A point of the set, flat, for the gradient of the summed loss."""


class SelectionOracle(Oracle):
    """Selection by Gumbel noise on scores, or by Laplace noise if that is prescribed."""

    candidates: int
    noise = "gumbel"

    def shortfall(self, steps: int) -> float:
        # For few selections the sum of their epsilons is smaller, for many the square root rule; the exact
        # composition is within a sixth of the better one, but would need a search each time.
        problem = self.problem
        unit = 2.0 * steps / (problem.share * problem.budget.epsilon)
        if problem.budget.delta > 0.0:
            unit = min(unit, math.sqrt(steps) / problem.level)
        return self.moved * unit * math.log(self.candidates)

    def calibrate(self, steps: int) -> tuple[float, Release]:
        budget = self.problem.budget
        scale = self.moved * _unit_scale(budget, steps) * (1.0 + 1e-12)
        return scale, self._release(scale, steps, curves.BoundedRange(2.0 * self.moved / scale))

    def prescribed(self, steps: int, formula: Prescription) -> tuple[float, Release]:
        """Selection by Laplace noise of a prescribed scale."""
        scale = formula.amount
        self.noise = "laplace"
        curve = curves.Pure(2.0 * self.moved / scale)
        return scale, self._release(scale, steps, curve, formula.details)

    def _release(
        self, scale: float, steps: int, curve: Any, details: tuple[str, ...] = ()
    ) -> Release:
        return Release(
            f"choice of one of {self.candidates} vertices",
            curve,
            self.moved,
            f"{self.noise.capitalize()}, scale {scale:.6g}",
            steps,
            details,
        )


class CornerOracle(SelectionOracle):
    """Vertices of an l1 ball or a simplex; records are clipped entry by entry."""

    name = "corners"

    def __init__(self, problem: OfflineProblem, slack: float | None = None) -> None:
        super().__init__(problem)
        self.signed = isinstance(problem.set, L1Ball)
        self.size = float(problem.set.radius if self.signed else problem.set.mass)
        self.candidates = problem.dim * (2 if self.signed else 1)
        self._slack = slack
        self._corners: Corners | None = None

    @property
    def per_record(self) -> float:
        """Largest absolute coordinate of the gradient of one record, or of one person."""
        bound = self.problem.linear.feature_norm
        weight = self.problem.weight_bound
        return weight * self.problem.slope_bound * float(bound) * (1.0 + 2.0**-48)

    @property
    def moved(self) -> float:
        # a sum per coordinate, times the size, plus the public part with a few roundings more
        rounding = 2.0 * (UNITS + 16.0) * UNIT * self.problem.count * self.per_record
        if self._slack is not None:
            rounding = 2.0 * self._slack + 32.0 * UNIT * self.problem.count * self.per_record
        ridge = self.problem.count * self.problem.loss.ridge * self.size
        rounding += 8.0 * UNIT * ridge
        return self.size * (self.problem.budget.sensitivity(self.per_record) + rounding)

    def corner(self, scaled: FloatArray, scale: float, source: Source) -> tuple[int, float]:
        """The coordinate and sign of the selected vertex, for ``size`` times the gradient."""
        if self.noise == "laplace":
            scores = np.concatenate([-scaled, scaled]) if self.signed else -scaled
            best = select(scores, scale, source, "laplace")
            return best % len(scaled), -1.0 if best >= len(scaled) else 1.0
        if self._corners is None or self._corners.source is not source:
            self._corners = Corners(len(scaled), self.signed, source)
        return self._corners.pick(scaled, scale)

    def choose(self, gradient: FloatArray, scale: float, source: Source) -> FloatArray:
        j, sign = self.corner(self.size * gradient, scale, source)
        vertex = np.zeros(self.problem.dim)
        vertex[j] = sign * self.size
        return vertex


class VertexOracle(SelectionOracle):
    """Vertices that the set lists."""

    name = "vertices"

    def __init__(self, problem: OfflineProblem, vertices: FloatArray) -> None:
        super().__init__(problem)
        self.vertices = vertices.reshape(len(vertices), -1)
        self.candidates = len(vertices)
        self.longest = float(np.linalg.norm(self.vertices, axis=1).max()) * (1.0 + 2.0**-40)

    @property
    def moved(self) -> float:
        problem = self.problem
        total = problem.count * (problem.norm + problem.loss.ridge * problem.set.norm_bound)
        rounding = 2.0 * (problem.dim + 16.0) * UNIT * total
        return self.longest * (problem.sensitivity + rounding)

    def choose(self, gradient: FloatArray, scale: float, source: Source) -> FloatArray:
        best = select(-(self.vertices @ gradient), scale, source, self.noise)
        return self.vertices[best].copy()


class GradientOracle(Oracle):
    """Any set with a linear minimiser, applied to a noisy gradient."""

    name = "gradient"

    @property
    def moved(self) -> float:
        return self.problem.sensitivity

    def shortfall(self, steps: int) -> float:
        problem = self.problem
        growth = math.sqrt(steps) if problem.noise == "gaussian" else float(steps)
        return float(problem.set.diameter) * problem.noise_norm(self.moved) * growth

    def calibrate(self, steps: int) -> tuple[float, Release]:
        problem = self.problem
        share = math.sqrt(steps) if problem.noise == "gaussian" else float(steps)
        scale = problem.noise_scale(
            self.moved, problem.level / share, problem.dim, problem.largest_sum
        )
        release = problem.release("noisy sum of gradients", self.moved, scale, problem.dim, steps)
        return scale, release

    def choose(self, gradient: FloatArray, scale: float, source: Source) -> FloatArray:
        raise AssertionError("the ridge must be added after the noise: call answer()")

    def answer(
        self, total: FloatArray, public: FloatArray, scale: float, source: Source
    ) -> FloatArray:
        problem = self.problem
        seen = noisy(total, scale, source, noise=problem.noise, precision=problem.precision)
        return np.asarray(problem.set.linear_minimizer(problem.shaped(seen + public))).ravel()


@functools.lru_cache(maxsize=256)
def _unit_scale(budget: Budget, steps: int) -> float:
    """The scale of Gumbel noise for scores of sensitivity 1; cached, because it needs a search."""
    return calibrations.gumbel(budget, 1.0, steps)


def corners_of(set: Any) -> bool:
    return isinstance(set, L1Ball | Simplex)
