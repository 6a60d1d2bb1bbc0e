"""Accelerated projected gradients with restarts (Beck and Teboulle 2009; O'Donoghue and Candès 2015).

The restarts adapt the momentum to the conditioning, so strong convexity need not be known. The accuracy that is
reached still depends on it, so second-order methods are preferred where they apply.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

from reticent.checks import FloatArray
from reticent.solve.objective import Projection

Function = Callable[[FloatArray], float]
Gradient = Callable[[FloatArray], FloatArray]


def accelerated(
    gradient: Gradient,
    project: Projection,
    start: FloatArray,
    smoothness: float,
    value: Function | None = None,
) -> Iterator[FloatArray]:
    """The points after each step, without end.

    Parameters
    ----------
    gradient : callable
        Gradient of the function to minimise.
    project : callable
        Projection onto the set.
    start : array
        Starting point.
    smoothness : float
        The Lipschitz constant of the gradient.
    value : callable, optional
        The function itself. If given, the smoothness is a first guess that is corrected by backtracking.
    """
    top, x, v, momentum = smoothness, start, start, 1.0
    while True:
        g = gradient(v)
        new = project(v - g / top)
        if value is not None:
            top, new = _backtracked(value, project, v, g, new, top)
        yield new
        change = new - x
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        if float((v - new) @ change) > 0.0:
            # The momentum points uphill, so restart it.
            momentum = following = 1.0
        v = new + (momentum - 1.0) / following * change
        x, momentum = new, following


def _backtracked(
    value: Function, project: Projection, v: FloatArray, g: FloatArray, new: FloatArray, top: float
) -> tuple[float, FloatArray]:
    """A smoothness that holds between v and the step taken with it, and that step."""
    f = value(v)
    for _ in range(60):
        d = new - v
        if value(new) <= f + float(g @ d) + 0.5 * top * float(d @ d) + 1e-14 * abs(f):
            break
        top *= 2.0
        new = project(v - g / top)
    return 0.98 * top, new


def settled(
    points: Iterator[FloatArray], start: FloatArray, steps: int, tolerance: float = 0.0
) -> FloatArray:
    """The first of the points whose distance to the one before it is at most the tolerance.

    The tolerance is relative to one plus the point's norm. After ``steps`` points, the last one is returned in any
    case.
    """
    x = start
    for new in itertools.islice(points, steps):
        moved = new - x
        x = new
        # Products are used because on small problems np.linalg.norm would cost as much as the steps.
        length = math.sqrt(float(moved @ moved))
        if length == 0.0 or length <= tolerance * (1.0 + math.sqrt(float(x @ x))):
            break
    return x
