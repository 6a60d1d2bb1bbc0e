"""What the service stores, and the interface of its store.

There are two kinds of store: SQLite in a folder (:mod:`reticent.service.sqlite`), and a database shared by several
workers. The engine changes a store only in transactions with the methods of :class:`Transaction`; when the block of a
transaction ends without an error, everything in it is durable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class StreamRow:
    """A stream as it was created; all of it public."""

    id: int
    name: str
    specification: dict[str, Any]
    guarantee: dict[str, Any]
    ledger: str
    created: float
    epochs: int = 1
    closed: str = ""
    """Why the stream accepts no more records; empty while it accepts them."""


@dataclass(frozen=True)
class StateRow:
    """The current state of a stream: its encrypted state, and the number of the latest decision."""

    steps: int
    number: int
    sealed: bytes


@dataclass(frozen=True)
class OutputRow:
    """One published decision, as the bytes that every reader gets."""

    number: int
    steps: int
    at: float
    body: bytes


@dataclass(frozen=True)
class Known:
    """What is stored about a key: a digest of the body that came with it, and the resulting decision."""

    digest: bytes
    number: int


@dataclass(frozen=True)
class Producer:
    """The last batch of a producer that numbers its batches."""

    sequence: int
    digest: bytes
    number: int
    records: int


@dataclass(frozen=True)
class LedgerRow:
    """A budget to which several releases are charged."""

    name: str
    budget: dict[str, Any]
    unit: str
    created: float
    closed: str = ""
    """Why the ledger accepts no more charges; empty while it accepts them."""


@dataclass(frozen=True)
class EntryRow:
    """One release that was charged to a ledger."""

    ledger: str
    at: str
    what: str
    guarantee: dict[str, Any]


@dataclass(frozen=True)
class TokenRow:
    """A token: its hash, its role, its streams (None: all), and its expiry (None: never)."""

    id: str
    hash: bytes
    role: str
    label: str
    streams: list[str] | None
    created: float
    expires: float | None


@dataclass(frozen=True)
class TableRow:
    """A table to which the service may fit models: a folder that an administrator named."""

    name: str
    path: str
    schema: dict[str, Any]
    created: float


@dataclass(frozen=True)
class JobRow:
    """A fit of a table.

    ``status`` is one of waiting, running, done, failed, cancelled; ``result`` is the model file, which the
    guarantee covers.
    """

    id: str
    table: str
    request: dict[str, Any]
    status: str
    detail: str
    created: float
    result: bytes | None = None


@dataclass(frozen=True)
class LogRow:
    """An entry of an append-only log, with a hash that covers all earlier entries."""

    number: int
    at: float
    body: bytes
    hash: bytes


class Reading(Protocol):
    """What can be read, inside or outside a transaction."""

    def about(self) -> dict[str, str]:
        """Facts about the store as a whole, by name."""

    def fact(self, name: str) -> str | None:
        """One fact about the store as a whole."""

    def charges(self) -> int:
        """The number of charges to all ledgers together."""

    def streams(self) -> list[StreamRow]:
        """Every stream, by name."""

    def stream(self, name: str) -> StreamRow | None:
        """One stream."""

    def state(self, stream: int) -> StateRow | None:
        """The current state of a stream."""

    def latest(self) -> dict[str, int]:
        """The number of the latest decision of every stream that was not deleted, by name."""

    def persons(self, stream: int) -> list[tuple[int, int, bytes]]:
        """The parts of the table of persons of a stream, in order: generation, number and sealed rows."""

    def output(self, stream: int, number: int) -> OutputRow | None:
        """A published decision."""

    def ledgers(self) -> list[LedgerRow]:
        """Every ledger, by name."""

    def entries(self, ledger: str) -> list[EntryRow]:
        """The charges to a ledger, in order."""

    def tables(self) -> list[TableRow]:
        """Every table, by name."""

    def jobs(self) -> list[JobRow]:
        """Every job, the oldest first, without results."""

    def job(self, identity: str) -> JobRow | None:
        """One job."""

    def tokens(self) -> list[TokenRow]:
        """Every token that was not revoked."""

    def position(self, source: str) -> tuple[str, str]:
        """The position up to which a source was read, and its stream; empty at the beginning."""

    def chains(self) -> list[int]:
        """The existing logs: that of each stream, by its id, and 0 for administrative acts."""

    def log_head(self, chain: int) -> LogRow | None:
        """The last entry of a log."""

    def log(self, chain: int, first: int, most: int) -> list[LogRow]:
        """Entries of a log from a number on, in order."""


class Transaction(Reading, Protocol):
    """What can be written, completely or not at all."""

    charged: bool
    """Whether the transaction has charged a ledger."""

    def step(self) -> AbstractContextManager[None]:
        """A part of the transaction: if the block raises, what it wrote is undone."""

    def unwritten(self) -> AbstractContextManager[None]:
        """A part that raises before it writes, so that nothing need be undone; otherwise a RuntimeError is raised."""

    def changed(self) -> bool:
        """Whether the transaction has written anything."""

    def alone(self) -> None:
        """Wait until no other transaction changes what all streams share: ledgers, names, tokens, jobs."""

    def hold(self, name: str, token: int) -> None:
        """Hold a lease until the transaction ends; raises :class:`LeaseLost` if it is no longer the caller's."""

    def mark(self) -> int:
        """The number of this transaction, larger than that of every transaction committed before it here."""

    def set_about(self, name: str, value: str) -> None:
        """Set a fact about the store as a whole."""

    def add_stream(self, row: StreamRow) -> int:
        """Add a stream, whose ``id`` is ignored, and return its id."""

    def set_stream(self, row: StreamRow) -> None:
        """Replace the facts of a stream."""

    def erase(self, stream: int) -> None:
        """Delete the state, decisions and keys of a stream; its own row stays."""

    def save(self, stream: int, row: StateRow) -> None:
        """Replace the state of a stream."""

    def add_persons(self, stream: int, generation: int, part: int, sealed: bytes) -> None:
        """Add a part to the table of persons of a stream, or replace it."""

    def clear_persons(self, stream: int) -> None:
        """Delete the table of persons of a stream."""

    def add_outputs(self, stream: int, rows: Iterable[OutputRow]) -> None:
        """Add decisions that will be published when the transaction ends."""

    def known(self, stream: int, keys: Sequence[bytes]) -> dict[bytes, Known]:
        """What is stored about those of the keys that are remembered."""

    def remember_new(
        self, stream: int, keys: Sequence[bytes], digests: Sequence[bytes], number: int
    ) -> bool:
        """Remember keys that lead to a decision; False, and nothing is remembered, if one is known already."""

    def forget(self, stream: int, low: bytes, high: bytes) -> int:
        """Forget the keys in [low, high), and return how many there were."""

    def producer(self, stream: int, producer: bytes) -> Producer | None:
        """The last batch of a producer."""

    def set_producer(self, stream: int, producer: bytes, row: Producer) -> None:
        """Replace the last batch of a producer."""

    def add_ledger(self, row: LedgerRow) -> None:
        """Add a ledger."""

    def set_ledger(self, row: LedgerRow) -> None:
        """Replace the facts of a ledger."""

    def add_entry(self, row: EntryRow) -> None:
        """Charge a ledger."""

    def add_table(self, row: TableRow) -> None:
        """Add a table."""

    def set_job(self, row: JobRow) -> None:
        """Add a job, or replace what is known of it."""

    def add_token(self, row: TokenRow) -> None:
        """Add a token."""

    def remove_token(self, identity: str) -> bool:
        """Revoke a token; False if there is none."""

    def set_position(self, source: str, stream: str, position: str) -> None:
        """Record the position up to which a source was read, and its stream."""

    def add_log(self, chain: int, rows: Iterable[LogRow]) -> None:
        """Append to a log."""


class ServiceStore(Protocol):
    """The storage of a service."""

    def read(self) -> AbstractContextManager[Reading]:
        """Committed data, for reading; never what a transaction in progress has written."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """A transaction: durable when the block ends, undone if it raises. One at a time."""

    def close(self) -> None:
        """Close the store."""


class StoreFailed(Exception):
    """A transaction failed, as far as is known.

    Parameters
    ----------
    reason : str
        Error message of the database.
    full : bool
        Whether there is no space left. Default: False.
    unknown : bool
        Whether it may have been committed nevertheless, because the connection was lost. Default: False.
    """

    def __init__(self, reason: str, *, full: bool = False, unknown: bool = False) -> None:
        super().__init__(reason)
        self.full, self.unknown = full, unknown


class LeaseLost(Exception):
    """Another worker writes this stream now."""


class StoreError(ValueError):
    """A store that cannot be used as it is; the message says what to do."""
