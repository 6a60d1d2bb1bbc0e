"""The store in a folder: SQLite with a write-ahead log, synced with every commit.

Considered: aiosqlite (one thread per connection; the engine already has one thread that writes), LMDB (no queries for
inspection after an accident). The standard library's ``sqlite3`` is sufficient and needs no installation.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from reticent.service.sql import FORMAT, Rows, check_format, migrate
from reticent.service.store import StoreError, StoreFailed
from reticent.state.files import sync

_TYPES = {
    "serial": "INTEGER PRIMARY KEY",
    "integer": "INTEGER",
    "real": "REAL",
    "bytes": "BLOB",
    "compact": " WITHOUT ROWID",
}
# All keys in one statement: one statement per key would release and reacquire the interpreter's lock each time.
_REMEMBER = """
INSERT INTO keys
WITH RECURSIVE place(at) AS (SELECT 0 UNION ALL SELECT at + 1 FROM place WHERE at + 1 < ?1)
SELECT ?2, substr(?6, 1 + ?4 * at, ?4), substr(?7, 1 + ?5 * at, ?5), ?3 FROM place
"""
_LOG_PAGES = 4000  # pages of the write-ahead log before a checkpoint, so that states are overwritten within it


class _SqliteConnection:
    """A connection with the operations that the queries use."""

    def __init__(self, path: Path, *, only_reading: bool = False) -> None:
        where = f"{path.absolute().as_uri()}?mode={'ro' if only_reading else 'rw'}"
        self.plain = sqlite3.connect(
            where,
            isolation_level=None,
            timeout=60.0,
            check_same_thread=False,
            cached_statements=256,
            uri=True,
        )

    def write(self, query: str, values: Sequence[Any] = ()) -> None:
        self.plain.execute(query, values)

    def write_many(self, query: str, values: Sequence[Sequence[Any]]) -> None:
        self.plain.executemany(query, values)

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        return self.plain.execute(query, values).fetchall()

    def count(self, query: str, values: Sequence[Any] = ()) -> int:
        return self.plain.execute(query, values).rowcount


class SqliteRows(Rows):
    """The queries, in a transaction of SQLite."""

    _db: _SqliteConnection

    def remember_new(
        self, stream: int, keys: Sequence[bytes], digests: Sequence[bytes], number: int
    ) -> bool:
        # in ascending order, so that neighbours go to the same page
        pairs = sorted(zip(keys, digests, strict=True))
        try:
            if len(pairs) == 1:
                self._db.write("INSERT INTO keys VALUES (?, ?, ?, ?)", (stream, *pairs[0], number))
            else:
                size, width = len(keys[0]), len(digests[0])
                packed = [b"".join(some) for some in zip(*pairs, strict=True)]
                assert [len(some) for some in packed] == [len(pairs) * size, len(pairs) * width]
                self._db.write(_REMEMBER, (len(pairs), stream, number, size, width, *packed))
            self._changed = True
        except sqlite3.IntegrityError:  # the statement was rolled back
            return False
        return True

    def whole(self, table: str) -> tuple[list[str], Iterator[Any]]:
        """The names of the columns of a table, and its rows."""
        found = self._db.plain.execute(f"SELECT * FROM {table}")
        return [column[0] for column in found.description], iter(found)

    def alone(self) -> None:
        """Do nothing, because SQLite has one write transaction at a time."""

    def hold(self, name: str, token: int) -> None:
        """Do nothing, because a folder has one process, which holds its lock."""

    def mark(self) -> int:
        number = int(self.fact("commit") or 0) + 1
        self.set_about("commit", str(number))
        return number


@contextlib.contextmanager
def look(path: Path) -> Iterator[SqliteRows]:
    """A consistent view of a store while a process writes to it; changes nothing."""
    if not path.exists():
        raise StoreError(f"there is no service in {path.parent}: {path.name} is missing")
    try:
        connection = _SqliteConnection(path, only_reading=True)
        try:
            connection.write("BEGIN")
            rows = SqliteRows(connection)
            check_format(rows, str(path))
            yield rows
        finally:
            connection.plain.close()
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path} cannot be read: {error}") from None


class SqliteStore:
    """A store in one file.

    Reads and writes use separate connections, so that readers see committed data only and never wait for a writer. Each
    connection is used by one thread at a time, under a lock.

    Parameters
    ----------
    path : path
        The database; created, readable by its owner only, if it does not exist.


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
        with self._named():
            if not path.exists():
                self._make()
            self._writer = self._connect()
            try:
                self._check()
                self._reader = self._connect()
            except BaseException:
                self._writer.plain.close()
                raise
        self._reader.write("PRAGMA query_only = ON")
        self._rows, self._reading = SqliteRows(self._reader), threading.Lock()

    def _make(self) -> None:
        """Create the file atomically, because a file without tables counts as damaged."""
        draft = self.path.with_name(self.path.name + ".draft")
        draft.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        connection = _SqliteConnection(draft)
        try:
            connection.write("PRAGMA synchronous = FULL")
            connection.write("BEGIN IMMEDIATE")
            migrate(connection, _TYPES, None, str(self.path))
            connection.write("COMMIT")
        finally:
            connection.plain.close()
        draft.rename(self.path)
        for place in (self.path, self.path.parent):
            sync(place)

    def _connect(self) -> _SqliteConnection:
        if not self.path.stat().st_size:
            raise self._damaged("it is empty")
        connection = _SqliteConnection(self.path)
        ((mode,),) = connection.rows("PRAGMA journal_mode = WAL")
        if mode != "wal":
            raise StoreError(
                f"{self.path}: the file system does not support a write-ahead log; use another"
            )
        connection.write("PRAGMA synchronous = FULL")
        connection.write("PRAGMA fullfsync = ON")  # macOS: flush the disk's own cache too
        connection.write("PRAGMA secure_delete = ON")  # states that were replaced are overwritten
        connection.write(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        return connection

    def _check(self) -> None:
        ((found,),) = self._writer.rows("PRAGMA quick_check(1)")
        if found != "ok":
            raise self._damaged("its pages are inconsistent")
        if not self._writer.rows("SELECT name FROM sqlite_master WHERE name = 'about'"):
            raise self._damaged("it holds no tables of a service")
        found = SqliteRows(self._writer).fact("format") or ""
        if found != FORMAT:
            with self.transaction():
                migrate(self._writer, _TYPES, found, str(self.path))

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, StoreFailed) as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, reason: str) -> StoreError:
        return StoreError(
            f"{self.path} cannot be used: {reason}. Put a whole backup of the folder in its place and run "
            "`reticent serve adopt`; what was released since the backup stays spent"
        )

    @contextlib.contextmanager
    def transaction(self) -> Iterator[SqliteRows]:
        """A transaction: durable when the block ends, undone if it raises."""
        try:
            self._writer.write("BEGIN IMMEDIATE")
            yield SqliteRows(self._writer)
            self._writer.write("COMMIT")
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):  # a full disk may have ended it already
                if self._writer.plain.in_transaction:
                    self._writer.write("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise StoreFailed(str(error), full="full" in str(error)) from error
            raise

    @contextlib.contextmanager
    def read(self) -> Iterator[SqliteRows]:
        """Committed data, for reading."""
        with self._reading:
            yield self._rows

    def compact(self) -> None:
        """Rewrite the file and empty the log, so that neither contains replaced data."""
        self._writer.write("PRAGMA wal_checkpoint(TRUNCATE)")
        self._writer.write("VACUUM")
        self._writer.write("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file."""
        with self._reading:
            self._reader.plain.close()
        self._writer.plain.close()
