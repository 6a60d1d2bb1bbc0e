"""Who may take the next step of a stream: one object, in one process, on one machine.

Continuing a state twice puts the same noise on different data. So every total, learner and paused run has a
:class:`Lease`, which is shared by all objects of the stream, its *twins* (restored, copied or unpickled, now or
later). The first twin to take a step takes over the stream, and the others are refused. This is decided under locks:
the lease's own for steps, and one for the whole process for finding the lease of an id.

Between processes, the same is enforced by an operating-system lock on one byte of a file that belongs to the user, at
a position given by the stream's id. So it is the stream that is locked, not a file, and copies of a state file are
covered. A process locks the byte with its first step after a state of the stream was handed out or restored, and
keeps the lock until none of its objects belongs to the stream any more, or it ends.

A lease cannot detect another machine, another user or a container with its own home; nor an old state that is
continued after the process that went further has ended. See docs/saved-states.md.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

from reticent.privacy.errors import ForkError
from reticent.state.locks import without_locks

try:
    import fcntl
except ImportError:  # pragma: no cover - not on Windows, where other processes cannot be detected
    fcntl = None  # type: ignore[assignment]

# Values of `furthest` other than a number of steps:
_UNCLAIMED = (
    -1
)  # a state was handed out, so whoever takes the next step must first claim the stream
_COPIED = -2  # this process was forked from the one that holds the stream
_SPOILT = -3  # steps were taken that were not committed

_known: dict[str, Lease] = {}
_every: weakref.WeakSet[Lease] = weakref.WeakSet()
_guard = threading.Lock()


class Lease:
    """How far the stream of outputs with a given id has gone, in this process.

    Parameters
    ----------
    identity : str, optional
        Id of the stream; by default a new random one.
    step : int
        Number of steps that have been taken.

    Attributes
    ----------
    furthest : int
        Number of steps that have been taken. An object may continue if this equals its own number of steps; if not,
        :meth:`check` takes over the stream or explains why not. Set by whoever takes a step.
    lock : threading.Lock
        Held while a step is taken, by whichever twin takes it.
    """

    __slots__ = ("__weakref__", "_holders", "_locked", "_reached", "furthest", "id", "lock")

    def __init__(self, identity: str | None = None, step: int = 0) -> None:
        self.id = identity or secrets.token_hex(16)
        self.furthest = step
        self.lock = threading.Lock()
        self._reached = step
        self._locked = False
        self._holders: set[object] = set()
        _every.add(self)

    @property
    def _standing(self) -> int:
        return self._reached if self.furthest == _UNCLAIMED else self.furthest

    def check(self, step: int, what: str, unit: str = "step") -> None:
        """Take over the stream for the caller, who holds the lock and has taken ``step`` steps, or raise ForkError."""
        self.refuse_copies(what)
        if self.furthest == _UNCLAIMED and self._reached == step:
            if not self._locked:
                if not _take(self.id):
                    raise ForkError(
                        f"this {what} is at {unit} {step}, but another process on this machine has "
                        "continued its stream and still holds it; end that process, and continue from "
                        "the state that it saved last"
                    )
                self._locked = True
            self.furthest = step
        if self.furthest != step:
            raise ForkError(
                f"this {what} is at {unit} {step}, but its stream was already continued to {unit} "
                f"{self._standing} by a copy or a restored state; continue with that one"
            )

    def refuse_copies(self, what: str) -> None:
        """Refuse an object in a child of the process that made it, and one whose steps could not be committed."""
        if self.furthest == _COPIED:
            raise ForkError(
                f"this {what} was copied by a process fork; continuing it in the child would be a second "
                "release of the same data. Create it in the process that uses it, or hand over state() "
                "before the fork"
            )
        if self.furthest == _SPOILT:
            raise ForkError(
                f"this {what} took steps that could not be committed, so it cannot continue in this process. "
                "Nothing of them was released: continue in a new process from the state that was saved last"
            )

    def publish(self, holder: object, what: str) -> None:
        """Note that a state of the stream is handed out, so that from now on there may be twins."""
        self.refuse_copies(what)
        with _guard:
            _known[self.id] = self
        self.hold(holder)
        if not self._locked and self.furthest >= 0:
            self._reached, self.furthest = self.furthest, _UNCLAIMED

    def hold(self, holder: object) -> None:
        """Count an object as one of the stream's. When the last of them is gone, the machine's lock is released."""
        token = id(holder)
        if token not in self._holders:
            self._holders.add(token)
            weakref.finalize(holder, self._lose, token).atexit = False

    def _lose(self, token: int) -> None:
        self._holders.discard(token)
        # If the lock is held, a step is being taken, so the stream still has an object.
        if not self._holders and self.lock.acquire(blocking=False):
            try:
                if self._locked and not self._holders and self.furthest >= 0:
                    self._reached, self.furthest = self.furthest, _UNCLAIMED
                    self._locked = False
                    _let_go(self.id)
            finally:
                self.lock.release()

    def withdraw(self, step: int) -> None:
        """Set the stream back to what was committed; nobody has seen, or will see, the outputs of later steps.

        The object that took those steps must be dropped; the next twin is restored from the state at ``step``.
        """
        with self.lock:
            self._reached, self.furthest = step, _UNCLAIMED

    def entrust(self) -> None:
        """Rely on a database to keep out other processes, here and on other machines, instead of the machine's lock."""
        self._locked = True

    def spoil(self) -> None:
        """Let nobody in this process continue, because steps were taken whose outputs must never be seen."""
        self.furthest = _SPOILT


