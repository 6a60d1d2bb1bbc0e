"""A run certified by duality gaps: the best point, the best bound, and when to stop.

The gap is of the order of the square root of the iterate's error in value, so a gap of 1e-6 needs an iterate accurate
to 1e-12: a task for second-order methods.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from reticent.checks import FloatArray
from reticent.solve.accelerated import Function, Gradient, accelerated
from reticent.solve.certificate import duality_gap
from reticent.solve.objective import Objective, Region
from reticent.solve.quadratic import projector

_ROUNDING = 1e-12
_CHECK_EVERY = 10
_PATIENCE = 4
"""The run ends after this many steps that improve neither the value nor the gap."""

Way = Generator[tuple[FloatArray, FloatArray, FloatArray], int]
"""Points with predictors and gradients; it is sent the number of steps without improvement."""
Enough = Callable[[FloatArray, FloatArray, FloatArray], bool]


@dataclass
class Search:
    """The best point and the best lower bound so far, and when to stop.

    Parameters
    ----------
    gap : float
        The relative gap to reach.
    time_limit : float
        Seconds after which to stop.
    iteration_limit : int
        Number of steps after which to stop.
    progress : bool
        Whether to print a line for each step.
    floor : float
        Smallest value to which the gap is relative.
    """

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
        # A bound is a sum of many rounded numbers, so its last digits are not reliable.
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
    def deadline(self) -> float:
        """The time at which to stop, in the units of ``time.perf_counter``."""
        return self.started + self.time_limit

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
        """A search within this one, with the remaining limits."""
        left = max(0.0, self.time_limit - self.seconds)
        steps = max(0, self.iteration_limit - self.iterations)
        return Search(gap, left, steps, floor=self.floor)


def follow(
    way: Way,
    objective: Objective,
    region: Region,
    search: Search,
    strong_convexity: float,
    enough: Enough | None = None,
) -> FloatArray:
    """Take the steps of a method until the search is satisfied or its limits are reached.

    Parameters
    ----------
    way : generator
        Points on the way to the minimum, with their predictors and gradients.
    objective : Objective
        The function to minimise.
    region : Region
        The feasible set.
    search : Search
        Keeps the best point and bound, and decides when to stop.
    strong_convexity : float
        Strong convexity of the objective, for a sharper certificate.
    enough : callable, optional
        ``enough(x, z, g)`` may stop it earlier.

    Returns
    -------
    array
        The last point.
    """
    best_value, best_gap, stalled = math.inf, math.inf, 0
    x, z, g = next(way)
    while True:
        f = objective.value(x, z)
        gap = duality_gap(region, x, g, strong_convexity)
        search.record(x, f, f - gap)
        better = f < best_value - 1e-15 * abs(f) or gap < 0.9 * best_gap
        stalled = 0 if better else stalled + 1
        best_value, best_gap = min(best_value, f), min(best_gap, gap)
        if (enough and enough(x, z, g)) or search.reached or search.spent or stalled > _PATIENCE:
            return x
        search.iterations += 1
        try:
            x, z, g = way.send(stalled)
        except StopIteration:
            return x


def descend(
    value: Function,
    gradient: Gradient,
    region: Region,
    search: Search,
    start: FloatArray,
    smoothness: float,
    strong_convexity: float,
    enough: Callable[[FloatArray, FloatArray], bool] | None = None,
) -> FloatArray:
    """Minimise until the search is satisfied or its limits are reached; return the last point.

    ``enough(x, g)`` may stop it earlier.
    """
    # The claimed smoothness is that of the worst record; the mean is smoother, so start low and backtrack.
    guess = max(smoothness * 1e-3, 1e-12)
    x = start
    for x in accelerated(gradient, projector(region), start, guess, value):
        search.iterations += 1
        if search.iterations % _CHECK_EVERY == 1 or search.spent:
            g, f = gradient(x), value(x)
            search.record(x, f, f - duality_gap(region, x, g, strong_convexity))
            if (enough and enough(x, g)) or search.reached or search.spent:
                break
    return x
