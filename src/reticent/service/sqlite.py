"""The store in one folder: SQLite with a write-ahead log, synced with every commit.

Considered: SQLAlchemy (a second language between this file and one that has a dozen tables), aiosqlite (a thread
for each connection; the engine already has one thread that writes), LMDB (no queries for whoever has to look
inside after an accident). The standard library's ``sqlite3`` is enough and nothing has to be installed.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from reticent.service.store import (
    EntryRow,
    JobRow,
    Known,
    LedgerRow,
    OutputRow,
    Producer,
    StateRow,
    StoreError,
    StreamRow,
    TableRow,
    TokenRow,
)

FORMAT = "1"
_MANY = 500  # keys in one query

_TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE streams (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, specification TEXT NOT NULL,
    guarantee TEXT NOT NULL, ledger TEXT NOT NULL, created REAL NOT NULL, epochs INTEGER NOT NULL,
    closed TEXT NOT NULL
);
CREATE TABLE states (
    stream INTEGER PRIMARY KEY, steps INTEGER NOT NULL, number INTEGER NOT NULL, sealed BLOB NOT NULL
);
CREATE TABLE outputs (
    stream INTEGER NOT NULL, number INTEGER NOT NULL, steps INTEGER NOT NULL, at REAL NOT NULL,
    body BLOB NOT NULL, PRIMARY KEY (stream, number)
) WITHOUT ROWID;
CREATE TABLE keys (
    stream INTEGER NOT NULL, key BLOB NOT NULL, digest BLOB NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (stream, key)
) WITHOUT ROWID;
CREATE TABLE producers (
    stream INTEGER NOT NULL, producer BLOB NOT NULL, sequence INTEGER NOT NULL, digest BLOB NOT NULL,
    number INTEGER NOT NULL, records INTEGER NOT NULL, PRIMARY KEY (stream, producer)
) WITHOUT ROWID;
CREATE TABLE ledgers (
    name TEXT PRIMARY KEY, budget TEXT NOT NULL, unit TEXT NOT NULL, created REAL NOT NULL,
    closed TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE entries (
    id INTEGER PRIMARY KEY, ledger TEXT NOT NULL, at TEXT NOT NULL, what TEXT NOT NULL,
    guarantee TEXT NOT NULL
);
CREATE INDEX entries_of_ledger ON entries (ledger, id);
CREATE TABLE tables (
    name TEXT PRIMARY KEY, path TEXT NOT NULL, schema TEXT NOT NULL, created REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE jobs (
    id TEXT PRIMARY KEY, "table" TEXT NOT NULL, request TEXT NOT NULL, status TEXT NOT NULL,
    detail TEXT NOT NULL, created REAL NOT NULL, result BLOB
);
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, hash BLOB NOT NULL, role TEXT NOT NULL, label TEXT NOT NULL, streams TEXT,
    created REAL NOT NULL, expires REAL
) WITHOUT ROWID;
"""


