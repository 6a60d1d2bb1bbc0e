"""Fully corrective Frank-Wolfe, for many columns and decisions that are mixtures of a few vertices.

In each step the vertex in the direction of the negative gradient is added, and the loss is minimised over the
mixtures of all vertices kept (Jaggi 2013, algorithm 4). In terms of the weights this is again a sum of losses of
linear predictors, on the simplex and with as many columns as vertices, which proximal Newton minimises. The ridge
becomes a matrix there, because the vertices are not orthogonal.
"""

from __future__ import annotations

import numpy as np

from reticent.checks import FloatArray
from reticent.sets import Simplex
from reticent.solve.newton import minimize_by_newton
from reticent.solve.objective import Objective, Region
from reticent.solve.quadratic import Hull, QuadraticSolver
from reticent.solve.search import Enough, Search, Way, follow


def minimize_by_vertices(
    objective: Objective,
    region: Region,
    search: Search,
    start: FloatArray,
    strong_convexity: float,
    enough: Enough | None = None,
) -> FloatArray:
    """Minimise until the search is satisfied or its limits are reached; return the last point."""
    way = _steps(objective, region, search, start)
    return follow(way, objective, region, search, strong_convexity, enough)


def _steps(objective: Objective, region: Region, search: Search, x: FloatArray) -> Way:
    """Points on the way to the minimum, until a correction changes nothing."""
    vertices: FloatArray = np.empty((0, objective.dim))
    columns: FloatArray = np.empty((objective.count, 0))
    weights = np.empty(0)
    while True:
        z, g = objective.predictors_and_gradient(x)
        yield x, z, g
        vertex = region.minimize(g)
        vertices = np.vstack([vertices, vertex])
        columns = np.column_stack([columns, objective.predictors(vertex)])
        weights = np.append(weights, 0.0) if len(weights) else np.ones(1)
        mixture = objective.in_terms_of(
            np.ascontiguousarray(columns), objective.least_curvature * (vertices @ vertices.T)
        )
        # The corrections need not be more accurate than a tenth of the requested gap.
        inner = search.part(max(0.1 * search.gap, min(1e-2, 0.01 * search.relative_gap)))
        inner.iteration_limit = 50
        simplex = Region(Simplex(len(weights)), len(weights))
        live = np.flatnonzero(weights > 0.0)
        quadratics = QuadraticSolver(simplex, Hull(np.eye(len(weights))[live], weights[live]))
        weights = minimize_by_newton(mixture, simplex, inner, weights, 0.0, None, quadratics)
        keep = weights > 0.0
        vertices, columns, weights = vertices[keep], columns[:, keep], weights[keep]
        x_new = weights @ vertices
        if np.array_equal(x_new, x):
            return
        x = x_new
