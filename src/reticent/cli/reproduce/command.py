"""``reticent reproduce``: measure a figure of the papers again, store the numbers, draw them.

The one thing a reader would get wrong: a figure whose numbers are already stored with the same settings
is drawn again from the file and nothing is run; remove the file to run it again.
"""

from __future__ import annotations

import json
import platform
import time
import warnings
from pathlib import Path
from typing import Any

from reticent._version import __version__
from reticent.cli.console import Console, table
from reticent.cli.errors import Refused
from reticent.cli.reproduce import store
from reticent.cli.reproduce.draw import machine, picture, tables
from reticent.cli.reproduce.figure import CATALOGUE, Figure, Row, Settings, Task, load
from reticent.cli.reproduce.sweep import sweep


def reproduce(
    figure: str | None,
    full: bool,
    out: Path,
    quiet: bool,
    as_json: bool,
    *,
    jobs: int | None = None,
) -> int:
    """List the figures, or reproduce one.

    Parameters
    ----------
    figure
        A name of the catalogue; None lists them.
    full
        Hours instead of minutes: more repeats, longer streams.
    out
        Folder for the numbers (JSON and CSV) and the picture (SVG).
    quiet, as_json
        No words at all, or one JSON document on standard output.
    jobs
        Processes; by default one a core.

    Returns
    -------
    The exit status, 0; a figure that there is not is refused.
    """
    console = Console(quiet=quiet, as_json=as_json)
    if figure is None:
        _list(console)
        return 0
    try:
        chosen = load(figure)
    except ValueError as error:
        raise Refused(str(error)) from None
    name = f"{figure}-full" if full else figure
    result, reused = produce(chosen, chosen.settings(full), out, name, jobs=jobs, console=console)
    entry = CATALOGUE[figure]
    paths = {"data": out / f"{name}.json", "table": out / f"{name}.csv"}
    try:
        paths["picture"] = picture(chosen, result, entry.title, out / f"{name}.svg")
    except ImportError as error:
        console.warn(f"the numbers are stored, but not drawn: {error}")
    notes = chosen.notes(result.settings)
    summaries = store.summarise(result.rows)
    findings = chosen.findings(summaries)
    document = {
        "figure": figure, "source": entry.source, "title": entry.title, "reused": reused,
        "settings": result.settings, "made": result.made, "notes": notes,
        "files": {key: str(path) for key, path in paths.items()},
        "findings": findings, "summary": machine(summaries),
    }  # fmt: skip
    words = [
        f"{entry.title}\n{entry.source}",
        tables(chosen, result),
        "\n".join(f"- {words}" for words in findings + notes),
        "\n".join(f"{key:8} {path}" for key, path in paths.items()),
    ]
    console.result(document, "\n\n".join(words))
    return 0


def _list(console: Console) -> None:
    found = {
        name: {"source": entry.source, "title": entry.title, "shows": entry.shows}
        for name, entry in CATALOGUE.items()
    }
    words = table([[name, entry.shows] for name, entry in CATALOGUE.items()])
    console.result(found, f"{words}\n\nRun one, for example: reticent reproduce online-2a")


def measure(name: str, settings: Settings, task: Task) -> list[Row]:
    """One task of a figure, in whatever process this is."""
    with warnings.catch_warnings():
        # Published noise often misses its promise; the result says by how much.
        from reticent.privacy import PrivacyLeakWarning

        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return load(name).measure(settings, task)


def produce(
    figure: Figure,
    settings: Settings,
    out: Path,
    name: str,
    *,
    jobs: int | None = None,
    console: Console | None = None,
) -> tuple[store.Result, bool]:
    """The result for these settings, from the stored file where it matches; and whether it did."""
    console = Console(quiet=True) if console is None else console
    path = out / f"{name}.json"
    # as JSON gives them back, so that stored and new settings compare equal
    settings = json.loads(json.dumps(settings))
    if path.exists():
        try:
            stored = store.read(path)
        except ValueError as error:
            raise Refused(str(error)) from None
        if stored.figure == figure.name and stored.settings == settings:
            by = stored.made
            console.note(
                f"{path} holds these settings (reticent {by['reticent']}, {by['seconds']:.0f} s): "
                "drawn from it, nothing was run; remove it to run again"
            )
            return stored, True
        console.note(f"{path} has other settings: running again")
    start = time.perf_counter()
    tasks = [(figure.name, settings, task) for task in figure.tasks(settings)]
    found = sweep(measure, tasks, label=figure.name, jobs=jobs, shown=console.watched)
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
