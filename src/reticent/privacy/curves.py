"""The cost of one release as immutable data, with one small class for each kind of noise or bound.

A curve bounds both directions of a pair of neighbours. ``pure``, ``gdp`` and ``zcdp`` are ``None`` where they are not
defined. ``rdp(alpha)``, ``delta(epsilon)`` and ``epsilon(delta)`` are valid upper bounds, and exact where the exact
value is known. ``gdp`` is reported only if the mechanism *is* Gaussian, so that what is printed never suggests more
than it says; that a pure release also satisfies mu-GDP for some mu is used in composition (``gdp_bound``).

Sources: Dong, Roth and Su, *Gaussian differential privacy*; Kairouz, Oh and Viswanath, *The composition theorem for
differential privacy*; Mironov, *Rényi differential privacy*, Proposition 6; Bun and Steinke, *Concentrated
differential privacy*; Cesar and Rogers, *Bounding, concentrating and truncating*; Dong, Durfee and Rogers, *Optimal
differential privacy composition for exponential mechanisms*.

Gumbel and Laplace noise of the same scale are not equally private. A choice by Gumbel noise has bounded range, and
under composition costs a quarter of what an arbitrary pure release of the same epsilon costs. Converting a Gaussian
release to zCDP makes its epsilon 8 to 11 % larger; use :class:`Gaussian` where the noise is Gaussian.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtri_exp

from reticent.checks import FloatArray, number, real_array
from reticent.privacy import gaussian

KINDS: dict[str, type[Curve]] = {}
_TINY = 5e-324
_UP = 1.0 + 2.0**-50
"""A factor above the rounding errors of a delta in closed form, so that it is never too small."""


class Curve(ABC):
    """The cost of one release.

    Subclasses implement ``_rdp`` and, where more is known, the other answers.

    See Also
    --------
    compose : The cost of several releases.
    """

    kind: ClassVar[str]

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        KINDS[cls.kind] = cls

    @property
    def pure(self) -> float | None:
        """Epsilon at delta = 0; None if there is none."""
        return None

    @property
    def gdp(self) -> float | None:
        """The mu of a Gaussian release; None for others."""
        return None

    @property
    def zcdp(self) -> float | None:
        """The rho of zero-concentrated differential privacy, ``rdp(alpha) <= rho alpha``; None where not defined."""
        return None

    @property
    def gdp_bound(self) -> float:
        """A mu for which mu-GDP is proved, whatever the mechanism; infinite if there is none."""
        return math.inf

    def rdp(self, alpha: float) -> float:
        """An upper bound on the Rényi divergence.

        Parameters
        ----------
        alpha : float
            Order of the divergence, above 1.

        Returns
        -------
        float
            The bound; may be infinite.
        """
        alpha = number(alpha, "alpha", low=1.0, open_low=True)
        # Never rounded down to 0, which would claim that nothing is revealed.
        return 0.0 if self.pure == 0.0 else max(self._rdp(alpha), _TINY)

    def delta(self, epsilon: float) -> float:
        """The smallest delta that is proved at a given epsilon.

        Parameters
        ----------
        epsilon : float
            At least 0.

        Returns
        -------
        float
            The delta; 0 only if the release is purely private at this epsilon.
        """
        epsilon = number(epsilon, "epsilon", low=0.0)
        if self.pure is not None and self.pure <= epsilon:
            return 0.0
        # Never rounded down to 0, which would claim pure privacy.
        return min(1.0, max(self._delta(epsilon), _TINY))

    def epsilon(self, delta: float = 0.0) -> float:
        """The smallest epsilon, at least 0, that is proved at a given delta.

        Parameters
        ----------
        delta : float
            At least 0 and at most 1.

        Returns
        -------
        float
            The epsilon; infinite if none is proved.
        """
        delta = number(delta, "delta", low=0.0, high=1.0)
        if delta == 0.0:
            return math.inf if self.pure is None else self.pure
        return 0.0 if delta == 1.0 else self._epsilon(delta)

    def _proves(self, epsilon: float, delta: float) -> bool:
        """Whether this epsilon is proved at this delta."""
        return self.epsilon(delta) <= epsilon

    @abstractmethod
    def _rdp(self, alpha: float) -> float: ...

    def _delta(self, epsilon: float) -> float:
        return delta_from(self._rdp, epsilon)

    def _epsilon(self, delta: float) -> float:
        return epsilon_from(self._rdp, delta)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return {"kind": self.kind} | {name: getattr(self, name) for name in names}

    @classmethod
    def _from_dict(cls, data: dict[str, Any]) -> Curve:
        return cls(**data)


def from_dict(data: Mapping[str, Any]) -> Curve:
    """The curve that :meth:`Curve.to_dict` wrote.

    Parameters
    ----------
    data : dict
        Plain data, as :meth:`Curve.to_dict` returns them.
    """
    if not isinstance(data, Mapping) or data.get("kind") not in KINDS:
        raise ValueError(
            f"a curve must be a dict whose kind is one of {', '.join(sorted(KINDS))}; got {data!r}"
        )
    rest = {name: value for name, value in data.items() if name != "kind"}
    try:
        return KINDS[data["kind"]]._from_dict(rest)
    except TypeError as error:
        raise ValueError(
            f"the data of a curve of kind {data['kind']!r} are wrong: {error}"
        ) from None


def smallest_epsilon(profile: Callable[[float], float], delta: float) -> float:
    """The smallest epsilon at which a profile is at most delta, rounded up.

    Parameters
    ----------
    profile : callable
        Maps epsilon to delta; must not increase.
    delta : float
        The delta to reach.

    Returns
    -------
    float
        The epsilon; infinite if it would be above 1e12.
    """
    if profile(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while not profile(high) <= delta:
        low, high = high, 2.0 * high
        if high > 1e12:
            return math.inf
    return bisected(lambda epsilon: profile(epsilon) <= delta, low, high, 1e-12)


def bisected(holds: Callable[[float], bool], low: float, high: float, width: float = 0.0) -> float:
    """The least number at which a condition holds, rounded up, between one where it does not and one where it does.

    The two are brought together until they are neighbours, or as close as ``width`` times the upper one.
    """
    while high - low > width * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


LOWEST, HIGHEST = 1e-6, 1e9
"""Range of ``alpha - 1`` in the search for the best order."""

_GRID = np.linspace(math.log(LOWEST), math.log(HIGHEST), 116)

Divergence = Callable[[float], float]


def best_order(cost: Callable[[float], float]) -> tuple[float, float]:
    """The order with the lowest cost, and that cost (infinite if it is infinite at every order).

    Every order gives a valid bound, so an imprecise minimisation is never unsound, only wasteful. The search covers
    fifteen decades: the best order is near 1 for little privacy and in the thousands for much of it.

    Parameters
    ----------
    cost : callable
        Maps an order, above 1, to what is minimised.
    """

    def at(logarithm: float) -> float:
        value = cost(1.0 + math.exp(logarithm))
        return math.inf if math.isnan(value) else value

    values = [at(point) for point in _GRID]
    k = int(np.argmin(values))
    if not math.isfinite(values[k]):
        return 2.0, values[k]
    bounds = (_GRID[max(k - 1, 0)], _GRID[min(k + 1, len(_GRID) - 1)])
    # Cap infinite values, because infinity minus infinity would break the parabolic steps.
    found = minimize_scalar(
        lambda point: min(at(point), 1e300),
        bounds=bounds,
        method="bounded",
        options={"xatol": 1e-9},
    )
    least = at(float(found.x))  # not `found.fun`, which may be the cap
    if least < values[k]:
        return 1.0 + math.exp(float(found.x)), least
    return 1.0 + math.exp(_GRID[k]), values[k]


def _log_shrink(alpha: float) -> float:
    """``log(1 - 1/alpha)``, accurate at both ends."""
    return -math.log1p(1.0 / (alpha - 1.0))


def allowance(alpha: float, epsilon: float, log_delta: float) -> float:
    """The largest Rényi divergence of order alpha that still implies (epsilon, delta)-differential privacy.

    Canonne, Kamath and Steinke, *The discrete Gaussian for differential privacy*, Proposition 12: a divergence of at
    most ``R`` gives ``epsilon = R + log(1 - 1/alpha) - (log delta + log alpha) / (alpha - 1)``.

    Parameters
    ----------
    alpha : float
        Order of the divergence, above 1.
    epsilon : float
        Privacy parameter epsilon.
    log_delta : float
        Logarithm of the privacy parameter delta.
    """
    return epsilon - _log_shrink(alpha) + (log_delta + math.log(alpha)) / (alpha - 1.0)


def epsilon_from(rdp: Divergence, delta: float) -> float:
    """The smallest epsilon that Rényi divergences prove at a given delta.

    Parameters
    ----------
    rdp : callable
        Maps an order, above 1, to a bound on the divergence.
    delta : float
        Above 0 and below 1.
    """
    log_delta = math.log(delta)
    _, value = best_order(lambda alpha: rdp(alpha) - allowance(alpha, 0.0, log_delta))
    return max(0.0, value)


def delta_from(rdp: Divergence, epsilon: float) -> float:
    """The smallest delta that Rényi divergences prove at a given epsilon; never 0.

    Parameters
    ----------
    rdp : callable
        Maps an order, above 1, to a bound on the divergence.
    epsilon : float
        Privacy parameter epsilon.
    """

    def log_delta(alpha: float) -> float:
        return (alpha - 1.0) * (rdp(alpha) - epsilon + _log_shrink(alpha)) - math.log(alpha)

    _, value = best_order(log_delta)
    # Never 0: divergences of finite order cannot prove pure privacy.
    return min(1.0, max(math.exp(min(value, 0.0)), _TINY))


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


@dataclass(frozen=True)
class Pure(Curve):
    """Any mechanism that is epsilon-differentially private with delta = 0.

    It is never worse than randomised response, which tells the truth with probability ``e^epsilon / (1 + e^epsilon)``
    (Kairouz, Oh and Viswanath, *The composition theorem for differential privacy*), and every answer here is exact
    for randomised response.

    Parameters
    ----------
    epsilon : float
        The privacy parameter, 0 or more.

    See Also
    --------
    Laplace : Better bounds for Laplace noise.
    BoundedRange : Better bounds for the exponential mechanism.

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
        return _above_zero(self.value * math.tanh(0.5 * self.value), self.value)

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
        return -math.expm1(epsilon - self.value) / (1.0 + math.exp(-self.value)) * _UP

    def _epsilon(self, delta: float) -> float:
        # e^epsilon = e^value - delta (1 + e^value), in the form that cancels least
        if self.value < 1.0:
            above = math.expm1(self.value) - delta * (1.0 + math.exp(self.value))
            return self._rounded_up(math.log1p(max(above, -0.5)))
        left = (1.0 - delta) - delta * math.exp(-self.value)
        return self._rounded_up(self.value + math.log(left)) if left > 0.0 else 0.0

    def _rounded_up(self, epsilon: float) -> float:
        """An epsilon that was computed from numbers of the size of ``value``, moved up by more than their rounding."""
        return min(self.value, max(0.0, epsilon + 2.0**-49 * self.value))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "epsilon": self.value}


