"""Accelerated projected gradients with restarts (Beck and Teboulle 2009; O'Donoghue and Candes 2015).

The restarts adapt the momentum to the conditioning, so that strong convexity need not be known. What is
reached still depends on it: second-order methods are tried first wherever they can be.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

from reticent.checks import FloatArray
from reticent.solve.region import Projection

Function = Callable[[FloatArray], float]
Gradient = Callable[[FloatArray], FloatArray]


def accelerated(
    gradient: Gradient,
    project: Projection,
    start: FloatArray,
    smoothness: float,
    value: Function | None = None,
) -> Iterator[FloatArray]:
    """The points after each step, for ever.

    Parameters
    ----------
    gradient : callable
        Of the function to minimise.
    project : callable
        The nearest point of the set.
    start : array
        Where to begin.
    smoothness : float
        The Lipschitz constant of the gradient.
    value : callable, optional
        The function itself. With it the smoothness is a first guess, corrected by backtracking.
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
            # The momentum points uphill: forget it.
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
    """The first of the points that is no further than the tolerance from the one before it.

    The tolerance is relative to one plus the point's norm; after so many steps any point will do.
    """
    x = start
    for new in itertools.islice(points, steps):
        moved = new - x
        x = new
        # By products, not norms: on small problems the norms would cost as much as the steps.
        length = math.sqrt(float(moved @ moved))
        if length == 0.0 or length <= tolerance * (1.0 + math.sqrt(float(x @ x))):
            break
    return x
