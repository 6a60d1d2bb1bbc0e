"""The queries of the store, in the SQL that SQLite and PostgreSQL have in common, and the migrations of its tables.

A dialect is a connection with four operations (:class:`Connection`) and the few queries that differ
(:mod:`reticent.service.sqlite`, :mod:`reticent.service.postgres`). Considered: SQLAlchemy Core, a second language
between this file and a dozen tables, whose insert-or-update and bulk insert are written per dialect as well.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from reticent.service.store import (
    EntryRow,
    JobRow,
    Known,
    LedgerRow,
    LogRow,
    OutputRow,
    Producer,
    StateRow,
    StoreError,
    StreamRow,
    TableRow,
    TokenRow,
)

_MANY = 500  # largest number of keys in one query

MIGRATIONS = (
    # 1: the embedded store
    """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL){compact};
CREATE TABLE streams (
    id {serial}, name TEXT NOT NULL UNIQUE, specification TEXT NOT NULL, guarantee TEXT NOT NULL,
    ledger TEXT NOT NULL, created {real} NOT NULL, epochs {integer} NOT NULL, closed TEXT NOT NULL
);
CREATE TABLE states (
    stream {integer} PRIMARY KEY, steps {integer} NOT NULL, number {integer} NOT NULL,
    sealed {bytes} NOT NULL
);
CREATE TABLE outputs (
    stream {integer} NOT NULL, number {integer} NOT NULL, steps {integer} NOT NULL,
    at {real} NOT NULL, body {bytes} NOT NULL, PRIMARY KEY (stream, number)
){compact};
CREATE TABLE keys (
    stream {integer} NOT NULL, key {bytes} NOT NULL, digest {bytes} NOT NULL,
    number {integer} NOT NULL, PRIMARY KEY (stream, key)
){compact};
CREATE TABLE producers (
    stream {integer} NOT NULL, producer {bytes} NOT NULL, sequence {integer} NOT NULL,
    digest {bytes} NOT NULL, number {integer} NOT NULL, records {integer} NOT NULL,
    PRIMARY KEY (stream, producer)
){compact};
CREATE TABLE ledgers (
    name TEXT PRIMARY KEY, budget TEXT NOT NULL, unit TEXT NOT NULL, created {real} NOT NULL,
    closed TEXT NOT NULL
){compact};
CREATE TABLE entries (
    id {serial}, ledger TEXT NOT NULL, at TEXT NOT NULL, what TEXT NOT NULL, guarantee TEXT NOT NULL
);
CREATE INDEX entries_of_ledger ON entries (ledger, id);
CREATE TABLE tables (
    name TEXT PRIMARY KEY, path TEXT NOT NULL, schema TEXT NOT NULL, created {real} NOT NULL
){compact};
CREATE TABLE jobs (
    id TEXT PRIMARY KEY, "table" TEXT NOT NULL, request TEXT NOT NULL, status TEXT NOT NULL,
    detail TEXT NOT NULL, created {real} NOT NULL, result {bytes}
);
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, hash {bytes} NOT NULL, role TEXT NOT NULL, label TEXT NOT NULL,
    streams TEXT, created {real} NOT NULL, expires {real}
){compact}
""",
    # 2: a log beside what it is about, where sources stand, and who may write which stream
    """
CREATE TABLE log (
    chain {integer} NOT NULL, number {integer} NOT NULL, at {real} NOT NULL, body {bytes} NOT NULL,
    hash {bytes} NOT NULL, PRIMARY KEY (chain, number)
){compact};
CREATE TABLE sources (
    name TEXT PRIMARY KEY, stream TEXT NOT NULL, description TEXT NOT NULL, position TEXT NOT NULL
){compact};
CREATE TABLE leases (
    name TEXT PRIMARY KEY, worker TEXT NOT NULL, address TEXT NOT NULL, token {integer} NOT NULL,
    expires {real} NOT NULL
){compact}
""",
    # 3: tables of persons beside the states that they belong to
    """
CREATE TABLE persons (
    stream {integer} NOT NULL, generation {integer} NOT NULL, part {integer} NOT NULL,
    sealed {bytes} NOT NULL, PRIMARY KEY (stream, generation, part)
)
""",
)
FORMAT = str(len(MIGRATIONS))
TABLES = (
    "about", "streams", "states", "outputs", "keys", "producers", "ledgers", "entries", "tables", "jobs", "tokens",
    "log", "sources", "persons",
)  # fmt: skip
"""All tables of a service, except leases, which are about its workers."""


class Connection(Protocol):
    """A connection to a database, inside or outside a transaction."""

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows that a query returns."""

    def write(self, query: str, values: Sequence[Any] = ()) -> None:
        """Execute a change; an error may be raised as late as at the commit."""

    def write_many(self, query: str, values: Sequence[Sequence[Any]]) -> None:
        """Execute a change for many rows."""

    def count(self, query: str, values: Sequence[Any] = ()) -> int:
        """Execute a change, and return the number of rows that it affected."""


