"""White-box audit lines of running totals.

With a window, the stream ends where the guarantee of its record ends: ``window`` outputs after the record, counting its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from reticent import sums
from reticent.audit.whitebox_matching import InputPair, Outcome
from reticent.audit.whitebox_records import (
    BOTH,
    Case,
    FloatArray,
    Run,
    case,
    tables,
)
from reticent.noise import Source
from reticent.privacy import Budget, Participation


def _total(
    make: Callable[[], sums.RunningTotal], one_by_one: bool = False, age: int | None = None
) -> Run:
    """All outputs of a total, with its whole guarantee or with that for outputs up to an age."""

    def run(data: FloatArray, source: Source) -> Outcome:
        total = make()
        claim = total.guarantee if age is None else total.guarantee.at(age)
        if one_by_one:
            return Outcome([total.add(row if row.any() else None) for row in data], claim)
        return Outcome(total.run(data), claim)

    return run


def _plain(neighbours: str, rows: int, dim: int) -> Iterator[InputPair]:
    for here, there, _, why in tables(neighbours, rows, dim, range(0, rows, 2)):
        yield InputPair(here, there, why)


def _windows(neighbours: str, window: int, dim: int) -> Iterator[InputPair]:
    for place in (0, window - 1, window, window + 1):
        made = list(tables(neighbours, place + window, dim, (place,)))
        for here, there, _, why in made if place == 0 else made[1:2]:
            yield InputPair(here, there, why)


def _epochs(rows: int, places: Iterable[int]) -> Iterator[InputPair]:
    for place in places:
        here, there = np.zeros((rows, 1)), np.zeros((rows, 1))
        here[place] = 3.0
        yield InputPair(here, there, f"row {place} three times too long, blanked")


def _total_of_persons(make: Callable[[], sums.RunningTotal], age: int | None = None) -> Run:
    """A run of contributions with the ids of their persons."""

    def run(data: Any, source: Source) -> Outcome:
        rows, ids = data
        total = make()
        claim = total.guarantee if age is None else total.guarantee.at(age)
        return Outcome(total.run(rows, person=ids), claim)

    return run


def _on_demand_of_persons(mechanism: sums.CorrelatedMechanism) -> Run:
    """A run of contributions to one coordinate with the ids of their persons; it is read after each of them."""

    def run(data: Any, source: Source) -> Outcome:
        rows, ids = data
        total, seen = sums.OnDemand(mechanism), []
        for row, name in zip(rows, ids.tolist(), strict=True):
            total.add([0], row, person=name)
            seen.append(total.read([0]))
        return Outcome(seen, total.guarantee)

    return run


def _persons(
    neighbours: str, rows: int, rule: Participation, first: int = 0
) -> Iterator[InputPair]:
    """One person with records at every step from the first on, all of them too long; only few of them may count."""
    ids = np.arange(100, 100 + rows)
    here, none = np.zeros((rows, 1)), np.zeros((rows, 1))
    here[first:] = 3.0
    mine = np.where(np.arange(rows) >= first, 7, ids)
    if neighbours == "zero-out":
        yield InputPair((here, mine), (none, mine), f"all records of a person blanked, {rule}")
        return
    yield InputPair((here, mine), (-here, mine), f"all records of a person replaced, {rule}")
    late = np.zeros((rows, 1))
    late[first + 1 :] = -3.0
    other = np.where(np.arange(rows) > first, 8, ids)
    yield InputPair((here, mine), (late, other), f"replaced by a person who comes later, {rule}")


def totals_of_persons() -> Iterator[Case]:
    """Running totals where a person has several records, more than may count."""
    rows, rule = 10, Participation(3, 3)
    kinds: list[tuple[str, Any, bool]] = [
        ("Correlated", sums.Correlated, False),
        ("Tree, Honaker", partial(sums.Tree, estimator="honaker"), False),
        ("Tree, plain", partial(sums.Tree, estimator="plain"), False),
        ("Tree, plain, gamma", partial(sums.Tree, estimator="plain", noise="gamma"), True),
        ("Independent", sums.Independent, False),
    ]
    for words, make, pure in kinds:
        for neighbours in BOTH:
            budget = Budget(1.0, 0.0 if pure else 1e-6, neighbours)
            build = partial(make, 1, rows, budget=budget, participation=rule)
            yield case(
                f"{words} of persons, {neighbours}",
                _total_of_persons(build),
                partial(_persons, neighbours, rows, rule),
                quick=words != "Independent",
            )
    for neighbours in BOTH:
        described = sums.CorrelatedMechanism(
            1,
            rows,
            budget=Budget(1.0, 1e-6, neighbours),
            participation=rule,
            noise_precision="float",
        )
        yield case(
            f"OnDemand of persons, {neighbours}",
            _on_demand_of_persons(described),
            partial(_persons, neighbours, rows, rule),
            normals=True,
            quick=neighbours == "replace",
        )
    fading = Budget(1.0, 1e-6, fade=((4, 1.0), (12, 1.5)))
    for age in (4, 12):
        build = partial(sums.Correlated, 1, budget=fading, participation=rule)
        yield case(
            f"Correlated of persons, fading, age {age}",
            _total_of_persons(build, age),
            partial(_persons, BOTH[0], age + 3, rule, 3),
        )
    # so many records in each window, and a guarantee for ages of several windows
    moving, often = Budget(1.0, 1e-6, window=4), Participation(2, 1)
    for age in (4, 12):
        build = partial(sums.Correlated, 1, budget=moving, participation=often)
        yield case(
            f"Correlated of persons, window of 4, age {age}",
            _total_of_persons(build, age),
            partial(_persons, BOTH[0], age + 3, often, 3),
        )


def totals() -> Iterator[Case]:
    """Every running total, by kind of noise, relation, precision and length of the stream."""
    rows, dim, window = 8, 2, 4
    kinds: list[tuple[str, Any, bool]] = [
        ("Tree, Honaker", partial(sums.Tree, estimator="honaker"), False),
        ("Tree, plain", partial(sums.Tree, estimator="plain"), False),
        ("Correlated", sums.Correlated, False),
        ("Independent", sums.Independent, False),
        ("Tree, plain, laplace", partial(sums.Tree, estimator="plain", noise="laplace"), True),
        ("Tree, plain, gamma", partial(sums.Tree, estimator="plain", noise="gamma"), True),
        ("Independent, laplace", partial(sums.Independent, noise="laplace"), True),
        ("Independent, gamma", partial(sums.Independent, noise="gamma"), True),
    ]
    for at, (words, make, pure) in enumerate(kinds):
        for neighbours, precision in (
            (BOTH[0], "lattice"),
            (BOTH[1], "lattice"),
            (BOTH[0], "float"),
        ):
            budget = Budget(1.0, 0.0 if pure else 1e-6, neighbours)
            build = partial(make, dim, rows, budget=budget, noise_precision=precision)
            yield case(
                f"{words}, {neighbours}, {precision}",
                _total(build, one_by_one=at % 2 == 1),
                partial(_plain, neighbours, rows, dim),
                quick=precision == "lattice" or at == 0,
            )
    moving: list[tuple[str, Any, bool]] = [
        ("WindowTree", sums.WindowTree, False),
        ("WindowTree, laplace", partial(sums.WindowTree, noise="laplace"), True),
        ("WindowTree, gamma", partial(sums.WindowTree, noise="gamma"), True),
        ("Correlated, window", sums.Correlated, False),
    ]
    for words, make, pure in moving:
        for neighbours in BOTH:
            budget = Budget(1.0, 0.0 if pure else 1e-6, neighbours, window)
            yield case(
                f"{words} of {window}, {neighbours}",
                _total(partial(make, dim, budget=budget)),
                partial(_windows, neighbours, window, dim),
            )
    budget = Budget(1.0, 1e-6)
    ages = [
        ("Correlated, no horizon", budget),
        ("Correlated, window of 4", budget.with_(window=4)),
        ("Correlated, fading", budget.with_(fade=[(4, 1.0), (12, 1.5)])),
    ]
    for words, asked in ages:
        for age in (1, 4, 12, 20):
            yield case(
                f"{words}, age {age}",
                _total(partial(sums.Correlated, 1, budget=asked), age=age),
                partial(_epochs, age + 3, (3,)),
                quick=age > 4,
            )
    # the first epoch has 256 steps, so only a stream of that length reveals all of a record
    yield case(
        "Tree, plain, two epochs",
        _total(partial(sums.Tree, 1, None, budget=budget, estimator="plain")),
        partial(_epochs, 258, (0, 255, 256)),
    )
    yield from totals_of_persons()
