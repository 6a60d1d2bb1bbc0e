"""`reticent audit`: attack our own claims, print the table, write a page; exit with 1 if a claim is refuted.

Success means that no claim was refuted, not that all are proved; the proofs are on the pages under docs/algorithms/.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path
from runpy import run_path
from typing import Any

from reticent.cli.console import Console
from reticent.cli.errors import FAILED, Refused


def audit(
    names: list[str],
    *,
    full: bool,
    runs: int | None,
    jobs: int | None,
    on: str | None,
    out: Path | None,
    command: str,
    console: Console,
) -> int:
    """Run the command and return its exit status."""
    from reticent.audit import names as attacks
    from reticent.audit import run_all, white_box_names

    known = (*attacks(), *white_box_names())
    for name in names:
        if name not in known:
            raise Refused(f"{name!r} is not a worst case; the known ones are {', '.join(known)}")
    report = run_all(
        quick=not full, names=names or None, runs=runs, progress=console.watched, jobs=jobs, on=on
    )
    if out is not None:
        from reticent.report import Page

        page = Page("Audit of Reticent", f"{len(report.lines)} attacks in {report.seconds:.0f} s")
        page.text(
            "Each row attacks one algorithm on the worst pair of neighbouring inputs that is known, and "
            "recomputes its guarantee independently. All inputs are made up; no private data are used."
        )
        page.table(report.columns, report.rows())
        page.text(f"The probability of any false alarm is at most {report.false_alarm:g}.")
        page.heading("What an attacker can learn")
        page.text(
            "Misses against false alarms: the claimed curve, below which no attacker may get, and the "
            "measured one, with a confidence band for the whole curve. The closer the two curves, the "
            "better the attack."
        )
        for name, drawing in _curves(report.lines):
            page.figure(drawing, name)
        page.command(command)
        page.write(out)
        console.note(f"page: {out}")
    console.result(report.to_dict(), str(report))
    return 0 if report.holds else FAILED


def audit_mine(place: str, *, console: Console) -> int:
    """Print white-box audit lines of a user's own mechanism, and return the exit status."""
    from reticent.audit import Line, Report, white_box

    began = time.perf_counter()
    lines = []
    for k, (run, data, neighbour, claim) in enumerate(_cases(place), 1):
        found = white_box(run, data, neighbour, claim, name=place)
        lines.append(Line(place, f"pair {k}", found))
    report = Report(tuple(lines), 0.0, time.perf_counter() - began)
    console.result(report.to_dict(), str(report))
    return 0 if report.holds else FAILED


def _cases(place: str) -> list[tuple[Any, Any, Any, Any]]:
    """Call the named function and check what it returns."""
    where, _, name = place.rpartition(":")
    if not where or not name.isidentifier():
        raise Refused(
            f"--mine must be FILE.py:FUNCTION or MODULE:FUNCTION, got {place!r}, as in mine.py:cases"
        )
    try:
        space = vars(import_module(where)) if not where.endswith(".py") else run_path(where)
    except (ImportError, OSError) as error:
        raise Refused(f"{where} cannot be read: {error}") from None
    if not callable(space.get(name)):
        raise Refused(f"{where} has no function {name!r}")
    found = list(space[name]())
    if not found or not all(isinstance(item, tuple) and len(item) == 4 for item in found):
        raise Refused(
            f"{place} must return tuples (run, data, neighbour, claim), at least one; got {found!r}"
        )
    return found


def _curves(lines: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """The trade-offs of each algorithm, with its settings in one figure."""
    from reticent.plots.style import row

    drawn = [line for line in lines if line.finding.roc is not None]
    for name, group in groupby(drawn, key=lambda line: line.name):
        several = list(group)
        panels = row(len(several))
        for line, ax in zip(several, panels, strict=True):
            line.finding.plot(ax)
            ax.set_title(line.setting, fontsize=9)
        yield name, panels[0].figure
