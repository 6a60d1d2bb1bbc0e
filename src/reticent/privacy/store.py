"""The file behind a ledger: SQLite, one transaction per entry, on disk before it is acknowledged.

With a rollback journal a transaction is committed when the journal is deleted, so the folder must
be synced as well as the file: after a power cut a journal that is still there would undo an entry
that was acknowledged. SQLite does that at ``synchronous = EXTRA`` only.

An empty or missing table is never taken for a fresh ledger. A new file is prepared aside and linked
into place whole, so whatever exists and is not a ledger is damage, and is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FORMAT = 1
_WAIT = 60.0

_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    what TEXT NOT NULL,
    guarantee TEXT NOT NULL
);
"""

Row = tuple[int, str, str, str]


class Store:
    """A ledger's file.

    Parameters
    ----------
    path
        Created with mode 0600 if it does not exist.
    terms
        What the ledger is for; must equal what an existing file says.
    """

    def __init__(self, path: str | os.PathLike[str], terms: dict[str, Any]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"path must lie in an existing folder; {folder!r} is not one")
        if not os.path.lexists(self.path):
            self._create(folder, terms)
        self._verify(terms)

    def _create(self, folder: str, terms: dict[str, Any]) -> None:
        handle, draft = tempfile.mkstemp(prefix=".ledger-", dir=folder)  # mode 0600
        os.close(handle)
        try:
            connection = self._connect(draft)
            try:
                connection.executescript("BEGIN IMMEDIATE;" + _SCHEMA)
                rows = [("format", str(FORMAT)), ("terms", json.dumps(terms))]
                connection.executemany("INSERT INTO about VALUES (?, ?)", rows)
                connection.execute("COMMIT")
            finally:
                connection.close()
            # A link fails if another process was first, which is then the one that counts.
            with contextlib.suppress(FileExistsError):
                os.link(draft, self.path)
        finally:
            os.unlink(draft)
        if hasattr(os, "O_DIRECTORY"):
            directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def _connect(self, path: str) -> sqlite3.Connection:
        # mode=rw: a file that disappears meanwhile is not made anew.
        address = Path(path).as_uri() + "?mode=rw"
        connection = sqlite3.connect(address, uri=True, timeout=_WAIT, isolation_level=None)
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            if mode != "delete":
                raise self._damaged(f"its journal is kept as {mode!r} and cannot be changed")
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")  # macOS: past the disk's own cache
        except BaseException:
            connection.close()
            raise
        return connection

    def _verify(self, terms: dict[str, Any]) -> None:
        with self.transaction(write=False) as connection:
            if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise self._damaged("its pages are inconsistent")
            about = dict(connection.execute("SELECT name, value FROM about"))
            if about.get("format") != str(FORMAT):
                raise ValueError(
                    f"the ledger {self.path!r} has format {about.get('format')!r} and this version "
                    f"reads {FORMAT}; open it with the version of reticent that wrote it"
                )
            try:
                stored = json.loads(about["terms"])
            except (KeyError, ValueError):
                raise self._damaged("its terms cannot be read") from None
            if stored != terms:
                raise ValueError(
                    f"the ledger {self.path!r} was opened for {_words(stored)}, not for "
                    f"{_words(terms)}; reopen it with its own budget, or give another path"
                )

    @contextmanager
    def transaction(self, write: bool = True) -> Iterator[sqlite3.Connection]:
        """A connection inside one transaction, which is undone if anything is raised."""
        if not os.path.exists(self.path):
            raise self._damaged("it has disappeared")
        connection: sqlite3.Connection | None = None
        try:
            connection = self._connect(self.path)
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise TimeoutError(
                    f"the ledger {self.path!r} was in use by others for {_WAIT:.0f} s; nothing was "
                    "recorded, try again"
                ) from error
            raise self._damaged(str(error)) from error
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from error
        finally:
            if connection is not None:
                connection.close()  # rolls back what was not committed

    def read(self, connection: sqlite3.Connection, after: int) -> list[Row]:
        """Entries later than a given one, in order and without gaps."""
        query = "SELECT id, at, what, guarantee FROM entries WHERE id >= ? ORDER BY id"
        rows: list[Row] = list(connection.execute(query, (after,)))
        first = max(after, 1)
        expected = range(first, first + max(len(rows), min(after, 1)))
        if [row[0] for row in rows] != list(expected):
            raise self._damaged(f"entries from number {first} on are missing")
        return rows[1:] if after else rows

    def append(self, connection: sqlite3.Connection, row: Row) -> None:
        """Add one entry."""
        connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)

    def _damaged(self, reason: str) -> RuntimeError:
        return RuntimeError(
            f"{self.path!r} cannot be used as a ledger: {reason}. What it recorded stays spent: "
            "repair it or retire its budget, do not start afresh with an empty file"
        )


def _words(terms: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in terms.items())
