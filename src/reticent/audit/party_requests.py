"""Requests to a real party of the feature-distributed protocol, for attacks and white-box lines."""

from __future__ import annotations

from typing import Any

from reticent.privacy import Entry, Guarantee, Ledger
from reticent.vertical import Party, messages


class GenerousLedger(Ledger):
    """A ledger that accepts every charge, because the messages are audited and not the accounting."""

    def spend(self, guarantee: Guarantee, what: str) -> Entry:
        return Entry(what, guarantee, "")


def asked(party: Party, request: messages.Message) -> Any:
    """A party's answer to a request; a refusal is an error."""
    answer = messages.decode(party.handle(request.encode()))
    if isinstance(answer, messages.Refusal):
        raise RuntimeError(f"request {request.sequence} was refused: {answer.text}")
    return answer