def migrate(
    connection: Connection, types: Mapping[str, str], found: str | None, where: str
) -> None:
    """Bring a database up to date, within a transaction that the caller began: completely or not at all.

    Parameters
    ----------
    connection : Connection
        A connection in a transaction.
    types : mapping
        The dialect's names for ``serial``, ``integer``, ``real`` and ``bytes``, and what makes a table ``compact``.
    found : str or None
        Format of the database; None if it is empty.
    where : str
        Name of the database in error messages.
    """
    if found is not None and not (found.isdigit() and 1 <= int(found) <= len(MIGRATIONS)):
        raise StoreError(
            f"{where} has format {found!r}, and this version of Reticent reads up to {FORMAT}; "
            "open it with the version that wrote it"
        )
    for step in MIGRATIONS[int(found or 0) :]:
        for statement in step.format(**types).split(";"):
            connection.write(statement)
    if found != FORMAT:
        _set(connection, "about", ("name",), {"name": "format", "value": FORMAT})


def _set(
    connection: Connection, table: str, key: tuple[str, ...], values: Mapping[str, Any]
) -> None:
    """Insert a row, or replace the one with its key."""
    connection.write(_setting(table, key, tuple(values)), tuple(values.values()))


@cache
def _setting(table: str, key: tuple[str, ...], columns: tuple[str, ...]) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in columns if name not in key)
    marks = ", ".join("?" * len(columns))
    return (
        f"INSERT INTO {table} ({names}) VALUES ({marks})"
        f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"
    )


