"""Commit, then reveal: outputs become visible once the state that produced them is safe.

Between a step and the next saved state, outputs that have left can no longer be continued: restored from the
older state, the stream would put the same noise on other records. Where every step is committed before its
result is returned, a crash at any moment is continued from what was saved, and nobody has seen anything else.
"""

from __future__ import annotations

import functools
import os
import threading
from typing import Any, Protocol

from reticent.privacy.errors import ForkError
from reticent.state.files import File
from reticent.state.lease import Lease


class Store(Protocol):
    """Where committed states go: anything with this method, which returns when the state is safe."""

    def save(self, state: dict[str, Any]) -> None:
        """Replace what was saved before, all or nothing."""


class Stream(Protocol):
    """What can be committed: running totals, online learners, bandits, online estimators."""

    def state(self) -> dict[str, Any]: ...

    @property
    def _lease(self) -> Lease | None: ...

    @property
    def _position(self) -> Any: ...


def committed(stream: Any, store: str | os.PathLike[str] | Store) -> Committed:
    """Make a stream whose outputs are returned only after its state has been saved.

    Parameters
    ----------
    stream : RunningTotal, OnlineLearner, Bandit or online estimator
        What is to run. From here on use the result in its place.
    store : str, path or object
        A file, or anything with a method ``save(state)`` that returns when the state is safe. A file that
        holds an earlier state of the same stream is replaced; one that holds anything else is refused.

    Returns
    -------
    Committed
        It has the methods and attributes of ``stream``. Every call that takes steps saves the state
        before it returns. If a call fails after it has taken steps, or its state cannot be saved, its
        result is withheld and the stream refuses to go on in this process; continue in a new one from what
        was saved last.

    Examples
    --------
    >>> import tempfile
    >>> import reticent
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = folder.name + "/total.state"
    >>> total = reticent.sums.Tree(2, 1000, budget=reticent.Budget(1.0, 1e-6))
    >>> safe = reticent.committed(total, path)
    >>> noisy = safe.add([0.5, 0.5])
    >>> reticent.load_state(path)["steps"]
    1

    After a crash, in a new process::

        total = reticent.sums.Tree.from_state(reticent.load_state(path))
        safe = reticent.committed(total, path)

    >>> folder.cleanup()
    """
    if not all(hasattr(type(stream), name) for name in ("state", "_position")):
        raise TypeError(
            "stream must be a running total, an online learner, a bandit or an online estimator, "
            f"got {stream!r}"
        )
    place: Any = File(store) if isinstance(store, str | os.PathLike) else store
    if not callable(getattr(place, "save", None)):
        raise TypeError(f"store must be a path or have a method save(state), got {store!r}")
    return Committed(stream, place)


class Committed:
    """A stream whose outputs are returned only after its state has been saved; see :func:`committed`."""

    def __init__(self, stream: Stream, store: Store) -> None:
        self._stream, self._store = stream, store
        self._lock = threading.RLock()
        self._failure: str | None = None
        lease, position = stream._lease, stream._position
        if isinstance(store, File) and store.exists():
            _check_place(store, position)
        if lease is not None:
            with lease.lock:
                lease.check(position[1], "stream")
            store.save(stream.state())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        with self._lock:  # what is read while another thread takes a step is not committed yet
            self._check()
            value = getattr(self._stream, name)
        if not callable(value) or isinstance(value, type):
            return value
        return functools.partial(self._call, name)

    def _check(self) -> None:
        if self._failure is not None:
            raise ForkError(
                f"this stream cannot go on in this process: {self._failure}. Nothing of the steps that were "
                "not saved has left; continue in a new process from what the store holds"
            )

    def _call(self, name: str, /, *arguments: Any, **named: Any) -> Any:
        with self._lock:
            self._check()
            before = self._stream._position
            try:
                result = getattr(self._stream, name)(*arguments, **named)
                if self._stream._position != before:
                    self._store.save(self._stream.state())
            except BaseException as error:
                if self._stream._position != before:
                    self._failure = f"{name}() failed with {type(error).__name__}"
                    lease = self._stream._lease
                    if lease is not None:
                        lease.spoil()
                raise
        return self if result is self._stream else result

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._stream) if not name.startswith("_")]

    def __reduce__(self) -> Any:
        raise TypeError(
            "a committed stream cannot be copied or pickled: the copy would save to the same place; "
            "continue from what it saved"
        )

    def __repr__(self) -> str:
        return f"<{self._stream!r}, committed to {self._store!r}>"


def _check_place(file: File, position: Any) -> None:
    """Refuse to replace the state of another stream, or one that is ahead."""
    found = file.load()
    there = found.get("id"), found.get("moves", found.get("steps"))
    if there[0] != position[0]:
        raise ValueError(
            f"{file.path} holds the state of another stream; continue that one with from_state(load_state(...)), "
            "or choose another file"
        )
    if there[1] > position[1]:
        raise ForkError(
            f"{file.path} holds a later state of this stream, at {there[1]} where this one is at "
            f"{position[1]}; continue from that"
        )
