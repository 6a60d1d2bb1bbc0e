"""A stored result as a picture and as plain data.

The curves are means over seeds with their standard errors; a seed determines data and noise together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reticent.papers.figures.figure import (
    BOUND,
    CLEAN,
    CORRECTED,
    IDLE,
    OURS,
    PUBLISHED,
    Figure,
    MeanOverSeeds,
)
from reticent.papers.figures.store import Result, summarise
from reticent.plots.panels import GREY, Panel, PanelLine, looks, panels
from reticent.plots.style import COLOURS

COLOUR_OF = {
    PUBLISHED: COLOURS[1],
    CORRECTED: COLOURS[0],
    OURS: COLOURS[2],
    CLEAN: "#999999",
    BOUND: GREY,
    IDLE: GREY,
    "the larger class": GREY,
}


def _lines(summaries: list[MeanOverSeeds]) -> dict[tuple[str, str], PanelLine]:
    groups: dict[tuple[str, str], list[MeanOverSeeds]] = {}
    for one in summaries:
        groups.setdefault((one.series, one.variant), []).append(one)
    lines = {}
    for key, group in groups.items():
        if group[0].x is None:
            lines[key] = PanelLine(None, [group[0].mean])
            continue
        computed = all(one.count == 1 and one.variant == BOUND for one in group)
        lines[key] = PanelLine(
            [one.x for one in group if one.x is not None],
            [one.mean for one in group],
            None if computed else [one.error for one in group],
        )
    return lines


def picture(figure: Figure, result: Result, title: str, path: Path) -> Path:
    """Draw a result to an SVG file; the same result always gives the same bytes."""
    import matplotlib

    shown = []
    for panel, own in by_panel(figure, result):
        shown.append((panel, _lines(own)))
    names = list(dict.fromkeys(key for _, lines in shown for key in lines))
    order = list(COLOUR_OF)
    names.sort(key=lambda key: order.index(key[1]) if key[1] in order else len(order))
    # a fixed salt and no date, so that the same picture has the same bytes
    with matplotlib.rc_context({"svg.hashsalt": figure.name, "svg.fonttype": "none"}):
        drawn = panels(shown, look=looks(names, COLOUR_OF), title=title)
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return path


def by_panel(figure: Figure, result: Result) -> list[tuple[Panel, list[MeanOverSeeds]]]:
    """The panels that have numbers, each with its numbers."""
    every = summarise(result.rows)
    found = []
    for panel in figure.panels(result.settings):
        own = [one for one in every if one.panel == panel.name]
        if own:
            found.append((panel, own))
    return found


def machine(summaries: list[MeanOverSeeds]) -> list[dict[str, Any]]:
    """Summaries as plain data for ``--json``."""
    return [
        {
            "panel": one.panel, "series": one.series, "variant": one.variant, "x": one.x,
            "mean": one.mean, "standard_error": one.error, "repeats": one.count,
            "true_epsilon": None if one.true_epsilon is None else str(one.true_epsilon)
            if one.true_epsilon == float("inf") else one.true_epsilon,
        }
        for one in summaries
    ]  # fmt: skip
