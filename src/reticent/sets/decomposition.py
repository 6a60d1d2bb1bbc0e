"""Write a point as a mixture of vertices with the linear minimiser alone, and the local linear minimiser based on that.

The mixture comes from Wolfe's algorithm (1976) for the point of a polytope nearest to x: it ends after finitely many
calls, with few vertices, and with distance zero if x is inside. The local linear minimiser of Garber and Hazan (2013)
moves ``mass_per_radius * radius`` of the weight from the worst vertices of the mixture to the best vertex; ``rho =
mass_per_radius * diameter``. docs/algorithms/local-linear-oracle.md has the lemma behind it. Considered: a linear
program for the mixture, which needs all vertices at once.

The weight that must be moved is bounded for *any* mixture that gives x, so no mixture is remembered from step to step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reticent.checks import FloatArray

if TYPE_CHECKING:
    from reticent.sets.base import ConvexSet

PRECISION = 1e-12


def nearest_mixture(
    convex: ConvexSet, x: FloatArray, slack: float, most_rounds: int | None = None
) -> tuple[FloatArray, FloatArray, bool]:
    """Weights and vertices (rows) of a mixture near x, and whether x was proved to be outside.

    It stops as soon as the mixture is within ``slack`` of x, or a direction separates x from the set by more than
    ``slack``, or the mixture is the nearest point.
    """
    vertices = np.array([convex.linear_minimizer(-x)])
    weights = np.ones(1)
    rounds = most_rounds or 50 * (convex.dim + 10)
    for _ in range(rounds):
        gap = weights @ vertices - x
        distance = float(np.linalg.norm(gap))
        if distance <= slack:
            return weights, vertices, False
        candidate = convex.linear_minimizer(gap)
        if gap @ (candidate - x) > slack * distance:
            return weights, vertices, True
        progress = float(gap @ (weights @ vertices - candidate))
        known = (np.abs(vertices - candidate).max(axis=1) == 0.0).any()
        if known or progress <= 1e-15 * distance * max(convex.diameter, distance):
            break
        vertices = np.vstack([vertices, candidate])
        keep, weights = minor_cycle(
            np.append(weights, 0.0),
            np.ones(len(vertices), dtype=bool),
            partial(_nearest_of, vertices, x),
        )
        weights, vertices = weights[keep], vertices[keep]
    return weights, vertices, False


def minor_cycle(
    weights: FloatArray, keep: NDArray[np.bool_], affine: Callable[[NDArray[np.intp]], FloatArray]
) -> tuple[NDArray[np.bool_], FloatArray]:
    """Wolfe's minor cycle: move to the minimum over a convex hull, dropping the vertices that it does not need.

    Parameters
    ----------
    weights : array
        Weights of the vertices at the starting point.
    keep : array of bool
        Which vertices are used; those whose weight becomes zero are removed from it.
    affine : callable
        Given the indices of some vertices, returns the weights (possibly negative) of the minimum over their affine
        hull.

    Returns
    -------
    (array of bool, array)
        Which vertices are left, and the weights of all.
    """
    while True:
        active = np.flatnonzero(keep)
        target = np.zeros(len(weights))
        target[active] = affine(active)
        falling = active[target[active] <= 0.0]
        if len(falling) == 0:
            weights = target
            break
        ratios = weights[falling] / np.maximum(weights[falling] - target[falling], 1e-300)
        share = float(np.min(ratios))
        weights = np.maximum(0.0, weights + share * (target - weights))
        dropped = falling[ratios <= share * (1.0 + 1e-12)]
        weights[dropped] = 0.0
        keep[dropped] = False
        if np.count_nonzero(keep) == 1:
            weights = keep.astype(np.float64)
            break
    return keep, weights / weights.sum()


def _nearest_of(vertices: FloatArray, x: FloatArray, active: NDArray[np.intp]) -> FloatArray:
    """Weights of the point nearest to x in the affine hull of the active vertices."""
    vertices = vertices[active]
    others = (vertices[1:] - vertices[0]).T
    share = np.linalg.lstsq(others, x - vertices[0], rcond=1e-14)[0]
    return np.concatenate([[1.0 - share.sum()], share])


def decompose(convex: ConvexSet, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Positive weights that sum to one and vertices (rows) with ``weights @ vertices == x``, up to rounding."""
    scale = max(convex.diameter, float(np.abs(x).max(initial=0.0)), 1e-300)
    weights, vertices, outside = nearest_mixture(convex, x, PRECISION * scale)
    if outside or np.linalg.norm(weights @ vertices - x) > 1e-7 * scale:
        raise ValueError(
            f"x must be in the set to be written as a mixture of its vertices, but {convex!r} does "
            "not contain it; project it first"
        )
    return weights, vertices


def is_inside(convex: ConvexSet, x: FloatArray, slack: float) -> bool:
    weights, vertices, outside = nearest_mixture(convex, x, slack)
    return not outside and float(np.linalg.norm(weights @ vertices - x)) <= slack


def move_weight(convex: ConvexSet, x: FloatArray, radius: float, g: FloatArray) -> FloatArray:
    """The local linear minimiser of a polytope with a known ``mass_per_radius``."""
    if convex.mass_per_radius is None or convex.rho is None:
        raise NotImplementedError("mass_per_radius must be set")
    best = convex.linear_minimizer(g)
    if np.linalg.norm(best - x) <= convex.rho * radius:
        return best
    amount = min(1.0, convex.mass_per_radius * radius)
    if amount == 0.0:
        return x.copy()
    weights, vertices = convex.decompose(x)
    removed = heaviest_first(weights, vertices @ g, amount)
    return (weights - removed) @ vertices + removed.sum() * best


def heaviest_first(weights: FloatArray, costs: FloatArray, amount: float) -> FloatArray:
    """How much to remove from each weight so that ``amount`` in all is taken from the costliest first."""
    order = np.argsort(-costs, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(weights[order])[:-1]])
    removed = np.empty_like(weights)
    removed[order] = np.clip(amount - before, 0.0, weights[order])
    return removed
