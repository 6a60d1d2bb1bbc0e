"""A fit that survives being killed: it is charged once, and ends with the noise that it began with.

Before the budget is charged, the key of the noise and everything that determines the fit (loss, budget, solver, which
files) are on disk. The charge carries the run's name, so a second attempt finds it in the ledger. Running the same
fit on the same files again draws the same noise. The result is on disk before anyone sees it, and by then the key is
gone: a third attempt returns that result. So a single fit is released, however often the process is killed.

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
from reticent.state.locks import try_lock

_KIND, _VERSION = "resumable run", 1
_current: ContextVar[RunFile | None] = ContextVar("run_file", default=None)


class RunFile:
    """The file of a run, while it is being worked on.

    Parameters
    ----------
    path : str or path
        Path of the file; its key is beside it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = File(path)
        self._state: dict[str, Any] | None = None
        self._begun = False

    @property
    def resumed(self) -> bool:
        """Whether this continues an earlier run."""
        return self._state is not None or self._file.exists()

    def begin(self, terms: dict[str, Any], source: Source) -> tuple[Source, dict[str, Any] | None]:
        """Begin or continue the run: the source of its noise, and its result if it is over.

        Parameters
        ----------
        terms : dict
            Everything that determines the fit. A run that began with other terms is refused.
        source : Source
            The source for a run that begins now; nothing may have been drawn from it yet.

        Returns
        -------
        (Source, dict or None)
            The source with which the run began, and its result, or None if it is not over.
        """
        if self._begun:
            raise ValueError(
                f"{self._file.path} is the file of one fit, but a second fit was started; use one file per fit"
            )
        if self._file.exists():
            self._state = state = self._file.load()
            check_kind(state, _KIND, _VERSION)
            differ = [name for name in terms if state["terms"].get(name) != terms[name]]
            if differ:
                raise ValueError(
                    f"{self._file.path} belongs to a run that differs in: {', '.join(differ)}. Repeat the fit that was "
                    "killed, on unchanged files; or remove this file, and the next run is charged anew"
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
        """The name of the run, by which its charge is recognised."""
        assert self._state is not None
        return str(self._state["name"])

    def last(self, part: int) -> Any:
        """The last point of a part of the run; None if the part has not begun."""
        assert self._state is not None
        return self._state["points"].get(str(part))

    def note(self, part: int, point: Any) -> None:
        """Save the current point of a part of the run."""
        assert self._state is not None
        self._state["points"][str(part)] = np.array(point)
        self._file.save(self._state)

    def forget(self) -> None:
        """Remove the file, once its result is safe elsewhere; the next run begins anew, and is charged."""
        self._file.erase()
        lock_of(self._file.path).unlink(missing_ok=True)

    def finish(self, result: dict[str, Any]) -> None:
        """Save the result before anyone sees it, and with that discard the key of the noise."""
        assert self._state is not None
        self._state = {**self._state, "source": None, "points": {}, "result": result}
        self._file.save(self._state)


def lock_of(path: str | os.PathLike[str]) -> Path:
    """The file that is locked while a run is being worked on."""
    return Path(f"{os.fspath(path)}.lock")


@contextlib.contextmanager
def resumable(path: str | os.PathLike[str]) -> Iterator[RunFile]:
    """Make one fit resumable: it can be killed at any time, and is charged once.

    This works for a fit of a table in files, on a cluster or on a device. Run the same program again, and the fit
    continues with the noise that it began with, from the step at which it stood. When it is over, the file contains
    the result, which running the program once more returns. To begin a new fit, which is charged, remove the file and
    its ``.key``.

    Parameters
    ----------
    path : str or path
        The file of the run, as secret as the records until the run is over.

    Raises
    ------
    ValueError
        Another process works on the run, or the file belongs to a different fit.

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
        if not try_lock(lock):
            raise ValueError(
                f"another process is working on the run of {os.fspath(path)}; wait for it, or use another file"
            )
        token = _current.set(made)
        try:
            yield made
        finally:
            _current.reset(token)
    finally:
        os.close(lock)


def current() -> RunFile | None:
    """The file of the run around this fit, or None."""
    return _current.get()
