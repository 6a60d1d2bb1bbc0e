"""Exact distributions of outputs that are not linear in the noise, such as selections and minimisers.

The probabilities of a selection follow from its scores and scale. A minimiser x of loss + <b, x> is a one-to-one
function of b, so its density is that of b at the value that leads to x, times the determinant of the derivative of b in
x; both are measured on the running code. The hockey-stick divergence ``integral of max(0, p - e^epsilon q)`` is then
computed by numeric integration.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator, RectBivariateSpline
from scipy.optimize import brentq
from scipy.special import logsumexp

from reticent.checks import FloatArray

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)


def law(noise: str, scores: FloatArray, scale: float) -> FloatArray:
    """The probability of each candidate to have the largest score plus noise, exactly up to rounding."""
    shifts = (np.asarray(scores, dtype=np.float64) - np.max(scores)) / scale
    if noise == "gumbel":
        return np.asarray(np.exp(shifts - logsumexp(shifts)))
    if noise == "laplace":

        def log_density(x: FloatArray) -> FloatArray:
            return -np.abs(x) - math.log(2.0)

        def distribution(x: FloatArray) -> FloatArray:
            return np.where(
                x < 0.0, 0.5 * np.exp(np.minimum(x, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(x, 0.0))
            )

        low = -45.0
    else:

        def log_density(x: FloatArray) -> FloatArray:
            return np.where(x < 0.0, -np.inf, -x)

        def distribution(x: FloatArray) -> FloatArray:
            return -np.expm1(-np.maximum(x, 0.0))

        low = 0.0
    # the densities have kinks at the scores, so the integral over the largest value is taken between them
    ends = np.unique(np.concatenate([shifts, shifts + low, np.linspace(low, 60.0, 60)]))
    ends = ends[(ends >= low - 1e-12) | (ends >= shifts.min() + low)]
    half = 0.5 * np.diff(ends)
    x = (0.5 * (ends[1:] + ends[:-1]))[:, None] + half[:, None] * _NODES
    weights = half[:, None] * _WEIGHTS
    below = np.array([distribution(x - s) for s in shifts])
    result = np.empty(shifts.size)
    for i, s in enumerate(shifts):
        others = np.prod(np.delete(below, i, axis=0), axis=0)
        result[i] = float(np.sum(weights * np.exp(log_density(x - s)) * others))
    return result


def stick(log_p: FloatArray, log_q: FloatArray, weights: FloatArray, epsilon: float) -> float:
    """``sum weights max(0, p - e^epsilon q)``."""
    with np.errstate(over="ignore", invalid="ignore"):
        gain = np.exp(log_p) * -np.expm1(np.minimum(epsilon + log_q - log_p, 0.0))
    return float(np.sum(weights * np.where(np.isfinite(gain), gain, 0.0)))


def epsilon_at(profile: Callable[[float], float], delta: float, highest: float = 200.0) -> float:
    """The epsilon at which a hockey stick has fallen to delta."""
    if profile(0.0) <= delta:
        return 0.0
    if profile(highest) > delta:
        return math.inf
    return float(brentq(lambda e: profile(e) - delta, 0.0, highest, xtol=1e-10, rtol=1e-12))


def normal_log_density(b: FloatArray) -> FloatArray:
    """Logarithm of the density of a standard normal number."""
    return -0.5 * b * b - 0.5 * math.log(2.0 * math.pi)


def laplace_log_density(b: FloatArray) -> FloatArray:
    """Logarithm of the density of a spherical Gamma vector in one dimension, which is a Laplace number."""
    return -np.abs(b) - math.log(2.0)


def carried(grid: FloatArray, here: FloatArray, there: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The noise of the other world that leads to the same point, and the logarithm of its slope.

    ``here`` and ``there`` are the points to which the noise on the grid leads in the two worlds.
    """
    # A slope is the mean of two secants, so it never exceeds the minimiser's own slopes, even at kinks. Points at
    # which the minimiser stays at the border of its set have no density and are left out.
    mine, other = _moving(here), _moving(there)
    back = PchipInterpolator(there[other], grid[other], extrapolate=False)
    slope = np.interp(here, there[other], np.gradient(grid[other], there[other]))
    slope *= np.gradient(here, grid)
    noise = np.where(mine, back(here), np.nan)
    inside = np.isfinite(noise) & (slope > 0.0)
    logarithm = np.log(np.where(inside, slope, 1.0))
    return np.where(inside, noise, np.nan), np.where(inside, logarithm, np.nan)


