"""What the white-box audit lines share: the class of a line, and records that are hard to hide.

A pair of neighbours differs in one record, which lies at a bound or beyond it: far too long, so long that its norm
overflows, or so short that its square underflows. It is the first, a middle or the last record, or one among rows that
are all equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent import erm
from reticent.audit.whitebox import Exact, search
from reticent.audit.whitebox_matching import InputPair, Outcome, Start, silent
from reticent.checks import FloatArray
from reticent.noise import Source

Run = Callable[[Any, Source], Outcome]

HUGE = 1.797e308
TINY = 5e-324
FAR = 1e9  # a set so large that no decision reaches its border
BOTH = ("zero-out", "replace")


@dataclass(frozen=True)
class Case:
    """One audit line: its setting, how to compute it, and whether the quick mode includes it."""

    setting: str
    check: Callable[[], Exact]
    quick: bool = True


def case(
    setting: str,
    run: Run,
    pairs: Callable[[], Iterable[InputPair]],
    *,
    starts: Iterable[Start] = (silent,),
    quick: bool = True,
    **options: Any,
) -> Case:
    """An audit line that searches some pairs; ``options`` go to :func:`reticent.audit.whitebox.search`."""
    chosen = tuple(starts)

    def check() -> Exact:
        return search(run, pairs(), starts=chosen, name=setting, **options)

    return Case(setting, check, quick)


def worst(found: Iterable[Exact]) -> Exact:
    """The result that reaches the largest share of its claim."""
    return max(found, key=lambda exact: exact.tightness)


def extremes(dim: int, norm: float = 1.0) -> list[tuple[FloatArray, str]]:
    """Vectors at and beyond a bound on the norm, and some that are hard to measure."""
    first = np.zeros(dim)
    first[0] = norm
    signs = np.where(np.arange(dim) % 2 == 0, 1.0, -1.0)
    mixed = np.full(dim, TINY)
    mixed[0] = HUGE
    return [
        (first, "at the bound"),
        (3.0 * first, "three times too long"),
        (1.25 * first, "a quarter too long"),
        (1e200 * first, "of norm 1e200"),
        (HUGE * first / norm, f"{HUGE:g} in one entry"),
        (np.full(dim, HUGE), f"{HUGE:g} in every entry"),
        (HUGE * signs, f"{HUGE:g} with mixed signs"),
        (mixed, f"{HUGE:g} beside 5e-324"),
        (np.full(dim, TINY), "5e-324 in every entry"),
        (np.full(dim, norm / math.sqrt(dim)), "at the bound, spread evenly"),
    ]


def instead(vector: FloatArray, neighbours: str) -> tuple[FloatArray, str]:
    """What takes a record's place, with its name: nothing if records are blanked, else the opposite record."""
    if neighbours == "zero-out":
        return np.zeros_like(vector), "blanked"
    return -vector, "turned round"


def tables(
    neighbours: str, rows: int, dim: int, places: Iterable[int] | None = None
) -> Iterator[tuple[FloatArray, FloatArray, int, str]]:
    """Pairs of tables that differ in one row, the number of that row, and what is extreme about it."""
    where = list(range(rows) if places is None else places)
    for place in where:
        chosen = extremes(dim)
        for vector, words in chosen if place == where[0] else chosen[1:2]:
            here, there = np.zeros((rows, dim)), np.zeros((rows, dim))
            here[place] = vector
            there[place], other = instead(vector, neighbours)
            yield here, there, place, f"row {place} {words}, {other}"
    # all rows equal: a rule that looks at all rows together would treat the changed one differently
    here = np.zeros((rows, dim))
    here[:, 0] = 1.0
    there = here.copy()
    there[where[0]], other = instead(here[0], neighbours)
    yield here, there, where[0], f"all rows the same, one {other}"


def labelled(neighbours: str, rows: int, dim: int, label: float = 1.0) -> Iterator[InputPair]:
    """Tables whose labels are all the same."""
    for here, there, _, why in tables(neighbours, rows, dim):
        y = np.full(rows, label)
        yield InputPair((here, y), (there, y), why)


def products(neighbours: str, rows: int) -> Iterator[InputPair]:
    """For squared losses: labels at and beyond the bounds, and under replacement the worst angle."""
    for X, other, place, why in tables(neighbours, rows, 2):
        for label in (7.0, HUGE):
            y, labels = np.zeros(rows), np.zeros(rows)
            y[place] = label
            if neighbours == "replace":
                labels[place] = -label
            yield InputPair((X, y), (other, labels), f"{why}, label {label:g}")
    if neighbours == "zero-out":
        return
    for cosine in np.linspace(-1.0, 1.0, 41):
        X, other = np.zeros((rows, 2)), np.zeros((rows, 2))
        X[0], other[0] = (3.0, 0.0), (3.0 * cosine, 3.0 * math.sqrt(1.0 - cosine**2))
        y, labels = np.zeros(rows), np.zeros(rows)
        y[0], labels[0] = 1.0, -1.0
        yield InputPair((X, y), (other, labels), f"two records with a cosine of {cosine:.2g}")


def wrong(neighbours: str, rows: int) -> Iterator[tuple[FloatArray, FloatArray, int, str]]:
    """Records that a decision far along (1, 1) misclassifies, and that point in nearly opposite directions."""
    along, across = np.array([1.0, 1.0]) / math.sqrt(2.0), np.array([1.0, -1.0]) / math.sqrt(2.0)
    first, second = -0.1 * along + 0.995 * across, -0.1 * along - 0.995 * across
    for place in (1, rows - 1):
        for size in (1.0, 3.0, HUGE / 2.0):
            here, there = np.zeros((rows, 2)), np.zeros((rows, 2))
            here[place] = size * first
            if neighbours == "replace":
                there[place] = size * second
            yield here, there, place, f"row {place} on the wrong side"


def fit(solve: Callable[..., erm.Fit]) -> Run:
    """A run that fits a solver to a table."""

    def run(data: Any, source: Source) -> Outcome:
        found = solve(*data)
        return Outcome(found.point, found.guarantee)

    return run
