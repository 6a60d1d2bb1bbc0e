"""A fit that survives being killed: charged once, and ended with the noise that it began with.

Before the budget is charged, the key of the noise and everything that fixes the fit (loss, budget, solver, which
files) are on disk; the charge carries the run's name, so a second attempt finds it in the ledger. Whoever runs the
same fit on the same files again draws the same noise. The result is on disk before anyone sees it, and the key is gone
by then: a third attempt returns that result. So one fit is released, however often the process is killed.

The file is as secret as the records (:mod:`reticent.state.files`) until the run is over.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

from reticent.noise import Source
from reticent.state.files import File, check_kind

try:
    import fcntl
except ImportError:  # pragma: no cover - not on Windows, where nothing keeps two runs apart
    fcntl = None  # type: ignore[assignment]

_KIND, _VERSION = "resumable run", 1
_current: ContextVar[RunFile | None] = ContextVar("run_file", default=None)


class RunFile:
    """The file of a run, while somebody works on it.

    Parameters
    ----------
    path : str or path
        Of the file; its key is beside it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = File(path)
        self._state: dict[str, Any] | None = None
        self._begun = False

    @property
    def resumed(self) -> bool:
        """Whether there was a run before, which is continued."""
        return self._state is not None or self._file.exists()

    def begin(self, terms: dict[str, Any], source: Source) -> tuple[Source, dict[str, Any] | None]:
        """Where noise comes from: the source that the run began with; and its result, if it is over.

        Parameters
        ----------
        terms : dict
            All that fixes the fit. A run that began with other terms is refused.
        source : Source
            From which nothing was drawn yet, for a run that begins now.
        """
        if self._begun:
            raise ValueError(
                f"{self._file.path} is the file of one fit, and another one began; use a file for each"
            )
        if self._file.exists():
            self._state = state = self._file.load()
            check_kind(state, _KIND, _VERSION)
            differ = [name for name in terms if state["terms"].get(name) != terms[name]]
            if differ:
                raise ValueError(
                    f"{self._file.path} belongs to a run that differs in: {', '.join(differ)}. Run the fit that was "
                    "killed, on the files as they were; or remove that file, and the next run is charged anew"
                )
        else:
            self._state = {
                "kind": _KIND,
                "version": _VERSION,
                "name": secrets.token_hex(8),
                "terms": terms,
                "source": source.state(),
                "points": {},
                "result": None,
            }
            self._file.save(self._state)
        self._begun = True
        if self._state["result"] is not None:
            return source, self._state["result"]
        return Source.from_state(self._state["source"]), None

    @property
    def name(self) -> str:
        """Of the run, by which its charge is known again."""
        assert self._state is not None
        return str(self._state["name"])

    def last(self, part: int) -> Any:
        """Where a part of the run stood; None if it has not begun."""
        assert self._state is not None
        return self._state["points"].get(str(part))

    def note(self, part: int, point: Any) -> None:
        """Write down where a part of the run stands."""
        assert self._state is not None
        self._state["points"][str(part)] = np.array(point)
        self._file.save(self._state)

    def forget(self) -> None:
        """Remove the file, once its result is safe elsewhere; the next run begins anew, and is charged."""
        self._file.erase()
        lock_of(self._file.path).unlink(missing_ok=True)

    def finish(self, result: dict[str, Any]) -> None:
        """Write the result down before anyone sees it; what it was made with is gone then."""
        assert self._state is not None
        self._state = {**self._state, "source": None, "points": {}, "result": result}
        self._file.save(self._state)


def lock_of(path: str | os.PathLike[str]) -> Path:
    """The file that is locked while somebody works on a run."""
    return Path(f"{os.fspath(path)}.lock")


@contextlib.contextmanager
def resumable(path: str | os.PathLike[str]) -> Iterator[RunFile]:
    """Inside, one fit of a table in files, on a cluster or on a device can be killed at any time, and is charged once.

    Run the same program again, and the fit goes on: with the noise that it began with, from the step where it
    stood. When it is over, the file holds the result, which running it once more returns; remove the file, and its
    ``.key``, to begin a new fit, which is charged.

    Parameters
    ----------
    path : str or path
        A file of the run, as secret as the records until the run is over.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, reticent
    >>> from reticent import tables
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(5_000, 3))
    >>> np.save(folder / "x.npy", X)
    >>> np.save(folder / "y.npy", X @ [1.0, -2.0, 0.5] > 0)
    >>> points = []
    >>> for attempt in range(2):
    ...     X, y = tables.open(folder / "x.npy", target=folder / "y.npy")
    ...     with reticent.resumable(folder / "fit.run"):
    ...         model = reticent.PrivateLogisticRegression(classes=[False, True]).fit(X, y)
    ...     points.append(model.coef_)
    >>> bool((points[0] == points[1]).all())
    True
    """
    made = RunFile(path)
    lock = os.open(lock_of(path), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ValueError(
                    f"another process works on the run of {os.fspath(path)}; wait for it, or name another file"
                ) from None
        token = _current.set(made)
        try:
            yield made
        finally:
            _current.reset(token)
    finally:
        os.close(lock)


def current() -> RunFile | None:
    """The file of the run around this fit, if there is one."""
    return _current.get()
