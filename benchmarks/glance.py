"""The first page of the benchmarks: who is ahead, by how much and where, computed from the tables.

Every line turns the ratios of one column so that above 1 ours is better, and counts in how many rows it is, beyond the
spread of the ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import drawing
from table import Table
from timing import Ratio

NAME = "at-a-glance"
_TIE = 0.005
"""Ratios that are nearer to 1 than this are ties, however exact they are."""


@dataclass(frozen=True)
class Line:
    """One column of one table.

    Parameters
    ----------
    table : str
        Its name.
    column : str
        Whose cells are ratios.
    what : str
        What is compared.
    peer : str
        With whom.
    ours_above : bool
        Whether the ratio is ours by theirs and small is good, or theirs by ours: then it is turned over.
    """

    table: str
    column: str
    what: str
    peer: str
    ours_above: bool = False


LINES = (
    Line("horizons", "jax_privacy, BLT", "noise of a total, known horizon", "jax_privacy, BLT"),
    Line("horizons", "TensorFlow Privacy, efficient tree", "noise of a total, known horizon",
         "TensorFlow Privacy, tree"),
    Line("horizons", "published PrivateSum", "noise of a total, known horizon", "as published"),
    Line("windows", "published window tree", "noise of a total, window", "as published"),
    Line("online_regret", "published / ours", "regret of online learners", "as published"),
    Line("bandit_plays", "published / ours", "loss of the bandit", "as published"),
    Line("lasso", "repaired / ours", "excess of the lasso", "published, repaired"),
    Line("totals_beside_jax", "jax_privacy / ours, lattice", "time of a total, lattice", "jax_privacy"),
    Line("streams", "River / ours", "time of a stream in one call", "River, not private"),
    Line("one_at_a_time", "ours / River", "time of one record at a time", "River, not private", True),
    Line("fits", "ours / diffprivlib", "time of a logistic fit", "diffprivlib", True),
    Line("fits", "ours / scikit-learn", "time of a logistic fit", "scikit-learn, not private", True),
    Line("minimizers", "ours / theirs", "time of a linear minimiser", "the fastest public call", True),
    Line("frank_wolfe", "naive / ours", "time of a Frank-Wolfe step", "noise for every corner"),
)  # fmt: skip

WORDS = f"""{drawing.markdown(NAME, "Ratios to peers, all lines")}

Noise, error or time of others divided by ours, for the same guarantee; above 1 ours is better. *Ahead* and *behind*
count the rows of the [table](benchmark-tables.md) in which the ratio differs from 1 by more than its own spread and by
at least half a percent.
"""


def ratios(line: Line, tables: Sequence[Table]) -> list[tuple[float, float]]:
    """Every ratio of a column, turned so that above 1 ours is better, and its relative spread."""
    for table in tables:
        if table.name == line.table:
            place = table.columns.index(line.column)
            cells = [row[place] for row in table.rows]
            return [
                (1.0 / cell.value if line.ours_above else cell.value, cell.spread or 0.0)
                for cell in cells
                if isinstance(cell, Ratio)
            ]
    return []


def section(tables: Sequence[Table]) -> str:
    """The picture, and a verdict for every line."""
    lines = ["## Compared with others\n", WORDS]
    lines.append("| what | compared with | lowest | mean | highest | ours ahead | behind | table |")
    lines.append("|:--|:--|--:|--:|--:|--:|--:|:--|")
    for line in LINES:
        found = ratios(line, tables)
        if not found:
            continue
        title = next(table.title for table in tables if table.name == line.table)
        values = [value for value, _ in found]
        mean = math.exp(sum(map(math.log, values)) / len(values))
        room = [_TIE if math.isnan(spread) else max(spread, _TIE) for _, spread in found]
        ahead = sum(v > 1.0 + s for v, s in zip(values, room, strict=True))
        behind = sum(v < 1.0 - s for v, s in zip(values, room, strict=True))
        count = len(values)
        lines.append(
            f"| {line.what} | {line.peer} | {min(values):.3g} | {mean:.3g} | {max(values):.3g} | "
            f"{ahead} of {count} | {behind} of {count} | [{title}](benchmark-tables.md#{_anchor(title)}) |"
        )
    return "\n".join([*lines, ""])


def _anchor(title: str) -> str:
    """As the site names the place of a heading."""
    kept = "".join(c for c in title.lower() if c.isascii() and (c.isalnum() or c in " -_"))
    return "-".join(kept.split())


def draw(tables: Sequence[Table], folder: Path = drawing.PICTURES) -> None:
    """Write the picture, for light and for dark pages."""
    shown = [(line, [v for v, _ in ratios(line, tables)]) for line in LINES]
    shown = [(line, values) for line, values in shown if values]

    def make(plt: Any, ink: str) -> Any:
        figure, ax = plt.subplots(figsize=(7.5, 0.34 * len(shown) + 0.9), layout="constrained")
        for place, (_, values) in enumerate(shown):
            ax.plot([min(values), max(values)], [place, place], color="#4477aa", linewidth=1.5)
            ax.plot(values, [place] * len(values), "o", color="#4477aa", markersize=4, alpha=0.7)
        ax.axvline(1.0, color=ink, linewidth=0.8)
        ax.set_xscale("log")
        ax.set_yticks(range(len(shown)), [f"{line.what} · {line.peer}" for line, _ in shown])
        ax.invert_yaxis()
        ax.set_xlabel("theirs / ours")
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        return figure

    drawing.draw(NAME, make, folder)
