"""A polite stop: the first Ctrl-C or SIGTERM asks, the second one insists.

Nothing is raised from the handler. Whoever works in steps looks at ``asked`` between them, so a
stop never falls into the middle of an update.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType, TracebackType
from typing import Any


class Stopper:
    """A context in which SIGINT and SIGTERM set a flag.

    Examples
    --------
    >>> import os, signal
    >>> with Stopper(note="") as stopper:
    ...     os.kill(os.getpid(), signal.SIGTERM)
    ...     print(stopper.asked, stopper.status)
    True 143
    """

    def __init__(self, note: str) -> None:
        self.asked = False
        self.status = 0
        self._note = note
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopper:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked, self.status = True, 128 + number
        # from now on as if this context were not there
        for each, handler in self._before.items():
            signal.signal(each, handler)
        if self._note:
            sys.stderr.write(f"\n{self._note}\n")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
