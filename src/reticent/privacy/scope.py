"""Which ledgers are charged for what is done here: in this context, this thread and this process.

A context variable is not inherited by a thread, and nothing reaches a worker process that was started earlier. So
there are three rules, and the first one that finds a ledger decides:

1. the ledgers that this context has entered;
2. the ledgers that the estimator being fitted remembers because it was cloned inside them (an estimator keeps them when
   it is pickled, so this works on other machines too);
3. the ledgers that are open around this thread or process: those entered by another thread of this process or, for a
   thread that was started inside a ledger and outlived its block, that ledger; otherwise those that the nearest
   ancestor process has open.

Rule 3 needs a unique answer. If two threads have entered different ledgers, a third thread that entered neither is
refused, because with either choice the other ledger might miss a charge.

A process lists its open ledgers in a small file named after its process number (:func:`_announce`), which its
descendants look for when they are about to release something. :mod:`reticent.privacy.ledger` opens the ledgers that
are found here and charges them.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from reticent.privacy.errors import LedgerError

T = TypeVar("T")


@dataclass(frozen=True)
class Handle:
    """What another thread or process needs to find a ledger."""

    id: str
    path: str | None
    terms: dict[str, Any] = field(compare=False)
    live: Any = field(compare=False, repr=False)  # the ledger itself, in the process that made it

    def __reduce__(self) -> Any:
        return revive, (self.id, self.path, self.terms)


Stack = tuple[Handle, ...]

lock = threading.RLock()
"""Held while a ledger is read or written, and during a fork, so that a child never starts in the middle of that."""

_entered: ContextVar[Stack] = ContextVar("ledgers_entered", default=())
_remembered: ContextVar[Stack | None] = ContextVar("ledgers_remembered", default=None)
_paid: ContextVar[bool] = ContextVar("paid_already", default=False)

_ledgers: WeakValueDictionary[str, Any] = WeakValueDictionary()
_made_here: set[str] = set()
_open: list[_Open] = []
_outlived: WeakKeyDictionary[threading.Thread, Stack] = WeakKeyDictionary()
_forked = False


@dataclass(eq=False)
class _Open:
    """A ``with`` block that has not ended: its ledgers, outermost first, and the threads that existed before it."""

    stack: Stack
    threads: WeakSet[threading.Thread]


def register(identity: str, ledger: Any) -> None:
    """Register a ledger of this process, so that its handle leads back to it."""
    _made_here.add(identity)
    _ledgers[identity] = ledger


def revive(identity: str, path: str | None, terms: dict[str, Any]) -> Handle:
    """A handle from its pickled parts."""
    return Handle(identity, path, terms, _ledgers.get(identity))


def enter(handle: Handle) -> None:
    """Charge a ledger for what this context does from now on."""
    stack = (*_entered.get(), handle)
    with lock:
        _open.append(_Open(stack, WeakSet(threading.enumerate())))
        try:
            _announce()
        except BaseException:
            _open.pop()
            raise
    _entered.set(stack)


def leave(handle: Handle) -> None:
    """End the innermost block of a ledger; threads that it started and that outlive it stay with the ledger."""
    # Not by a token: one ledger may be entered in several threads, each with its own context.
    stack = _entered.get()
    inner = max((k for k, item in enumerate(stack) if item == handle), default=None)
    if inner is not None:
        _entered.set(stack[:inner] + stack[inner + 1 :])
    with lock:
        mine = None if inner is None else stack[: inner + 1]
        ends = [item for item in _open if item.stack[-1] == handle]
        item = next((item for item in reversed(ends) if item.stack == mine), ends[-1])
        _open.remove(item)
        for thread in threading.enumerate():
            if thread not in item.threads and thread is not threading.current_thread():
                _outlived.setdefault(thread, item.stack)
        _announce()


def uncharged(make: Callable[[], T]) -> T:
    """Call a function without charging any ledger, for what has been paid for already, such as a restored learner.

    Parameters
    ----------
    make : callable
        The function, without arguments.

    Returns
    -------
    Any
        What the function returns.
    """
    context = Context()
    context.run(_paid.set, True)
    return context.run(make)


@contextlib.contextmanager
def fitting(handles: Stack | None) -> Iterator[None]:
    """Mark a fit by an estimator that remembers these ledgers; None if it is not a clone."""
    token = _remembered.set(handles)
    try:
        yield
    finally:
        _remembered.reset(token)


def to_remember(before: Stack) -> Stack:
    """The ledgers that a clone made here remembers; `before` are those that its original remembers."""
    if _entered.get() or before:
        return _entered.get() or before
    with lock:
        around = [item.stack for item in _open]
    # If they are ambiguous, remember none: the fit itself will find the same ledgers and be refused.
    return _longest(around) or ()


def to_deploy(handles: Stack) -> Stack:
    """The ledgers that a fitted clone keeps when it is pickled: all but those of this process that are closed."""
    with lock:
        open_now = {handle.id for item in _open for handle in item.stack}
    return tuple(h for h in handles if h.id in open_now or h.id not in _made_here)


@dataclass(frozen=True)
class Payers:
    """The ledgers to charge, and how they were found if this context did not enter them."""

    handles: Stack
    found: str = ""
    clone: bool = False  # whether the estimator being fitted is a clone


def payers() -> Payers:
    """The ledgers to charge for a release that is about to be made here."""
    if _paid.get():
        return Payers(())
    entered, remembered = _entered.get(), _remembered.get()
    if entered and not _forked:
        return Payers(entered)
    if entered:
        # A forked worker inherited these; its parent may have entered others since then.
        stacks = _around_this_process()
        if _longest(stacks) is None and any(entered[: len(s)] == s for s in stacks):
            return Payers(entered)
        return Payers(tuple(dict.fromkeys((*entered, *_only(stacks)))))
    if remembered:
        return Payers(remembered, "the estimator was cloned inside its `with` block")
    clone = remembered is not None
    with lock:
        stacks = [item.stack for item in _open]
        outlived = _outlived.get(threading.current_thread(), ())
    if stacks:
        found = "this thread entered no ledger, and another thread has this one open"
        return Payers(_only(stacks), found, clone)
    if outlived:
        return Payers(outlived, "this thread was started inside its `with` block", clone)
    found = "an ancestor of this process has it open"
    return Payers(_only(_around_this_process()), found, clone)


def _longest(stacks: list[Stack]) -> Stack | None:
    """The innermost of nested stacks; None if they are not all nested in one another."""
    longest = max(stacks, key=len, default=())
    nested = all(longest[: len(stack)] == stack for stack in stacks)
    return longest if nested else None


def _only(stacks: list[Stack]) -> Stack:
    stack = _longest(stacks)
    if stack is None:
        raise LedgerError(
            "several ledgers are open in other threads of this process, or in the process that "
            "started it, and it is not clear which of them to charge. Enter the right one, "
            "`with ledger:`, around the work itself. Nothing was released"
        )
    return stack


# Between processes -------------------------------------------------------------------------------


def _folder() -> Path:
    """The folder in which the processes of this user list their open ledgers.

    There is one for each namespace of process numbers, because containers that share a folder for temporary files may
    use the same numbers.
    """
    return Path(tempfile.gettempdir(), f"reticent-ledgers-{_owner()}")


@functools.cache
def _owner() -> str:
    user = os.geteuid() if hasattr(os, "geteuid") else "user"
    try:
        return f"{user}-{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return f"{user}"


def _announce() -> None:
    """List this process's open ledgers in a file; remove the file if there are none."""
    try:
        folder = _folder()
        mine = folder / str(os.getpid())
        if not _open:
            mine.unlink(missing_ok=True)
            return
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
        foreign = hasattr(os, "geteuid") and facts.st_uid != os.geteuid()
        if foreign or not stat.S_ISDIR(facts.st_mode) or facts.st_mode & 0o022:
            raise PermissionError(f"{folder} must be a folder that only this user can write to")
        _sweep(folder)
        stacks = [[[h.id, h.path, h.terms] for h in item.stack] for item in _open]
        handle, draft = tempfile.mkstemp(dir=folder, prefix="draft-")  # mode 0600
        with os.fdopen(handle, "w") as file:
            json.dump({"started": _born(os.getpid()), "stacks": stacks}, file)
        os.replace(draft, mine)
    except OSError as error:
        raise LedgerError(
            f"the open ledger could not be announced to worker processes ({error}), which would then not be "
            "charged; set TMPDIR to a folder that you can write to"
        ) from error


