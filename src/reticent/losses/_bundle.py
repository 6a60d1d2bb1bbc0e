"""The best fixed decision of a convex loss of which only values and subgradients are known.

A proximal bundle method (Kiwiel 1990): the loss is replaced by the largest of its tangents so far, and
the next point is where that model, plus a squared distance from the best point, is least over the set.
The weights of the tangents are a point of the dual: their mixture is a linear function below the loss,
which the linear minimiser bounds from below over the set.

The one thing a reader would get wrong: the lower bound holds for any weights of the tangents, so an
inexact inner solve costs steps, never the truth of the certificate.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from reticent.losses._first_order import projector
from reticent.losses._newton import Search
from reticent.losses._region import Region
from reticent.losses.base import FloatArray

_TANGENTS = 200
_INNER_STEPS = 300


def bundle(
    value: Callable[[FloatArray], float],
    gradient: Callable[[FloatArray], FloatArray],
    region: Region,
    search: Search,
    start: FloatArray,
    strong_convexity: float = 0.0,
) -> FloatArray:
    """Minimise until the search is satisfied or its limits are spent; the best point."""
    m = strong_convexity
    project = projector(region)
    best, best_value = start, value(start)
    # The tangents are those of the loss less (m/2)||x||^2, which is convex too.
    g = gradient(start) - m * start
    slopes = g[None, :]
    levels = np.array([best_value - 0.5 * m * float(start @ start) - float(g @ start)])
    weights = np.ones(1)
    first_pull = pull = max(float(np.linalg.norm(g + m * start)), 1e-12)
    while True:
        lower = _lower_bound(region, project, weights @ slopes, float(weights @ levels), m)
        search.record(best, best_value, lower)
        if search.reached or search.spent:
            return best
        search.iterations += 1
        weights, x = _least_of_model(project, slopes, levels, weights, best, best_value, pull, m)
        modelled = float(np.max(levels + slopes @ x)) + 0.5 * m * float(x @ x)
        f = value(x)
        g = gradient(x) - m * x
        expected = best_value - modelled
        if expected > 0.0 and f <= best_value - 0.1 * expected:
            if f <= best_value - 0.5 * expected:
                pull = max(0.5 * pull, 1e-6 * first_pull)
            best, best_value = x, f
        elif f < best_value:
            best, best_value = x, f
        elif f > best_value + expected:
            pull = min(2.0 * pull, 1e6 * first_pull)
        keep = weights > 1e-12
        if len(weights) > _TANGENTS:
            slopes, levels, weights = slopes[keep], levels[keep], weights[keep]
        level = f - 0.5 * m * float(x @ x) - float(g @ x)
        slopes, levels = np.vstack([slopes, g]), np.append(levels, level)
        weights = np.append(weights, 0.0) / weights.sum()


def _lower_bound(
    region: Region,
    project: Callable[[FloatArray], FloatArray],
    slope: FloatArray,
    level: float,
    m: float,
) -> float:
    bound = -math.inf
    if region.bounded:
        bound = level + float(slope @ region.minimize(slope))
    if m > 0.0:
        if not region.bounded:
            return level - float(slope @ slope) / (2.0 * m)
        if region.project is not None:
            s = project(-slope / m)
            bound = max(bound, level + float(slope @ s) + 0.5 * m * float(s @ s))
    return bound


def _least_of_model(
    project: Callable[[FloatArray], FloatArray],
    slopes: FloatArray,
    levels: FloatArray,
    weights: FloatArray,
    center: FloatArray,
    best_value: float,
    pull: float,
    m: float,
) -> tuple[FloatArray, FloatArray]:
    """Weights of the tangents that solve the dual of the model with its pull to the center."""

    def point(w: FloatArray) -> FloatArray:
        return project((pull * center - w @ slopes) / (pull + m))

    top = float(np.linalg.norm(slopes @ slopes.T, 2)) / (pull + m)
    if top == 0.0:
        return weights, point(weights)
    w = v = weights
    momentum = 1.0
    for i in range(_INNER_STEPS):
        x = point(v)
        new = _to_simplex(v + (levels + slopes @ x) / top)
        if float((v - new) @ (new - w)) > 0.0:
            momentum = following = 1.0
        else:
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        v = new + (momentum - 1.0) / following * (new - w)
        w, momentum = new, following
        if i % 20 == 19:
            x = point(w)
            tangents = levels + slopes @ x
            # What the weights miss of the model, against what the model promises.
            missed = float(tangents.max() - w @ tangents)
            promised = best_value - float(tangents.max()) - 0.5 * m * float(x @ x)
            if missed <= 0.01 * promised:
                break
    return w, point(w)


def _to_simplex(v: FloatArray) -> FloatArray:
    falling = np.sort(v)[::-1]
    sums = np.cumsum(falling) - 1.0
    count = np.count_nonzero(falling * np.arange(1, len(v) + 1) > sums)
    return np.maximum(0.0, v - sums[count - 1] / count)
