"""Minimise a convex function of which only values and subgradients are known, by cutting planes.

A proximal bundle method (Kiwiel 1990): the loss is replaced by the maximum of its tangents so far, and the next point
minimises this model plus a squared distance from the best point over the set. The weights of the tangents are a dual
point: their mixture is a linear function below the loss, which the linear minimiser bounds from below over the set.
That holds for any weights, so an inexact inner solve costs steps but never invalidates the certificate.
"""

from __future__ import annotations

import itertools

import numpy as np

from reticent.checks import FloatArray
from reticent.sets import Simplex
from reticent.solve.accelerated import Function, Gradient, accelerated
from reticent.solve.certificate import least_of_tangent
from reticent.solve.objective import Projection, Region
from reticent.solve.quadratic import projector
from reticent.solve.search import Search

_TANGENTS = 200
_INNER_STEPS = 300


def bundle(
    value: Function,
    gradient: Gradient,
    region: Region,
    search: Search,
    start: FloatArray,
    strong_convexity: float = 0.0,
) -> None:
    """Minimise until the search is satisfied or its limits are reached."""
    m, origin = strong_convexity, np.zeros_like(start)
    project = projector(region)
    best, best_value = start, value(start)
    # The tangents are those of the loss minus (m/2)||x||^2, which is convex too.
    g = gradient(start) - m * start
    slopes = g[None, :]
    levels = np.array([best_value - 0.5 * m * float(start @ start) - float(g @ start)])
    weights = np.ones(1)
    first_pull = pull = max(float(np.linalg.norm(g + m * start)), 1e-12)
    while True:
        tangent = least_of_tangent(region, origin, weights @ slopes, m)
        search.record(best, best_value, float(weights @ levels) + tangent)
        if search.reached or search.spent:
            return
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


def _least_of_model(
    project: Projection,
    slopes: FloatArray,
    levels: FloatArray,
    weights: FloatArray,
    center: FloatArray,
    best_value: float,
    pull: float,
    m: float,
) -> tuple[FloatArray, FloatArray]:
    """Weights of the tangents that solve the dual of the model with its proximal term, and the point they give."""

    def point(w: FloatArray) -> FloatArray:
        return project((pull * center - w @ slopes) / (pull + m))

    top = float(np.linalg.norm(slopes @ slopes.T, 2)) / (pull + m)
    if top == 0.0:
        return weights, point(weights)
    # The dual is concave; its gradient in the weights is the value of each tangent at their point.
    way = accelerated(
        lambda v: -(levels + slopes @ point(v)), Simplex(len(weights)).project, weights, top
    )
    for i, w in enumerate(itertools.islice(way, _INNER_STEPS)):
        if i % 20 == 19:
            x = point(w)
            tangents = levels + slopes @ x
            # The error of the weights in the model, compared with the decrease that the model predicts.
            missed = float(tangents.max() - w @ tangents)
            predicted = best_value - float(tangents.max()) - 0.5 * m * float(x @ x)
            if missed <= 0.01 * predicted:
                break
    return w, point(w)
