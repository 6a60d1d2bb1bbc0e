"""Curves of mechanisms of which only a bound is known: zCDP, a table of divergences, a profile.

Bun and Steinke, *Concentrated differential privacy*; Mironov, *Rényi differential privacy*.

A zCDP bound that came from a Gaussian gives 8 to 11 % away; use :class:`reticent.privacy.Gaussian`
where the noise is Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from reticent.checks import number, real_array
from reticent.privacy.curve import Curve, smallest_epsilon


@dataclass(frozen=True)
class ZeroConcentrated(Curve):
    """Any mechanism whose Rényi divergence of every order alpha is at most ``rho alpha``."""

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
    """Rényi divergences that were proved at a few orders only.

    Between two orders ``(alpha - 1) rdp(alpha)`` is convex, so the chord is a bound; below the
    first order the first value is one; above the last nothing is known.
    """

    orders: tuple[float, ...]
    values: tuple[float, ...]
    kind: ClassVar[str] = "renyi"

    def __post_init__(self) -> None:
        orders, values = real_array(self.orders, "orders"), real_array(self.values, "values")
        if orders.ndim != 1 or orders.shape != values.shape or orders.size == 0:
            raise ValueError(
                "orders and values must be two lists of one length, at least 1; "
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
    profile
        ``epsilon -> delta``, non-increasing.
    divergence
        ``alpha -> rdp``; without it the release composes only by adding epsilons and deltas.
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
            "a Profile holds functions and cannot be written down; "
            "use Renyi(orders, values) for a guarantee that must be stored"
        )