@dataclass(frozen=True, repr=False, init=False)
class Laplace(Pure):
    """Laplace noise: pure with ``epsilon = sensitivity / scale``, and better than :class:`Pure` wherever delta > 0.

    A vector costs no more than one number that moves by the whole l1 norm: with ``G`` a hockey-stick divergence over
    the common part of the two densities (so that ``G'' >= G``), splitting the move into a + b changes its value by
    ``-1/4`` times the integral of ``G'' - G`` over an a-by-b rectangle.

    Parameters
    ----------
    epsilon : float
        Sensitivity in the l1 norm, divided by the scale of the noise.
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
        return -math.expm1(0.5 * (epsilon - self.value)) * _UP

    def _epsilon(self, delta: float) -> float:
        return self._rounded_up(self.value + 2.0 * math.log1p(-delta))


def _quantile_gap(epsilon: float) -> float:
    """The mu at which both errors may be 1/(1 + e^epsilon), rounded up; from logarithms, as errors may underflow."""
    mu = -2.0 * float(ndtri_exp(-np.logaddexp(0.0, epsilon)))
    return mu * (1.0 + 2.0**-40) + 2.0**-50


def _beyond_linear(y: float) -> float:
    """``e^y - 1 - y``, without cancellation."""
    if abs(y) > 0.5:
        return math.expm1(y) - y
    term, total = 0.5 * y * y, 0.0
    for k in range(3, 20):
        total += term
        term *= y / k
    return total


@dataclass(frozen=True)
class Gaussian(Curve):
    """Gaussian noise; every answer is exact.

    Parameters
    ----------
    mu : float
        Sensitivity in the l2 norm, divided by the standard deviation of the noise.

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
        return _above_zero(0.5 * self.mu * self.mu, self.mu)

    def _rdp(self, alpha: float) -> float:
        return 0.5 * alpha * self.mu * self.mu

    def _delta(self, epsilon: float) -> float:
        return gaussian.delta(epsilon, self.mu)

    def _epsilon(self, delta: float) -> float:
        return gaussian.epsilon(delta, self.mu)