def _moving(points: FloatArray) -> NDArray[np.bool_]:
    """Whether a point lies strictly between its neighbours."""
    rising = np.diff(points) > 0.0
    return np.concatenate([[rising[0]], rising[1:] & rising[:-1], [rising[-1]]])


def log_ratio(
    grid: FloatArray,
    here: FloatArray,
    there: FloatArray,
    log_density: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """``log p - log q`` of the two minimisers' densities at the points that the grid leads to."""
    noise, slope = carried(grid, here, there)
    return log_density(grid) - log_density(noise) - slope


def carried_in_the_plane(
    grid: FloatArray, fine: FloatArray, here: FloatArray, there: FloatArray, steps: int = 40
) -> FloatArray:
    """The noise of the other world that leads to the same point of the plane, and the log-determinant of its slope.

    ``here`` and ``there`` are the points, of shape (m, m, 2), to which the noise on ``grid x grid`` leads in the two
    worlds; the result is computed at ``fine x fine``.
    """
    mine = [RectBivariateSpline(grid, grid, here[:, :, k]) for k in range(2)]
    other = [RectBivariateSpline(grid, grid, there[:, :, k]) for k in range(2)]
    first, second = (axis.ravel() for axis in np.meshgrid(fine, fine, indexing="ij"))
    target = [part.ev(first, second) for part in mine]
    u, v = first.copy(), second.copy()
    for _ in range(steps):
        gap = np.stack([other[k].ev(u, v) - target[k] for k in range(2)], axis=1)
        move = np.linalg.solve(_jacobian(other, u, v), gap[:, :, None])[:, :, 0]
        u, v = u - move[:, 0], v - move[:, 1]
        if float(np.abs(move).max()) < 1e-12:
            break
    slope = np.log(np.abs(np.linalg.det(_jacobian(mine, first, second))))
    slope = slope - np.log(np.abs(np.linalg.det(_jacobian(other, u, v))))
    inside = (np.abs(u) <= grid[-1]) & (np.abs(v) <= grid[-1])
    return np.where(inside, np.stack([u, v, slope]), np.nan)


def log_ratio_in_the_plane(
    fine: FloatArray, match: FloatArray, divided_by: float = 1.0
) -> FloatArray:
    """``log p - log q`` of two minimisers' densities in the plane for Gaussian noise, on the grid ``fine x fine``."""
    first, second = (axis.ravel() for axis in np.meshgrid(fine, fine, indexing="ij"))
    u, v, slope = match
    if divided_by != 1.0:
        inside = np.isfinite(match[0])
        parts = [
            RectBivariateSpline(fine, fine, np.where(inside, part, other).reshape(2 * fine.shape))
            for part, other in zip(match, (first, second, np.zeros(first.size)), strict=True)
        ]
        u, v, slope = (part.ev(first / divided_by, second / divided_by) for part in parts)
    log_p = normal_log_density(first) + normal_log_density(second)
    log_q = normal_log_density(divided_by * u) + normal_log_density(divided_by * v)
    return np.asarray(log_p - log_q - slope)


def _jacobian(parts: list[RectBivariateSpline], u: FloatArray, v: FloatArray) -> FloatArray:
    rows = [np.stack([part.ev(u, v, dx=1), part.ev(u, v, dy=1)], axis=1) for part in parts]
    return np.stack(rows, axis=1)


def sampled_stick(ratio: float, rate: float, neighbours: str, epsilon: float) -> float:
    """The larger hockey stick of one Gaussian number whose record is in the sample with this probability.

    The record moves the number by ``ratio`` standard deviations; it is absent in the other world, or replaced by one
    that moves the number in the opposite direction.

    """
    ends = np.linspace(-14.0 - ratio, 14.0 + ratio, 400)
    half = 0.5 * np.diff(ends)
    x = ((0.5 * (ends[1:] + ends[:-1]))[:, None] + half[:, None] * _NODES).ravel()
    weights = (half[:, None] * _WEIGHTS).ravel()

    def mixture(shift: float) -> FloatArray:
        parts = [
            normal_log_density(x) + math.log1p(-rate),
            normal_log_density(x - shift) + math.log(rate),
        ]
        return np.asarray(np.logaddexp(*parts))

    here = mixture(ratio)
    there = normal_log_density(x) if neighbours == "zero-out" else mixture(-ratio)
    return max(stick(here, there, weights, epsilon), stick(there, here, weights, epsilon))
