"""What a release costs by age: about the outputs from a record's own, the first, to the a-th.

A promise for one age says nothing about the next output, and none is needed: with correlated noise
the same noise makes a promise for every age (docs/algorithms/ages.md), and with a tree a record
touches few nodes at first and more later. Costs never fall with age, so a promise at one age holds
at every earlier one. An age that is chosen after looking at outputs has the promise of the largest
age that could have been chosen.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from reticent._checks import FloatArray, integer, number
from reticent.privacy.curve import Curve, from_dict
from reticent.privacy.curves import Gaussian, NoPrivacy


class Ages(ABC):
    """The cost of one release, by age; immutable data."""

    @abstractmethod
    def at(self, age: int) -> Curve:
        """What the release costs about the outputs up to this age."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""


@dataclass(frozen=True)
class Stepwise(Ages):
    """A cost that changes at a few ages and stays the same between them.

    Parameters
    ----------
    steps : sequence of (int, Curve)
        Ages, the first of them 1, and what the release costs from each of them on.

    Examples
    --------
    >>> from reticent.privacy import Pure
    >>> nodes = Stepwise([(1, Pure(0.5)), (2, Pure(1.0))])
    >>> nodes.at(1).pure, nodes.at(1000).pure
    (0.5, 1.0)
    """

    steps: tuple[tuple[int, Curve], ...]

    def __init__(self, steps: Sequence[tuple[int, Curve]]) -> None:
        kept = tuple((integer(age, "age", low=1), curve) for age, curve in steps)
        if not kept or kept[0][0] != 1 or any(a[0] >= b[0] for a, b in pairwise(kept)):
            raise ValueError(
                f"steps must have rising ages that begin with 1, got {[age for age, _ in kept]}"
            )
        object.__setattr__(self, "steps", kept)

    def at(self, age: int) -> Curve:
        age = integer(age, "age", low=1)
        return next(curve for start, curve in reversed(self.steps) if start <= age)

    def to_dict(self) -> dict[str, Any]:
        return {"steps": [[age, curve.to_dict()] for age, curve in self.steps]}


@dataclass(frozen=True)
class Decay:
    """``c_k = limit + sum_j weights_j (1 - gaps_j)^k``: positive numbers that fall with the lag k.

    Parameters
    ----------
    limit : float
        What is left at large lags.
    weights : tuple of float
        Positive.
    gaps : tuple of float
        In (0, 1), one for each weight.

    Examples
    --------
    >>> half = Decay(0.0, (1.0,), (0.5,))
    >>> half.sum(3), half.sum_of_squares(math.inf)
    (1.75, 1.3333333333333333)
    """

    limit: float = 1.0
    weights: tuple[float, ...] = ()
    gaps: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", number(self.limit, "limit", low=0.0))
        for name, high in (("weights", math.inf), ("gaps", 1.0)):
            values = tuple(
                number(value, name, low=0.0, high=high, open_low=True)
                for value in getattr(self, name)
            )
            object.__setattr__(self, name, values)
        if len(self.weights) != len(self.gaps):
            raise ValueError(
                f"there must be a gap for each weight, got {self.weights} and {self.gaps}"
            )

    def sum(self, lags: float) -> float:
        """``c_0 + ... + c_{lags - 1}``; ``lags`` may be infinite."""
        gaps = np.array(self.gaps)
        settled = float(np.array(self.weights) @ geometric(gaps, np.log1p(-gaps), lags)[0])
        return settled if self.limit == 0.0 else lags * self.limit + settled

    def sum_of_squares(self, lags: float) -> float:
        """``c_0^2 + ... + c_{lags - 1}^2``; ``lags`` may be infinite."""
        p, gaps = np.array(self.weights), np.array(self.gaps)
        settled = float(p @ geometric(*pairs(gaps), lags)[0] @ p)
        if self.limit == 0.0:
            return settled
        single = float(p @ geometric(gaps, np.log1p(-gaps), lags)[0])
        return float(lags * self.limit**2 + 2 * self.limit * single + settled)


@dataclass(frozen=True)
class Filtered(Ages):
    """Correlated Gaussian noise: a record moves the k-th innovation after it by ``reach * c_k``.

    ``mu(a)^2 = sum_{k < a} (reach c_k + slack)^2``, bounded by the closed form below.

    Parameters
    ----------
    decay : Decay
        The coefficients ``c_k``.
    reach : float
        How far a record moves a total, in standard deviations of an innovation.
    slack : float
        What rounding to the lattice can add to each move, in the same unit.
    last : int or None
        The length of the stream, where it is known: nothing comes after.

    Examples
    --------
    >>> noise = Filtered(Decay(0.1, (0.9,), (0.5,)), reach=0.2)
    >>> round(noise.at(1).gdp, 6), noise.at(2).gdp < noise.at(100).gdp
    (0.2, True)
    """

    decay: Decay
    reach: float
    slack: float = 0.0
    last: int | None = None
    _known: dict[int, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("reach", "slack"):
            object.__setattr__(self, name, number(getattr(self, name), name, low=0.0))
        if self.last is not None:
            object.__setattr__(self, "last", integer(self.last, "last", low=1))

    def mu(self, age: float) -> float:
        """The mu of all outputs up to an age, which may be infinite where there is no slack."""
        lags = age if self.last is None else min(age, self.last)
        square = self.reach**2 * self.decay.sum_of_squares(lags)
        if self.slack:
            square += 2 * self.reach * self.slack * self.decay.sum(lags) + lags * self.slack**2
        return math.sqrt(square)

    def at(self, age: int) -> Curve:
        mu = self.mu(integer(age, "age", low=1))
        return Gaussian(mu) if math.isfinite(mu) else NoPrivacy()

    def to_dict(self) -> dict[str, Any]:
        return {
            "limit": self.decay.limit,
            "weights": list(self.decay.weights),
            "gaps": list(self.decay.gaps),
            "reach": self.reach,
            "slack": self.slack,
            "last": self.last,
        }


def ages_from_dict(data: Mapping[str, Any]) -> Ages:
    """What :meth:`Ages.to_dict` wrote."""
    if "steps" in data:
        return Stepwise([(age, from_dict(curve)) for age, curve in data["steps"]])
    decay = Decay(data["limit"], tuple(data["weights"]), tuple(data["gaps"]))
    return Filtered(decay, data["reach"], data["slack"], data["last"])


def geometric(
    gap: FloatArray, log_ratio: FloatArray, terms: float
) -> tuple[FloatArray, FloatArray]:
    """``sum_{m < terms} r^m`` and its slope in the gap, for ``r = 1 - gap = exp(log_ratio)``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if math.isinf(terms):
            return 1 / gap, -1 / gap**2
        terms = float(terms)  # any whole number, however large
        total = np.where(gap == 0, terms, -np.expm1(terms * log_ratio) / gap)
        slope = (terms * np.exp((terms - 1) * log_ratio) - total) / gap
        return total, np.where(gap == 0, -terms * (terms - 1) / 2, slope)


def pairs(gap: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``1 - r_i r_j`` and ``log(r_i r_j)`` of all pairs, from ``1 - r``, without cancellation."""
    log_ratio = np.log1p(-gap)
    product = gap[:, None] + gap - gap[:, None] * gap
    return product, log_ratio[:, None] + log_ratio
