"""Which worker writes which stream: leases in the store, each with a token that increases whenever it changes hands.

A worker takes the lease of a stream with the first request for it, renews all its leases several times within their
duration, and checks the token of a stream in every transaction that advances it. So a worker that lost its lease,
however long it was suspended, writes nothing, because the token has changed. When a worker dies its leases expire, and
the worker that gets the next request takes them, from the last committed state. The clocks of workers decide nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from reticent.service.engine import Turn
from reticent.service.store import LeaseLost

LENGTH = 6.0
"""Seconds for which a lease lasts without renewal."""

JOBS = " jobs"
"""Lease of the worker that runs fits of tables; no stream can have this name."""


class Leases:
    """The leases of one worker.

    Parameters
    ----------
    worker : str
        Id of the worker, different at every start.
    address : str
        Address at which other workers reach it, such as ``http://10.0.0.3:8080``.
    seconds : float
        Duration of a lease without renewal.
    """

    def __init__(self, worker: str, address: str, seconds: float = LENGTH) -> None:
        self.worker, self.address, self.seconds = worker, address, seconds
        self._tokens: dict[str, int] = {}
        self._renewed = time.monotonic()

    def holds(self, name: str) -> bool:
        """Whether the worker held the lease at its last check, if that was recent."""
        return name in self._tokens and time.monotonic() - self._renewed < self.seconds

    def held(self) -> list[str]:
        """The names of all streams whose lease the worker holds."""
        return [name for name in self._tokens if self.holds(name)]

    def token(self, name: str) -> int:
        """The fencing token that a transaction must check."""
        found = self._tokens.get(name)
        if found is None:
            raise LeaseLost(name)
        return found

    def took(self, name: str, token: int) -> None:
        """Record a lease that was taken durably."""
        self._tokens[name] = token

    def lost(self, name: str) -> None:
        """Forget a lease that was lost."""
        self._tokens.pop(name, None)

    def kept(self, found: dict[str, int]) -> list[str]:
        """Record renewed leases; returns the names of those that were lost."""
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
        """Take the lease, or return who holds it."""
        mine = self.leases
        rows: Any = turn.rows
        found = rows.claim(self.stream, mine.worker, mine.address, mine.seconds)
        if found.token is not None:
            turn.taken[self.stream] = found.token
        return found


@dataclass(frozen=True)
class Renew:
    """Renew every lease of a worker, and its registration."""

    leases: Leases
    stream: str = ""

    def apply(self, turn: Turn) -> None:
        """Renew them; streams whose leases were lost are dropped after the transaction."""
        mine = self.leases
        rows: Any = turn.rows
        rows.claim(f" worker {mine.worker}", mine.worker, mine.address, mine.seconds)
        turn.renewed = rows.renew(mine.worker, mine.seconds)


@dataclass(frozen=True)
class ReleaseLeases:
    """Release the leases of a worker that stops."""

    leases: Leases
    stream: str = ""

    def apply(self, turn: Turn) -> None:
        """Release all of them."""
        rows: Any = turn.rows
        rows.release(self.leases.worker)
        turn.renewed = {}
