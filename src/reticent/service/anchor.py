"""A small file outside the folder that distinguishes the folder from a restored backup or a copy.

The store counts its commits. After each commit, and before anyone sees what it published, the count is written to the
anchor, which no backup of the folder contains. A store that is behind its anchor was restored from a backup: its
streams would apply used noise to other records. A folder that its anchor knows at another place is a copy, and one
without an anchor was brought from elsewhere. All of these are refused until they are adopted
(:mod:`reticent.service.adopting`).

The file has two slots, written in turn, so that a torn write leaves the other intact. It is synced at start and once a
second, not with every commit: it survives any end of the process, but may lose the last second in a power cut. A
snapshot of a whole machine contains the anchor and cannot be detected; docs/service.md says so.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from reticent.service.store import StoreError
from reticent.state.files import sync
from reticent.state.locks import lock, try_lock

FOLDER = "RETICENT_ANCHORS"
DATABASE = "service.sqlite"
UNKNOWN = -1
"""Instead of the number of charges: there are some that the folder does not have."""
_RETIRED = 2**62  # more commits than any folder makes
_SLOTS = (0, 4096)
_SIZE = 2048


@dataclass(frozen=True)
class Facts:
    """The content of an anchor.

    Parameters
    ----------
    id : str
        Id of the folder.
    root : str
        Id of the folder from which it descends by adoptions.
    commit : int
        Number of commits.
    charges : int
        Number of charges in the ledgers at that commit, or :data:`UNKNOWN`.
    path : str
        Path of the folder.
    inode : int
        Inode of its database.
    device : int
        Device of its database.
    """

    id: str
    root: str
    commit: int
    charges: int
    path: str
    inode: int
    device: int

    @property
    def retired(self) -> bool:
        """Whether a copy of the folder was adopted and continues its ledgers."""
        return self.commit == _RETIRED


def default_path(identity: str) -> Path:
    """The default anchor of a folder, below the user's own state folder."""
    named = os.environ.get(FOLDER)
    if named:
        return Path(named) / identity
    state = os.environ.get("XDG_STATE_HOME")
    try:
        home = Path(state) if state else Path.home() / ".local" / "state"
    except RuntimeError:  # there may be no home directory
        home = Path(tempfile.gettempdir(), f"reticent-{os.getuid()}")
    return home / "reticent" / "anchors" / identity


