"""What one release costs, as immutable data: one small class for each kind of noise.

Sources: Dong, Roth and Su, *Gaussian differential privacy*; Kairouz, Oh and Viswanath, *The
composition theorem for differential privacy*; Mironov, *Rényi differential privacy*, Proposition 6;
Cesar and Rogers, *Bounding, concentrating and truncating*; Dong, Durfee and Rogers, *Optimal
differential privacy composition for exponential mechanisms*.

Gumbel noise and Laplace noise of one scale are not equally private. A choice by Gumbel noise has
bounded range, and under composition costs a quarter of what an arbitrary pure release of the same
epsilon costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri_exp

from reticent.checks import FloatArray, number
from reticent.privacy import gaussian
from reticent.privacy.bounds import Profile, Renyi, ZeroConcentrated
from reticent.privacy.curve import Curve, from_dict

__all__ = ["BoundedRange", "Curve", "Gaussian", "Laplace", "NoPrivacy", "Profile", "Pure", "Renyi",
           "ZeroConcentrated", "from_dict"]  # fmt: skip

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


@dataclass(frozen=True)
class Pure(Curve):
    """Any mechanism that is epsilon-private with delta = 0.

    It is never worse than randomised response, which tells the truth with probability
    ``e^epsilon / (1 + e^epsilon)`` (Kairouz, Oh and Viswanath, *The composition theorem for
    differential privacy*), and everything here is exact for that.

    Examples
    --------
    >>> release = Pure(1.0)
    >>> round(release.zcdp, 4), round(release.epsilon(1e-2), 4)
    (0.4621, 0.9862)
    """

    value: float
    kind: ClassVar[str] = "pure"

    def __init__(self, epsilon: float) -> None:
        object.__setattr__(self, "value", number(epsilon, "epsilon", low=0.0))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(epsilon={self.value!r})"

    @property
    def pure(self) -> float:
        return self.value

    @property
    def zcdp(self) -> float:
        # The divergence of randomised response is log[cosh(x + h)/cosh(h)]/(alpha - 1) with
        # h = epsilon/2 and x = (alpha - 1) epsilon. Divided by alpha it is epsilon^2 times
        # [L(y) - L(h)]/(y^2 - h^2), L = log cosh, y = x + h; by Cauchy's mean value theorem that
        # is tanh(s)/(2s) for some s > h, at most tanh(h)/(2h). So rho = epsilon tanh(epsilon/2),
        # which is also the limit as alpha -> 1, hence the best possible.
        return self.value * math.tanh(0.5 * self.value)

    @property
    def gdp_bound(self) -> float:
        # The trade-off function of randomised response is two chords that meet where both errors
        # are 1/(1 + e^epsilon); a Gaussian one through that point lies below its own chords.
        return _quantile_gap(self.value)

    def _rdp(self, alpha: float) -> float:
        x = (alpha - 1.0) * self.value
        if x < 1.0:
            t = math.tanh(0.5 * self.value)
            return math.log1p(2.0 * math.sinh(0.5 * x) ** 2 + t * math.sinh(x)) / (alpha - 1.0)
        lie = math.exp(-self.value)
        return self.value + math.log((1.0 + lie * math.exp(-2.0 * x)) / (1.0 + lie)) / (alpha - 1.0)

    def _delta(self, epsilon: float) -> float:
        return -math.expm1(epsilon - self.value) / (1.0 + math.exp(-self.value))

    def _epsilon(self, delta: float) -> float:
        left = 1.0 - delta * (1.0 + math.exp(-self.value))
        return 0.0 if left <= 0.0 else max(0.0, self.value + math.log(left))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "epsilon": self.value}


@dataclass(frozen=True, repr=False, init=False)
class Laplace(Pure):
    """Laplace noise, ``epsilon = sensitivity / scale``, the sensitivity in the l1 norm.

    Pure, and better than :class:`Pure` wherever delta > 0. A vector costs no more than one number
    that moves by the whole l1 norm: with ``G`` a hockey stick over the common part of the two
    densities (so that ``G'' >= G``), splitting the move into a + b changes its value by
    ``-1/4`` times the integral of ``G'' - G`` over an a-by-b rectangle.
    """

    kind: ClassVar[str] = "laplace"

    def _rdp(self, alpha: float) -> float:
        e, whole = self.value, 2.0 * alpha - 1.0
        if (alpha - 1.0) * e < 1.0:
            rest = alpha * _beyond_linear((alpha - 1.0) * e)
            rest += (alpha - 1.0) * _beyond_linear(-alpha * e)
            return math.log1p(rest / whole) / (alpha - 1.0)
        rest = (alpha - 1.0) * math.exp(-whole * e)
        return e + math.log((alpha + rest) / whole) / (alpha - 1.0)

    def _delta(self, epsilon: float) -> float:
        return -math.expm1(0.5 * (epsilon - self.value))

    def _epsilon(self, delta: float) -> float:
        return max(0.0, self.value + 2.0 * math.log1p(-delta))


def _quantile_gap(epsilon: float) -> float:
    """The mu at which both errors may be 1/(1 + e^epsilon), rounded up; in logarithms, for they underflow."""
    mu = -2.0 * float(ndtri_exp(-np.logaddexp(0.0, epsilon)))
    return mu * (1.0 + 2.0**-40) + 2.0**-50


def _beyond_linear(y: float) -> float:
    """``e^y - 1 - y`` without cancellation."""
    if abs(y) > 0.5:
        return math.expm1(y) - y
    term, total = 0.5 * y * y, 0.0
    for k in range(3, 20):
        total += term
        term *= y / k
    return total


@dataclass(frozen=True)
class Gaussian(Curve):
    """Gaussian noise, ``mu = sensitivity / standard deviation``; exact in every respect.

    Examples
    --------
    >>> round(Gaussian(0.236704).epsilon(1e-6), 5)
    1.0
    """

    mu: float
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", number(self.mu, "mu", low=0.0))

    @property
    def pure(self) -> float | None:
        return 0.0 if self.mu == 0.0 else None

    @property
    def gdp(self) -> float:
        return self.mu

    @property
    def gdp_bound(self) -> float:
        return self.mu

    @property
    def zcdp(self) -> float:
        return 0.5 * self.mu**2

    def _rdp(self, alpha: float) -> float:
        return 0.5 * alpha * self.mu**2

    def _delta(self, epsilon: float) -> float:
        return gaussian.delta(epsilon, self.mu)

    def _epsilon(self, delta: float) -> float:
        return gaussian.epsilon(delta, self.mu)


@dataclass(frozen=True, repr=False, init=False)
class BoundedRange(Pure):
    """A choice by the exponential mechanism, or by adding Gumbel noise to scores.

    The logarithm of the probability of any choice moves within a range of length ``epsilon``:
    ``2 sensitivity / scale`` if any score may move by ``sensitivity`` either way.

    Examples
    --------
    >>> BoundedRange(0.1).zcdp <= 0.1**2 / 8 < Pure(0.1).zcdp / 3.9
    True
    """

    kind: ClassVar[str] = "bounded-range"

    @property
    def zcdp(self) -> float:
        return min(self.value**2 / 8.0, super().zcdp)

    @property
    def gdp_bound(self) -> float:
        # The worst pairs are two-point ones whose odds differ by the factor e^epsilon. The gap of
        # their normal quantiles is largest in the symmetric case, because the normal quantile of a
        # logistic variable is concave above its median (van Zwet's ordering by kurtosis).
        return _quantile_gap(0.5 * self.value)

    def _rdp(self, alpha: float) -> float:
        # The supremum over the position of the range has a closed form. With a = alpha and
        # S(y) = log(sinh(y/2)/(y/2)) it is S(a e) - S((a-1) e) + [S(a e) - S(e)]/(a-1).
        e, gap = self.value, alpha - 1.0
        if e == 0.0:
            return 0.0
        if gap * e <= 1.0 and e <= 1.0:
            unit = 0.5 + 0.5 * _NODES
            first = _log_sinhc_slope(e * (gap + unit))
            second = _log_sinhc_slope(e * (1.0 + gap * unit))
            return 0.5 * e * float(_WEIGHTS @ (first + second))
        tops = [math.log(-math.expm1(-y)) for y in (alpha * e, gap * e, e)]
        first_part = 0.5 * e - math.log1p(1.0 / gap) + tops[0] - tops[1]
        return first_part + 0.5 * e + (tops[0] - tops[2] - math.log1p(gap)) / gap

    def _delta(self, epsilon: float) -> float:
        # The supremum of (e^-t - e^-e)(e^t - e^epsilon)/(1 - e^-e) over t, at t = (e + epsilon)/2.
        return math.expm1(0.5 * (epsilon - self.value)) ** 2 / -math.expm1(-self.value)

    def _epsilon(self, delta: float) -> float:
        root = math.sqrt(-delta * math.expm1(-self.value))
        return 0.0 if root >= 1.0 else max(0.0, self.value + 2.0 * math.log1p(-root))


def _log_sinhc_slope(y: FloatArray) -> FloatArray:
    """Derivative of ``log(sinh(y/2)/(y/2))`` for 0 <= y <= 2 or so, without cancellation."""
    small = np.minimum(y, 0.25)
    s = small * small
    series = small / 12 * (1 - s / 60 * (1 - s / 42 * (1 - s / 40 * (1 - s * 5 / 198))))
    large = np.maximum(y, 0.25)
    return np.where(y < 0.25, series, 0.5 / np.tanh(0.5 * large) - 1.0 / large)


@dataclass(frozen=True)
class NoPrivacy(Curve):
    """A release without protection."""

    kind: ClassVar[str] = "none"

    def _rdp(self, alpha: float) -> float:
        return math.inf

    def _delta(self, epsilon: float) -> float:
        return 1.0

    def _epsilon(self, delta: float) -> float:
        return math.inf
