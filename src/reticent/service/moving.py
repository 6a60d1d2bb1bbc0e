"""Move a service from a folder to PostgreSQL: everything is copied in one transaction, and the folder is retired.

The folder is marked as moved before the copy is committed, so that at no time both can be served. After an interruption
between the two, repeat the command: nothing is in the database yet, and the folder can be moved again to the same
database. Streams continue with the same noise, and repeats are still recognised.
"""

from __future__ import annotations

from dataclasses import replace

from reticent.service.anchor import DATABASE, UNKNOWN
from reticent.service.folder import Folder, Options, Shared
from reticent.service.sql import TABLES
from reticent.service.store import StoreError


class _Leaving(Folder):
    """A folder that may have been marked as moved."""

    moved: str | None = None

    def _refuse_moved(self, about: dict[str, str]) -> None:
        self.moved = about.get("moved")


class _Arriving(Shared):
    """A database that holds no service yet; its workers use the folder's key."""

    def _open(self, adopting: bool) -> str | None:
        with self.store.read() as rows:
            self.holds = rows.fact("id")
        return None


def move(options: Options) -> int:
    """Move a folder into a database, and return the number of streams.

    Parameters
    ----------
    options : Options
        Options with both ``data`` and ``database``, and the folder's key.
    """
    assert options.data is not None
    if not (options.data / DATABASE).exists():
        raise StoreError(f"there is nothing to move: {options.data} holds no service")
    leaving = _Leaving(replace(options, database=None))
    try:
        key_file = options.key_file or leaving.path / "service.key"
        arriving = _Arriving(replace(options, data=None, key_file=key_file))
        try:
            return _move(leaving, arriving)
        finally:
            arriving.close()
    finally:
        leaving.close()


def _move(leaving: _Leaving, arriving: _Arriving) -> int:
    if arriving.ring.name != leaving.ring.name:
        raise StoreError("the database must have the folder's key; name its file with --key-file")
    if leaving.moved not in (None, arriving.store.place):
        raise StoreError(f"{leaving.name} was moved to another database already")
    if arriving.holds == leaving.id and leaving.moved is not None:
        raise StoreError(
            f"{leaving.name} was moved to this database already; serve it with --database"
        )
    if arriving.holds is not None:
        raise StoreError("the database holds another service; name an empty one")
    with leaving.store.transaction() as rows:
        rows.set_about("moved", arriving.store.place)
        mark = rows.mark()
    assert leaving.anchor is not None
    # the ledgers are charged in the database from now on, so a backup of the folder has to be adopted without them
    leaving.anchor.commit(mark, UNKNOWN)
    with leaving.store.read() as rows:
        count = len(rows.streams())
        arriving.store.fill((table, *rows.whole(table)) for table in TABLES)
    return count
