"""The exact trade-off of the Gaussian mechanism: each of epsilon, delta and mu from the other two.

A release with noise of standard deviation ``sigma`` on a value that one record moves by at most ``sensitivity`` is
mu-GDP with ``mu = sensitivity / sigma`` (Dong, Roth and Su, *Gaussian differential privacy*, Corollary 2.13; Balle
and Wang, *Improving the Gaussian mechanism*, Theorem 8):

    delta(epsilon) = Phi(-a) - e^epsilon Phi(-b),   a = epsilon/mu - mu/2,   b = epsilon/mu + mu/2.

The two terms agree to many digits wherever delta is small, so subtracting them, or their logarithms, would lose all
accuracy. Since ``b^2 - a^2 = 2 epsilon``, the common factor ``exp(-a^2/2)`` can be taken out exactly, and what is
left is the integral of a positive function over ``[a, b]``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, erfinv, ndtr

from reticent.checks import FloatArray, number

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_ASYMPTOTIC = 8.0
"""From this argument on the asymptotic series of the integrand is exact to the last digit."""
_TINY = 5e-324
_NOTHING_HIDDEN = 1e150
"""Above this mu the formulas overflow; only delta = 1, and no epsilon, is claimed there."""


def _slope(u: FloatArray) -> FloatArray:
    """``-erfcx'(u) = 2/sqrt(pi) - 2 u erfcx(u)``, positive, without cancellation at large u."""
    near = np.minimum(u, _ASYMPTOTIC)
    direct: FloatArray = 2.0 / math.sqrt(math.pi) - 2.0 * near * erfcx(near)
    if u.max() < _ASYMPTOTIC:
        return direct
    far = np.maximum(u, _ASYMPTOTIC)
    v = 0.5 / far / far
    series = np.zeros_like(far)
    for k in range(21, -1, -1):  # sum of (-1)^k (2k+1)!! v^k by Horner
        series = 1.0 - (2 * k + 3) * v * series
    return np.where(u < _ASYMPTOTIC, direct, 2.0 * v / math.sqrt(math.pi) * series)


def log_delta_at(a: FloatArray, mu: float) -> FloatArray:
    """The logarithms of delta at several values of epsilon. Arguments are not checked.

    Parameters
    ----------
    a : array
        ``epsilon/mu - mu/2`` for each epsilon.
    mu : float
        Sensitivity divided by the standard deviation of the noise, above 0.
    """
    x, h = a / math.sqrt(2.0), mu / math.sqrt(2.0)
    result = np.empty_like(a)
    close = h <= np.maximum(1.0, x)
    if close.any():
        u = x[close, None] + h * (0.5 + 0.5 * _NODES)
        # mu is kept apart, because a product with a tiny mu could underflow
        mean = 0.5 * (_slope(u) @ _WEIGHTS)
        with np.errstate(over="ignore", divide="ignore"):
            logarithm = np.log(mean) + (math.log(mu) - 1.5 * math.log(2.0))
            result[close] = logarithm - 0.5 * a[close] ** 2
    if not close.all():
        far = ~close
        point, start = a[far], x[far]
        second = erfcx(start + h)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            above = np.log(0.5 * (erfcx(start) - second)) - 0.5 * point**2
            below = np.log1p(-ndtr(point) - 0.5 * np.exp(-0.5 * point**2) * second)
        result[far] = np.where(point < 0.0, below, above)
    return result


def _log_delta(epsilon: float, mu: float) -> float:
    if mu == 0.0:
        return -math.inf
    if mu > _NOTHING_HIDDEN:
        return 0.0
    # epsilon - mu^2/2 must be exact: at epsilon = 1e7 its rounding alone would cost six digits.
    a = float(Fraction(epsilon) - Fraction(mu) ** 2 / 2) / mu
    return float(log_delta_at(np.array([a]), mu)[0])


def _margin(log_delta: float) -> float:
    """A bound on the error of ``_log_delta`` (tested against 80 digits), by which roots are moved to the safe side."""
    return 1e-14 + 5e-15 * abs(log_delta)


def delta_from_log(log_delta: float) -> float:
    """Delta from its logarithm, moved up by more than the logarithm's error; neither 0 nor above 1.

    Parameters
    ----------
    log_delta : float
        The logarithm, computed by :func:`log_delta` or :func:`log_delta_at`.
    """
    logarithm = max(log_delta, -1e3)
    found = math.exp(min(0.0, logarithm + _margin(logarithm)))
    # numbers below 2.3e-308 have fewer digits
    return found if found > 1e-300 else math.nextafter(found, 1.0)


def _safe_root(excess: Callable[[float], float], low: float, high: float, step: float) -> float:
    """A point next to the root of ``excess``, on the side where it is not positive.

    ``step`` is -1 where smaller arguments are safe, +1 where larger ones are.
    """
    root = float(brentq(excess, low, high, xtol=1e-320, rtol=1e-15, maxiter=500))
    shift = 2.0**-53
    while excess(root) > 0.0:
        root *= 1.0 + step * shift
        shift *= 2.0
    return root