def _sweep(folder: Path) -> None:
    """Remove the files of processes that were killed."""
    for path in folder.iterdir():
        if path.name.isdigit() and os.name == "posix":
            try:
                os.kill(int(path.name), 0)
            except ProcessLookupError:
                path.unlink(missing_ok=True)
            except OSError:
                pass


def _process(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name; an empty list if there is no such file."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, UnicodeDecodeError):
        return []


def _born(pid: int) -> str | None:
    """The time at which a process was started, which distinguishes it from a later one with the same number."""
    fields = _process(pid)
    return fields[19] if len(fields) > 19 else None


@functools.lru_cache(maxsize=1)
def _line(pid: int) -> tuple[int, ...]:
    """A process, its parent, grandparent and so on; only the process itself if there is no /proc."""
    line = []
    while pid > 0:
        line.append(pid)
        fields = _process(pid)
        pid = int(fields[1]) if len(fields) > 1 else 0
    return tuple(line)


def _around_this_process() -> list[Stack]:
    """The ledgers of the nearest ancestor process that has any open."""
    folder = _folder()
    try:
        announced = set(os.listdir(folder))
    except OSError:
        announced = set()
    for pid in _line(os.getppid()) if announced else ():
        if str(pid) not in announced:
            continue
        try:
            said = json.loads((folder / str(pid)).read_text())
        except FileNotFoundError:  # it was closed just now
            continue
        except (OSError, ValueError) as error:
            raise LedgerError(
                f"the file {folder / str(pid)}, which lists the open ledgers of the ancestor process {pid}, "
                f"cannot be read ({error}); remove it if that process has no ledger open"
            ) from error
        if said["started"] == _born(pid):
            return [tuple(revive(*parts) for parts in stack) for stack in said["stacks"]]
    return []


def _after_fork() -> None:
    global _forked
    _forked = True
    lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lock.acquire, after_in_parent=lock.release, after_in_child=_after_fork
    )
