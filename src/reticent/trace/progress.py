"""A progress line for long runs, on standard error, only where someone is looking.

Considered: tqdm; rich is already there for tables.

How fast a stream is consumed is not secret, but nothing that was read off the records is ever shown
here.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any


class Progress:
    """A context that counts records; silent unless ``shown``.

    Parameters
    ----------
    label
        What is running.
    size
        How many records there will be, if that is known.
    shown
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
        self.done += records
        if self._bar is not None:
            self._bar.update(self._task, advance=records)

    def resize(self, size: int) -> None:
        """How many there will be, where that is known only now."""
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
