"""Attack everything, and summarise the results in one table.

The false-alarm probability is that of the whole table. Each attack gets its share, so a single refuted claim is refuted
with that confidence.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from reticent.audit import extras, registry, whitebox_cases
from reticent.audit.finding import Finding
from reticent.audit.recompute import Agreement
from reticent.audit.recompute import guarantee as recompute
from reticent.audit.whitebox import Exact
from reticent.checks import fraction, integer
from reticent.trace.sweep import sweep

COLUMNS = ("algorithm", "setting", "claimed", "found", "share", "notices", "recomputed", "verdict")

# Largest number of runs of each world, and approximate seconds of processor time for one attack.
_QUICK, _QUICK_SECONDS = 50_000, 1.5
_FULL, _FULL_SECONDS = 1_000_000, 25.0


@dataclass(frozen=True)
class Line:
    """One audit line: an algorithm in one setting.

    Attributes
    ----------
    name
        Name of the worst case, or of the family of white-box lines.
    setting
        The setting, in words.
    finding
        The result of the attack, or the exact loss.
    agreement
        The recomputed guarantee, if it was recomputed.
    seconds
        Processor time of the line.
    """

    name: str
    setting: str
    finding: Finding | Exact
    agreement: Agreement | None = None
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the claim survived the attack and the recomputation."""
        return self.finding.holds and (self.agreement is None or self.agreement.holds)

    @property
    def verdict(self) -> str:
        """``"holds"``, ``"REFUTED"``, ``"RECOMPUTED OTHERWISE"``, or ``"no power"`` below half of the claim."""
        if self.finding.holds and not self.holds:
            return "RECOMPUTED OTHERWISE"
        return self.finding.verdict

    def cells(self) -> tuple[str, ...]:
        """One text per column."""
        found, again = self.finding, None if self.agreement is None else self.agreement.epsilon
        claimed = "" if found.claimed is None else f"{found.claimed:.4g}"
        share = "" if found.tightness is None else f"{found.tightness:.2f}"
        notices = "" if math.isinf(found.fault) else f"noise / {max(found.fault, 1.001):.3g}"
        if isinstance(found, Finding) and found.control:
            notices = found.control
        return (
            self.name,
            self.setting,
            claimed,
            f"{found.epsilon:.4g}",
            share,
            notices,
            "" if again is None else f"{again:.4g}",
            self.verdict,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        again = self.agreement
        return {
            "name": self.name,
            "setting": self.setting,
            "holds": self.holds,
            "verdict": self.verdict,
            "seconds": self.seconds,
            "finding": self.finding.to_dict(),
            "recomputed": None if again is None else again.epsilon,
            "recomputation": [] if again is None else [str(row) for row in again.rows],
        }


@dataclass(frozen=True)
class Report:
    """The results of an audit.

    Attributes
    ----------
    lines
        One entry per row of the table.
    false_alarm
        Upper bound on the probability that anything in the report is refuted although it is true.
    seconds
        Duration of the audit.
    columns
        Titles of the table's columns.
    """

    lines: tuple[Line, ...]
    false_alarm: float
    seconds: float
    columns: tuple[str, ...] = field(default=COLUMNS)

    @property
    def holds(self) -> bool:
        """Whether every claim survived."""
        return all(line.holds for line in self.lines)

    @property
    def refuted(self) -> tuple[Line, ...]:
        """The lines whose claims were refuted."""
        return tuple(line for line in self.lines if not line.holds)

    def rows(self) -> list[tuple[str, ...]]:
        """The table's cells as text."""
        return [line.cells() for line in self.lines]

    def table(self) -> str:
        """The table in plain text."""
        rows = [self.columns, *self.rows()]
        widths = [max(len(row[k]) for row in rows) for k in range(len(self.columns))]
        words = range(2)  # the columns of words; the others are numbers, except for the verdict
        lines = []
        for row in rows:
            cells = [
                cell.ljust(width) if k in words or k == len(widths) - 1 else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(cells).rstrip())
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join(lines)

    def __str__(self) -> str:
        count = len(self.lines)
        weak = sum(line.verdict == "no power" for line in self.lines)
        verdict = "all claims hold"
        if not self.holds:
            verdict = f"{len(self.refuted)} of {count} claims refuted"
        elif weak:
            verdict = f"no claim refuted, but {weak} of {count} attacks had no power"
        return (
            f"{self.table()}\n\n{count} attacks in {self.seconds:.0f} s: {verdict}; "
            f"a false alarm anywhere has probability at most {self.false_alarm:g}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON and for the HTML page."""
        return {
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows()],
            "lines": [line.to_dict() for line in self.lines],
            "holds": self.holds,
            "false_alarm": self.false_alarm,
            "seconds": self.seconds,
        }


def run_all(
    quick: bool = True,
    *,
    names: Iterable[str] | None = None,
    runs: int | None = None,
    false_alarm: float = 1e-6,
    progress: bool = False,
    white_box: bool = True,
    jobs: int | None = 1,
    on: str | None = None,
) -> Report:
    """Attack every registered worst case, recompute every guarantee, compute exact losses, and test low-order bits.

    Parameters
    ----------
    quick
        Whether to take a few minutes, with up to 50,000 runs of each world and about one and a half seconds per attack;
        otherwise up to a million runs and 25 seconds.
    names
        Worst cases and families of white-box lines, by name (:func:`reticent.audit.names`,
        :func:`reticent.audit.white_box_names`). Default: all.
    runs
        Number of runs of each world, however long they take.
    false_alarm
        Upper bound on the probability that anything in the report is refuted although it is true.
    progress
        Whether to show the progress on standard error.
    white_box
        Whether the white-box lines are included by default.
    jobs
        Number of processes; None is the number of cores. Worst cases that this program registered are known to this
        process only.
    on
        Address of a Dask scheduler whose workers do the work instead.

    Returns
    -------
    Report
        One line per attack, white-box line and recomputation.


    Examples
    --------
    >>> report = run_all(names=["tree-laplace-plain"], runs=4000)
    >>> report.holds, len(report.lines)
    (True, 2)
    """
    alarm = fraction(false_alarm, "false_alarm")
    runs = None if runs is None else integer(runs, "runs", low=8)
    start = time.perf_counter()
    tasks = planned(quick, names, runs, alarm, white_box)
    lines = sweep(run_line, tasks, label="audit", jobs=jobs, on=on, shown=progress)
    return Report(tuple(lines), alarm, time.perf_counter() - start)


Task = tuple[str, str, Any, bool, int | None, float]
"""Arguments of :func:`run_line`: kind, name, setting, whether quick, runs, and probability of a false alarm."""


def planned(
    quick: bool,
    names: Iterable[str] | None = None,
    runs: int | None = None,
    alarm: float = 1e-6,
    white_box: bool = True,
) -> list[Task]:
    """The tasks of an audit, one per line, from the arguments of :func:`run_all`."""
    families = whitebox_cases.names() if white_box or names is not None else ()
    wanted = (*registry.names(), *families) if names is None else tuple(names)
    exact = [line for name in wanted if name in families for line in _exact_lines(name, quick)]
    attacked = [name for name in wanted if name not in families]
    pairs = [("pair", name, changes) for name in attacked for changes in registry.variants(name)]
    more = [("more", "", place) for place in range(len(_more()))] if names is None else []
    each = alarm / max(1, len(pairs) + len(more))
    # exact lines come first: they do not depend on chance
    return [(*which, quick, runs, each) for which in (*exact, *pairs, *more)]


def _exact_lines(name: str, quick: bool) -> list[tuple[str, str, int]]:
    """The lines of one white-box family, without the slow ones if ``quick``."""
    cases = enumerate(_exact(name))
    return [("exact", name, place) for place, case in cases if case.quick or not quick]


def title(kind: str, name: str, which: Any) -> tuple[str, str]:
    """The name and the setting of a line, for printing."""
    if kind == "exact":
        return name, _exact(name)[which].setting
    if kind == "more":
        return _more()[which][:2]
    return name, ", ".join(f"{key}={value}" for key, value in which.items())


@cache
def _exact(name: str) -> tuple[Any, ...]:
    return tuple(whitebox_cases.cases(name))


@cache
def _more() -> tuple[extras.Attack, ...]:
    return (*extras.last_bits(), *extras.many_canaries())


def run_line(kind: str, name: str, which: Any, quick: bool, runs: int | None, alarm: float) -> Line:
    """Compute one line, in this process."""
    if kind == "pair":
        return _attack(name, which, quick, runs, alarm)
    began = time.perf_counter()
    check = _exact(name)[which].check if kind == "exact" else partial(_more()[which][2], alarm)
    return Line(*title(kind, name, which), check(), seconds=time.perf_counter() - began)


def _attack(
    name: str, changes: dict[str, Any], quick: bool, runs: int | None, alarm: float
) -> Line:
    began = time.perf_counter()
    pair = registry.worst_case(name, **changes)
    limits = (_QUICK, _QUICK_SECONDS) if quick else (_FULL, _FULL_SECONDS)
    most, at_most = limits if runs is None else (runs, None)
    found = pair.bet(most, seconds=at_most, false_alarm=alarm)
    again = None if pair.subject is None else recompute(pair.subject, delta=pair.delta)
    seconds = time.perf_counter() - began
    return Line(*title("pair", name, changes), found, again, seconds)
