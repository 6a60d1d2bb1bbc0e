"""The questions that every privacy curve answers, and how a curve is written down.

A curve bounds both directions of a pair of neighbours. ``pure``, ``gdp`` and ``zcdp`` are ``None``
where not defined; ``rdp(alpha)``, ``delta(epsilon)`` and ``epsilon(delta)`` are upper bounds that
hold, and are exact where exactness is known.

``gdp`` is reported only where the mechanism *is* Gaussian, so that printing it never suggests more
than it says. That a pure release also satisfies some mu-GDP is true and used in composition; it is
``gdp_bound``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar

from reticent.checks import number
from reticent.privacy import renyi

KINDS: dict[str, type[Curve]] = {}


class Curve(ABC):
    """The cost of one release; see the module's docstring for what each answer means."""

    kind: ClassVar[str]

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        KINDS[cls.kind] = cls

    @property
    def pure(self) -> float | None:
        """Epsilon at delta = 0."""
        return None

    @property
    def gdp(self) -> float | None:
        """The mu of a release that is Gaussian."""
        return None

    @property
    def zcdp(self) -> float | None:
        """The rho of zero-concentrated differential privacy: ``rdp(alpha) <= rho alpha``."""
        return None

    @property
    def gdp_bound(self) -> float:
        """Some mu for which mu-GDP is proved, whatever the mechanism; may be infinite."""
        return math.inf

    def rdp(self, alpha: float) -> float:
        """A bound on the Rényi divergence of order alpha > 1; may be infinite."""
        return self._rdp(number(alpha, "alpha", low=1.0, open_low=True))

    def delta(self, epsilon: float) -> float:
        """The smallest delta that is proved at this epsilon >= 0."""
        epsilon = number(epsilon, "epsilon", low=0.0)
        if self.pure is not None and self.pure <= epsilon:
            return 0.0
        # Never rounded down to 0, which would claim pure privacy.
        return min(1.0, max(self._delta(epsilon), 5e-324))

    def epsilon(self, delta: float = 0.0) -> float:
        """The smallest epsilon >= 0 that is proved at this delta; may be infinite."""
        delta = number(delta, "delta", low=0.0, high=1.0)
        if delta == 0.0:
            return math.inf if self.pure is None else self.pure
        return 0.0 if delta == 1.0 else self._epsilon(delta)

    @abstractmethod
    def _rdp(self, alpha: float) -> float: ...

    def _delta(self, epsilon: float) -> float:
        return renyi.delta_from(self._rdp, epsilon)

    def _epsilon(self, delta: float) -> float:
        return renyi.epsilon_from(self._rdp, delta)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return {"kind": self.kind} | {name: getattr(self, name) for name in names}

    @classmethod
    def _from_dict(cls, data: dict[str, Any]) -> Curve:
        return cls(**data)


def from_dict(data: Mapping[str, Any]) -> Curve:
    """The curve that :meth:`Curve.to_dict` wrote."""
    if not isinstance(data, Mapping) or data.get("kind") not in KINDS:
        raise ValueError(f"a curve must be one of {', '.join(sorted(KINDS))}; got {data!r}")
    rest = {name: value for name, value in data.items() if name != "kind"}
    try:
        return KINDS[data["kind"]]._from_dict(rest)
    except TypeError as error:
        raise ValueError(f"a curve of kind {data['kind']!r} was not understood: {error}") from None


def smallest_epsilon(profile: Callable[[float], float], delta: float) -> float:
    """The smallest epsilon at which a non-increasing profile is at most delta, rounded up."""
    if profile(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while not profile(high) <= delta:
        low, high = high, 2.0 * high
        if high > 1e12:
            return math.inf
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if profile(middle) <= delta:
            high = middle
        else:
            low = middle
    return high
