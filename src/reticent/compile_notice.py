"""Explain, once and after a second of compiling, why a first call is slow.

The message is a warning of the logger ``reticent.compile``. Python writes it to standard error unless the program
has configured logging; ``logging.getLogger("reticent.compile").setLevel("ERROR")`` silences it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from numba.core import event

PATIENCE = 1.0
"""Seconds of compiling before the message is shown."""
logger = logging.getLogger("reticent.compile")


class CompileWatch(event.Listener):
    """Listen to numba's compiler, which compiles one kernel (and those that it calls) at a time.

    Parameters
    ----------
    folder
        Function that returns the folder in which compiled kernels are kept, or None if they are not kept.
    """

    def __init__(self, folder: Callable[[], Path | None]) -> None:
        self._folder = folder
        self._depth, self._spent, self._said = 0, 0.0, False
        self._started = 0.0
        self._timer: threading.Timer | None = None

    def on_start(self, event: event.Event) -> None:
        if self._said or not event.data["dispatcher"].__module__.startswith("reticent."):
            return
        self._depth += 1
        if self._depth == 1:
            self._started = time.monotonic()
            self._timer = threading.Timer(max(0.0, PATIENCE - self._spent), self._say)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: event.Event) -> None:
        if self._timer is None or not event.data["dispatcher"].__module__.startswith("reticent."):
            return
        self._depth -= 1
        if self._depth == 0:
            self._timer.cancel()
            self._timer = None
            self._spent += time.monotonic() - self._started

    def _say(self) -> None:
        self._said = True
        folder = self._folder()
        if folder is None:
            after = (
                "no folder was found to keep the result in, so every new process compiles again; "
                "set NUMBA_CACHE_DIR to a folder that only this user can write to"
            )
        else:
            after = f"the result is kept in {folder}, and later processes start at once"
        logger.warning("reticent: compiling for this processor, which can take a minute; %s", after)


def watch(folder: Callable[[], Path | None]) -> None:
    """Show the message for everything that is compiled from now on.

    Parameters
    ----------
    folder
        Function that returns the folder in which compiled kernels are kept, or None if they are not kept.
    """
    event.register("numba:compile", CompileWatch(folder))
