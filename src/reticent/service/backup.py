"""Backups of a folder: a consistent copy of the database, taken while the service runs, and a manifest.

The key is not part of a backup: anyone who has both can read the sums. Neither is the anchor, so that a restored
folder is recognised and has to be adopted (:mod:`reticent.service.adopting`).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

from reticent.service import chain, sqlite
from reticent.service.anchor import DATABASE
from reticent.service.folder import KEY, Options
from reticent.service.sealing import Ring, master_key
from reticent.service.store import StoreError
from reticent.state.files import sync
from reticent.version import __version__

MANIFEST = "backup.json"


def backup(options: Options, to: Path) -> dict[str, Any]:
    """Copy the database of a folder, and return what the copy contains.

    Parameters
    ----------
    options : Options
        Location of the service.
    to : path
        A folder that does not exist yet.

    Raises
    ------
    StoreError
        If there is no service, or ``to`` exists; nothing was written.
    """
    data = _folder(options)
    database = data / DATABASE
    if not database.exists():
        raise StoreError(f"there is no service in {data}: {DATABASE} is missing")
    if to.exists():
        raise StoreError(f"{to} exists already; a backup needs a new folder")
    to.parent.mkdir(parents=True, exist_ok=True)
    draft = to.with_name(to.name + ".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    try:
        _copy(database, draft / DATABASE)
        manifest = _describe(draft / DATABASE)
        with open(draft / MANIFEST, "w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(to)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return manifest


def restore(source: Path, options: Options) -> dict[str, Any]:
    """Restore a backup to a folder that holds no service, and return what it contains.

    Parameters
    ----------
    source : path
        Folder made by :func:`backup`.
    options : Options
        Location for the service, and its key.

    Raises
    ------
    StoreError
        If the backup is damaged or has another key, or the folder is in use; nothing was written.
    """
    data = _folder(options)
    try:
        manifest: dict[str, Any] = json.loads((source / MANIFEST).read_text(encoding="utf-8"))
        sha256 = manifest["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(f"{source} is no backup: it has no {MANIFEST} that can be read") from None
    if not (source / DATABASE).exists() or _digest(source / DATABASE) != sha256:
        raise StoreError(
            f"the backup {source} is damaged: its database is not the one that {MANIFEST} describes; take another"
        )
    if (data / DATABASE).exists():
        raise StoreError(f"{data} holds a service; restore into another folder, or move that away")
    ring = Ring([master_key(options.key_file, data / KEY, False)])
    if ring.name.hex() != manifest["key"]:
        raise StoreError(
            f"the backup {source} was written under another key; name that key with --key-file"
        )
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = data / (DATABASE + ".draft")
    draft.unlink(missing_ok=True)
    _copy(source / DATABASE, draft)
    draft.rename(data / DATABASE)
    return manifest


def _folder(options: Options) -> Path:
    if options.data is None:
        raise StoreError(
            "this command backs up folders only: back up a database with pg_dump, or with its write-ahead log"
        )
    return options.data


def _copy(source: Path, to: Path) -> None:
    """A consistent copy of a database that may be written at the same time; durable when this returns."""
    os.close(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        reader = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=60.0)
        writer = sqlite3.connect(to)
        try:
            reader.backup(writer)
            writer.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
            ((found,),) = writer.execute("PRAGMA integrity_check(1)").fetchall()
        finally:
            reader.close()
            writer.close()
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{source} cannot be copied: {error}") from None
    if found != "ok":
        raise StoreError(f"{source} is damaged: {found}")
    sync(to)


def _describe(database: Path) -> dict[str, Any]:
    with sqlite.look(database) as rows:
        about, streams = rows.about(), rows.streams()
        heads = chain.heads(rows, streams)
    return {
        "reticent": __version__,
        "format": about["format"],
        "id": about["id"],
        "key": about["key"],
        "commit": int(about.get("commit", "0")),
        "taken": time.time(),
        "streams": len(streams),
        "heads": heads,
        "bytes": database.stat().st_size,
        "sha256": _digest(database),
    }


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
