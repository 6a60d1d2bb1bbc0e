"""A convex quadratic over a Euclidean ball about the origin: one scalar equation (More and Sorensen 1983).

The minimiser of s'Hs/2 + <q, s> is s = -(H + shift)^-1 q, with a shift above 0 only on the sphere. The
reciprocal of its norm is nearly linear in the shift, so Brent's method takes a few steps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from reticent._checks import FloatArray

_FLAT = 1e-15
"""Eigenvalues below this share of the largest are 0 but for rounding."""


def in_ball(H: FloatArray, q: FloatArray, radius: float) -> FloatArray:
    """The least point of s'Hs/2 + <q, s> with norm at most the radius."""
    values, vectors = np.linalg.eigh(H)
    return vectors @ in_eigenbasis(np.maximum(values, 0.0), -(vectors.T @ q), radius)


def in_eigenbasis(values: FloatArray, c: FloatArray, radius: float) -> FloatArray:
    """The same for a diagonal H with these rising values that are not negative, and q = -c."""
    curved = values > _FLAT * values[-1]
    s = np.divide(c, values, out=np.zeros_like(c), where=curved)
    level = float(np.linalg.norm(c[~curved]))
    if level <= _FLAT * float(np.linalg.norm(c)) and float(np.linalg.norm(s)) <= radius:
        return s

    def at(shift: float) -> FloatArray:
        with np.errstate(divide="ignore", over="ignore"):
            return np.divide(c, values + shift, out=np.zeros_like(c), where=c != 0.0)

    return within(at, float(np.linalg.norm(c)), float(values[0]), radius)


def within(
    at: Callable[[float], FloatArray], size: float, least: float, radius: float
) -> FloatArray:
    """The point ``at(shift)`` whose norm is the radius, or ``at(0)`` if that is shorter.

    Parameters
    ----------
    at : callable
        The solution of (H + shift) s = c.
    size : float
        The norm of c.
    least : float
        The smallest eigenvalue of H.
    radius : float
        Of the ball.
    """
    s = at(0.0)

    def excess(shift: float) -> float:
        return 1.0 - radius / max(float(np.linalg.norm(at(shift))), 1e-300)

    if float(np.linalg.norm(s)) > radius:
        # With a shift of size / radius - least the point is inside, but for rounding.
        high = max(size / radius - least, 1e-300) * (1.0 + 1e-9)
        while excess(high) > 0.0:
            high *= 2.0
        s = at(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-15, maxiter=500))
    return s * min(1.0, radius / max(float(np.linalg.norm(s)), 1e-300))
