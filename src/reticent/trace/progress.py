"""A progress line for long runs, on standard error.

It shows how fast records are consumed, which is not secret, and never anything that was computed from them.

Considered: tqdm; rich is already a dependency, for tables.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any


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
