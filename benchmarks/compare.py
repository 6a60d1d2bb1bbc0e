"""Whether two runs of the benchmark agree: every ratio of one beside the same ratio of the other.

Two ratios agree where their printed intervals, the value and its spread either way, have a point in common. A ratio
that a formula gives has no spread and must come out the same. The spreads are such that a comparison of all ratios,
some 150 of times among them, finds one to differ by chance once in a hundred times or more seldom.

Two runs of different code, sizes or machines need not agree; the comparison is one of a run with
its repetition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from table import RESULTS, SAME, Table, load, show
from timing import Ratio


@dataclass(frozen=True)
class Pair:
    """One ratio in two runs."""

    where: str
    old: Ratio
    new: Ratio

    @property
    def apart(self) -> float:
        """The distance in units of what the two spreads allow together: up to 1 they agree."""
        distance = abs(self.old.value - self.new.value)
        if distance == 0.0:
            return 0.0
        allowed = sum(abs(each.value) * each.spread for each in (self.old, self.new))
        if math.isnan(allowed):
            return math.inf
        return distance / max(allowed, SAME * abs(self.old.value), SAME * abs(self.new.value))

    @property
    def agree(self) -> bool:
        return self.apart <= 1.0


def pairs(old: Table, new: Table) -> Iterator[Pair]:
    """The ratios that both tables have, or an error where they are not of the same work."""
    if old.facts.get("mode") != new.facts.get("mode") or old.columns != new.columns:
        raise ValueError(f"{new.name}: another mode or other columns; make both with the same code")
    if len(old.rows) != len(new.rows):
        raise ValueError(f"{new.name}: {len(old.rows)} rows and {len(new.rows)}; the data differ")
    for before, after in zip(old.rows, new.rows, strict=True):
        first = [i for i, cell in enumerate(after) if isinstance(cell, Ratio)]
        # What stands before the first measured cell says which row it is.
        named = [cell for cell in after[: first[0]] if isinstance(cell, str | int)] if first else []
        for i in first:
            other = before[i]
            if not isinstance(other, Ratio):
                continue
            words = ", ".join(str(cell) for cell in named)
            yield Pair(f"{new.name}: {words}: {new.columns[i].strip()}", other, after[i])


def report(old: Path, new: Path = RESULTS) -> bool:
    """Print how each pair compares; whether all of them agree."""
    before, after = ({table.name: table for table in load(each)} for each in (old, new))
    common = [name for name in after if name in before]
    if not common:
        raise ValueError(f"there is no table in both {old} and {new}")
    found = [pair for name in common for pair in pairs(before[name], after[name])]
    for pair in found:
        words = "agree" if pair.agree else "DIFFER"
        print(f"{words:6s}  {pair.apart:5.2f}  {pair.where}: {show(pair.old)}, {show(pair.new)}")
    different = sum(not pair.agree for pair in found)
    print(f"{len(found)} ratios in {len(common)} tables: {different} differ by more than spreads")
    for names, words in ((set(after) - set(before), old), (set(before) - set(after), new)):
        if names:
            print(f"not in {words}: {', '.join(sorted(names))}")
    return different == 0