class Rows:
    """The queries, on one connection.

    Parameters
    ----------
    connection : Connection
        The connection; a subclass per dialect adds the queries that differ.
    """

    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self._changed = self.charged = False

    def changed(self) -> bool:
        return self._changed

    def _write(self, query: str, values: Sequence[Any] = ()) -> None:
        self._changed = True
        self._db.write(query, values)

    def _insert(self, query: str, values: Sequence[Sequence[Any]]) -> None:
        self._changed = True
        if len(values) == 1:
            self._db.write(query, values[0])
        else:
            self._db.write_many(query, values)

    def _replace(self, table: str, key: tuple[str, ...], /, **values: Any) -> None:
        self._changed = True
        _set(self._db, table, key, values)

    def _count(self, query: str, values: Sequence[Any] = ()) -> int:
        found = self._db.count(query, values)
        self._changed = self._changed or found > 0
        return found

    def _one(self, query: str, values: Sequence[Any] = ()) -> Any:
        found = self._db.rows(query, values)
        return found[0] if found else None

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        before = self._changed
        self._db.write("SAVEPOINT step")
        try:
            yield
        except BaseException:
            # after a lost connection or on a full disk there is nothing left to undo
            with contextlib.suppress(Exception):
                self._db.write("ROLLBACK TO SAVEPOINT step")
            self._changed = before
            raise
        finally:
            with contextlib.suppress(Exception):
                self._db.write("RELEASE SAVEPOINT step")

    @contextlib.contextmanager
    def unwritten(self) -> Iterator[None]:
        before, self._changed = self._changed, False
        try:
            yield
        except Exception as error:
            if self._changed:
                raise RuntimeError(
                    "a command refused after it had written; this is a bug in reticent"
                ) from error
            raise
        finally:
            self._changed = self._changed or before

    # The store as a whole ----------------------------------------------------------------------------

    def about(self) -> dict[str, str]:
        return dict(self._db.rows("SELECT name, value FROM about"))

    def fact(self, name: str) -> str | None:
        row = self._one("SELECT value FROM about WHERE name = ?", (name,))
        return None if row is None else str(row[0])

    def set_about(self, name: str, value: str) -> None:
        self._replace("about", ("name",), name=name, value=value)

    # Streams -----------------------------------------------------------------------------------------

    def streams(self) -> list[StreamRow]:
        return [_stream(row) for row in self._db.rows(f"{_STREAMS} ORDER BY name")]

    def stream(self, name: str) -> StreamRow | None:
        row = self._one(f"{_STREAMS} WHERE name = ?", (name,))
        return None if row is None else _stream(row)

    def add_stream(self, row: StreamRow) -> int:
        self._changed = True
        (found,) = self._one(
            "INSERT INTO streams (name, specification, guarantee, ledger, created, epochs, closed)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
            _facts(row),
        )
        return int(found)

    def set_stream(self, row: StreamRow) -> None:
        self._write(
            "UPDATE streams SET name = ?, specification = ?, guarantee = ?, ledger = ?, created = ?,"
            " epochs = ?, closed = ? WHERE id = ?",
            (*_facts(row), row.id),
        )

    def erase(self, stream: int) -> None:
        for table in ("states", "persons", "outputs", "keys", "producers"):
            self._write(f"DELETE FROM {table} WHERE stream = ?", (stream,))

    def state(self, stream: int) -> StateRow | None:
        row = self._one("SELECT steps, number, sealed FROM states WHERE stream = ?", (stream,))
        return None if row is None else StateRow(*row)

    def latest(self) -> dict[str, int]:
        query = "SELECT name, number FROM streams JOIN states ON states.stream = streams.id"
        return dict(self._db.rows(query))

    def save(self, stream: int, row: StateRow) -> None:
        # SQLite overwrites a value in place if its length stays the same
        values = {"steps": row.steps, "number": row.number, "sealed": row.sealed}
        self._replace("states", ("stream",), stream=stream, **values)

    def persons(self, stream: int) -> list[tuple[int, int, bytes]]:
        query = "SELECT generation, part, sealed FROM persons WHERE stream = ? ORDER BY generation, part"
        return [
            (int(one), int(two), sealed) for one, two, sealed in self._db.rows(query, (stream,))
        ]

    def add_persons(self, stream: int, generation: int, part: int, sealed: bytes) -> None:
        key = ("stream", "generation", "part")
        values = {"stream": stream, "generation": generation, "part": part, "sealed": sealed}
        self._replace("persons", key, **values)

    def clear_persons(self, stream: int) -> None:
        self._write("DELETE FROM persons WHERE stream = ?", (stream,))

    def output(self, stream: int, number: int) -> OutputRow | None:
        query = "SELECT number, steps, at, body FROM outputs WHERE stream = ? AND number = ?"
        row = self._one(query, (stream, number))
        return None if row is None else OutputRow(*row)

    def add_outputs(self, stream: int, rows: Iterable[OutputRow]) -> None:
        values = [(stream, row.number, row.steps, row.at, row.body) for row in rows]
        self._insert("INSERT INTO outputs VALUES (?, ?, ?, ?, ?)", values)

    # Keys --------------------------------------------------------------------------------------------

    def known(self, stream: int, keys: Sequence[bytes]) -> dict[bytes, Known]:
        found: dict[bytes, Known] = {}
        for first in range(0, len(keys), _MANY):
            some = keys[first : first + _MANY]
            marks = ",".join("?" * len(some))
            query = f"SELECT key, digest, number FROM keys WHERE stream = ? AND key IN ({marks})"
            for key, digest, number in self._db.rows(query, (stream, *some)):
                found[key] = Known(digest, number)
        return found

    def forget(self, stream: int, low: bytes, high: bytes) -> int:
        query = "DELETE FROM keys WHERE stream = ? AND key >= ? AND key < ?"
        return self._count(query, (stream, low, high))

    def producer(self, stream: int, producer: bytes) -> Producer | None:
        query = (
            "SELECT sequence, digest, number, records FROM producers"
            " WHERE stream = ? AND producer = ?"
        )
        row = self._one(query, (stream, producer))
        return None if row is None else Producer(*row)

    def set_producer(self, stream: int, producer: bytes, row: Producer) -> None:
        self._replace(
            "producers", ("stream", "producer"), stream=stream, producer=producer, **vars(row)
        )

    # Ledgers -----------------------------------------------------------------------------------------

    def charges(self) -> int:
        return int(self._one("SELECT COALESCE(MAX(id), 0) FROM entries")[0])

    def ledgers(self) -> list[LedgerRow]:
        rows = self._db.rows(
            "SELECT name, budget, unit, created, closed FROM ledgers ORDER BY name"
        )
        return [LedgerRow(name, json.loads(budget), *rest) for name, budget, *rest in rows]

    def add_ledger(self, row: LedgerRow) -> None:
        values = (row.name, json.dumps(row.budget), row.unit, row.created, row.closed)
        self._write("INSERT INTO ledgers VALUES (?, ?, ?, ?, ?)", values)

    def set_ledger(self, row: LedgerRow) -> None:
        values = (json.dumps(row.budget), row.unit, row.created, row.closed, row.name)
        query = "UPDATE ledgers SET budget = ?, unit = ?, created = ?, closed = ? WHERE name = ?"
        self._write(query, values)

    def entries(self, ledger: str) -> list[EntryRow]:
        query = "SELECT ledger, at, what, guarantee FROM entries WHERE ledger = ? ORDER BY id"
        rows = self._db.rows(query, (ledger,))
        return [EntryRow(name, at, what, json.loads(text)) for name, at, what, text in rows]

    def add_entry(self, row: EntryRow) -> None:
        self.charged = True
        values = (row.ledger, row.at, row.what, json.dumps(row.guarantee))
        query = "INSERT INTO entries (ledger, at, what, guarantee) VALUES (?, ?, ?, ?)"
        self._write(query, values)

    # Tables, jobs and tokens -------------------------------------------------------------------------

    def tables(self) -> list[TableRow]:
        rows = self._db.rows("SELECT name, path, schema, created FROM tables ORDER BY name")
        return [TableRow(name, path, json.loads(text), at) for name, path, text, at in rows]

    def add_table(self, row: TableRow) -> None:
        values = (row.name, row.path, json.dumps(row.schema), row.created)
        self._write("INSERT INTO tables VALUES (?, ?, ?, ?)", values)

    def jobs(self) -> list[JobRow]:
        query = """SELECT id, "table", request, status, detail, created FROM jobs ORDER BY created, id"""
        return [_job(*row) for row in self._db.rows(query)]

    def job(self, identity: str) -> JobRow | None:
        query = """SELECT id, "table", request, status, detail, created, result FROM jobs WHERE id = ?"""
        row = self._one(query, (identity,))
        return None if row is None else _job(*row)

    def set_job(self, row: JobRow) -> None:
        self._replace("jobs", ("id",), **vars(row) | {"request": json.dumps(row.request)})

    def tokens(self) -> list[TokenRow]:
        query = (
            "SELECT id, hash, role, label, streams, created, expires FROM tokens ORDER BY created"
        )
        return [_token(*row) for row in self._db.rows(query)]

    def add_token(self, row: TokenRow) -> None:
        streams = None if row.streams is None else json.dumps(row.streams)
        values = (row.id, row.hash, row.role, row.label, streams, row.created, row.expires)
        self._write("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def remove_token(self, identity: str) -> bool:
        return self._count("DELETE FROM tokens WHERE id = ?", (identity,)) > 0

    # Sources -----------------------------------------------------------------------------------------

    def position(self, source: str) -> tuple[str, str]:
        row = self._one("SELECT position, stream FROM sources WHERE name = ?", (source,))
        return ("", "") if row is None else (str(row[0]), str(row[1]))

    def set_position(self, source: str, stream: str, position: str) -> None:
        values = {"name": source, "stream": stream, "description": "", "position": position}
        self._replace("sources", ("name",), **values)

    # The log -----------------------------------------------------------------------------------------

    def log_head(self, chain: int) -> LogRow | None:
        row = self._one(f"{_LOG} WHERE chain = ? ORDER BY number DESC LIMIT 1", (chain,))
        return None if row is None else LogRow(*row)

    def log(self, chain: int, first: int, most: int) -> list[LogRow]:
        query = f"{_LOG} WHERE chain = ? AND number >= ? ORDER BY number LIMIT ?"
        return [LogRow(*row) for row in self._db.rows(query, (chain, first, most))]

    def chains(self) -> list[int]:
        return [
            chain for (chain,) in self._db.rows("SELECT DISTINCT chain FROM log ORDER BY chain")
        ]

    def add_log(self, chain: int, rows: Iterable[LogRow]) -> None:
        values = [(chain, row.number, row.at, row.body, row.hash) for row in rows]
        self._insert("INSERT INTO log VALUES (?, ?, ?, ?, ?)", values)


def check_format(rows: Rows, where: str) -> None:
    """Refuse to read a database of another version; only starting the service brings it up to date."""
    found = rows.fact("format")
    if found != FORMAT:
        raise StoreError(
            f"{where} has format {found!r}, and this version of Reticent reads {FORMAT}; start the "
            "service once, which brings it up to date"
        )


_STREAMS = "SELECT id, name, specification, guarantee, ledger, created, epochs, closed FROM streams"
_LOG = "SELECT number, at, body, hash FROM log"


def _stream(row: Any) -> StreamRow:
    identity, name, specification, guarantee, *rest = row
    return StreamRow(identity, name, json.loads(specification), json.loads(guarantee), *rest)


def _job(
    identity: str,
    table: str,
    request: str,
    status: str,
    detail: str,
    created: float,
    result: bytes | None = None,
) -> JobRow:
    return JobRow(identity, table, json.loads(request), status, detail, created, result)


def _token(
    identity: str,
    hashed: bytes,
    role: str,
    label: str,
    streams: str | None,
    created: float,
    expires: float | None,
) -> TokenRow:
    granted = None if streams is None else json.loads(streams)
    return TokenRow(identity, hashed, role, label, granted, created, expires)


def _facts(row: StreamRow) -> tuple[Any, ...]:
    return (
        row.name,
        json.dumps(row.specification),
        json.dumps(row.guarantee),
        row.ledger,
        row.created,
        row.epochs,
        row.closed,
    )
