"""How much privacy is asked for: epsilon, delta, the neighbouring relation, and for how long.

The neighbouring relation sets the sensitivity: under ``"replace"`` one record may turn into any other, so a
contribution that is clipped to a norm moves by up to twice that norm. Use :meth:`Budget.sensitivity` rather than a
factor of your own.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, TypeVar

from reticent.checks import choice, integer, items, number
from reticent.privacy import gaussian
from reticent.privacy.errors import LooseBudgetWarning

NEIGHBOURS = ("zero-out", "replace")
UNITS = ("record", "person")

_RELATION = {
    "zero-out": "{} blanked (zero-out)",
    "replace": "{} replaced by any other (replace)",
}


Fade = tuple[tuple[int, float], ...]
T = TypeVar("T")
_LARGE_DELTA = 0.01
LARGEST_EPSILON = 1e19
"""Largest epsilon of a budget, far beyond any protection; the exact formulas lose their digits near 1e30."""
OLDEST = 2**40
"""Largest age for which guarantees are computed, and longest stream without a horizon."""


@dataclass(frozen=True)
class Scope:
    """Whom a guarantee protects and for how long. Guarantees can be added only if their scopes are equal.

    Parameters
    ----------
    neighbours : {"zero-out", "replace"}
        Whether the protected records are blanked or replaced by others.
    window : int or None
        Number of outputs for which they are protected; None: for ever, or as ``ages`` say.
    ages : tuple of int
        Ages at which a fading guarantee is stated; empty if it does not fade.
    unit : {"record", "person"}
        What is protected: one record, or all records of one person.
    """

    neighbours: str = "zero-out"
    window: int | None = None
    ages: tuple[int, ...] = ()
    unit: str = "record"

    def __post_init__(self) -> None:
        choice(self.neighbours, "neighbours", NEIGHBOURS)
        choice(self.unit, "unit", UNITS)
        if self.window is not None:
            window = integer(self.window, "window", low=1, high=OLDEST)
            object.__setattr__(self, "window", window)
        ages = tuple(
            integer(age, "each of ages", low=1, high=OLDEST)
            for age in items(self.ages, "ages", "whole numbers")
        )
        if any(early >= late for early, late in pairwise(ages)):
            raise ValueError(
                f"ages must increase, got {ages}: the last one is what a guarantee answers for; "
                f"use {tuple(sorted(set(ages)))}"
            )
        object.__setattr__(self, "ages", ages)
        if self.window is not None and self.ages:
            raise ValueError(
                f"window={self.window} and fade (ages {self.ages}) cannot be combined; "
                "leave out the window, and let the last pair of fade be the last age that matters"
            )

    @property
    def last(self) -> int | None:
        """The last age at which anything is guaranteed; None: no limit."""
        return self.ages[-1] if self.ages else self.window

    @property
    def since(self) -> str:
        """The output from which ages are counted, in words."""
        return "the record's own" if self.unit == "record" else "the person's first"

    @property
    def within(self) -> bool:
        """Whether the protection covers only those records of a person that came within the outputs that are seen."""
        return self.unit == "person" and self.window is not None

    def __str__(self) -> str:
        who = _RELATION[self.neighbours].format(
            "one record is" if self.unit == "record" else "all records of one person are"
        )
        if self.ages:
            ages = ", ".join(f"{age:,}" for age in few(self.ages))
            return f"{who}, with a guarantee at the ages {ages} (outputs from {self.since})"
        if self.window is None:
            return f"{who}, protected for ever"
        if self.within:
            return (
                f"{who}, protected in any {self.window} consecutive outputs, with the records that "
                "came within them"
            )
        return f"{who}, protected for {self.window} outputs from the record's own, one per record"


@functools.lru_cache(maxsize=64)
def _scope(neighbours: str, window: int | None, fade: Fade | None) -> Scope:
    """The scope of a budget with these fields."""
    return Scope(neighbours, window, tuple(age for age, _ in fade or ()))


def plain(value: float) -> str:
    """A number as people write it: 1e-6, not 1e-06."""
    return f"{value:g}".replace("e-0", "e-").replace("e+0", "e+")


def few(items: Sequence[T]) -> Sequence[T]:
    """At most five items to print: all of them, or the first three and the last."""
    return items if len(items) <= 5 else [*items[:3], items[-1]]


def profile_of(fade: Any, epsilon: float, delta: float) -> Fade | None:
    """The argument ``fade`` as pairs (age, epsilon), given such pairs or (first age, power of growth)."""
    if fade is None:
        return None
    if delta == 0.0:
        raise ValueError(
            "fade needs delta > 0, got delta = 0: no running total with pure privacy has a guarantee that fades (a "
            "record that completes a large node of a tree is covered by that node alone); set delta, or use a window"
        )
    items = list(fade) if isinstance(fade, Sequence) and not isinstance(fade, str) else [fade]
    if len(items) == 2 and not any(isinstance(item, Sequence) for item in items):
        return _power_law(items[0], items[1], epsilon, delta)
    pairs = _pairs(items, fade)
    if pairs[0][1] != epsilon:
        raise ValueError(
            "epsilon must equal the epsilon of the first pair of fade, "
            f"got epsilon={epsilon:g} and {pairs[0]}"
        )
    return pairs


def _pairs(items: list[Any], fade: Any) -> Fade:
    """The items of the argument ``fade`` as pairs (age, epsilon) that increase."""
    if not items or not all(isinstance(item, Sequence) and len(item) == 2 for item in items):
        raise ValueError(
            "fade must be a list of pairs [(age, epsilon), ...] or a pair (first age, power of growth), "
            f"got {fade!r}"
        )
    pairs = tuple(
        (
            integer(age, "an age of fade", low=1, high=OLDEST),
            number(value, "an epsilon of fade", low=0.0, high=LARGEST_EPSILON, open_low=True),
        )
        for age, value in items
    )
    if any(b[0] <= a[0] or b[1] < a[1] for a, b in pairwise(pairs)):
        raise ValueError(
            f"the ages of fade must increase and its epsilons must not decrease, got {pairs}: what is known "
            "about a record never becomes less"
        )
    return pairs


def _power_law(age: Any, power: Any, epsilon: float, delta: float) -> Fade:
    """Pairs for which mu is at most mu_0 (a / a_0)^p, one for each doubling of the first age up to the oldest."""
    first = integer(age, "the first age of fade", low=1, high=OLDEST)
    p = number(power, "the power of fade", low=0.0, high=1.0, open_low=True)
    start = gaussian.mu(epsilon, delta)
    doublings = int(math.log2(OLDEST / first))
    later = (
        (first << k, gaussian.epsilon(delta, start * 2.0 ** (p * k)))
        for k in range(1, doublings + 1)
    )
    return ((first, epsilon), *later)


@dataclass(frozen=True)
class Budget:
    """How much privacy a release may spend.

    Parameters
    ----------
    epsilon : float
        Privacy parameter epsilon, above 0 and at most 1e15. Smaller is more private.
    delta : float
        Privacy parameter delta, in [0, 1); the default, 0, asks for pure differential privacy. Choose it well below one
        over the number of people; above 0.01 there is a `LooseBudgetWarning`.
    neighbours : {"zero-out", "replace"}
        The neighbouring relation. ``"zero-out"`` (the default): one record becomes the null record, which contributes
        nothing, and the number of records stays the same. ``"replace"``: one record becomes any other, which needs
        about twice the noise.
    window : int, optional
        Number of outputs for which a record is protected, counted from the first that it enters. By default a record is
        protected for ever. Every record makes an output, whether it is published or not: if only every hundredth output
        is published, a record is protected for a hundredth as many published ones.
    fade : sequence of (int, float) or (int, float), optional
        For endless streams, a guarantee that fades with age instead of ending. Either pairs ``[(age, epsilon),
        ...]``: at most this epsilon for the outputs up to this age, where the first pair has the budget's own
        epsilon. Or ``(age, power)``: the budget's epsilon at this age, and afterwards a mu that grows like this power
        of the age, checked at each doubling of the age up to 2^40 outputs. Between two ages the epsilon of the later
        one applies. After the last age nothing is asked for; ``Guarantee.by_age`` reports what holds. Needs delta >
        0, and no window.

    Raises
    ------
    ValueError
        A parameter is out of range, or ``window`` and ``fade`` are both given.

    See Also
    --------
    Guarantee : What a release delivers.
    Ledger : Several releases against one budget.

    Examples
    --------
    >>> budget = Budget(1.0, 1e-6)
    >>> print(budget)
    epsilon = 1, delta = 1e-6; one record is blanked (zero-out), protected for ever
    >>> round(budget.mu, 6)
    0.236704
    >>> budget.sensitivity(3.0), budget.with_(neighbours="replace").sensitivity(3.0)
    (3.0, 6.0)
    >>> print(Budget(1.0, 1e-6, fade=[(1024, 1.0), (10**6, 2.0)]))
    epsilon = 1 for 1,024 outputs, 2 for 1,000,000, delta = 1e-6; one record is blanked (zero-out), ...
    """

    epsilon: float
    delta: float = 0.0
    neighbours: str = "zero-out"
    window: int | None = None
    fade: Fade | None = None

    def __post_init__(self) -> None:
        epsilon = number(self.epsilon, "epsilon", low=0.0, high=LARGEST_EPSILON, open_low=True)
        delta = number(self.delta, "delta", low=0.0, high=1.0, open_high=True)
        if delta > _LARGE_DELTA:
            warnings.warn(
                f"delta = {plain(delta)} allows one record in {1.0 / delta:.3g} to be published in full; "
                "choose a delta well below one over the number of people, such as 1e-6",
                LooseBudgetWarning,
                stacklevel=3,
            )
        fade = profile_of(self.fade, epsilon, delta)
        scope = Scope(self.neighbours, self.window, tuple(age for age, _ in fade or ()))
        kept = (epsilon, delta, scope.neighbours, scope.window, fade)
        for field, value in zip(fields(self), kept, strict=True):
            object.__setattr__(self, field.name, value)

    @property
    def scope(self) -> Scope:
        """Whom the budget protects, and for how long."""
        return _scope(self.neighbours, self.window, self.fade)

    @property
    def profile(self) -> tuple[tuple[int, float], ...]:
        """The ages of ``fade``, each with the largest mu of a Gaussian release that it allows."""
        return tuple((age, gaussian.mu(epsilon, self.delta)) for age, epsilon in self.fade or ())

    def at(self, age: int) -> Budget:
        """What may be spent on the outputs up to an age of ``fade``, as a budget with a window.

        Parameters
        ----------
        age : int
            At most the last age of ``fade``.

        Raises
        ------
        ValueError
            The budget asks for nothing at this age.
        """
        allowed = next((epsilon for a, epsilon in self.fade or () if a >= age), None)
        if allowed is None:
            raise ValueError(
                f"age must be at most the last age of the budget's fade, got {age}; the budget is: {self}"
            )
        return self.with_(epsilon=allowed, window=age, fade=None)

    @property
    def mu(self) -> float:
        """The largest mu of a Gaussian release that this budget allows; needs delta > 0."""
        if self.delta == 0.0:
            raise ValueError(
                "delta must be above 0 for Gaussian noise, got a budget with delta = 0; choose "
                "delta > 0 (say Budget(epsilon, 1e-6)), or pure noise such as gamma or laplace"
            )
        return gaussian.largest_mu(self.epsilon, self.delta)

    def sensitivity(self, norm: float) -> float:
        """How far one record can move a sum of contributions that are clipped to ``norm``.

        Parameters
        ----------
        norm : float
            Bound on the norm of one contribution.

        Returns
        -------
        float
            ``norm``, or twice that if a record may be replaced.
        """
        norm = number(norm, "norm", low=0.0)
        return norm if self.neighbours == "zero-out" else 2.0 * norm

    def must_be_for_ever(self, what: str, why: str) -> None:
        """Raise ValueError if the budget has a window or fades, where neither has a meaning.

        Parameters
        ----------
        what : str
            What needs a budget without them, for the message.
        why : str
            The reason, for the message.
        """
        for name in ("window", "fade"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"budget.{name} must be None for {what}, got {getattr(self, name)}: {why}"
                )

    def with_(self, **changes: object) -> Budget:
        """A copy of the budget with some fields changed.

        Parameters
        ----------
        **changes
            New values by field name.
        """
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        unknown = sorted(set(changes) - set(kept))
        if unknown:
            raise TypeError(f"a Budget has no field {unknown[0]!r}; it has {', '.join(kept)}")
        return Budget(**{**kept, **changes})

    def __str__(self) -> str:
        epsilon = f"epsilon = {self.epsilon:g}"
        if self.fade is not None:
            epsilon = "epsilon = " + ", ".join(
                f"{value:.4g} for {age:,}" + " outputs" * (k == 0)
                for k, (age, value) in enumerate(few(self.fade))
            )
        return f"{epsilon}, delta = {plain(self.delta)}; {self.scope}"
