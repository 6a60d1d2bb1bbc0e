"""The cost of a release by age: what the outputs up to the a-th reveal about a record, its own output being the first.

With correlated noise, one and the same noise gives a guarantee for every age (docs/algorithms/ages.md); with a tree, a
record enters few nodes at first and more of them later. Costs never fall with age, so a guarantee at one age holds at
every earlier age. If an age is chosen after looking at outputs, the guarantee is that of the largest age that could
have been chosen.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np

from reticent.checks import FloatArray, integer, items, number
from reticent.privacy.compose import compose, parallel
from reticent.privacy.curves import Curve, Gaussian, NoPrivacy, from_dict
from reticent.privacy.participation import (
    MOST_RECORDS,
    ONE_RECORD,
    Participation,
    check_participation,
)


class Ages(ABC):
    """The cost of one release by age; immutable data."""

    @abstractmethod
    def at(self, age: int) -> Curve:
        """The cost of all outputs up to this age, as a :class:`~reticent.privacy.Curve`."""

    @property
    def curves(self) -> Iterable[Curve]:
        """The curves that it was built from, whose neighbouring relation must be that of the guarantee."""
        return ()

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""


@dataclass(frozen=True)
class Stepwise(Ages):
    """A cost that changes at a few ages and is constant between them.

    Parameters
    ----------
    steps : sequence of (int, Curve)
        Pairs of an age and the cost from that age on, with increasing ages, of which the first must be 1, and with
        costs that do not fall.

    Examples
    --------
    >>> from reticent.privacy import Pure
    >>> nodes = Stepwise([(1, Pure(0.5)), (2, Pure(1.0))])
    >>> nodes.at(1).pure, nodes.at(1000).pure
    (0.5, 1.0)
    """

    steps: tuple[tuple[int, Curve], ...]

    def __init__(self, steps: Sequence[tuple[int, Curve]]) -> None:
        kept = tuple(_step(pair) for pair in items(steps, "steps", "pairs (age, curve)"))
        if not kept or kept[0][0] != 1 or any(a[0] >= b[0] for a, b in pairwise(kept)):
            raise ValueError(
                f"the ages of steps must increase and start at 1, got {[age for age, _ in kept]}"
            )
        for (early, more), (late, less) in pairwise(kept):
            # the worst of two curves is the first alone only if that one provably costs at least as much
            if more != less and parallel(more, less) == more:
                raise ValueError(
                    f"the costs of steps must not fall with age, got {more} at age {early} and {less} at age "
                    f"{late}: what is known about a record never becomes less; give age {late} the larger cost"
                )
        object.__setattr__(self, "steps", kept)

    def at(self, age: int) -> Curve:
        age = integer(age, "age", low=1)
        return next(curve for start, curve in reversed(self.steps) if start <= age)

    @property
    def curves(self) -> Iterable[Curve]:
        return [curve for _, curve in self.steps]

    def to_dict(self) -> dict[str, Any]:
        return {"steps": [[age, curve.to_dict()] for age, curve in self.steps]}


def _step(pair: Any) -> tuple[int, Curve]:
    try:
        age, curve = pair
    except (TypeError, ValueError):
        raise TypeError(f"steps must hold pairs (age, curve), got {pair!r}") from None
    return integer(age, "an age of steps", low=1), _curve(curve, "steps")


def _curve(value: Any, name: str) -> Curve:
    if not isinstance(value, Curve):
        raise TypeError(f"{name} must hold privacy curves such as Gaussian(mu), got {value!r}")
    return value


_DISJOINT = "promises"
"""Key in ledgers and saved states; it stays, so that earlier ones can be read."""

Part = tuple[Curve, int, Ages | None]
"""A release: the cost of one run, the number of runs, and the cost of all of them by age."""


@dataclass(frozen=True)
class OnDisjointRecords(Ages):
    """The cost of several guarantees on disjoint records: at every age, that of the worst of them.

    Parameters
    ----------
    guarantees : tuple of tuple of (Curve, int, Ages or None)
        The releases of each guarantee; one without a cost by age counts in full at every age.

    Examples
    --------
    >>> from reticent.privacy import Pure
    >>> late = Stepwise([(1, Pure(0.1)), (100, Pure(0.9))])
    >>> both = OnDisjointRecords((((Pure(0.5), 1, None),), ((Pure(0.9), 1, late),)))
    >>> both.at(1).pure, both.at(100).pure
    (0.5, 0.9)
    """

    guarantees: tuple[tuple[Part, ...], ...]

    def __post_init__(self) -> None:
        kept = items(self.guarantees, "guarantees", "guarantees, each a sequence of releases")
        if not kept:
            raise ValueError("guarantees must hold at least one guarantee, got none")
        kept = tuple(
            tuple(_part(part) for part in items(one, "each of guarantees", "releases"))
            for one in kept
        )
        object.__setattr__(self, "guarantees", kept)

    def at(self, age: int) -> Curve:
        age = integer(age, "age", low=1)
        return parallel(
            *(
                compose(
                    (curve, count) if ages is None else (ages.at(age), 1)
                    for curve, count, ages in one
                )
                for one in self.guarantees
            )
        )

    @property
    def curves(self) -> Iterable[Curve]:
        parts = [part for guarantee in self.guarantees for part in guarantee]
        later = [ages.curves for _, _, ages in parts if ages is not None]
        return [*(curve for curve, _, _ in parts), *chain.from_iterable(later)]

    def to_dict(self) -> dict[str, Any]:
        return {
            _DISJOINT: [
                [
                    [curve.to_dict(), count, None if ages is None else ages.to_dict()]
                    for curve, count, ages in one
                ]
                for one in self.guarantees
            ]
        }


def _part(part: Any) -> Part:
    try:
        curve, count, ages = part
    except (TypeError, ValueError):
        raise TypeError(
            f"guarantees must hold releases (curve, count, ages or None), got {part!r}"
        ) from None
    if ages is not None and not isinstance(ages, Ages):
        raise TypeError(f"ages must be an Ages object such as Filtered(...), got {ages!r}")
    return _curve(curve, "guarantees"), integer(count, "count", low=0), ages


_LEAST, _MOST = 1e-100, 1e100
"""Range of what a :class:`Decay` is made of, so that no product of two of them is 0 or infinite."""


@dataclass(frozen=True)
class Decay:
    """Positive coefficients that decrease with the lag k: ``c_k = limit + sum_j weights_j (1 - gaps_j)^k``.

    Parameters
    ----------
    limit : float
        Limit of the coefficients as the lag grows: 0, or in [1e-100, 1e100].
    weights : tuple of float
        Weights of the geometric terms, each in [1e-100, 1e100]; at least one if the limit is 0.
    gaps : tuple of float
        One minus the ratio of each geometric term, in [1e-100, 1); as many as there are weights.

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
        limit = number(self.limit, "limit", low=0.0, high=_MOST)
        if 0.0 < limit < _LEAST:
            raise ValueError(
                f"limit must be 0 or at least {_LEAST:g}, got {limit}: its square would be lost; use 0 for "
                "coefficients that vanish"
            )
        object.__setattr__(self, "limit", limit)
        for name, high in (("weights", _MOST), ("gaps", 1.0)):
            values = tuple(
                number(value, f"each of {name}", low=_LEAST, high=high, open_high=name == "gaps")
                for value in items(getattr(self, name), name, "numbers")
            )
            object.__setattr__(self, name, values)
        if len(self.weights) != len(self.gaps):
            raise ValueError(
                "weights and gaps must have the same length, "
                f"got weights={self.weights} and gaps={self.gaps}"
            )
        if limit == 0.0 and not self.weights:
            raise ValueError(
                "limit must be above 0 if there are no weights, got 0.0: all coefficients would be 0, as if a "
                "record left no trace; give a limit, or weights and gaps"
            )

    def sum(self, lags: float, participation: Participation = ONE_RECORD) -> float:
        """``c_0 + ... + c_{lags - 1}``.

        Parameters
        ----------
        lags : float
            Number of coefficients; may be infinite.
        participation : Participation
            If a person may have several records, the coefficients of all of them are added, each from its own step
            on, with the records as early as is allowed.

        Returns
        -------
        float
            The sum.
        """
        if participation.records_within(lags) > 1:
            _, left = participation.starts(lags)
            terms = zip(*self._terms, strict=True)
            return float(sum(w * _powers(a, left).sum() for w, a in terms))
        gaps = np.array(self.gaps)
        settled = float(np.array(self.weights) @ geometric(gaps, np.log1p(-gaps), lags)[0])
        return settled if self.limit == 0.0 else lags * self.limit + settled

    def sum_of_squares(self, lags: float, participation: Participation = ONE_RECORD) -> float:
        """``c_0^2 + ... + c_{lags - 1}^2``.

        Parameters
        ----------
        lags : float
            Number of coefficients; may be infinite.
        participation : Participation
            If a person may have several records, the coefficients of all of them are added before they are squared.
            The result is the largest over all placements that are allowed, because the coefficients are positive and
            decrease (docs/algorithms/persons.md).

        Returns
        -------
        float
            The sum of squares.
        """
        if participation.records_within(lags) > 1:
            return self._squares_of(lags, participation)
        p, gaps = np.array(self.weights), np.array(self.gaps)
        settled = float(p @ geometric(*pairs(gaps), lags)[0] @ p)
        if self.limit == 0.0:
            return settled
        single = float(p @ geometric(gaps, np.log1p(-gaps), lags)[0])
        return float(lags * self.limit**2 + 2 * self.limit * single + settled)

    @property
    def _terms(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Weights and gaps, with the limit as a term that does not decay (gap 0)."""
        if self.limit == 0.0:
            return self.weights, self.gaps
        return (self.limit, *self.weights), (0.0, *self.gaps)

    def _squares_of(self, lags: float, participation: Participation) -> float:
        # With the records at 0, b, 2b, ... the products of the i-th and the j-th one's coefficients,
        # i <= j, add up to sum_pq w_p w_q r_q^((j - i) b) (1 + r_p r_q + ... + (r_p r_q)^(lags - j b - 1)).
        weights, gaps = self._terms
        number_, left = participation.starts(lags)
        total = 0.0
        for w, a in zip(weights, gaps, strict=True):
            apart = 1.0 if a == 0.0 else math.exp(participation.min_gap * math.log1p(-a))
            before = 1 + 2 * apart * _powers(_gap_of(a, participation.min_gap), number_)
            for v, e in zip(weights, gaps, strict=True):
                total += w * v * float((_powers(a + e - a * e, left) * before).sum())
        return total


def _powers(gap: float, terms: FloatArray) -> FloatArray:
    """``1 + r + ... + r^(terms - 1)`` for ``r = 1 - gap``."""
    if gap == 1.0:  # reached by rounding, where the product of two ratios is below 2^-53
        return np.minimum(terms, 1.0)
    return terms if gap == 0.0 else -np.expm1(terms * math.log1p(-gap)) / gap


def _gap_of(gap: float, power: int) -> float:
    """``1 - (1 - gap)^power``, without cancellation."""
    return -math.expm1(power * math.log1p(-gap)) if gap else 0.0


@dataclass(frozen=True)
class Filtered(Ages):
    """Correlated Gaussian noise, under which a record moves the k-th innovation after its own by ``reach * c_k``.

    ``mu(a)^2 = sum_{k < a} (reach c_k + slack)^2``, which :meth:`mu` bounds in closed form.

    Parameters
    ----------
    decay : Decay
        The coefficients ``c_k``.
    reach : float
        Sensitivity of the total, in standard deviations of an innovation.
    slack : float
        Amount by which rounding to the lattice can enlarge each move, in the same unit.
    last : int or None
        Length of the stream, where it is known: there are no outputs after it.
    participation : Participation
        How many records are protected together, and how far apart they are; one record by default. The slack does not
        grow with their number.
    window : int, optional
        Number of consecutive outputs to which ``participation.max_records`` refers. More outputs consist of several
        windows, each with so many records. By default it refers to all outputs together.

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
    participation: Participation = ONE_RECORD
    window: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.decay, Decay):
            raise TypeError(f"decay must be a Decay(limit, weights, gaps), got {self.decay!r}")
        check_participation(self.participation)
        for name in ("reach", "slack"):
            value = number(getattr(self, name), name, low=0.0, high=_MOST)
            object.__setattr__(self, name, value)
        if self.last is not None:
            object.__setattr__(self, "last", integer(self.last, "last", low=1))
        if self.window is not None:
            object.__setattr__(self, "window", integer(self.window, "window", low=1))
        costly = Participation(self.participation.max_records, self.participation.min_gap)
        object.__setattr__(self, "participation", costly)

    def mu(self, age: float) -> float:
        """The mu of all outputs up to an age, which may be infinite if ``slack`` is 0 or ``last`` is set.

        It is infinite if a person may have more records within these outputs than costs are computed for.
        """
        lags = age if self.last is None else min(age, self.last)
        rule = self._within(lags)
        if rule is None:
            return math.inf
        squares, sums = _sums(self.decay, lags, rule)
        square = self.reach**2 * squares
        if self.slack:
            square += 2 * self.reach * self.slack * sums + lags * self.slack**2
        return math.sqrt(square)

    def _within(self, lags: float) -> Participation | None:
        """How many records may come within so many outputs; None if they are too many."""
        rule, most = self.participation, self.participation.max_records
        if most == 1 and self.window is None:
            return rule
        if most is not None and self.window is not None and lags > self.window:
            most = None if math.isinf(lags) else most * -(-int(lags) // self.window)
        room = math.inf if math.isinf(lags) else max(1, -(-int(lags) // rule.min_gap))
        records = room if most is None else min(room, most)
        return None if records > MOST_RECORDS else Participation(int(records), rule.min_gap)

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
            "participation": [self.participation.max_records, self.participation.min_gap],
            "window": self.window,
        }


@functools.lru_cache(maxsize=4096)
def _sums(decay: Decay, lags: float, participation: Participation) -> tuple[float, float]:
    """The two sums that :meth:`Filtered.mu` needs; cached, because a search for the noise repeats the same calls."""
    return decay.sum_of_squares(lags, participation), decay.sum(lags, participation)


def limited_to_windows(ages: Ages | None, window: int) -> Ages | None:
    """The cost by age for persons whose records are limited within each window only."""
    if isinstance(ages, Filtered):
        return ages if ages.window is not None else replace(ages, window=window)
    if isinstance(ages, Stepwise) and ages.steps[-1][0] <= window:
        return Stepwise([*ages.steps, (window + 1, NoPrivacy())])
    if isinstance(ages, OnDisjointRecords):
        return OnDisjointRecords(
            tuple(
                tuple((curve, n, limited_to_windows(each, window)) for curve, n, each in guarantee)
                for guarantee in ages.guarantees
            )
        )
    return ages


def ages_from_dict(data: Mapping[str, Any]) -> Ages:
    """The cost by age that :meth:`Ages.to_dict` wrote."""
    if "steps" in data:
        return Stepwise([(age, from_dict(curve)) for age, curve in data["steps"]])
    if _DISJOINT in data:
        return OnDisjointRecords(
            tuple(
                tuple(
                    (from_dict(curve), int(count), None if ages is None else ages_from_dict(ages))
                    for curve, count, ages in one
                )
                for one in data[_DISJOINT]
            )
        )
    decay = Decay(data["limit"], tuple(data["weights"]), tuple(data["gaps"]))
    participation = Participation(*data["participation"]) if "participation" in data else ONE_RECORD
    known = (data["reach"], data["slack"], data["last"], participation)
    return Filtered(decay, *known, data.get("window"))


def geometric(
    gap: FloatArray, log_ratio: FloatArray, terms: float
) -> tuple[FloatArray, FloatArray]:
    """``sum_{m < terms} r^m`` and its derivative with respect to the gap, for ``r = 1 - gap = exp(log_ratio)``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if math.isinf(terms):
            return 1 / gap, -1 / gap**2
        terms = float(terms)  # an integer may be too large for NumPy
        total = np.where(gap == 0, terms, -np.expm1(terms * log_ratio) / gap)
        slope = (terms * np.exp((terms - 1) * log_ratio) - total) / gap
        return total, np.where(gap == 0, -terms * (terms - 1) / 2, slope)


def pairs(gap: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``1 - r_i r_j`` and ``log(r_i r_j)`` of all pairs, from ``1 - r``, without cancellation."""
    log_ratio = np.log1p(-gap)
    product = gap[:, None] + gap - gap[:, None] * gap
    return product, log_ratio[:, None] + log_ratio
