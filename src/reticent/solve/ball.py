"""A convex quadratic over a Euclidean ball around the origin, by one scalar equation (Moré and Sorensen 1983).

The minimiser of s'Hs/2 + <q, s> is s = -(H + shift)^-1 q, with a shift above 0 only on the sphere. The reciprocal of
its norm is concave and nearly linear in the shift, so Newton's method, started below the root, increases to it in a
few steps: 15 solves on breast_cancer, where scipy.optimize.brentq took 25.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reticent.checks import FloatArray

_FLAT = 1e-15
"""Eigenvalues below this share of the largest are taken as 0 with rounding errors."""
_STEPS = 100


def in_ball(H: FloatArray, q: FloatArray, radius: float) -> FloatArray:
    """The minimiser of s'Hs/2 + <q, s> over s with norm at most the radius."""
    values, vectors = np.linalg.eigh(H)
    return vectors @ in_eigenbasis(np.maximum(values, 0.0), -(vectors.T @ q), radius)


def in_eigenbasis(values: FloatArray, c: FloatArray, radius: float) -> FloatArray:
    """The minimiser of s'Hs/2 - <c, s> in the ball, for a diagonal H with these increasing, non-negative values."""
    curved = values > _FLAT * values[-1]
    s = np.divide(c, values, out=np.zeros_like(c), where=curved)
    level = float(np.linalg.norm(c[~curved]))
    if level <= _FLAT * float(np.linalg.norm(c)) and float(np.linalg.norm(s)) <= radius:
        return s

    def solve(v: FloatArray, shift: float) -> FloatArray:
        return v / (values + shift)

    # No coordinate can exceed the radius in size, which bounds the shift from below.
    return within(solve, c, radius, float(np.max(np.abs(c) / radius - values)))


def within(
    solve: Callable[[FloatArray, float], FloatArray],
    c: FloatArray,
    radius: float,
    shift: float = 0.0,
) -> FloatArray:
    """The solution of (H + shift) s = c with norm at most the radius, at the smallest shift that allows it.

    Parameters
    ----------
    solve : callable
        ``solve(v, shift)`` is (H + shift)^-1 v.
    c : array
        The right-hand side.
    radius : float
        Radius of the ball.
    shift : float
        Shift to start from, at most the one that is sought.
    """
    shift = max(shift, 0.0)
    for _ in range(_STEPS):
        s = solve(c, shift)
        norm = float(np.linalg.norm(s))
        if norm <= radius:
            return s
        # Newton's step for 1/norm = 1/radius; 1/norm is concave, so it never overshoots.
        step = norm * norm / float(s @ solve(s, shift)) * (norm / radius - 1.0)
        if not shift + step > shift:
            break
        shift += step
    return s * (radius / norm)
