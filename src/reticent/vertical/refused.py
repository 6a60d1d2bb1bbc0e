"""Why a party does not answer: raised anywhere below :meth:`Party.handle`, which makes a message of it.

The text travels to the coordinator, so it may name the plan and the coordinator's own numbers, and
nothing that was read from a record.
"""

from __future__ import annotations


class RequestRefused(Exception):
    """One of the reasons of :class:`reticent.vertical.messages.Refusal`, and a sentence."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
