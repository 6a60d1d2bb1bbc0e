"""The record of one run of a solver: a few numbers for each step, in bounded memory; and a progress line.

All solvers use one type, as in the callback states of FrankWolfe.jl, so that tables and plots need to know only one.
The guarantee covers ``columns`` and ``settings``, which are computed from what was released or is public. It does not
cover ``diagnostics`` and ``facts``, which are computed from private records, nor ``seconds``. The progress line shows
how fast records are consumed, which is not secret, and never anything that was computed from them.

Considered for the line: tqdm; rich is already a dependency, for tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent import html_tables
from reticent.checks import FloatArray, integer

NOT_PRIVATE = "diagnostic: read off the records, not covered by the guarantee"


@dataclass(frozen=True, eq=False)
class Moment:
    """What a callback sees of one step.

    Attributes
    ----------
    solver : str
        Name of the solver.
    step : int
        Number of this step (1, 2, ...).
    steps : int
        Number of steps that are planned.
    point : array
        The iterate. Every iterate that a callback sees is covered by the guarantee.
    values : dict
        Numbers of this step that the guarantee covers.
    diagnostics : dict
        Numbers of this step that are computed from private records.
    """

    solver: str
    step: int
    steps: int
    point: FloatArray
    values: Mapping[str, float]
    diagnostics: Mapping[str, float]


Callback = Callable[[Moment], object]
"""Called after each step; returning ``True`` stops the run."""


@dataclass(frozen=True, eq=False)
class Trace:
    """The record of a run of a solver.

    Attributes
    ----------
    solver : str
        Name of the solver.
    settings : dict
        What it ran with, chosen by the user or by theory without reading any record.
    steps : array of int
        Numbers of the steps that were recorded.
    seconds : array
        Time from the start of the run to the end of each of them. It depends on the records too, which no guarantee
        covers.
    columns : dict of arrays
        Numbers of these steps that the guarantee covers.
    diagnostics : dict of arrays
        Numbers of these steps that are computed from private records.
    facts : dict
        What was found out about the records, such as how many were clipped. Not private.
    finished : bool
        Whether all planned steps were taken.

    Examples
    --------
    >>> with Recorder("example", steps=4, settings={"step size": 0.5}) as recorder:
    ...     for step in range(1, 5):
    ...         _ = recorder.note(step, np.zeros(2), {"length": 1.0 / step})
    >>> trace = recorder.close()
    >>> trace.columns["length"].tolist(), trace.finished
    ([1.0, 0.5, 0.3333333333333333, 0.25], True)
    """

    solver: str
    settings: Mapping[str, object]
    steps: NDArray[np.int64]
    seconds: FloatArray
    columns: Mapping[str, FloatArray]
    diagnostics: Mapping[str, FloatArray]
    facts: Mapping[str, object] = field(default_factory=dict)
    finished: bool = True

    @property
    def total_seconds(self) -> float:
        """Duration of the run."""
        return float(self.seconds[-1]) if len(self.seconds) else 0.0

    def table(self, rows: int = 12) -> str:
        """Some of the steps as aligned text, with the diagnostics marked.

        Parameters
        ----------
        rows : int
            Largest number of steps to show.
        """
        rows = integer(rows, "rows", low=2)
        names = ["step", "seconds", *self.columns, *(f"{name} *" for name in self.diagnostics)]
        data = [self.seconds, *self.columns.values(), *self.diagnostics.values()]
        count = len(self.steps)
        chosen = np.unique(np.linspace(0, count - 1, min(rows, count)).astype(int))
        lines = [names]
        for i in chosen.tolist():
            lines.append([str(self.steps[i]), *(f"{column[i]:.4g}" for column in data)])
        widths = [max(len(line[k]) for line in lines) for k in range(len(names))]
        text = [
            "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True))
            for line in lines
        ]
        if self.diagnostics:
            text.append(f"* {NOT_PRIVATE}")
        return "\n".join(text)

    def __repr__(self) -> str:
        steps = f"{len(self.steps)} steps noted" if len(self.steps) else "one step"
        return f"<Trace: {self.solver}, {steps}, {self.total_seconds:.3g} s>"

    def _repr_html_(self) -> str:
        return html_tables.block(str(self))

    def __str__(self) -> str:
        ending = "" if self.finished else ", stopped before the last step"
        lines = [f"{self.solver}: {self.total_seconds:.3g} s{ending}"]
        lines += [f"  {name}: {_short(value)}" for name, value in self.settings.items()]
        lines += [f"  {name}: {_short(value)} *" for name, value in self.facts.items()]
        if len(self.steps):
            lines.append(self.table())
        if self.facts and not (len(self.steps) and self.diagnostics):
            lines.append(f"* {NOT_PRIVATE}")
        return "\n".join(lines)


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class Recorder:
    """Record a solver's run, show its progress, and ask the callback whether to go on.

    Parameters
    ----------
    solver : str
        Name of the solver.
    steps : int
        Number of steps that are planned.
    settings : mapping, optional
        The settings that the trace will state.
    callback : callable, optional
        Called with a :class:`Moment` after each step.
    progress : bool
        Whether to show a progress line on standard error.
    keep : int
        Approximate number of steps to record; the first and the last are always recorded.
    """

    def __init__(
        self,
        solver: str,
        *,
        steps: int,
        settings: Mapping[str, object] | None = None,
        callback: Callback | None = None,
        progress: bool = False,
        keep: int = 1000,
    ) -> None:
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be callable with a Moment, got {callback!r}")
        self.solver = solver
        self.steps = integer(steps, "steps", low=1)
        self.settings = dict(settings or {})
        self.facts: dict[str, object] = {}
        self._callback = callback
        self._progress = Progress(solver, self.steps, bool(progress))
        self._every = max(1, self.steps // integer(keep, "keep", low=1))
        self._numbers: list[int] = []
        self._seconds: list[float] = []
        self._rows: list[tuple[dict[str, float], dict[str, float]]] = []
        self._last = 0
        self._start = time.perf_counter()

    def __enter__(self) -> Recorder:
        self._progress.__enter__()
        self._start = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.__exit__(kind, error, traceback)

    def wants(self, step: int) -> bool:
        """Whether this step will be recorded or shown to a callback, so that its diagnostics are worth computing.

        Parameters
        ----------
        step : int
            Number of the step.
        """
        return self._callback is not None or self._kept(step)

    def _kept(self, step: int) -> bool:
        return step % self._every == 0 or step in (1, self.steps)

    def note(
        self,
        step: int,
        point: FloatArray,
        values: Mapping[str, float] | None = None,
        diagnostics: Mapping[str, float] | None = None,
    ) -> bool:
        """Record one step, and return whether the callback asks to stop.

        Parameters
        ----------
        step : int
            Number of the step.
        point : array
            The iterate; the callback gets a copy.
        values : mapping, optional
            Numbers that the guarantee covers.
        diagnostics : mapping, optional
            Numbers that are computed from private records.
        """
        self._progress.advance(step - self._last)
        self._last = step
        values, diagnostics = dict(values or {}), dict(diagnostics or {})
        stop = False
        if self._callback is not None:
            moment = Moment(self.solver, step, self.steps, point.copy(), values, diagnostics)
            stop = self._callback(moment) is True
        if self._kept(step) or stop:
            self._numbers.append(step)
            self._seconds.append(time.perf_counter() - self._start)
            self._rows.append((values, diagnostics))
        return stop

    def close(self) -> Trace:
        """The finished record of the run."""
        columns, diagnostics = (
            {name: np.array([row[k].get(name, np.nan) for row in self._rows]) for name in names}
            for k, names in enumerate(self._names())
        )
        seconds = self._seconds or [time.perf_counter() - self._start]
        return Trace(
            self.solver,
            self.settings,
            np.array(self._numbers, np.int64),
            np.array(seconds[: max(1, len(self._numbers))]),
            columns,
            diagnostics,
            self.facts,
            self._last >= self.steps,
        )

    def _names(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return (
            {name: None for row in self._rows for name in row[0]},
            {name: None for row in self._rows for name in row[1]},
        )


class Progress:
    """Context manager that counts records and, if ``shown``, draws a progress line.

    Parameters
    ----------
    label : str
        What is running.
    size : int, optional
        Number of records, if it is known.
    shown : bool
        Whether to draw anything at all.

    Examples
    --------
    >>> with Progress("learning", size=10, shown=False) as progress:
    ...     progress.advance(4)
    >>> progress.done
    4
    """

    def __init__(self, label: str, size: int | None = None, shown: bool = False) -> None:
        self.label = label
        self.size = size
        self.shown = shown
        self.done = 0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if self.shown:
            from rich import progress
            from rich.console import Console

            columns = (
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeElapsedColumn(),
            )
            self._bar = progress.Progress(*columns, console=Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=self.size)
        return self

    def advance(self, records: int) -> None:
        """Count further records.

        Parameters
        ----------
        records : int
            Number of records since the last call.
        """
        self.done += records
        if self._bar is not None:
            self._bar.update(self._task, advance=records)

    def resize(self, size: int) -> None:
        """Set the number of records, if it becomes known only now.

        Parameters
        ----------
        size : int
            Number of records.
        """
        self.size = size
        if self._bar is not None:
            self._bar.update(self._task, total=size)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