@dataclass(frozen=True, repr=False, init=False)
class BoundedRange(Pure):
    """A choice by the exponential mechanism, or by adding Gumbel noise to scores.

    Between neighbours, the logarithm of the probability of each choice changes by amounts that lie in an interval of
    length ``epsilon``.

    Parameters
    ----------
    epsilon : float
        Length of that interval: ``2 sensitivity / scale`` if any score may move by ``sensitivity`` either way.

    Examples
    --------
    >>> BoundedRange(0.1).zcdp <= 0.1**2 / 8 < Pure(0.1).zcdp / 3.9
    True
    """

    kind: ClassVar[str] = "bounded-range"

    @property
    def zcdp(self) -> float:
        return min(_above_zero(self.value * self.value / 8.0, self.value), super().zcdp)

    @property
    def gdp_bound(self) -> float:
        # The worst pairs are two-point ones whose odds differ by the factor e^epsilon. The gap of
        # their normal quantiles is largest in the symmetric case, because the normal quantile of a
        # logistic variable is concave above its median (van Zwet's ordering by kurtosis).
        return _quantile_gap(0.5 * self.value)

    def _rdp(self, alpha: float) -> float:
        # The supremum over the position of the range has a closed form. With a = alpha and
        # S(y) = log(sinh(y/2)/(y/2)) it is S(a e) - S((a-1) e) + [S(a e) - S(e)]/(a-1).
        # A difference over a distance of at most 1 is the integral of the slope of S, because the logarithms cancel.
        e, gap = self.value, alpha - 1.0
        if e == 0.0:
            return 0.0
        unit = 0.5 + 0.5 * _NODES
        if e <= 1.0:
            first = 0.5 * e * float(_WEIGHTS @ _log_sinhc_slope(e * (gap + unit)))
        else:
            first = 0.5 * e - math.log1p(1.0 / gap) + _log_top(alpha * e) - _log_top(gap * e)
        if gap * e <= 1.0:
            second = 0.5 * e * float(_WEIGHTS @ _log_sinhc_slope(e * (1.0 + gap * unit)))
        else:
            second = 0.5 * e + (_log_top(alpha * e) - _log_top(e) - math.log1p(gap)) / gap
        return first + second

    def _delta(self, epsilon: float) -> float:
        # The supremum of (e^-t - e^-e)(e^t - e^epsilon)/(1 - e^-e) over t, at t = (e + epsilon)/2.
        return math.expm1(0.5 * (epsilon - self.value)) ** 2 / -math.expm1(-self.value) * _UP

    def _epsilon(self, delta: float) -> float:
        root = math.sqrt(-delta * math.expm1(-self.value))
        if root < 0.5:
            return self._rounded_up(self.value + 2.0 * math.log1p(-root))
        left = ((1.0 - delta) + delta * math.exp(-self.value)) / (1.0 + root)  # 1 - root
        return self._rounded_up(self.value + 2.0 * math.log(left))


