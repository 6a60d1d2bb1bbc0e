"""The best fixed decision from values and gradients alone: many columns, or a loss of the user's own.

Accelerated projected gradient with restarts and backtracking (Beck and Teboulle 2009; O'Donoghue and
Candes 2015). A set without a projection is projected on through its vertices.

The one thing a reader would get wrong: this is the method of last resort. It certifies what it
reaches, but what it reaches depends on the conditioning of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from reticent.losses._newton import Search, certificate
from reticent.losses._quadratic_program import QuadraticSolver
from reticent.losses._region import Region
from reticent.losses.base import FloatArray

_CHECK_EVERY = 10


def projector(region: Region) -> Callable[[FloatArray], FloatArray]:
    """The set's projection, or one made of its linear minimiser, or none needed."""
    if not region.bounded:
        return lambda x: x
    if region.project is not None:
        return region.project
    quadratics = QuadraticSolver(region)
    identity = np.eye(region.dim)

    def project(x: FloatArray) -> FloatArray:
        return quadratics.minimize(identity, -x, x, 1e-14 * (1.0 + float(x @ x)))

    return project


def accelerated(
    value: Callable[[FloatArray], float],
    gradient: Callable[[FloatArray], FloatArray],
    region: Region,
    search: Search,
    start: FloatArray,
    smoothness: float,
    strong_convexity: float,
    enough: Callable[[FloatArray, FloatArray], bool] | None = None,
) -> FloatArray:
    """Minimise until the search is satisfied or its limits are spent; the last iterate."""
    project = projector(region)
    # The smoothness claimed is that of the worst record; the mean is smoother, so start low and back off.
    top = max(smoothness * 1e-3, 1e-12)
    s = v = start
    momentum = 1.0
    while True:
        f_v, g_v = value(v), gradient(v)
        for _ in range(60):
            new = project(v - g_v / top)
            d = new - v
            f_new = value(new)
            model = f_v + float(g_v @ d) + 0.5 * top * float(d @ d)
            if f_new <= model + 1e-14 * abs(f_v):
                break
            top *= 2.0
        search.iterations += 1
        if search.iterations % _CHECK_EVERY == 1 or search.spent:
            g = gradient(new)
            search.record(new, f_new, f_new - certificate(region, new, g, strong_convexity))
            if (enough and enough(new, g)) or search.reached or search.spent:
                return new
        if float((v - new) @ (new - s)) > 0.0:
            momentum, following = 1.0, 1.0
        else:
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        v = new + (momentum - 1.0) / following * (new - s)
        s, momentum = new, following
        top *= 0.98
