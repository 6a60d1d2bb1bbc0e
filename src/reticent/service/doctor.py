"""`reticent serve doctor`: checks whether a folder can be served, without changing anything."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reticent.service import chain, sqlite
from reticent.service.anchor import DATABASE, Facts, default_path, peek
from reticent.service.folder import KEY, LOCK, Options
from reticent.service.health import LEAST, free_bytes
from reticent.service.routes_admin import share_of
from reticent.service.sealing import VARIABLE, Ring, master_key, unopened
from reticent.service.sql import Rows
from reticent.service.store import StoreError, TokenRow
from reticent.state.locks import try_lock

OK, LOOK, BROKEN = "ok", "look", "broken"
_SYNCS = 5
_SLOW = 0.05  # seconds; every commit waits for one sync


@dataclass(frozen=True)
class CheckResult:
    """The result of one check: fine, worth looking at, or broken."""

    level: str
    what: str
    words: str


def examine(options: Options) -> list[CheckResult]:
    """Check everything that can be wrong with a folder.

    Parameters
    ----------
    options : Options
        Location of the folder, its key, and its anchor.
    """
    data = options.data
    if data is None:
        raise StoreError(
            "the doctor checks folders; for a database, see /readyz and `reticent serve verify --database`"
        )
    if not (data / DATABASE).exists():
        raise StoreError(f"there is no service in {data}: {DATABASE} is missing")
    said = None
    with contextlib.suppress(StoreError), sqlite.look(data / DATABASE) as rows:
        # read before the database, so that the anchor is never ahead of it
        said = peek(options.anchor or default_path(rows.about()["id"]))
    out = [*_folder(data), *_disk(data)]
    try:
        with sqlite.look(data / DATABASE) as rows:
            out += _pages(data)
            out += _key(options, data, rows)
            out += _anchor(options, data, rows, said)
            for check in (_log, _ledgers, _tokens, _clock):
                out += check(rows)
    except StoreError as error:
        out.append(CheckResult(BROKEN, "database", str(error)))
    return out


def _folder(data: Path) -> Iterator[CheckResult]:
    mode = data.stat().st_mode & 0o777
    open_to = mode & 0o077
    yield CheckResult(
        LOOK if open_to else OK,
        "folder",
        f"mode {mode:o}: others can read it; chmod 700 {data}"
        if open_to
        else f"mode {mode:o}, {data}",
    )
    served = False
    if (data / LOCK).exists():
        handle = os.open(data / LOCK, os.O_RDWR)
        try:
            served = not try_lock(handle)
        except OSError as error:
            yield CheckResult(BROKEN, "process", str(error.strerror))
            return
        finally:
            os.close(handle)
    yield CheckResult(
        OK, "process", "it is being served" if served else "it is not being served now"
    )


def _disk(data: Path) -> Iterator[CheckResult]:
    free = free_bytes(data)
    words = f"{free / 2**30:.1f} GiB free"
    yield CheckResult(OK if free >= LEAST else BROKEN, "space", words)
    times = []
    probe = data / f"doctor-{os.getpid()}"
    try:
        for _ in range(_SYNCS):
            began = time.perf_counter()
            handle = os.open(probe, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.write(handle, bytes(4096))
                os.fsync(handle)
            finally:
                os.close(handle)
            times.append(time.perf_counter() - began)
    except OSError as error:
        yield CheckResult(BROKEN, "disk", f"a file cannot be written and synced: {error.strerror}")
        return
    finally:
        probe.unlink(missing_ok=True)
    median = statistics.median(times)
    slow = " which every commit waits for" if median > _SLOW else ""
    yield CheckResult(LOOK if slow else OK, "disk", f"a sync takes {1e3 * median:.1f} ms{slow}")


def _pages(data: Path) -> Iterator[CheckResult]:
    connection = sqlite3.connect(f"{(data / DATABASE).absolute().as_uri()}?mode=ro", uri=True)
    try:
        ((found,),) = connection.execute("PRAGMA integrity_check(1)").fetchall()
    finally:
        connection.close()
    size = (data / DATABASE).stat().st_size / 2**20
    yield CheckResult(
        OK if found == "ok" else BROKEN, "database", f"{size:.1f} MiB, check of its pages: {found}"
    )


def _key(options: Options, data: Path, rows: Rows) -> Iterator[CheckResult]:
    try:
        ring = Ring([master_key(options.key_file, data / KEY, False)])
    except ValueError as error:
        yield CheckResult(BROKEN, "key", str(error))
        return
    if ring.name.hex() != rows.about()["key"]:
        yield CheckResult(BROKEN, "key", "the folder was written under another key; name that key")
        return
    file = options.key_file or (None if os.environ.get(VARIABLE) else data / KEY)
    mode = 0o600 if file is None else file.stat().st_mode & 0o777
    if mode & 0o077:
        yield CheckResult(BROKEN, "key", f"{file} has mode {mode:o}: others can read it; chmod 600")
    elif file is not None and file.resolve().parent == data.resolve():
        words = "it lies beside the database: whoever copies the folder has both; see --key-file"
        yield CheckResult(LOOK, "key", words)
    else:
        yield CheckResult(OK, "key", f"in {file}" if file else f"in {VARIABLE}")
    bad = unopened(rows, ring)
    count = len(rows.streams())
    words = f"of {', '.join(bad)} cannot be read" if bad else f"of {count} streams can be read"
    yield CheckResult(BROKEN if bad else OK, "states", words)


def _anchor(options: Options, data: Path, rows: Rows, facts: Facts | None) -> Iterator[CheckResult]:
    about = rows.about()
    path = options.anchor or default_path(about["id"])
    if facts is None:
        words = f"there is none at {path}: a copy, a restore, or a lost anchor; run `reticent serve adopt`"
        yield CheckResult(BROKEN, "anchor", words)
        return
    commit = int(about.get("commit", "0"))
    if facts.id != about["id"]:
        yield CheckResult(BROKEN, "anchor", f"{path} belongs to another folder")
    elif facts.retired:
        words = "a copy of the folder was adopted and continues its ledgers; serve that, or run `reticent serve adopt`"
        yield CheckResult(BROKEN, "anchor", words)
    elif commit < facts.commit:
        behind = facts.commit - commit
        words = f"the folder is {behind} commits behind it, so it was restored; run `reticent serve adopt`"
        yield CheckResult(BROKEN, "anchor", words)
    elif path.resolve().is_relative_to(data.resolve()):
        words = f"{path} lies inside the folder, so a backup of the folder includes it; move it with --anchor"
        yield CheckResult(BROKEN, "anchor", words)
    else:
        yield CheckResult(OK, "anchor", f"{path}, at commit {commit}")


def _log(rows: Rows) -> Iterator[CheckResult]:
    found = chain.verify(rows)
    for words in found.wrong:
        yield CheckResult(BROKEN, "log", words)
    if not found.wrong:
        yield CheckResult(
            OK,
            "log",
            f"{found.entries} entries, {found.decisions} decisions, all hashes are correct",
        )


def _ledgers(rows: Rows) -> Iterator[CheckResult]:
    found = rows.ledgers()
    own = {stream.ledger for stream in rows.streams() if stream.ledger == stream.name}
    shared = [row for row in found if row.name not in own]
    closed = [row.name for row in found if row.closed]
    spent = [row.name for row in shared if not row.closed and share_of(rows, row.name) > 0.9]
    if closed:
        yield CheckResult(LOOK, "ledgers", f"closed: {', '.join(closed)}")
    if spent:
        yield CheckResult(LOOK, "ledgers", f"more than nine tenths spent: {', '.join(spent)}")
    if not closed and not spent:
        yield CheckResult(OK, "ledgers", f"{len(found)}, {len(shared)} of them shared")


def _tokens(rows: Rows) -> Iterator[CheckResult]:
    now = time.time()
    found = rows.tokens()
    old = [row for row in found if _expired(row, now)]
    admins = [row for row in found if row.role == "administrator" and not _expired(row, now)]
    known = {stream.name for stream in rows.streams() if not stream.closed}
    idle = [row for row in found if row.streams is not None and known.isdisjoint(row.streams)]
    if not admins:
        words = "no administrator is left; stop the service and run `reticent serve token`"
        yield CheckResult(BROKEN, "tokens", words)
    if old or idle:
        words = (
            f"{len(old)} have expired and {len(idle)} are for streams that are closed; revoke them"
        )
        yield CheckResult(LOOK, "tokens", words)
    if admins and not old and not idle:
        yield CheckResult(OK, "tokens", f"{len(found)}, {len(admins)} of them administrators")


def _expired(token: TokenRow, now: float) -> bool:
    return token.expires is not None and token.expires <= now


def _clock(rows: Rows) -> Iterator[CheckResult]:
    head = rows.log_head(chain.ACTS)
    ahead = 0.0 if head is None else head.at - time.time()
    words = "not behind the log"
    if ahead > 60.0:
        words = (
            f"the log has an entry {ahead / 60:.0f} minutes in the future: the clock was set back"
        )
    yield CheckResult(LOOK if ahead > 60.0 else OK, "clock", words)
