"""How a command reports a refusal: one sentence for the user, and an exit status for scripts.

A message never quotes a cell of a record, because standard error often ends up in logs that no guarantee covers.
"""

from __future__ import annotations

FAILED = 1  # the command ran, and a claim was refuted or a check failed
MISUSED = 2  # arguments, files or records cannot be used
UNFORESEEN = 70  # a bug in Reticent


class Refused(Exception):
    """The request cannot be carried out; the message says what to change.

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
