"""Who may take the next step of a stream: one object, in one process, on one machine.

Continuing a state twice puts the same noise on different data. So every total, learner and paused run has
a :class:`Lease`, which all its twins share (restored, copied, unpickled, now or later), and of several twins
the first to take a step takes the stream with it; the others are refused. All that decides this happens
under a lock: the lease's own for steps, one for the whole process for finding the lease of an id.

Across processes the same holds by a lock of the operating system on one byte of a file that belongs to the
user, at a place that the stream's id determines; so it is the stream that is locked, not a file: copies of
a state file are covered. A process takes the byte with its first step after a state of the stream was given
out or restored, and keeps it until none of its objects belongs to the stream any more, or it ends.

What a lease cannot see: another machine, another user or a container with a home of its own; and an old
state that is continued after the process that went further has ended. See docs/saved-states.md.
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

try:
    import fcntl
except ImportError:  # pragma: no cover - not on Windows, where one process is all that is seen
    fcntl = None  # type: ignore[assignment]

# What `furthest` says instead of a number of steps:
_UNCLAIMED = -1  # a state is about: whoever takes the next step must ask first
_COPIED = -2  # this process was forked off the one that held the stream
_SPOILT = -3  # steps were taken that were not committed

_known: dict[str, Lease] = {}
_every: weakref.WeakSet[Lease] = weakref.WeakSet()
_guard = threading.Lock()


class Lease:
    """How far the one stream of outputs that an id names has gone, in this process.

    Attributes
    ----------
    furthest : int
        How many steps have been taken. An object may go on if this is its own number of steps; where it
        is not, :meth:`check` says why, or takes the stream over. Set by whoever takes a step.
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
        """Whoever holds the lock and stands at ``step`` takes the stream over, or learns why not."""
        self.refuse_copies(what)
        if self.furthest == _UNCLAIMED and self._reached == step:
            if not self._locked:
                if not _take(self.id):
                    raise ForkError(
                        f"this {what} stands at {unit} {step}, but another process of this machine has "
                        "continued its stream and still holds it; end that process, and continue from "
                        "the state that it saved last"
                    )
                self._locked = True
            self.furthest = step
        if self.furthest != step:
            raise ForkError(
                f"this {what} stands at {unit} {step}, but its stream was already continued to {unit} "
                f"{self._standing} by a copy or a restored state; go on with that one"
            )

    def refuse_copies(self, what: str) -> None:
        """Refuse an object in the child of the process that made it, and one whose steps were lost."""
        if self.furthest == _COPIED:
            raise ForkError(
                f"this {what} was copied by a process fork; continuing it in the child would be a second "
                "release of the same data. Create it in the process that uses it, or hand over state() "
                "before the fork"
            )
        if self.furthest == _SPOILT:
            raise ForkError(
                f"this {what} took steps that could not be committed, so it cannot go on in this process; "
                "nothing of them has left: continue in a new process from the state that was saved last"
            )

    def publish(self, holder: object, what: str) -> None:
        """A state of the stream is given out: from now on there may be twins."""
        self.refuse_copies(what)
        with _guard:
            _known[self.id] = self
        self.hold(holder)
        if not self._locked and self.furthest >= 0:
            self._reached, self.furthest = self.furthest, _UNCLAIMED

    def hold(self, holder: object) -> None:
        """Count an object as one of the stream's; with the last of them the machine's lock is let go."""
        token = id(holder)
        if token not in self._holders:
            self._holders.add(token)
            weakref.finalize(holder, self._lose, token).atexit = False

    def _lose(self, token: int) -> None:
        self._holders.discard(token)
        # If the lock is taken, someone is at work and the stream still has an object.
        if not self._holders and self.lock.acquire(blocking=False):
            try:
                if self._locked and not self._holders and self.furthest >= 0:
                    self._reached, self.furthest = self.furthest, _UNCLAIMED
                    self._locked = False
                    _let_go(self.id)
            finally:
                self.lock.release()

    def withdraw(self, step: int) -> None:
        """Set the stream back to what was committed: nobody has seen, or will see, what came of later steps.

        Whoever took those steps must be dropped; the next twin is restored from the state at ``step``.
        """
        with self.lock:
            self._reached, self.furthest = step, _UNCLAIMED

    def entrust(self) -> None:
        """A database keeps other processes out, on this machine and elsewhere: the machine's lock is not taken."""
        self._locked = True

    def spoil(self) -> None:
        """Nobody in this process may continue: steps were taken whose outputs must never be seen."""
        self.furthest = _SPOILT


def find(identity: Any, step: int) -> Lease:
    """The lease of a stream, whether or not it has gone beyond ``step``."""
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
    """The lease for a state that stands at ``step``; refused if its stream has gone beyond."""
    lease = find(identity, step)
    with lease.lock:  # else a twin that is taking a step right now could be set back
        lease.refuse_copies(what)
        if lease._standing > step:
            raise ForkError(
                f"this state stands at {unit} {step}, but its stream was already continued beyond it; "
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
# Record locks of POSIX belong to a process: a child does not inherit them, the system lets them go when the
# process ends, however it ends, and one descriptor serves any number of streams. They are also let go when
# the process closes any descriptor of the file; so it is opened once and never closed.

_descriptor: int | None = None


def _take(identity: str) -> bool:
    if fcntl is None:  # pragma: no cover
        return True
    try:
        fcntl.lockf(_file(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(identity))
    except (BlockingIOError, PermissionError):
        return False
    return True


def _let_go(identity: str) -> None:
    if fcntl is not None:
        fcntl.lockf(_file(), fcntl.LOCK_UN, 1, _place(identity))


def _place(identity: str) -> int:
    return int(identity[:15], 16)  # two streams on one byte: probability 2^-60


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
        with contextlib.suppress(RuntimeError):  # there need not be a home
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
        f"no folder of your own to keep the lock of a stream in: tried {', '.join(map(str, folders))}; "
        "name one that can be written to in the environment variable RETICENT_LOCKS"
    )
