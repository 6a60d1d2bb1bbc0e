"""Commit, then reveal: outputs become visible only once the state that produced them is safe.

If outputs have been released since the last saved state, that state must not be continued: the stream would put the
same noise on other records. If every step is committed before its result is returned, a crash at any moment can be
continued from what was saved, and nobody has seen anything else.
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
    """Where committed states go: any object with this method, which must return only when the state is safe."""

    def save(self, state: dict[str, Any]) -> None:
        """Replace what was saved before, all or nothing."""


class Committable(Protocol):
    """What can be committed: running totals, online learners, bandits and online estimators."""

    def state(self) -> dict[str, Any]: ...

    @property
    def _lease(self) -> Lease | None: ...

    @property
    def _position(self) -> Any: ...


def committed(stream: Any, store: str | os.PathLike[str] | Store) -> Committed:
    """Wrap a stream so that its outputs are returned only after its state has been saved.

    Parameters
    ----------
    stream : RunningTotal, OnlineLearner, Bandit or online estimator
        The stream. From now on use the result in its place.
    store : str, path or object
        A file, or any object with a method ``save(state)`` that returns when the state is safe. A file that contains
        an earlier state of the same stream is replaced; one that contains anything else is refused.

    Returns
    -------
    Committed
        It has the methods and attributes of ``stream``. Every call that takes steps saves the state before it
        returns. If a call fails after it has taken steps, or the state cannot be saved, the result is withheld and
        the stream refuses to continue in this process; continue in a new process from what was saved last.

    See Also
    --------
    reticent.save_state : Save a state by hand.

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
    """A stream whose outputs are returned only after its state has been saved; made by :func:`committed`.

    Parameters
    ----------
    stream : RunningTotal, OnlineLearner, Bandit or online estimator
        The stream.
    store : Store
        Where its states go.
    """

    def __init__(self, stream: Committable, store: Store) -> None:
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
        with (
            self._lock
        ):  # while another thread takes a step, attributes show what is not committed yet
            self._check()
            value = getattr(self._stream, name)
        if not callable(value) or isinstance(value, type):
            return value
        return functools.partial(self._call, name)

    def _check(self) -> None:
        if self._failure is not None:
            raise ForkError(
                f"this stream cannot continue in this process: {self._failure}. Nothing was released of the steps "
                "that were not saved; continue in a new process from the state in the store"
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
            "a committed stream cannot be copied or pickled, because the copy would save to the same place; "
            "continue from the state that it saved"
        )

    def __repr__(self) -> str:
        return f"<{self._stream!r}, committed to {self._store!r}>"


def _check_place(file: File, position: Any) -> None:
    """Refuse to replace the state of another stream, or one that is ahead of this one."""
    found = file.load()
    there = found.get("id"), found.get("moves", found.get("steps"))
    if there[0] != position[0]:
        raise ValueError(
            f"{file.path} contains the state of another stream; continue that one with from_state(load_state(...)), "
            "or choose another file"
        )
    if there[1] > position[1]:
        raise ForkError(
            f"{file.path} contains a later state of this stream, at {there[1]} while this one is at "
            f"{position[1]}; continue from that state"
        )
