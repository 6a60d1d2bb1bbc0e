"""Affine hulls and inner balls, from constraints if they are known, else from the linear minimiser.

The hull of a set that has only a linear minimiser is found by minimising and maximising a random direction that is
orthogonal to what was found so far. If the width is zero, every remaining direction is a normal of the set (with
probability one); otherwise a new affinely independent point was found. The points span a simplex, whose inscribed
ball is a ball in the set. The bandit learner needs it for its probes (Flaxman et al.).

The ball from the simplex is valid but small; sets that know their constraints use `chebyshev_ball`, the largest one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reticent.checks import FloatArray

if TYPE_CHECKING:
    from reticent.sets.base import ConvexSet

FLAT = 1e-9


def zero_sum_basis(dim: int) -> FloatArray:
    """An orthonormal basis (Helmert's) of the vectors that sum to zero, of shape (dim, dim - 1)."""
    count = np.arange(1, dim, dtype=np.float64)
    basis = np.triu(np.ones((dim, dim - 1)))
    basis[np.arange(1, dim), np.arange(dim - 1)] = -count
    return basis / np.sqrt(count * (count + 1.0))


def frame_of(convex: ConvexSet) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """A point of the affine hull, an orthonormal basis of its directions, and centre and radius of an inner ball."""
    dim = convex.dim
    rng = np.random.default_rng(0)
    first = np.array(convex.linear_minimizer(rng.standard_normal(dim)), dtype=np.float64)
    scale = max(float(convex.diameter), 1e-300)
    points = [first]
    basis = np.zeros((dim, dim))
    count = 0
    while count < dim:
        direction = _orthogonal(rng.standard_normal(dim), basis[:, :count])
        direction /= np.linalg.norm(direction)
        low = convex.linear_minimizer(direction)
        high = convex.linear_minimizer(-direction)
        if direction @ (high - low) <= FLAT * scale:
            break
        far = high if direction @ (high - first) >= direction @ (first - low) else low
        fresh = _orthogonal(far - first, basis[:, :count])
        basis[:, count] = fresh / np.linalg.norm(fresh)
        count += 1
        points.append(np.array(far, dtype=np.float64))
    basis = basis[:, :count].copy()
    center, radius = _inscribed(np.array(points), basis)
    return first, basis, center, radius


def _orthogonal(vector: FloatArray, basis: FloatArray) -> FloatArray:
    for _ in range(2):  # once more, because the first pass leaves rounding errors behind
        vector = vector - basis @ (basis.T @ vector)
    return vector


def _inscribed(points: FloatArray, basis: FloatArray) -> tuple[FloatArray, float]:
    """The ball inscribed in the simplex of k + 1 affinely independent points."""
    if len(points) == 1:
        return points[0].copy(), 0.0
    edges = (points[1:] - points[0]) @ basis
    gradients = np.linalg.inv(edges).T  # of the barycentric coordinates 1..k; they sum to one
    norms = np.linalg.norm(np.vstack([gradients.sum(axis=0), gradients]), axis=1)
    return norms @ points / norms.sum(), float(1.0 / norms.sum())


def chebyshev_ball(
    rows: FloatArray, bounds: FloatArray, point: FloatArray, basis: FloatArray | None
) -> tuple[FloatArray, float]:
    """The largest ball within ``{x : rows x <= bounds}`` and within the affine hull (point, basis)."""
    from scipy.optimize import linprog

    directions = np.eye(point.size) if basis is None else basis
    if directions.shape[1] == 0:
        return point.copy(), 0.0
    slopes = rows @ directions
    norms = np.linalg.norm(slopes, axis=1)
    keep = norms > FLAT * np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
    slopes, norms = slopes[keep], norms[keep]
    room = bounds[keep] - rows[keep] @ point
    cost = np.zeros(directions.shape[1] + 1)
    cost[-1] = -1.0
    solution = linprog(
        cost,
        A_ub=np.column_stack([slopes, norms]),
        b_ub=room,
        bounds=[(None, None)] * directions.shape[1] + [(0.0, None)],
        method="highs",
    )
    if solution.status != 0:
        raise ValueError(f"no ball fits into the set: {solution.message}")
    step = solution.x[:-1]
    radius = float(np.min((room - slopes @ step) / norms))
    return point + directions @ step, max(radius, 0.0)
