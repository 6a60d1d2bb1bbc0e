"""The privacy that was delivered: a list of releases, their cost together, and caveats.

A guarantee means nothing without its neighbouring relation and window. Guarantees that differ in either cannot be
added, and everything printed here states both.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any

from reticent import html_tables
from reticent.checks import flag, integer, items, number
from reticent.privacy.ages import Ages, OnDisjointRecords, ages_from_dict
from reticent.privacy.budget import OLDEST, Budget, Scope, few, plain
from reticent.privacy.compose import Composed, Worst, compose, parallel
from reticent.privacy.composition import meets
from reticent.privacy.curves import Curve, NoPrivacy, from_dict
from reticent.privacy.odds import Odds, odds_of
from reticent.privacy.repeated import BestOf

SEEDED = "seeded: for experiments, not a release"
FLOATING = "floating-point noise: for simulations, not a release"

_WHO = {
    "record": "each record by itself; a person with several records, one record at a time",
    "person": "each person, all of their records together",
}
_THERE = {"record": "a record is", "person": "a person's records are"}
_REFERENCE = 1e-6
"""The delta at which a guarantee is printed if its budget names none."""

GDP = (
    "mu-GDP: telling from the outputs whether {} there is as hard as telling a draw of N(0, 1) "
    "from one of N(mu, 1) (Gaussian differential privacy)"
)
ZCDP = (
    "rho-zCDP: all Renyi divergences of order alpha between neighbours are at most rho alpha "
    "(zero-concentrated differential privacy)"
)


@dataclass(frozen=True)
class Release:
    """One mechanism, and how often it ran on the same records.

    Parameters
    ----------
    mechanism : str
        What was released, in a few words.
    curve : Curve
        The cost of one run.
    sensitivity : float or None
        How far one record moves what was released, if that is one number.
    noise : str
        The noise that was added, in a few words.
    count : int
        Number of runs.
    details : tuple of str
        Further lines for :meth:`Guarantee.explain`.
    ages : Ages, optional
        For a stream, the cost of all runs together by age; None if everything is released at once.
    """

    mechanism: str
    curve: Curve
    sensitivity: float | None
    noise: str
    count: int = 1
    details: tuple[str, ...] = ()
    ages: Ages | None = None

    def __post_init__(self) -> None:
        for name in ("mechanism", "noise"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be text, got {getattr(self, name)!r}")
        if not isinstance(self.curve, Curve):
            raise TypeError(
                f"curve must be a privacy curve such as Gaussian(mu), got {self.curve!r}"
            )
        if self.sensitivity is not None:
            value = number(self.sensitivity, "sensitivity", low=0.0)
            object.__setattr__(self, "sensitivity", value)
        object.__setattr__(self, "count", integer(self.count, "count", low=0))
        object.__setattr__(self, "details", _lines(self.details, "details"))
        if self.ages is not None and not isinstance(self.ages, Ages):
            raise TypeError(f"ages must be an Ages object such as Filtered(...), got {self.ages!r}")

    def at(self, age: int) -> tuple[Curve, int]:
        """The cost of what is released up to an age.

        Parameters
        ----------
        age : int
            Number of outputs, counted from the record's own, which is the first.

        Returns
        -------
        Curve
            The cost of one run.
        int
            The number of runs; 1 if the cost depends on the age, because the curve then covers all of them.
        """
        return (self.curve, self.count) if self.ages is None else (self.ages.at(age), 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "mechanism": self.mechanism,
            "curve": self.curve.to_dict(),
            "sensitivity": self.sensitivity,
            "noise": self.noise,
            "count": self.count,
            "details": list(self.details),
            "ages": None if self.ages is None else self.ages.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Release:
        """The release that :meth:`to_dict` wrote.

        Parameters
        ----------
        data : dict
            Plain data, as :meth:`to_dict` returns them.
        """
        ages = None if data.get("ages") is None else ages_from_dict(data["ages"])
        return cls(**{**data, "curve": from_dict(data["curve"]), "ages": ages})


@dataclass(frozen=True)
class Guarantee:
    """A differential privacy guarantee: what is guaranteed to each record or person, and which releases it covers.

    Parameters
    ----------
    releases : iterable of Release
        Everything that was, or will be, computed from the records and released.
    neighbours : {"zero-out", "replace"}
        Whether one record is blanked (``"zero-out"``) or replaced by any other (``"replace"``).
    window : int, optional
        Number of outputs for which a record is protected; None for all.
    seeded : bool
        Whether the noise came from a given seed: whoever knows the seed can subtract the noise.
    lattice : bool
        Whether the noise lies on a lattice; if not, the last bits of floating-point numbers may leak.
    caveats : iterable of str
        Sentences that a reader must see.
    ages : iterable of int
        Ages at which a fading guarantee was asked for; :meth:`epsilon` without an age answers for the last of them.
    unit : {"record", "person"}
        What is protected: one record, or all records of one person.
    asked : float, optional
        Delta of the budget that the noise was calibrated to, at which the guarantee is printed; by default it is
        printed at 1e-6. It has no influence on what is guaranteed.

    Notes
    -----
    "mu-GDP" (Gaussian differential privacy) means that telling from the outputs whether a record is there is at least
    as hard as telling a draw of N(0, 1) from one of N(mu, 1). "rho-zCDP" (zero-concentrated differential privacy)
    bounds every Rényi divergence of order alpha by rho alpha. Both imply an epsilon for every delta.

    See Also
    --------
    Budget : What is asked for.
    Ledger : Several releases against one budget.

    Examples
    --------
    >>> from reticent.privacy import Gaussian, Pure
    >>> g = Guarantee([Release("sum of gradients", Gaussian(0.2367), 1.0, "gaussian, sd 4.225")])
    >>> print(g)
    epsilon = 1 at delta = 1e-6 (0.2367-GDP); one record is blanked (zero-out), protected for ever
    >>> g
    <Guarantee: epsilon = 1 at delta = 1e-6 (0.2367-GDP)>
    >>> print(round((g + g).gdp, 4), (g + g).pure)
    0.3347 None
    """

    releases: tuple[Release, ...]
    neighbours: str = "zero-out"
    window: int | None = None
    seeded: bool = False
    lattice: bool = True
    caveats: tuple[str, ...] = ()
    ages: tuple[int, ...] = ()
    unit: str = "record"
    asked: float | None = field(default=None, compare=False)

    def __init__(self, releases: Iterable[Release], neighbours: str = "zero-out",
                 window: int | None = None, seeded: bool = False, lattice: bool = True,
                 caveats: Iterable[str] = (), ages: Iterable[int] = (),
                 unit: str = "record", asked: float | None = None) -> None:  # fmt: skip
        kept = (
            (releases,)
            if isinstance(releases, Release)
            else items(releases, "releases", "Release records")
        )
        for release in kept:
            if not isinstance(release, Release):
                raise TypeError(f"releases must hold Release records, got {release!r}")
        scope = Scope(neighbours, window, ages, unit)  # type: ignore[arg-type]
        for curve in _walk(release.curve for release in kept):
            declared = getattr(curve, "neighbours", neighbours)
            if declared != neighbours:
                raise ValueError(
                    f"a release was accounted for neighbours={declared!r} in a guarantee for "
                    f"neighbours={neighbours!r}; build its curve with the guarantee's relation"
                )
        object.__setattr__(self, "releases", kept)
        for name in ("neighbours", "window", "ages", "unit"):
            object.__setattr__(self, name, getattr(scope, name))
        object.__setattr__(self, "seeded", flag(seeded, "seeded"))
        object.__setattr__(self, "lattice", flag(lattice, "lattice"))
        object.__setattr__(self, "caveats", _lines(caveats, "caveats"))
        if asked is not None:
            asked = number(asked, "asked", low=0.0, high=1.0, open_high=True)
        object.__setattr__(self, "asked", asked)

    @classmethod
    def of(cls, budget: Budget, releases: Iterable[Release], **more: Any) -> Guarantee:
        """The guarantee of releases that were calibrated to a budget, with the budget's scope.

        Parameters
        ----------
        budget : Budget
            The budget.
        releases : iterable of Release
            The releases.
        **more
            Further parameters of :class:`Guarantee`.
        """
        scope = budget.scope
        return cls(
            releases, scope.neighbours, scope.window, ages=scope.ages, asked=budget.delta, **more
        )

    @property
    def scope(self) -> Scope:
        """Whom this protects, and for how long."""
        return Scope(self.neighbours, self.window, self.ages, self.unit)

    @classmethod
    def none(
        cls, reason: str, neighbours: str = "zero-out", window: int | None = None
    ) -> Guarantee:
        """A guarantee of no privacy at all: epsilon is infinite.

        Parameters
        ----------
        reason : str
            Why nothing is guaranteed; it becomes a caveat.
        neighbours : {"zero-out", "replace"}
            The neighbouring relation.
        window : int, optional
            The window.
        """
        release = Release("no privacy", NoPrivacy(), None, "none", details=(reason,))
        return cls([release], neighbours, window, caveats=(f"not private: {reason}",))

    @classmethod
    def parallel(cls, *guarantees: Guarantee) -> Guarantee:
        """The guarantee of releases on disjoint records, or disjoint persons: that of the worst of them.

        Parameters
        ----------
        *guarantees : Guarantee
            One for each disjoint part; no record, or person, may enter two of them.

        Raises
        ------
        ValueError
            No guarantee was given, or they differ in neighbours, window, ages or unit.
        """
        if not guarantees:
            raise ValueError("parallel needs at least one guarantee, got none")
        first = guarantees[0]
        for other in guarantees[1:]:
            first._same_scope(other, "put in parallel")
        if len(guarantees) == 1:
            return first
        details: list[str] = []
        for number_, part in enumerate(guarantees, 1):
            details.append(f"part {number_} of {len(guarantees)}:")
            details.extend("  " + line for line in part._release_lines())
        ages = None
        # nothing is known after a window, unless every part states its cost there
        if first.ages or all(part._fades for part in guarantees):
            ages = OnDisjointRecords(
                tuple(
                    tuple((each.curve, each.count, each.ages) for each in part.releases)
                    for part in guarantees
                )
            )
        release = Release(
            f"{len(guarantees)} parts on disjoint {first.unit}s",
            parallel(*(part.curve for part in guarantees)),
            None,
            "as in its parts",
            details=tuple(details),
            ages=ages,
        )
        return functools.reduce(_with_flags_of, guarantees, changed(first, releases=(release,)))

    @functools.cached_property
    def curve(self) -> Curve:
        """The cost of all releases together."""
        return compose((release.curve, release.count) for release in self.releases)

    def at(self, age: int | None) -> Curve:
        """The cost of all releases together, for the outputs up to an age.

        What is released only once counts in full at every age. Guarantees of different streams are added at equal
        ages, on one clock of outputs.

        Parameters
        ----------
        age : int or None
            Number of outputs from the record's own, which is the first; None for everything that the guarantee covers.

        Raises
        ------
        ValueError
            ``age`` is beyond the window, and the cost of some release after the window is not known.
        """
        if age is None:
            return self.curve
        age = integer(age, "age", low=1, high=OLDEST)
        if self.window is not None and age > self.window and not self._fades:
            raise ValueError(
                f"age must be at most {self.window}, the window, got {age}: for one of the releases, "
                "nothing is known about later outputs"
            )
        return compose(release.at(age) for release in self.releases)

    def epsilon(self, delta: float = 0.0, age: int | None = None) -> float:
        """The smallest epsilon that is proved; infinite if none is.

        Parameters
        ----------
        delta : float
            Privacy parameter delta.
        age : int, optional
            Number of outputs that the attacker sees, counted from the record's own, which is the first. By default
            all outputs that the guarantee covers.
        """
        return self.at(age).epsilon(delta)

    def delta(self, epsilon: float, age: int | None = None) -> float:
        """The smallest delta that is proved.

        Parameters
        ----------
        epsilon : float
            Privacy parameter epsilon.
        age : int, optional
            Number of outputs that the attacker sees, counted from the record's own, which is the first. By default
            all outputs that the guarantee covers.
        """
        return self.at(age).delta(epsilon)

    def odds(self, people: int = 1000, age: int | None = None) -> Odds:
        """How often the best attacker is right, as a sentence to print and with a method ``plot()``.

        Parameters
        ----------
        people : int
            Number of people who each flip a coin to decide whether they take part.
        age : int, optional
            Number of outputs that the attacker sees, counted from the record's own, which is the first. By default
            all outputs that the guarantee covers: those of the window, or up to the last age that was asked for.
        """
        return odds_of(self, people, age)

    def plot(self, **options: Any) -> Any:
        """Draw the trade-off curve that is guaranteed; see `reticent.plots.promise`.

        Parameters
        ----------
        **options
            Passed on to `reticent.plots.promise`: ``title``, ``ax``.
        """
        return importlib.import_module("reticent.plots.promise").promise(self, **options)

    def by_age(self, ages: Iterable[int] | None = None, delta: float | None = None) -> ByAge:
        """Epsilon at several ages, as a table to print and with a method ``plot()``.

        Parameters
        ----------
        ages : iterable of int, optional
            By default powers of ten, and the ages that were asked for.
        delta : float, optional
            Privacy parameter delta; by default that of the budget, else 1e-6.

        Examples
        --------
        >>> import reticent
        >>> budget = reticent.Budget(1.0, 1e-6, window=1024)
        >>> total = reticent.sums.Correlated(1, budget=budget, noise_precision="float", seed=0)
        >>> print(total.guarantee.by_age([1, 128, 1024, 2048, 10_240]))
        epsilon 0.53 for 1 output, 0.88 for 128, 1.00 for 1,024, 1.11 for 2,048, 1.74 for 10,240
        """
        asked = {age for age in (*self.ages, self.window) if age is not None}
        if ages is None:
            end = min(OLDEST, max([10**6, *(10 * age for age in asked)]))
            ages = sorted({*few(sorted(asked)), *(10**k for k in range(int(math.log10(end)) + 1))})
        delta = self._shown if delta is None else number(delta, "delta", low=0.0, high=1.0)
        kept = tuple(integer(age, "age", low=1, high=OLDEST) for age in ages)
        return ByAge(kept, tuple(self.epsilon(delta, age=age) for age in kept), delta)

    @property
    def gdp(self) -> float | None:
        """The mu of Gaussian differential privacy if all noise is Gaussian, else None."""
        return self.curve.gdp

    @property
    def zcdp(self) -> float | None:
        """The rho of zero-concentrated differential privacy; None where not defined."""
        return self.curve.zcdp

    @property
    def pure(self) -> float | None:
        """Epsilon at delta = 0; None if there is none."""
        return self.curve.pure

    def meets(self, budget: Budget) -> bool:
        """Whether this is at least as private as a budget asks, for the same neighbours and window.

        Parameters
        ----------
        budget : Budget
            The budget to compare with.

        Returns
        -------
        bool
            False also if the budget asks for other neighbours, another window or other ages.
        """
        if replace(self.scope, unit="record") != budget.scope:
            return False
        if budget.fade is not None:
            return all(meets(self.at(age), budget.at(age)) for age, _ in budget.fade)
        return meets(self.curve, budget)

    def __add__(self, other: object) -> Guarantee:
        if not isinstance(other, Guarantee):
            return NotImplemented
        self._same_scope(other, "added")
        return _with_flags_of(changed(self, releases=self.releases + other.releases), other)

    def _same_scope(self, other: Guarantee, verb: str) -> None:
        if not isinstance(other, Guarantee):
            raise TypeError(f"only guarantees can be {verb}, got {other!r}")
        if self.scope != other.scope:
            raise ValueError(
                f"guarantees that protect differently cannot be {verb}: {self.scope}; and "
                f"{other.scope}; build both with the same neighbours, window, ages and unit"
            )

    def __str__(self) -> str:
        parts = [f"{self.summary}; {self.scope}"]
        return "; ".join(parts + self._warnings())

    @functools.cached_property
    def summary(self) -> str:
        """The numbers alone, without neighbours, window and caveats."""
        if not math.isfinite(self.curve.epsilon(0.5)):
            return "no privacy: epsilon is infinite"
        here = f"epsilon = {_up(self.epsilon(self._shown))} at delta = {_delta(self._shown)}"
        if self.pure is not None:
            better = self.epsilon(self._shown) < 0.995 * self.pure
            return f"pure epsilon = {_up(self.pure)}" + (f" ({here})" if better else "")
        if self.gdp is not None:
            return f"{here} ({_up(self.gdp)}-GDP)"
        return here if self.zcdp is None else f"{here} ({_up(self.zcdp)}-zCDP)"

    @property
    def _shown(self) -> float:
        """The delta at which the guarantee is printed."""
        return self.asked or _REFERENCE

    def __repr__(self) -> str:
        return f"<Guarantee: {self.summary}>"

    def _repr_html_(self) -> str:
        rows = [("guarantee", self.summary), ("who", str(self.scope))]
        rows += [("released", release.mechanism) for release in self.releases]
        return html_tables.table(rows + [("caveat", line) for line in self._warnings()])

    def _warnings(self) -> list[str]:
        words = ([SEEDED] if self.seeded else []) + ([] if self.lattice else [FLOATING])
        return words + list(self.caveats)

    def _release_lines(self) -> list[str]:
        lines = []
        for release in self.releases:
            moved = (
                "" if release.sensitivity is None else f", sensitivity {release.sensitivity:.6g}"
            )
            often = "once" if release.count == 1 else f"{release.count} times"
            lines.append(f"{release.mechanism}: {release.noise} noise{moved}, {often}")
            lines.append(f"  each costs {_cost(release.curve)}")
            lines.extend(f"  {line}" for line in release.details)
        return lines

    @property
    def _fades(self) -> bool:
        return bool(self.releases) and all(release.ages is not None for release in self.releases)

    def explain(self) -> str:
        """Explain the guarantee line by line: what was released, with which noise, and what follows."""
        lines = [f"guarantee: {self.summary}", f"in people: {self.odds()}"]
        lines.append(f"protected: {_WHO[self.unit]}")
        lines.append(f"neighbours: {str(replace(self.scope, window=None, ages=())).split(',')[0]}")
        if self.ages:
            lines.append("ages: guaranteed at " + ", ".join(f"{age:,}" for age in few(self.ages)))
        elif self.window is None:
            lines.append(f"window: none, each {self.unit} is protected for ever")
        else:
            lines.append(self._window_line())
        if self._fades:
            lines.append(f"by age: {self.by_age()}, at delta = {_delta(self._shown)}")
        lines.append("releases:" if self.releases else "releases: none")
        lines.extend("  " + line for line in self._release_lines())
        lines.append(
            f"randomness: {SEEDED}" if self.seeded else "randomness: keyed by the operating system"
        )
        lines.append(
            "arithmetic: noise on a lattice" if self.lattice else f"arithmetic: {FLOATING}"
        )
        lines.extend(f"caveat: {line}" for line in self.caveats)
        for name, meaning in (("GDP", GDP), ("zCDP", ZCDP)):
            if any(f"-{name}" in line for line in lines):
                lines.append(meaning.format(_THERE[self.unit]))
        return "\n".join(lines)

    def _window_line(self) -> str:
        after = f"{'less' if self._fades else 'nothing'} is guaranteed afterwards"
        whose = (
            f"the first that a record enters; {after}"
            if self.unit == "record"
            else f"anyone's; about the records of a person that came within them; {after}"
        )
        return f"window: {self.window} outputs, one for each record, released or not, counted from {whose}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {"releases": [release.to_dict() for release in self.releases],
                "neighbours": self.neighbours, "window": self.window, "seeded": self.seeded,
                "lattice": self.lattice, "caveats": list(self.caveats), "ages": list(self.ages),
                "unit": self.unit, "asked": self.asked}  # fmt: skip

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Guarantee:
        """The guarantee that :meth:`to_dict` wrote.

        Parameters
        ----------
        data : dict
            Plain data, as :meth:`to_dict` returns them.
        """
        try:
            releases = [Release.from_dict(release) for release in data["releases"]]
            return cls(**{**data, "releases": releases})
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"data do not describe a guarantee ({error!r}): {data!r}") from None


@dataclass(frozen=True)
class ByAge:
    """Epsilon of a guarantee at several ages.

    Parameters
    ----------
    ages : tuple of int
        Numbers of outputs, counted from the record's own, which is the first.
    epsilons : tuple of float
        The epsilon that is guaranteed for the outputs up to each age.
    delta : float
        The delta at which these hold.
    """

    ages: tuple[int, ...]
    epsilons: tuple[float, ...]
    delta: float

    def __str__(self) -> str:
        words: list[str] = []
        for age, epsilon in zip(self.ages, self.epsilons, strict=True):
            value = (
                f"{math.ceil(epsilon * 100 * (1 - 1e-9)) / 100:.2f}"
                if epsilon < math.inf
                else "no limit"
            )
            unit = "" if words else " output" if age == 1 else " outputs"
            words.append(f"{value} for {age:,}{unit}")
        return "epsilon " + ", ".join(words)

    def plot(self, **options: Any) -> Any:
        """Draw epsilon by age; see `reticent.plots.by_age`.

        Parameters
        ----------
        **options
            Passed on to `reticent.plots.by_age`.
        """
        return importlib.import_module("reticent.plots").by_age(self, **options)


def changed(guarantee: Guarantee, **fields: Any) -> Guarantee:
    """A copy with some fields changed, which are not checked: they come from guarantees of the same scope."""
    made = object.__new__(Guarantee)
    stale = ("curve", "summary") if "releases" in fields else ("summary",)
    kept = {name: value for name, value in vars(guarantee).items() if name not in stale}
    made.__dict__.update(kept | fields)
    return made


def with_caveats(guarantee: Guarantee, lines: Iterable[str]) -> Guarantee:
    """The guarantee with further sentences that a reader must see."""
    return changed(guarantee, caveats=_merged([guarantee.caveats, _lines(lines, "caveats")]))


def with_details(guarantee: Guarantee, lines: tuple[str, ...]) -> Guarantee:
    """The guarantee with further lines under each of its releases."""
    releases = [replace(release, details=release.details + lines) for release in guarantee.releases]
    return changed(guarantee, releases=tuple(releases))


def _with_flags_of(guarantee: Guarantee, other: Guarantee) -> Guarantee:
    """The guarantee, with the other one's caveats too, and seeded or off the lattice if either of them is."""
    return changed(
        guarantee,
        seeded=guarantee.seeded or other.seeded,
        lattice=guarantee.lattice and other.lattice,
        caveats=_merged([guarantee.caveats, other.caveats]),
        asked=max(guarantee.asked or 0.0, other.asked or 0.0) or None,
    )