def _above_zero(product: float, factor: float) -> float:
    """A product that has underflowed to 0 although its factor is above 0, rounded up instead."""
    return max(product, _TINY) if factor > 0.0 else product


def _log_top(y: float) -> float:
    """``log(1 - e^-y)``."""
    return math.log(-math.expm1(-y))


def _log_sinhc_slope(y: FloatArray) -> FloatArray:
    """Derivative of ``log(sinh(y/2)/(y/2))`` for y >= 0, without cancellation."""
    small = np.minimum(y, 0.25)
    s = small * small
    series = small / 12 * (1 - s / 60 * (1 - s / 42 * (1 - s / 40 * (1 - s * 5 / 198))))
    large = np.maximum(y, 0.25)
    return np.where(y < 0.25, series, 0.5 / np.tanh(0.5 * large) - 1.0 / large)


@dataclass(frozen=True)
class NoPrivacy(Curve):
    """A release without protection: epsilon is infinite."""

    kind: ClassVar[str] = "none"

    def _rdp(self, alpha: float) -> float:
        return math.inf

    def _delta(self, epsilon: float) -> float:
        return 1.0

    def _epsilon(self, delta: float) -> float:
        return math.inf


@dataclass(frozen=True)
class ZeroConcentrated(Curve):
    """Any mechanism whose Rényi divergence of every order alpha is at most ``rho alpha``.

    Parameters
    ----------
    rho : float
        The privacy parameter, 0 or more.
    """

    rho: float
    kind: ClassVar[str] = "zero-concentrated"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", number(self.rho, "rho", low=0.0))

    @property
    def pure(self) -> float | None:
        return 0.0 if self.rho == 0.0 else None

    @property
    def zcdp(self) -> float:
        return self.rho

    def _rdp(self, alpha: float) -> float:
        return self.rho * alpha


