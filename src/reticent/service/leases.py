"""Which worker writes which stream: leases in the store, each with a token that grows whenever it changes hands.

A worker takes the lease of a stream with the first request for it, renews all its leases a few times within their
length, and checks the token of a stream inside every transaction that moves it. So a worker that lost its lease,
however long it slept, writes nothing: the token is another one. When a worker dies its leases run out, and whoever
is asked next takes them, from the state that was committed last. Clocks of workers decide nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from reticent.service.engine import Turn
from reticent.service.store import LeaseLost

LENGTH = 6.0
"""Seconds that a lease lasts if it is not renewed."""

JOBS = " jobs"
"""The lease of whoever runs fits of tables; no stream can be called this."""


class Leases:
    """The leases of one worker.

    Parameters
    ----------
    worker : str
        Its id, another one at every start.
    address : str
        Where other workers reach it, such as ``http://10.0.0.3:8080``.
    seconds : float
        How long a lease lasts without being renewed.
    """

    def __init__(self, worker: str, address: str, seconds: float = LENGTH) -> None:
        self.worker, self.address, self.seconds = worker, address, seconds
        self._tokens: dict[str, int] = {}
        self._renewed = time.monotonic()

    def holds(self, name: str) -> bool:
        """Whether a lease was the worker's when it last looked, which was not long ago."""
        return name in self._tokens and time.monotonic() - self._renewed < self.seconds

    def held(self) -> list[str]:
        """The names of all leases."""
        return [name for name in self._tokens if self.holds(name)]

    def token(self, name: str) -> int:
        """What a transaction checks."""
        found = self._tokens.get(name)
        if found is None:
            raise LeaseLost(name)
        return found

    def took(self, name: str, token: int) -> None:
        """A lease was taken, durably."""
        self._tokens[name] = token

    def lost(self, name: str) -> None:
        """A lease is not the worker's any more."""
        self._tokens.pop(name, None)

    def kept(self, found: dict[str, int]) -> list[str]:
        """Leases were renewed; the names of those that were lost."""
        self._renewed = time.monotonic()
        gone = [name for name, token in self._tokens.items() if found.get(name) != token]
        for name in gone:
            self.lost(name)
        return gone


@dataclass(frozen=True)
class Claim:
    """Take the lease of a stream."""

    stream: str
    leases: Leases

    def apply(self, turn: Turn) -> Any:
        """The outcome as the store says it."""
        mine = self.leases
        rows: Any = turn.rows
        found = rows.claim(self.stream, mine.worker, mine.address, mine.seconds)
        if found.token is not None:
            turn.taken[self.stream] = found.token
        return found


@dataclass(frozen=True)
class Renew:
    """Renew every lease of a worker, its own existence included."""

    leases: Leases
    stream: str = ""

    def apply(self, turn: Turn) -> None:
        """Streams whose leases were lost are dropped when the transaction has ended."""
        mine = self.leases
        rows: Any = turn.rows
        rows.claim(f" worker {mine.worker}", mine.worker, mine.address, mine.seconds)
        turn.renewed = rows.renew(mine.worker, mine.seconds)


@dataclass(frozen=True)
class Release:
    """Let everyone have the leases of a worker that stops."""

    leases: Leases
    stream: str = ""

    def apply(self, turn: Turn) -> None:
        """All of them."""
        rows: Any = turn.rows
        rows.release(self.leases.worker)
        turn.renewed = {}
