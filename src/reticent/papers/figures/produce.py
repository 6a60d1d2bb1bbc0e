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
    """One task of a figure, in whatever process this is."""
    with warnings.catch_warnings():
        # Published noise often misses its promise; the result says by how much.
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
    """The result for these settings, from the stored file where it matches; and whether it did.

    Parameters
    ----------
    figure
        What to measure.
    settings
        Everything that decides the numbers.
    out
        Folder for the numbers, as JSON and CSV.
    name
        What to call the files.
    jobs
        Processes; by default one per core.
    on
        The address of a Dask scheduler whose workers do the work instead.
    note
        Told in a sentence whether a stored result was used.
    shown
        Whether to draw a progress line on standard error.
    """
    path = out / f"{name}.json"
    # as JSON gives them back, so that stored and new settings compare equal
    settings = json.loads(json.dumps(settings))
    if path.exists():
        stored = store.read(path)
        if stored.figure == figure.name and stored.settings == settings:
            by = stored.made
            note(
                f"{path} holds these settings (reticent {by['reticent']}, {by['seconds']:.0f} s): "
                "drawn from it, nothing was run; remove it to run again"
            )
            return stored, True
        note(f"{path} has other settings: running again")
    start = time.perf_counter()
    tasks = [(figure.name, settings, task) for task in figure.tasks(settings)]
    found = sweep(measure, tasks, label=figure.name, jobs=jobs, on=on, shown=shown)
    rows = [row for rows in found for row in rows]
    result = store.Result(figure.name, settings, rows, made(time.perf_counter() - start))
    store.write(result, out, name)
    return result, False


def made(seconds: float) -> dict[str, Any]:
    """By what, where and in how long a result was made; decides nothing."""
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
