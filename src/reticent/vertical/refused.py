"""The refusal of a request: raised anywhere below :meth:`Party.handle`, which turns it into a message.

The text is sent to the coordinator, so it may mention the plan and the coordinator's own numbers, but nothing that was
read from a record.
"""

from __future__ import annotations


class RequestRefused(Exception):
    """One of the reasons of :class:`reticent.vertical.messages.Refusal`, and a sentence."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
