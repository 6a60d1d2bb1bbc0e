"""A party's memory: the requests, the answers, and the generator of its noise.

The files are authoritative: ``state``, written as a whole when a run begins, and ``journal``, to which every answer is
appended (one write and one fsync; writing the whole file would take six times as long). Whoever handles a request takes
the lock, reads the files if another process has written them, and writes before the answer leaves. So a killed site
continues where it was, and two processes on one folder act as one party.

These files must not be restored from an old copy: the noise that was drawn since would be drawn again; see
docs/sharp-edges.md.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from reticent.checks import FloatArray
from reticent.state import files
from reticent.state.locks import lock

KIND = "vertical party"


@dataclass(frozen=True, eq=False)
class Memory:
    """The state of a party; replaced as a whole, never modified in place."""

    run: str = ""
    phase: str = "idle"  # idle, opening (not paid yet), open, closed
    plan: dict[str, Any] = field(default_factory=dict)
    digests: tuple[str, ...] = ()  # of the requests, from sequence number 1
    answers: tuple[bytes, ...] = ()
    rounds: int = 0
    chosen: frozenset[int] = frozenset()
    shared: dict[int, FloatArray] = field(default_factory=dict)
    labels: FloatArray | None = None  # the sketch of another party's labels
    sent_labels: FloatArray | None = None
    past: tuple[str, ...] = ()

    def with_(self, **changes: Any) -> Memory:
        return replace(self, **changes)

    def state(self, owner: str, source: dict[str, Any]) -> dict[str, Any]:
        """Plain data for :mod:`reticent.state.files`."""
        return {
            "kind": KIND, "owner": owner, "source": source, "run": self.run, "phase": self.phase,
            "plan": self.plan, "digests": "".join(self.digests), "rounds": self.rounds,
            "answers": np.frombuffer(b"".join(self.answers), np.uint8),
            "lengths": np.array([len(answer) for answer in self.answers], np.int64),
            "chosen": sorted(self.chosen), "past": list(self.past), "labels": self.labels,
            "sent labels": self.sent_labels,
            "shared": [[column, sketch] for column, sketch in self.shared.items()],
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: dict[str, Any], owner: str) -> Memory:
        if state.get("kind") != KIND or state.get("owner") != owner:
            raise ValueError(
                f"the folder holds the state of {state.get('owner')!r} and not that of the party "
                f"{owner!r}; give each party a folder of its own"
            )
        digests, answers = str(state["digests"]), state["answers"].tobytes()
        ends = np.cumsum(state["lengths"]).tolist()
        return cls(
            run=str(state["run"]),
            phase=str(state["phase"]),
            plan=dict(state["plan"]),
            digests=tuple(digests[k : k + 64] for k in range(0, len(digests), 64)),
            answers=tuple(answers[a:b] for a, b in zip([0, *ends], ends, strict=False)),
            rounds=int(state["rounds"]),
            chosen=frozenset(map(int, state["chosen"])),
            shared={int(column): sketch for column, sketch in state["shared"]},
            labels=state["labels"],
            sent_labels=state["sent labels"],
            past=tuple(state["past"]),
        )

    def change_to(self, new: Memory, source: dict[str, Any]) -> dict[str, Any]:
        """The journal entry that turns this memory into ``new``, which has one answer more."""
        added = new.shared.keys() - self.shared.keys()
        return {
            "run": new.run,
            "phase": new.phase,
            "rounds": new.rounds,
            "source": source,
            "digest": new.digests[-1],
            "answer": np.frombuffer(new.answers[-1], np.uint8),
            "chosen": sorted(new.chosen - self.chosen),
            "shared": [[column, new.shared[column]] for column in sorted(added)],
            "labels": None if new.labels is self.labels else new.labels,
            "sent labels": None if new.sent_labels is self.sent_labels else new.sent_labels,
        }

    def changed_by(self, change: dict[str, Any]) -> Memory:
        """The inverse of :meth:`change_to`."""
        shared = {int(column): sketch for column, sketch in change["shared"]}
        changes: dict[str, Any] = {
            "phase": str(change["phase"]),
            "rounds": int(change["rounds"]),
            "digests": (*self.digests, str(change["digest"])),
            "answers": (*self.answers, change["answer"].tobytes()),
            "chosen": self.chosen | frozenset(map(int, change["chosen"])),
            "shared": {**self.shared, **shared},
        }
        if change["labels"] is not None:
            changes["labels"] = change["labels"]
        if change["sent labels"] is not None:
            changes["sent_labels"] = change["sent labels"]
        return self.with_(**changes)


Stamp = tuple[tuple[int, int, int] | None, int]


class SiteFile:
    """The file in which a party keeps its memory; without a folder nothing is kept.

    Parameters
    ----------
    folder
        Created, readable by its owner only, if it does not exist.
    """

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._stamp: Stamp = (None, 0)
        if self.folder is not None:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def path(self) -> Path:
        assert self.folder is not None
        return self.folder / "state"

    @property
    def journal(self) -> Path:
        assert self.folder is not None
        return self.folder / "journal"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock on the folder, exclusively on this machine."""
        if self.folder is None:
            yield
            return
        handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock(handle)
            yield
        finally:
            os.close(handle)

    def _look(self) -> Stamp:
        try:
            about = os.stat(self.path)
        except FileNotFoundError:
            return None, 0
        try:
            length = os.stat(self.journal).st_size
        except FileNotFoundError:
            length = -1
        return (about.st_ino, about.st_mtime_ns, about.st_size), length

    def changed(self, owner: str) -> tuple[Memory, dict[str, Any]] | None:
        """Memory and generator, if another process has written since this object did; else None."""
        if self.folder is None:
            return None
        now = self._look()
        if now == self._stamp:
            return None
        if now[0] is None or now[1] < 0:
            raise RuntimeError(
                f"{self.path} or its journal has disappeared; earlier answers can no longer be repeated, so this party "
                "cannot continue its run"
            )
        state = files.load(self.path)
        memory, source = Memory.from_state(state, owner), state["source"]
        for change in self._changes():
            if change["run"] == memory.run:  # else from before the run that the state began
                memory, source = memory.changed_by(change), change["source"]
        self._stamp = self._look()
        return memory, source

    def _changes(self) -> Iterator[dict[str, Any]]:
        """The entries of the journal; an unfinished last entry, whose answer was never sent, is cut off."""
        data = self.journal.read_bytes()
        at = 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 8], "little")
            entry = data[at + 8 : at + 8 + size]
            if len(data) < at + 8 + size or len(data) < at + 8:
                os.truncate(self.journal, at)
                return
            yield files.loads(entry)
            at += 8 + size

    def save(self, state: dict[str, Any]) -> None:
        """Write everything, and start a new journal."""
        files.save(state, self.path)
        self._write(b"", os.O_TRUNC)

    def append(self, change: dict[str, Any]) -> None:
        """Add one answer to the journal."""
        data = files.dumps(change)
        self._write(len(data).to_bytes(8, "little") + data, os.O_APPEND)

    def _write(self, data: bytes, how: int) -> None:
        length = self._stamp[1]
        handle = os.open(self.journal, os.O_WRONLY | os.O_CREAT | how, 0o600)
        try:
            if os.write(handle, data) != len(data):
                os.ftruncate(handle, length)
                raise OSError("the journal could not be written whole; is the disk full?")
            os.fsync(handle)
        finally:
            os.close(handle)
        self._stamp = self._look()
