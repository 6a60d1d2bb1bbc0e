"""``reticent compare``: read a table by its schema, fit every entrant to it, and show the scores.

Every (entrant, epsilon, repeat) has the whole budget to itself. Together they spend far more than one budget, so none
of the fits may be published.
"""

from __future__ import annotations

import functools
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import reticent
from reticent import checks
from reticent.cli.compare.entrants import EncodedTable, entrants, reference
from reticent.cli.console import Console, Rate, table
from reticent.cli.errors import Refused
from reticent.cli.tasks import encoder_of
from reticent.papers.figures import store
from reticent.papers.figures.draw import machine
from reticent.papers.figures.figure import CLEAN, IDLE, Row
from reticent.papers.figures.produce import made
from reticent.plots.panels import GREY, Panel, PanelLine, looks, panels
from reticent.tables import Encoder, Schema, read
from reticent.trace.sweep import sweep

HELD_OUT = 0.25
LEAST = 20  # smallest number of records, so that some can be held out
FLOOR = -0.5  # lower scores are drawn here, because how bad a bad fit is says little
WARNING = (
    "diagnostic: these scores read the records and no guarantee covers them; compare on public data, "
    "or on data like yours, and do not publish the winner's fit of private records"
)


@functools.lru_cache(maxsize=1)
def load(data: str, schema: str, target: str) -> tuple[EncodedTable, int]:
    """Load the whole table; also return the number of records omitted because their target cannot be used."""
    encoder = Encoder(Schema.from_file(schema), target, persons=False)
    records = read(data, encoder)
    rows = records.good
    if len(rows) < LEAST:
        raise Refused(
            f"{data} holds {len(rows)} usable records; a comparison needs at least {LEAST}"
        )
    bounds = None if encoder.classes is not None else encoder.target.bounds
    X, y = records.X[rows], np.asarray(records.y)[rows]
    return EncodedTable(X, y, encoder.largest_norm, encoder.classes, bounds), len(records.bad)


def contest(
    data: str, schema: str, target: str, name: str, epsilon: float | None, delta: float, seed: int
) -> list[Row] | str:
    """Fit and score one entrant once, in this process; or say why it cannot take part."""
    whole, _ = load(data, schema, target)
    order = np.random.default_rng(seed).permutation(len(whole.X))
    cut = int((1.0 - HELD_OUT) * len(order))
    train, test = whole.part(order[:cut]), whole.part(order[cut:])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if epsilon is None:
            clean, idle = reference(train, test)
            return [Row("score", CLEAN, None, clean, seed), Row("score", IDLE, None, idle, seed)]
        try:
            found = entrants(whole.classes)[name](
                train, test, reticent.Budget(epsilon, delta), seed
            )
        except (ValueError, TypeError, ArithmeticError) as error:
            return f"{name}: {str(error).splitlines()[0]}"
    return [Row("score", name, epsilon, found.score, seed, true_epsilon=found.true_epsilon)]


def compare(
    data: Path,
    target: str | None,
    schema: Path | None,
    epsilons: list[float],
    delta: float,
    repeats: int,
    jobs: int | None,
    on: str | None,
    out: Path,
    quiet: bool,
    as_json: bool,
) -> int:
    """Compare all suitable learners and solvers on one table.

    Parameters
    ----------
    data
        CSV, JSON lines or Parquet: a file or a folder.
    target
        The column to predict; None is the schema's target.
    schema
        File with the types and public bounds of the columns.
    epsilons
        Privacy parameter epsilon of each budget.
    delta
        Privacy parameter delta of every budget.
    repeats
        Number of runs of each entrant at each budget; each holds out another quarter of the records.
    jobs
        Number of processes; by default one per core.
    on
        Address of a Dask scheduler whose workers do the work instead.
    out
        Folder for the numbers (JSON and CSV) and the picture (SVG).
    quiet
        Whether to print nothing.
    as_json
        Whether to print one JSON document.

    Returns
    -------
    int
        The exit status, 0.
    """
    console = Console(quiet=quiet, as_json=as_json)
    target = encoder_of(schema, target).target.name
    _check(data, epsilons, delta, repeats, jobs)
    with Rate("reading", None, shown=console.watched):
        whole, bad = load(str(data), str(schema), target)
    settings = {
        "data": str(data), "target": target, "schema": str(schema), "epsilons": epsilons, "delta": delta,
        "repeats": repeats, "held_out": HELD_OUT, "records": len(whole.X), "columns": whole.X.shape[1],
        "neighbours": "zero-out",
    }  # fmt: skip
    where = (
        str(data.resolve()),
        str(Path(str(schema)).resolve()),
        target,
    )  # workers may run in other folders
    tasks = _tasks(where, list(entrants(whole.classes)), settings)
    start = time.perf_counter()
    found = sweep(contest, tasks, label="comparing", jobs=jobs, on=on, shown=console.watched)
    rows = [row for part in found if not isinstance(part, str) for row in part]
    absent = sorted({part for part in found if isinstance(part, str)})
    result = store.Result("compare", settings, rows, made(time.perf_counter() - start))
    paths = dict(zip(("data", "table"), store.write(result, out, "compare"), strict=True))
    label = (
        "R^2 on records held out" if whole.classes is None else "accuracy on records held out, %"
    )
    try:
        title = f"{target}: {len(whole.X):,} records, {whole.X.shape[1]} features"
        paths["picture"] = draw(result, label, title, out / "compare.svg")
    except ImportError as error:
        console.warn(f"the numbers are stored, but the figure could not be drawn: {error}")
    notes = [WARNING]
    notes += [f"{bad} records omitted, because their target cannot be used"] if bad else []
    notes += [f"did not take part: {words}" for words in absent]
    document = {
        "settings": settings,
        "made": result.made,
        "notes": notes,
        "files": {key: str(path) for key, path in paths.items()},
        "summary": machine(store.summarise(rows)),
    }
    words = [
        scores(result, label),
        "\n".join(f"- {note}" for note in notes),
        "\n".join(f"{key:8} {path}" for key, path in paths.items()),
    ]
    console.result(document, "\n\n".join(words))
    return 0