@dataclass(frozen=True)
class Renyi(Curve):
    """Rényi divergences that are known at a few orders only.

    Between two orders ``(alpha - 1) rdp(alpha)`` is convex, so its chord is a bound; below the first order the first
    value is one; above the last order nothing is known.

    Parameters
    ----------
    orders : tuple of float
        Orders above 1, increasing.
    values : tuple of float
        A bound on the divergence at each of them.
    """

    orders: tuple[float, ...]
    values: tuple[float, ...]
    kind: ClassVar[str] = "renyi"

    def __post_init__(self) -> None:
        orders, values = real_array(self.orders, "orders"), real_array(self.values, "values")
        if orders.ndim != 1 or orders.shape != values.shape or orders.size == 0:
            raise ValueError(
                "orders and values must be vectors of the same length, at least 1; "
                f"got shapes {orders.shape} and {values.shape}"
            )
        if not (np.isfinite(orders).all() and orders[0] > 1.0 and (np.diff(orders) > 0).all()):
            raise ValueError(f"orders must be above 1 and increase; got {self.orders!r}")
        if not (values >= 0.0).all():
            raise ValueError(f"values must be 0 or more; got {self.values!r}")
        object.__setattr__(self, "orders", tuple(orders.tolist()))
        object.__setattr__(self, "values", tuple(values.tolist()))

    def _rdp(self, alpha: float) -> float:
        k = int(np.searchsorted(self.orders, alpha))
        if k == len(self.orders):
            return math.inf
        if k == 0 or not math.isfinite(self.values[k]):
            return self.values[k]
        low, high = self.orders[k - 1], self.orders[k]
        share = (alpha - low) / (high - low)
        chord = (1.0 - share) * (low - 1.0) * self.values[k - 1]
        chord += share * (high - 1.0) * self.values[k]
        return min(self.values[k], chord / (alpha - 1.0))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "orders": list(self.orders), "values": list(self.values)}


@dataclass(frozen=True)
class Profile(Curve):
    """A mechanism for which a bound ``delta(epsilon)`` is proved, and perhaps ``rdp(alpha)``.

    Parameters
    ----------
    profile : callable
        Maps epsilon to delta; must not increase.
    divergence : callable, optional
        Maps alpha to a bound on the Rényi divergence. Without it the release composes only by adding epsilons and
        deltas.
    """

    profile: Callable[[float], float]
    divergence: Callable[[float], float] | None = None
    kind: ClassVar[str] = "profile"

    def __post_init__(self) -> None:
        if not callable(self.profile):
            raise TypeError(f"profile must be a function of epsilon, got {self.profile!r}")
        if self.divergence is not None and not callable(self.divergence):
            raise TypeError(f"divergence must be a function of alpha, got {self.divergence!r}")

    def _rdp(self, alpha: float) -> float:
        return math.inf if self.divergence is None else float(self.divergence(alpha))

    def _delta(self, epsilon: float) -> float:
        value = float(self.profile(epsilon))
        return value if self.divergence is None else min(value, super()._delta(epsilon))

    def _epsilon(self, delta: float) -> float:
        value = smallest_epsilon(self.profile, delta)
        return value if self.divergence is None else min(value, super()._epsilon(delta))

    def to_dict(self) -> dict[str, Any]:
        raise ValueError(
            "a Profile holds functions and cannot be stored as data; "
            "use Renyi(orders, values) for a guarantee that must be stored"
        )
