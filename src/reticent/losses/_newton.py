"""Projected Newton for the best fixed decision of a smooth loss, on any set.

Each step minimises the second-order model over the set and moves towards that point by a line search
(Lee, Sun and Saunders 2014, "Proximal Newton-type methods"; the set's indicator is the nonsmooth
part). The certificate is Frank-Wolfe's gap at the iterate, or, where the loss is strongly convex and
the set has a projection, the sharper gap max <g, x - s> - (m/2) ||x - s||^2.

The one thing a reader would get wrong: the certificate is of the order of the square root of the
true error, so a gap of 1e-6 asks for an iterate good to 1e-12: a task for second-order methods.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from reticent.losses._objective import Objective
from reticent.losses._quadratic_program import QuadraticSolver
from reticent.losses._region import Region
from reticent.losses.base import FloatArray

_THIN_ABOVE = 60_000
_THIN_TO = 15_000
_ROUNDING = 1e-12


@dataclass
class Search:
    """The best point and the best lower bound so far, and when to stop."""

    gap: float
    time_limit: float
    iteration_limit: int
    progress: bool = False
    floor: float = sys.float_info.min
    started: float = field(default_factory=time.perf_counter)
    iterations: int = 0
    point: FloatArray | None = None
    value: float = math.inf
    lower: float = -math.inf

    def record(self, x: FloatArray, value: float, lower: float) -> None:
        if value < self.value or self.point is None:
            self.point, self.value = x.copy(), float(value)
        # A bound is a sum of many rounded numbers; it is not to be believed to the last digits.
        if math.isfinite(lower):
            slack = _ROUNDING * max(abs(value), abs(lower), self.floor)
            self.lower = max(self.lower, float(lower) - slack)
        if self.progress:
            self.show()

    def show(self) -> None:
        print(
            f"best_fixed {self.iterations:5d}  value {self.value:.10g}  "
            f"relative gap {self.relative_gap:9.2e}  {self.seconds:7.2f} s  (not private)",
            file=sys.stderr,
        )

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def absolute_gap(self) -> float:
        return max(0.0, self.value - self.lower)

    @property
    def relative_gap(self) -> float:
        if self.absolute_gap == 0.0:
            return 0.0
        return self.absolute_gap / max(abs(self.value), self.floor)

    @property
    def reached(self) -> bool:
        return self.relative_gap <= self.gap

    @property
    def spent(self) -> bool:
        return self.seconds > self.time_limit or self.iterations >= self.iteration_limit

    def part(self, gap: float) -> Search:
        """A search within this one, with what is left of its limits."""
        left = max(0.0, self.time_limit - self.seconds)
        steps = max(0, self.iteration_limit - self.iterations)
        return Search(gap, left, steps, floor=self.floor)


def certificate(region: Region, x: FloatArray, g: FloatArray, strong_convexity: float) -> float:
    """An upper bound on f(x) - min f from the gradient g at x; inf where there is none."""
    bound = region.gap(x, g)
    if strong_convexity > 0.0:
        if not region.bounded:
            bound = float(g @ g) / (2.0 * strong_convexity)
        elif region.project is not None:
            d = x - region.project(x - g / strong_convexity)
            # The projection is the maximiser only up to rounding: allow for what that may hide.
            value = float(g @ d) - 0.5 * strong_convexity * float(d @ d)
            bound = min(bound, max(0.0, value) + 1e-13 * abs(float(g @ d)))
    return bound


def newton(
    objective: Objective,
    region: Region,
    search: Search,
    start: FloatArray,
    strong_convexity: float,
    enough: Callable[[FloatArray, FloatArray, FloatArray], bool] | None = None,
    quadratics: QuadraticSolver | None = None,
) -> FloatArray:
    """Minimise until the search is satisfied or its limits are spent; the last iterate.

    ``enough(x, z, g)`` may stop it earlier.
    """
    quadratics = quadratics or QuadraticSolver(region)
    if objective.count > _THIN_ABOVE and objective.thins:
        # A part of the records takes the iterate to their statistical error for a part of the price.
        part = search.part(1e-3)
        thin = objective.thinned(objective.count // _THIN_TO)
        start = newton(thin, region, part, start, strong_convexity, quadratics=quadratics)
        search.iterations += part.iterations
    x = start
    z = objective.predictors(x)
    f = objective.value(x, z)
    stalled = 0
    while True:
        g = objective.gradient(x, z)
        gap = certificate(region, x, g, strong_convexity)
        search.record(x, f, f - gap)
        if (enough and enough(x, z, g)) or search.reached or search.spent or stalled > 2:
            return x
        search.iterations += 1
        H = objective.hessian(z)
        wanted = 0.1 * search.gap * max(abs(f), 1e-300)
        accuracy = min(0.1 * gap, max(wanted, 1e-3 * gap)) if math.isfinite(gap) else wanted
        s = quadratics.minimize(H, g - H @ x, x, accuracy, search.started + search.time_limit)
        d = s - x
        slope = float(g @ d)
        if slope >= 0.0:
            stalled += 1
            if region.bounded:
                d = region.minimize(g) - x
                slope = float(g @ d)
            if slope >= 0.0:
                return x
        dz = objective.predictors(d)
        step, f_new = _line_search(objective, x, z, f, d, dz, slope)
        if step == 0.0:
            stalled += 1
            if not region.bounded or stalled > 2:
                return x
            d = region.minimize(g) - x
            dz = objective.predictors(d)
            step, f_new = _line_search(objective, x, z, f, d, dz, float(g @ d))
            if step == 0.0:
                return x
        elif f - f_new <= 1e-15 * abs(f):
            stalled += 1
        else:
            stalled = 0
        x = x + step * d
        z = objective.predictors(x)
        f = objective.value(x, z)


def _line_search(
    objective: Objective,
    x: FloatArray,
    z: FloatArray,
    f: float,
    d: FloatArray,
    dz: FloatArray,
    slope: float,
) -> tuple[float, float]:
    step = 1.0
    noise = 1e-15 * abs(f)
    for _ in range(50):
        value = objective.value(x + step * d, z + step * dz)
        if value <= f + 1e-4 * step * slope or (step == 1.0 and abs(value - f) <= noise):
            return step, value
        # The parabola through what is known, kept within a tenth and a half of the step.
        bend = value - f - step * slope
        best = -slope * step * step / (2.0 * bend) if bend > 0.0 else 0.5 * step
        step = min(0.5 * step, max(0.1 * step, best))
    return 0.0, f