def _check(data: Path, epsilons: list[float], delta: float, repeats: int, jobs: int | None) -> None:
    """Refuse arguments that no comparison can be made with."""
    try:
        checks.integer(repeats, "--repeats", low=1)
        for epsilon in epsilons:
            reticent.Budget(epsilon, delta)
        if jobs is not None:
            checks.integer(jobs, "--jobs", low=1)
    except (TypeError, ValueError) as error:
        raise Refused(str(error)) from None
    if not epsilons:
        raise Refused("--epsilon is missing: give one or more, for example 0.1 1 10")
    if str(data) == "-":
        raise Refused("a comparison reads the records many times: give a file or a folder")


def _tasks(
    where: tuple[str, str, str], names: list[str], settings: dict[str, Any]
) -> list[tuple[Any, ...]]:
    """The arguments of `contest` for every fit: all entrants at all budgets, then those without privacy."""
    delta, seeds = settings["delta"], range(settings["repeats"])
    private = [
        (*where, name, epsilon, delta, seed)
        for seed in seeds
        for name in names
        for epsilon in settings["epsilons"]
    ]
    return private + [(*where, CLEAN, None, delta, seed) for seed in seeds]


def draw(result: store.Result, label: str, title: str, path: Path) -> Path:
    """Draw the scores of all entrants against epsilon, as an SVG file."""
    import matplotlib

    lines: dict[tuple[str, str], PanelLine] = {}
    found = store.summarise(result.rows)
    for name in dict.fromkeys(one.variant for one in found):
        own = [one for one in found if one.variant == name]
        scores = np.maximum([one.mean for one in own], FLOOR)
        if own[0].x is None:
            lines["", name] = PanelLine(None, scores)
            continue
        # Errors are only in the table, because the bands of ten lines would hide the lines.
        none = [0.0] * len(own)
        lines["", name] = PanelLine([one.x for one in own if one.x is not None], scores, none)
    words = label if label.endswith("%") else f"{label} (at least {FLOOR:g})"
    panel = Panel("score", "all at their defaults", "epsilon", words, y_scale="linear")
    with matplotlib.rc_context({"svg.hashsalt": "compare", "svg.fonttype": "none"}):
        look = looks(list(lines), {CLEAN: GREY, IDLE: "#999999"})
        figure = panels([(panel, lines)], look=look, title=title)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return path


def scores(result: store.Result, label: str) -> str:
    """One line per entrant, the best at the middle epsilon first; a star marks the best at each epsilon."""
    found = store.summarise(result.rows)
    epsilons = sorted(result.settings["epsilons"])
    middle = epsilons[len(epsilons) // 2]
    at = {(one.variant, one.x): one for one in found}
    names = list(dict.fromkeys(one.variant for one in found if one.x is not None))
    names.sort(key=lambda name: -at[name, middle].mean if (name, middle) in at else 1e300)
    best = {
        epsilon: max(at[name, epsilon].mean for name in names if (name, epsilon) in at)
        for epsilon in epsilons
    }
    digits = 1 if label.endswith("%") else 3
    lines = [["", *(f"epsilon {epsilon:g}" for epsilon in epsilons)]]
    for name in [*names, CLEAN, IDLE]:
        at_any = at.get((name, None))
        lines.append([name, *(_cell(at.get((name, x), at_any), best[x], digits) for x in epsilons)])
    widths = [max(len(line[k]) for line in lines) for k in range(1, len(lines[0]))]
    lines = [[line[0], *map(str.rjust, line[1:], widths)] for line in lines]
    repeats = result.settings["repeats"]
    return f"{label}: mean ± standard error of {repeats} repeats, * the best\n{table(lines)}"


def _cell(one: store.MeanOverSeeds | None, best: float, digits: int) -> str:
    """A score and its standard error, with a star if it is the best of private ones; a dash if there is none."""
    if one is None:
        return "- "
    star = "*" if one.x is not None and one.mean == best else " "
    return f"{one.mean:.{digits}f} ±{one.error:.{digits}f}{star}"
