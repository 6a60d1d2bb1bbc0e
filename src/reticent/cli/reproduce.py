"""``reticent reproduce``: measure a figure of the papers again, store the numbers, and draw them.

If numbers with the same settings are already stored, the figure is drawn from the file and nothing is run; remove the
file to run it again.
"""

from __future__ import annotations

from pathlib import Path

from reticent.cli.console import Console, table
from reticent.papers.figures import store
from reticent.papers.figures.draw import by_panel, machine, picture
from reticent.papers.figures.figure import CATALOGUE, Figure, MeanOverSeeds, load
from reticent.papers.figures.produce import produce
from reticent.papers.figures.store import Result
from reticent.plots.panels import label

WIDEST = 8  # number of columns of a table that fit on a screen


def reproduce(
    figure: str | None,
    full: bool,
    out: Path,
    quiet: bool,
    as_json: bool,
    *,
    jobs: int | None = None,
    on: str | None = None,
) -> int:
    """List the figures, or reproduce one.

    Parameters
    ----------
    figure
        Name of the figure; None lists all of them.
    full
        Whether to run more seeds and longer streams, which takes hours instead of minutes.
    out
        Folder for the numbers (JSON and CSV) and the picture (SVG).
    quiet
        Whether to print nothing.
    as_json
        Whether to print one JSON document.
    jobs
        Number of processes; by default one per core.
    on
        Address of a Dask scheduler whose workers do the work instead.

    Returns
    -------
    int
        The exit status, 0; an unknown figure is refused.
    """
    console = Console(quiet=quiet, as_json=as_json)
    if figure is None:
        _list(console)
        return 0
    chosen = load(figure)
    name = f"{figure}-full" if full else figure
    result, reused = produce(
        chosen,
        chosen.settings(full),
        out,
        name,
        jobs=jobs,
        on=on,
        note=console.note,
        shown=console.watched,
    )
    entry = CATALOGUE[figure]
    paths = {"data": out / f"{name}.json", "table": out / f"{name}.csv"}
    try:
        paths["picture"] = picture(chosen, result, entry.title, out / f"{name}.svg")
    except ImportError as error:
        console.warn(f"the numbers are stored, but the figure could not be drawn: {error}")
    notes = chosen.notes(result.settings)
    summaries = store.summarise(result.rows)
    findings = chosen.findings(summaries)
    document = {
        "figure": figure,
        "source": entry.source,
        "title": entry.title,
        "reused": reused,
        "settings": result.settings,
        "made": result.made,
        "notes": notes,
        "files": {key: str(path) for key, path in paths.items()},
        "findings": findings,
        "summary": machine(summaries),
    }
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


def _spread(values: list[float]) -> str:
    if not values:
        return ""
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} .. {high}"


def tables(figure: Figure, result: Result) -> str:
    """The numbers of a figure as text: one table per panel, mean and standard error."""
    blocks = []
    for panel, own in by_panel(figure, result):
        xs = _some(sorted({one.x for one in own if one.x is not None}))
        known = any(one.true_epsilon is not None for one in own)
        lines = [[panel.x_label, *(f"{x:g}" for x in xs), *(["true epsilon"] if known else [])]]
        for key in dict.fromkeys((one.series, one.variant) for one in own):
            group = [one for one in own if (one.series, one.variant) == key]
            lines.append([label(*key), *_cells(group, xs, known)])
        blocks.append(f"{panel.title}: {panel.y_label}\n{table(lines)}")
    return "\n\n".join(blocks)


def _cells(group: list[MeanOverSeeds], xs: list[float], with_truth: bool) -> list[str]:
    """The line of one variant in a table."""
    at = {one.x: one for one in group}
    cells = [_cell(at.get(x, at.get(None))) for x in xs]
    truth = [one.true_epsilon for one in group if one.true_epsilon is not None]
    return [*cells, _spread(truth)] if with_truth else cells


def _some(xs: list[float]) -> list[float]:
    """At most WIDEST of the values, evenly spread, including the first and the last."""
    if len(xs) <= WIDEST:
        return xs
    return [xs[round(k * (len(xs) - 1) / (WIDEST - 1))] for k in range(WIDEST)]


def _cell(one: MeanOverSeeds | None) -> str:
    if one is None:
        return "-"
    return f"{one.mean:.3g}" + (f" ±{one.error:.1g}" if one.error > 1e-9 * abs(one.mean) else "")
