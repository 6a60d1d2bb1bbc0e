"""Produce a figure, or load the stored result with the same settings."""

from __future__ import annotations

import json
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reticent.papers.figures import store
from reticent.papers.figures.figure import Figure, Row, Settings, Task, load
from reticent.privacy import PrivacyLeakWarning
from reticent.trace.sweep import sweep
from reticent.version import __version__


def measure(name: str, settings: Settings, task: Task) -> list[Row]:
    """Compute the rows of one task of a figure, in this process."""
    with warnings.catch_warnings():
        # Published noise often misses its claim; the result says by how much, so the warning is suppressed.
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return load(name).measure(settings, task)


def produce(
    figure: Figure,
    settings: Settings,
    out: Path,
    name: str,
    *,
    jobs: int | None = None,
    on: str | None = None,
    note: Callable[[str], None] = lambda words: None,
    shown: bool = False,
) -> tuple[store.Result, bool]:
    """The result for these settings, read from the stored file if it matches, and whether it was.

    Parameters
    ----------
    figure
        The figure to measure.
    settings
        Everything that determines the numbers.
    out
        Folder for the numbers, as JSON and CSV.
    name
        Name of the files, without their extension.
    jobs
        Number of processes; by default one per core.
    on
        Address of a Dask scheduler whose workers do the work instead.
    note
        Called with a sentence that says whether a stored result is used.
    shown
        Whether to draw a progress line on standard error.

    Returns
    -------
    result : Result
        The result.
    stored : bool
        Whether it was read from the file.
    """
    path = out / f"{name}.json"
    # converted to JSON and back, so that stored and new settings compare equal
    settings = json.loads(json.dumps(settings))
    if path.exists():
        stored = store.read(path)
        if stored.figure == figure.name and stored.settings == settings:
            by = stored.made
            note(
                f"{path} holds these settings (reticent {by['reticent']}, {by['seconds']:.0f} s): "
                "the figure is drawn from it and nothing is run; remove it to run again"
            )
            return stored, True
        note(f"{path} has different settings: running again")
    start = time.perf_counter()
    tasks = [(figure.name, settings, task) for task in figure.tasks(settings)]
    found = sweep(measure, tasks, label=figure.name, jobs=jobs, on=on, shown=shown)
    rows = [row for rows in found for row in rows]
    result = store.Result(figure.name, settings, rows, made(time.perf_counter() - start))
    store.write(result, out, name)
    return result, False


def made(seconds: float) -> dict[str, Any]:
    """The version, machine and duration that produced a result; they do not affect the numbers."""
    import numpy
    import scipy

    return {
        "reticent": __version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "machine": platform.machine(),
        "seconds": round(seconds, 1),
    }