def find(identity: Any, step: int) -> Lease:
    """The lease of a stream, whether or not the stream has gone beyond ``step``."""
    if not isinstance(identity, str) or not re.fullmatch("[0-9a-f]{32}", identity):
        raise ValueError(
            f"the id of a state must be 32 hexadecimal digits, got {identity!r}; the state is damaged"
        )
    with _guard:
        lease = _known.get(identity)
        if lease is None:
            lease = _known[identity] = Lease(identity, step)
            lease.furthest = _UNCLAIMED
    return lease


def claim(identity: Any, step: int, what: str, unit: str = "step") -> Lease:
    """The lease for a state at ``step``; refused if its stream has gone beyond it."""
    lease = find(identity, step)
    with lease.lock:  # otherwise a twin that is taking a step right now could be set back
        lease.refuse_copies(what)
        if lease._standing > step:
            raise ForkError(
                f"this state is at {unit} {step}, but its stream was already continued beyond it; "
                "continuing it twice would reuse its noise on other data"
            )
        if lease._standing < step or not lease._locked:
            lease._reached, lease.furthest = step, _UNCLAIMED
    return lease


def _after_fork() -> None:
    global _guard, _descriptor
    _guard = threading.Lock()
    if _descriptor is not None:
        # The child may close what it inherited, as daemons do; its locks need a descriptor of its own.
        with contextlib.suppress(OSError):
            os.close(_descriptor)
        _descriptor = None
    _known.clear()
    for lease in list(_every):
        lease.furthest, lease._locked, lease.lock = _COPIED, False, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# One byte of a file for each stream ----------------------------------------------------------------
#
# POSIX record locks belong to a process: a child does not inherit them, the system releases them when the process
# ends, however it ends, and one descriptor serves any number of streams. They are also released when the process
# closes any descriptor of the file, so it is opened once and never closed.

_descriptor: int | None = None


def _take(identity: str) -> bool:
    if fcntl is None:  # pragma: no cover
        return True
    try:
        fcntl.lockf(_file(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(identity))
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        raise without_locks(error, "streams.lock, by RETICENT_LOCKS,") from None
    return True


def _let_go(identity: str) -> None:
    if fcntl is not None:
        fcntl.lockf(_file(), fcntl.LOCK_UN, 1, _place(identity))


def _place(identity: str) -> int:
    return int(identity[:15], 16)  # two given streams share a byte with probability 2^-60


def _file() -> int:
    global _descriptor
    with _guard:
        if _descriptor is None:
            _descriptor = _open()
        return _descriptor


def _open() -> int:
    named = os.environ.get("RETICENT_LOCKS")
    folders = [Path(named)] if named else []
    if not named:
        with contextlib.suppress(RuntimeError):  # there may be no home directory
            folders.append(Path.home() / ".cache" / "reticent")
        folders.append(Path(tempfile.gettempdir(), f"reticent-{os.getuid()}"))
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.stat(folder, follow_symlinks=bool(named)).st_uid == os.getuid():
                return os.open(
                    folder / "streams.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600
                )
    raise OSError(
        f"no folder of yours can hold the lock of a stream: tried {', '.join(map(str, folders))}; "
        "set the environment variable RETICENT_LOCKS to a folder that you can write to"
    )