class Anchor:
    """The anchor of a folder, held by one process.

    Parameters
    ----------
    path : path
        The file; it is created if ``facts`` are given.
    facts : Facts, optional
        Content of a new anchor.
    """

    def __init__(self, path: Path, facts: Facts | None = None) -> None:
        self.path = path
        if facts is not None:
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(
                    f"the folder {path.parent} for the anchor cannot be made ({error.strerror}); name a file with "
                    "--anchor, on another disk or volume than --data"
                ) from None
        elif not path.exists():
            raise StoreError(
                f"this folder has no anchor at {path}: it was copied or restored from elsewhere, or the anchor was "
                "lost, and the noise of its streams may have been used on other records. If it is to be served, "
                "run `reticent serve adopt`, which begins with fresh noise and charges for it; if the anchor is "
                "elsewhere, name it with --anchor"
            )
        self._file = os.open(path, os.O_RDWR | (os.O_CREAT if facts is not None else 0), 0o600)
        if not try_lock(self._file):
            os.close(self._file)
            raise StoreError(
                f"another service holds the anchor {path}: this folder, or the one that it is a copy of, is "
                "being served; stop that first"
            )
        latest = _latest(self._file)
        self._turn = 0
        self._dirty = False
        self._closed = threading.Event()
        if facts is not None:
            if os.fstat(self._file).st_size and not _may_replace(latest, facts):
                os.close(self._file)
                raise StoreError(
                    f"there is an anchor at {path} already, of another folder; name another file with --anchor"
                )
            self.facts = facts
            self._write()
            self._write()
            self.sync()
            sync(path.parent)
        elif latest is None:
            os.close(self._file)
            raise StoreError(
                f"the anchor {path} is damaged; if nothing was restored, run `reticent serve adopt`, which begins "
                "with fresh noise and charges for it"
            )
        else:
            self.facts = latest

    def check(self, identity: str, commit: int, path: Path) -> None:
        """Refuse a folder that is not what was served last."""
        facts = self.facts
        device, inode = place_of(path)
        if facts.id != identity:
            raise StoreError(f"the anchor {self.path} belongs to another folder, {facts.path}")
        if facts.retired:
            raise StoreError(
                f"a copy of {path} was adopted, and continues its ledgers: what is charged here would not be known "
                "there. Serve the copy, or run `reticent serve adopt`, which closes the ledgers that several streams "
                "share, begins with fresh noise and charges for it"
            )
        if commit < facts.commit:
            raise StoreError(
                f"{path} was restored from a backup: it holds {commit} commits, and {facts.commit} were made. What "
                "was published since used noise that must not be used again; `reticent serve adopt` continues with "
                "fresh noise and charges for it"
            )
        # inode numbers coincide on fresh disks: a folder was moved only if nothing is left at its old path
        moved = (facts.device, facts.inode) == (device, inode) and not Path(facts.path).exists()
        if facts.path != str(path) and not moved:
            raise StoreError(
                f"{path} is a copy of {facts.path}, or was moved to another disk; both would use the same noise. "
                "Serve the original, or run `reticent serve adopt`, which begins with fresh noise and charges for it"
            )
        self.facts = replace(facts, path=str(path), inode=inode, device=device)
        self._write()
        self.sync()

    def follow(self, number: int) -> None:
        """Refuse a commit that is not numbered higher than all earlier ones: the store was set back in the meantime."""
        if number <= self.facts.commit:
            raise StoreError(
                f"the store was set back while it was served: commit {number} would follow {self.facts.commit}; what "
                "was published since used noise that must not be used again. Stop all workers and run `reticent "
                "serve adopt`, which continues with fresh noise and charges for it"
            )

    def commit(self, number: int, charges: int) -> None:
        """Record a commit, before what it published is seen."""
        known = self.facts
        self.facts = Facts(
            known.id, known.root, number, charges, known.path, known.inode, known.device
        )
        self._write()
        self._dirty = True

    def retire(self) -> None:
        """Refuse the folder from now on, because a copy of it continues its ledgers."""
        self.facts = replace(self.facts, commit=_RETIRED, charges=UNKNOWN)
        self._write()
        self._write()
        self.sync()

    def keep_synced(self) -> None:
        """Sync once a second, in a separate thread, until closed."""

        def work() -> None:
            while not self._closed.wait(1.0):
                if self._dirty:
                    self._dirty = False
                    self.sync()

        threading.Thread(target=work, name="reticent-anchor", daemon=True).start()

    def sync(self) -> None:
        """Write the anchor to disk."""
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        self._closed.set()
        self.sync()
        os.close(self._file)

    def _write(self) -> None:
        text = msgspec.json.encode(vars(self.facts))
        line = b"%08x %s\n" % (zlib.crc32(text), text)
        if len(line) > _SIZE:
            raise StoreError(f"the path {self.facts.path} is too long for an anchor")
        os.pwrite(self._file, line.ljust(_SIZE, b"\0"), _SLOTS[self._turn])
        self._turn = 1 - self._turn


def _latest(file: int) -> Facts | None:
    """The later one of the intact slots."""
    found = []
    for place in _SLOTS:
        line = os.pread(file, _SIZE, place).rstrip(b"\0").rstrip(b"\n")
        mark, _, text = line.partition(b" ")
        if mark == b"%08x" % zlib.crc32(text) and text:
            found.append(Facts(**json.loads(text)))
    return max(found, key=lambda one: one.commit) if found else None


def peek(path: Path) -> Facts | None:
    """The content of an anchor, even if another process holds it; None if there is none."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return _latest(file)
    finally:
        os.close(file)


def _may_replace(there: Facts | None, facts: Facts) -> bool:
    """Whether a new anchor may replace what is there."""
    if there is None:
        return False
    # an anchor that was created for this folder by a first start that did not finish
    unused = there.commit == 0 and there.path == facts.path
    return unused or there.root == facts.root


def place_of(path: Path) -> tuple[int, int]:
    """Device and inode of the database in a folder."""
    found = (path / DATABASE).stat()
    return found.st_dev, found.st_ino


def count_adoption(files: list[Path], known: int) -> tuple[int, bool]:
    """Count one more adoption of a lineage, durably, before it happens.

    Parameters
    ----------
    files : list of path
        Files that hold the count; all of them are updated.
    known : int
        Number of adoptions that the folder itself knows.

    Returns
    -------
    tuple of (int, bool)
        Number of adoptions including this one, and whether a count existed.
    """
    handles = []
    try:
        for file in files:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handles.append(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
            lock(handles[-1])
        found = [os.pread(handle, 20, 0).strip(b"\0\n ") for handle in handles]
        if any(text and not text.isdigit() for text in found):
            raise StoreError(
                f"the count of adoptions is damaged: {', '.join(map(str, files))}; write into it how often backups "
                "of this service were adopted, or more"
            )
        count = 1 + max([known, *(int(text) for text in found if text)])
        for handle, file in zip(handles, files, strict=True):
            os.pwrite(handle, b"%-19d\n" % count, 0)
            os.fsync(handle)
            sync(file.parent)
        return count, any(found)
    finally:
        for handle in handles:
            os.close(handle)
