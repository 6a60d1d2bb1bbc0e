"""Fully corrective Frank-Wolfe: for many columns and decisions that are mixtures of a few vertices.

A vertex is added where the gradient points, then the loss is minimised over the mixtures of all
vertices kept (Jaggi 2013, algorithm 4). In terms of the weights that is again a generalised linear
loss, on the simplex and with as many columns as vertices, so projected Newton does it.

The one thing a reader would get wrong: the ridge becomes a matrix in terms of the weights, since
the vertices are not orthogonal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reticent.losses._newton import Search, certificate, newton
from reticent.losses._objective import Objective
from reticent.losses._quadratic_program import Hull, QuadraticSolver
from reticent.losses._region import Region, SimplexRegion
from reticent.losses.base import FloatArray


def corrective(
    objective: Objective,
    region: Region,
    search: Search,
    start: FloatArray,
    strong_convexity: float,
    enough: Callable[[FloatArray, FloatArray, FloatArray], bool] | None = None,
) -> FloatArray:
    """Minimise until the search is satisfied or its limits are spent; the last iterate."""
    ridge = float(objective.R)  # type: ignore[arg-type]
    x = start
    vertices: FloatArray = np.empty((0, objective.dim))
    columns: FloatArray = np.empty((objective.count, 0))
    weights = np.empty(0)
    while True:
        z = objective.predictors(x)
        f = objective.value(x, z)
        g = objective.gradient(x, z)
        search.record(x, f, f - certificate(region, x, g, strong_convexity))
        if (enough and enough(x, z, g)) or search.reached or search.spent:
            return x
        search.iterations += 1
        vertex = region.minimize(g)
        vertices = np.vstack([vertices, vertex])
        columns = np.column_stack([columns, objective.predictors(vertex)])
        weights = np.append(weights, 0.0) if len(weights) else np.ones(1)
        mixture = objective.in_terms_of(
            np.ascontiguousarray(columns), ridge * (vertices @ vertices.T)
        )
        # Never beyond what the corrections are for: a tenth of the gap still open.
        inner = search.part(max(0.1 * search.gap, min(1e-2, 0.01 * search.relative_gap)))
        inner.iteration_limit = 50
        simplex = SimplexRegion(len(weights))
        live = np.flatnonzero(weights > 0.0)
        quadratics = QuadraticSolver(simplex, Hull(np.eye(len(weights))[live], weights[live]))
        weights = newton(mixture, simplex, inner, weights, 0.0, quadratics=quadratics)
        keep = weights > 0.0
        vertices, columns, weights = vertices[keep], columns[:, keep], weights[keep]
        x_new = weights @ vertices
        if np.array_equal(x_new, x):
            return x
        x = x_new