def log_delta(epsilon: float, mu: float) -> float:
    """The logarithm of :func:`delta`, for values that are too small for a float.

    Parameters
    ----------
    epsilon : float
        Privacy parameter epsilon, 0 or more.
    mu : float
        Sensitivity divided by the standard deviation of the noise.

    Returns
    -------
    float
        The logarithm; minus infinity if mu is 0.

    Examples
    --------
    >>> round(log_delta(1e6, 1.0) / 1e6**2, 6)
    -0.5
    """
    epsilon = number(epsilon, "epsilon", low=0.0)
    return _log_delta(epsilon, number(mu, "mu", low=0.0))


def delta(epsilon: float, mu: float) -> float:
    """The smallest delta for which a mu-GDP release is (epsilon, delta)-differentially private, rounded up.

    It is never rounded down to 0: a Gaussian release is private with delta = 0 only if ``mu = 0``.

    Parameters
    ----------
    epsilon : float
        Privacy parameter epsilon, 0 or more.
    mu : float
        Sensitivity divided by the standard deviation of the noise.

    Returns
    -------
    float
        Delta.

    Examples
    --------
    >>> print(f"{delta(1.0, 0.236704):.4g}")
    1e-06
    """
    logarithm = log_delta(epsilon, mu)
    return 0.0 if mu == 0.0 else delta_from_log(logarithm)


def epsilon(delta: float, mu: float) -> float:
    """The smallest epsilon >= 0 for which a mu-GDP release is (epsilon, delta)-differentially private, rounded up.

    Parameters
    ----------
    delta : float
        Privacy parameter delta, in [0, 1].
    mu : float
        Sensitivity divided by the standard deviation of the noise.

    Returns
    -------
    float
        Epsilon; infinite for ``delta = 0`` unless ``mu = 0``.

    Examples
    --------
    >>> round(epsilon(1e-6, 0.236704), 5)
    1.0
    """
    delta = number(delta, "delta", low=0.0, high=1.0)
    mu = number(mu, "mu", low=0.0)
    if mu == 0.0 or delta == 1.0:
        return 0.0
    return math.inf if delta == 0.0 or mu > _NOTHING_HIDDEN else _epsilon(delta, mu)


@functools.lru_cache(maxsize=4096)
def _epsilon(delta: float, mu: float) -> float:
    target = math.log(delta) - _margin(math.log(delta))
    if _log_delta(0.0, mu) <= target:
        return 0.0
    # this epsilon is large enough, because Phi(-a) < exp(-a^2/2), and leaves room for the margin
    high = 0.5 * mu * mu + mu * math.sqrt(2.0 * (1.0 - target))
    # the last digit of an enormous epsilon is worth more than mu
    while _log_delta(high, mu) > target:
        high = math.nextafter(high, math.inf)
    return _safe_root(lambda e: _log_delta(e, mu) - target, 0.0, high, +1.0)


def mu(epsilon: float, delta: float) -> float:
    """The largest mu for which a mu-GDP release is (epsilon, delta)-differentially private, rounded down.

    Noise of standard deviation ``sensitivity / mu`` is therefore always enough.

    Parameters
    ----------
    epsilon : float
        Privacy parameter epsilon, 0 or more.
    delta : float
        Privacy parameter delta, in (0, 1).

    Returns
    -------
    float
        Mu.

    Raises
    ------
    ValueError
        ``delta`` is 0, for which no amount of Gaussian noise is private.

    Examples
    --------
    >>> print(f"{mu(1.0, 1e-6):.6f} {mu(8.0, 1e-6):.6f}")
    0.236704 1.531545
    """
    epsilon = number(epsilon, "epsilon", low=0.0)
    delta = number(delta, "delta", low=0.0, high=1.0, open_high=True)
    if delta == 0.0:
        raise ValueError(
            "delta must be above 0 for Gaussian noise, got 0.0: no amount of Gaussian noise is private with "
            "delta = 0; choose delta > 0 (say 1e-6), or pure noise such as gamma or laplace"
        )
    return largest_mu(epsilon, delta)


@functools.lru_cache(maxsize=4096)
def largest_mu(epsilon: float, delta: float) -> float:
    """:func:`mu` for a delta above 0. Arguments are not checked."""
    target = math.log(delta) - _margin(math.log(delta))
    # Two values of mu that are private: one makes Phi(-a) < delta, one is exact at epsilon = 0.
    z = math.sqrt(2.0 * (1.0 - target))
    low = max(
        2.0 * epsilon / (z + math.sqrt(z * z + 2.0 * epsilon)),
        2.0 * math.sqrt(2.0) * float(erfinv(math.exp(target))),
    )
    low *= 1.0 - 1e-9
    # a delta close to 1 has so few digits that the root may have been rounded up
    while _log_delta(epsilon, low) > target:
        low *= 0.99
    high = 2.0 * low
    while _log_delta(epsilon, high) <= target:
        low, high = high, 2.0 * high
    return _safe_root(lambda m: _log_delta(epsilon, m) - target, low, high, -1.0)