def _up(value: float) -> str:
    """Four significant digits, rounded up, because a guarantee must not look better than it is."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.ceil(value / unit * (1.0 - 1e-7)) * unit:.4g}"


def _delta(value: float) -> str:
    """Six significant digits, rounded up: at a smaller delta epsilon would be larger."""
    exact = Decimal(repr(value))
    digits = Decimal((0, (1,), exact.adjusted() - 5))
    return plain(float(exact.quantize(digits, ROUND_CEILING)))


def _cost(curve: Curve) -> str:
    if isinstance(curve, NoPrivacy):
        return "everything"
    words = []
    if curve.pure is not None:
        words.append(f"epsilon = {_up(curve.pure)}, pure")
    if curve.gdp is not None:
        words.append(f"{_up(curve.gdp)}-GDP")
    if curve.zcdp is not None:
        words.append(f"{_up(curve.zcdp)}-zCDP")
    return (
        ", ".join(words)
        or f"epsilon = {_up(curve.epsilon(_REFERENCE))} at delta = {plain(_REFERENCE)}"
    )


def _lines(value: Iterable[str], name: str) -> tuple[str, ...]:
    lines = (value,) if isinstance(value, str) else tuple(value)
    for line in lines:
        if not isinstance(line, str):
            raise TypeError(f"{name} must be sentences, got {line!r}")
    return lines


def _merged(caveats: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line for lines in caveats for line in lines))


def _walk(curves: Iterable[Curve]) -> Iterable[Curve]:
    for curve in curves:
        yield curve
        if isinstance(curve, Composed):
            yield from _walk(part for part, _ in curve.parts)
        elif isinstance(curve, Worst):
            yield from _walk(curve.options)
        elif isinstance(curve, BestOf):
            yield from _walk([curve.base])
