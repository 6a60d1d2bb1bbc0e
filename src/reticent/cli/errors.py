"""How a command says no: one sentence for the person at the keyboard, one exit status for the script.

A sentence never quotes a cell of a record. It goes to standard error, and from there to logs that
outlive the promise.
"""

from __future__ import annotations

FAILED = 1  # the command ran, and the answer is no
MISUSED = 2  # arguments, files or records that cannot be used
UNFORESEEN = 70  # a fault of ours


class Refused(Exception):
    """What was asked for cannot be done; the message says what to change.

    Parameters
    ----------
    message
        One sentence, without a full stop at the end.
    status
        The exit status.
    """

    def __init__(self, message: str, status: int = MISUSED) -> None:
        super().__init__(message)
        self.status = status
