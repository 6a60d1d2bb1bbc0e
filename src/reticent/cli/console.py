"""The output of a command: notes and progress on standard error, results on standard output.

Standard output holds only the result, so that a command works in a pipe. Messages for people go to standard error, and
are omitted in a quiet run.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any


class Console:
    """Where messages and results are printed.

    Parameters
    ----------
    quiet
        Whether to omit notes, progress and summary; a result is then printed only as JSON.
    as_json
        Whether to print the result as one JSON object.
    """

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet = quiet
        self.as_json = as_json
        if quiet or as_json:  # no message about compiling either
            logging.getLogger("reticent.compile").setLevel(logging.ERROR)

    def note(self, words: str) -> None:
        """Print a sentence for a person, unless the run is quiet."""
        if not self.quiet:
            print(words, file=sys.stderr, flush=True)

    def warn(self, words: str) -> None:
        """Print a sentence that must be seen, even in a quiet run."""
        print(f"reticent: warning: {words}", file=sys.stderr, flush=True)

    def result(self, data: dict[str, Any], words: str) -> None:
        """Print the result: as JSON if requested, otherwise as text unless the run is quiet."""
        if self.as_json:
            print(json.dumps(data, allow_nan=False), flush=True)
        elif not self.quiet and words:
            print(words, flush=True)

    @property
    def watched(self) -> bool:
        """Whether standard error is a terminal that a person watches."""
        return not self.quiet and sys.stderr.isatty()

    def starting(self) -> Rate:
        """A progress line for the seconds in which Python imports what a command needs."""
        return Rate("starting", None, shown=self.watched)


def table(rows: Sequence[Sequence[str]], *, indent: str = "") -> str:
    """Rows of text in aligned columns; columns of numbers are aligned to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    right = [all(_numeric(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if numbers else cell.ljust(width)
            for cell, width, numbers in zip(row, widths, right, strict=True)
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _numeric(cell: str) -> bool:
    return re.fullmatch(r"[+-]?[\d.,]+(e[+-]?\d+)?%?", cell) is not None


class Rate:
    """A progress line with records and records per second.

    Parameters
    ----------
    label
        Text of the line.
    size
        Number of records, if it is known; if not, the line disappears at the end.
    shown
        Whether to draw the line.
    done
        Number of records that were processed before.
    """

    def __init__(self, label: str, size: int | None, *, shown: bool, done: int = 0) -> None:
        self.label, self.size, self.shown = label, size, shown
        self.start, self.before, self.done = time.perf_counter(), done, done
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Rate:
        if self.shown:
            from rich import progress
            from rich.console import Console as Rich

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(bar_width=30),
                progress.TextColumn("{task.fields[words]}"),
                progress.TimeElapsedColumn(),
                console=Rich(stderr=True),
                transient=self.size is None,
            )
            self._bar.start()
            self._task = self._bar.add_task(
                self.label, total=self.size, completed=self.done, words=""
            )
        return self

    @property
    def per_second(self) -> float:
        return (self.done - self.before) / max(1e-9, time.perf_counter() - self.start)

    def at(self, done: int) -> None:
        """Show that ``done`` records have been processed."""
        self.done = done
        if self._bar is not None:
            total = "" if self.size is None else f" of {self.size:,}"
            words = f"{done:,}{total} records, {self.per_second:,.0f}/s"
            self._bar.update(self._task, completed=done, words=words)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