class _Rows:
    """The queries, on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._before = connection.total_changes

    def changed(self) -> bool:
        return self._db.total_changes != self._before

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        self._db.execute("SAVEPOINT step")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK TO step")
            raise
        finally:
            if self._db.in_transaction:
                self._db.execute("RELEASE step")

    def about(self) -> dict[str, str]:
        return dict(self._db.execute("SELECT name, value FROM about"))

    def fact(self, name: str) -> str | None:
        row = self._db.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def charges(self) -> int:
        return int(self._db.execute("SELECT COALESCE(MAX(id), 0) FROM entries").fetchone()[0])

    def set_about(self, name: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))

    def streams(self) -> list[StreamRow]:
        return [_stream(row) for row in self._db.execute("SELECT * FROM streams ORDER BY name")]

    def stream(self, name: str) -> StreamRow | None:
        row = self._db.execute("SELECT * FROM streams WHERE name = ?", (name,)).fetchone()
        return None if row is None else _stream(row)

    def add_stream(self, row: StreamRow) -> int:
        cursor = self._db.execute(
            "INSERT INTO streams VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", _facts(row)
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def set_stream(self, row: StreamRow) -> None:
        self._db.execute(
            "UPDATE streams SET name=?, specification=?, guarantee=?, ledger=?, created=?, epochs=?,"
            " closed=?"
            " WHERE id = ?",
            (*_facts(row), row.id),
        )

    def state(self, stream: int) -> StateRow | None:
        query = "SELECT steps, number, sealed FROM states WHERE stream = ?"
        row = self._db.execute(query, (stream,)).fetchone()
        return None if row is None else StateRow(*row)

    def save(self, stream: int, row: StateRow) -> None:
        # a value that keeps its length is overwritten where it lies
        values = (row.steps, row.number, row.sealed, stream)
        query = "UPDATE states SET steps = ?, number = ?, sealed = ? WHERE stream = ?"
        if not self._db.execute(query, values).rowcount:
            query = "INSERT INTO states (steps, number, sealed, stream) VALUES (?, ?, ?, ?)"
            self._db.execute(query, values)

    def output(self, stream: int, number: int) -> OutputRow | None:
        query = "SELECT number, steps, at, body FROM outputs WHERE stream = ? AND number = ?"
        row = self._db.execute(query, (stream, number)).fetchone()
        return None if row is None else OutputRow(*row)

    def add_outputs(self, stream: int, rows: Iterable[OutputRow]) -> None:
        values = ((stream, row.number, row.steps, row.at, row.body) for row in rows)
        self._db.executemany("INSERT INTO outputs VALUES (?, ?, ?, ?, ?)", values)

    def known(self, stream: int, keys: Sequence[bytes]) -> dict[bytes, Known]:
        found: dict[bytes, Known] = {}
        for first in range(0, len(keys), _MANY):
            some = keys[first : first + _MANY]
            marks = ",".join("?" * len(some))
            query = f"SELECT key, digest, number FROM keys WHERE stream = ? AND key IN ({marks})"
            for key, digest, number in self._db.execute(query, (stream, *some)):
                found[key] = Known(digest, number)
        return found

    def remember_new(
        self, stream: int, keys: Sequence[bytes], digests: Sequence[bytes], number: int
    ) -> bool:
        # in their order, for neighbours go to one page
        values = [(stream, *pair, number) for pair in sorted(zip(keys, digests, strict=True))]
        self._db.execute("SAVEPOINT remembering")
        try:
            self._db.executemany("INSERT INTO keys VALUES (?, ?, ?, ?)", values)
        except sqlite3.IntegrityError:
            self._db.execute("ROLLBACK TO remembering")
            return False
        finally:
            if self._db.in_transaction:
                self._db.execute("RELEASE remembering")
        return True

    def forget(self, stream: int, low: bytes, high: bytes) -> int:
        query = "DELETE FROM keys WHERE stream = ? AND key >= ? AND key < ?"
        return self._db.execute(query, (stream, low, high)).rowcount

    def producer(self, stream: int, producer: bytes) -> Producer | None:
        query = (
            "SELECT sequence, digest, number, records FROM producers"
            " WHERE stream = ? AND producer = ?"
        )
        row = self._db.execute(query, (stream, producer)).fetchone()
        return None if row is None else Producer(*row)

    def set_producer(self, stream: int, producer: bytes, row: Producer) -> None:
        values = (stream, producer, row.sequence, row.digest, row.number, row.records)
        self._db.execute("INSERT OR REPLACE INTO producers VALUES (?, ?, ?, ?, ?, ?)", values)

    def ledgers(self) -> list[LedgerRow]:
        rows = self._db.execute(
            "SELECT name, budget, unit, created, closed FROM ledgers ORDER BY name"
        )
        return [LedgerRow(name, json.loads(budget), *rest) for name, budget, *rest in rows]

    def add_ledger(self, row: LedgerRow) -> None:
        values = (row.name, json.dumps(row.budget), row.unit, row.created, row.closed)
        self._db.execute("INSERT INTO ledgers VALUES (?, ?, ?, ?, ?)", values)

    def set_ledger(self, row: LedgerRow) -> None:
        values = (json.dumps(row.budget), row.unit, row.created, row.closed, row.name)
        query = "UPDATE ledgers SET budget = ?, unit = ?, created = ?, closed = ? WHERE name = ?"
        self._db.execute(query, values)

    def entries(self, ledger: str) -> list[EntryRow]:
        query = "SELECT ledger, at, what, guarantee FROM entries WHERE ledger = ? ORDER BY id"
        rows = self._db.execute(query, (ledger,))
        return [EntryRow(name, at, what, json.loads(text)) for name, at, what, text in rows]

    def add_entry(self, row: EntryRow) -> None:
        values = (row.ledger, row.at, row.what, json.dumps(row.guarantee))
        self._db.execute("INSERT INTO entries VALUES (NULL, ?, ?, ?, ?)", values)

    def tables(self) -> list[TableRow]:
        rows = self._db.execute("SELECT name, path, schema, created FROM tables ORDER BY name")
        return [TableRow(name, path, json.loads(text), at) for name, path, text, at in rows]

    def add_table(self, row: TableRow) -> None:
        values = (row.name, row.path, json.dumps(row.schema), row.created)
        self._db.execute("INSERT INTO tables VALUES (?, ?, ?, ?)", values)

    def jobs(self) -> list[JobRow]:
        query = """SELECT id, "table", request, status, detail, created FROM jobs ORDER BY created, id"""
        return [_job(*row) for row in self._db.execute(query)]

    def job(self, identity: str) -> JobRow | None:
        row = self._db.execute("SELECT * FROM jobs WHERE id = ?", (identity,)).fetchone()
        return None if row is None else _job(*row)

    def set_job(self, row: JobRow) -> None:
        request = json.dumps(row.request)
        values = (row.id, row.table, request, row.status, row.detail, row.created, row.result)
        self._db.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def tokens(self) -> list[TokenRow]:
        query = (
            "SELECT id, hash, role, label, streams, created, expires FROM tokens ORDER BY created"
        )
        return [_token(*row) for row in self._db.execute(query)]

    def add_token(self, row: TokenRow) -> None:
        streams = None if row.streams is None else json.dumps(row.streams)
        values = (row.id, row.hash, row.role, row.label, streams, row.created, row.expires)
        self._db.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def remove_token(self, identity: str) -> bool:
        return self._db.execute("DELETE FROM tokens WHERE id = ?", (identity,)).rowcount > 0


class SqliteStore:
    """A store in one file.

    Reads come from one connection and writes go through another, so that readers see committed data only and
    never wait for a writer. Each connection is used by one thread at a time, under a lock.

    Parameters
    ----------
    path : path
        The database; made, readable by its owner only, if it does not exist.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = SqliteStore(pathlib.Path(folder.name, "service.sqlite"))
    >>> with store.transaction() as transaction:
    ...     transaction.set_about("colour", "blue")
    >>> with store.read() as rows:
    ...     rows.about()["colour"]
    'blue'
    >>> store.close()
    >>> folder.cleanup()
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with self._named():
            self._writer = self._connect()
            try:
                self._prepare()
                self._reader = self._connect()
            except BaseException:
                self._writer.close()
                raise
        self._reader.execute("PRAGMA query_only = ON")
        self._rows, self._reading = _Rows(self._reader), threading.Lock()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, isolation_level=None, timeout=60.0, check_same_thread=False,
            cached_statements=256,
        )  # fmt: skip
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreError(f"{self.path}: the file system allows no write-ahead log; use another")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: past the disk's own cache
        connection.execute("PRAGMA secure_delete = ON")  # states that were replaced are overwritten
        return connection

    def _prepare(self) -> None:
        # not whether the file was there: whoever was killed at the first start left a file without tables
        (tables,) = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables:
            mark = f"INSERT INTO about VALUES ('format', '{FORMAT}');"
            self._writer.executescript(f"BEGIN IMMEDIATE;{_TABLES}{mark}COMMIT;")
            return
        (found,) = self._writer.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise self._damaged("its pages are inconsistent")
        about = _Rows(self._writer).about()
        if about.get("format") != FORMAT:
            raise StoreError(
                f"{self.path} has format {about.get('format')!r}, and this version of Reticent reads {FORMAT}; "
                "open it with the version that wrote it"
            )

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, reason: str) -> StoreError:
        return StoreError(
            f"{self.path} cannot be used: {reason}. Put a whole backup of the folder in its place and run "
            "`reticent serve adopt`; what was released since the backup stays spent"
        )

    @contextlib.contextmanager
    def transaction(self) -> Iterator[_Rows]:
        """A transaction: durable when the block ends, undone if it raises."""
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield _Rows(self._writer)
            self._writer.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # a full disk may have ended it already
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def read(self) -> Iterator[_Rows]:
        """What was committed, for reading."""
        with self._reading:
            yield self._rows

    def compact(self) -> None:
        """Write the file anew and empty the log, so that nothing that was replaced is left in either."""
        self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._writer.execute("VACUUM")
        self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Let go of the file."""
        with self._reading:
            self._reader.close()
        self._writer.close()


def _stream(row: Any) -> StreamRow:
    identity, name, specification, guarantee, *rest = row
    return StreamRow(identity, name, json.loads(specification), json.loads(guarantee), *rest)


def _job(
    identity: str, table: str, request: str, status: str, detail: str, created: float, result: bytes | None = None
) -> JobRow:  # fmt: skip
    return JobRow(identity, table, json.loads(request), status, detail, created, result)


def _token(
    identity: str, hashed: bytes, role: str, label: str, streams: str | None, created: float, expires: float | None
) -> TokenRow:  # fmt: skip
    granted = None if streams is None else json.loads(streams)
    return TokenRow(identity, hashed, role, label, granted, created, expires)


def _facts(row: StreamRow) -> tuple[Any, ...]:
    return (
        row.name, json.dumps(row.specification), json.dumps(row.guarantee), row.ledger,
        row.created, row.epochs, row.closed,
    )  # fmt: skip
