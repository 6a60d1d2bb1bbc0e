"""Small multiples: several panels that share a few lines and one legend.

A band is the standard error of a mean over repeats. Lines that were computed, or that come from a single run, have
none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent.plots.style import COLOURS, blank

GREY = "#555555"
DASHES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D")


@dataclass(frozen=True)
class PanelLine:
    """One line of a panel.

    Parameters
    ----------
    x : array_like or None
        Horizontal positions; None draws the single value ``y`` as a horizontal line.
    y : array_like
        Values.
    error : array_like, optional
        Standard error of each value.
    """

    x: ArrayLike | None
    y: ArrayLike
    error: ArrayLike | None = None


@dataclass(frozen=True)
class Panel:
    """The labels and axes of a panel."""

    name: str
    title: str
    x_label: str
    y_label: str
    x_scale: str = "log"
    y_scale: str = "log"
    x_base: float = 10.0


@dataclass(frozen=True)
class Look:
    """Colour, dash and marker of a line that appears in several panels."""

    colour: str
    dash: str = "-"
    marker: str = "o"


def looks(
    names: Sequence[tuple[str, str]], fixed: Mapping[str, str] | None = None
) -> dict[tuple[str, str], Look]:
    """Assign a look to each (series, variant): the colour distinguishes variants, dash and marker distinguish series.

    If there are more variants than colours, dashes distinguish the others.

    Parameters
    ----------
    names : sequence of (str, str)
        Series and variant of each line.
    fixed : mapping of str to str, optional
        Colours of some variants.
    """
    given = dict(fixed or {})
    spare = [colour for colour in COLOURS if colour not in given.values()]
    spare = spare if len(spare) > 2 else list(COLOURS)
    places: dict[str, int] = {}
    series_places: dict[str, int] = {}
    found = {}
    for series, variant in names:
        turn = series_places.setdefault(series, len(series_places))
        colour = given.get(variant)
        if colour is None:
            place = places.setdefault(variant, len(places))
            colour = spare[place % len(spare)]
            turn += place // len(spare)
        found[series, variant] = Look(
            colour, DASHES[turn % len(DASHES)], MARKERS[turn % len(MARKERS)]
        )
    return found


def panels(
    shown: Sequence[tuple[Panel, Mapping[tuple[str, str], PanelLine]]],
    *,
    look: Mapping[tuple[str, str], Look],
    title: str = "",
    columns: int | None = None,
) -> Any:
    """Draw panels in a grid.

    Parameters
    ----------
    shown : sequence of (Panel, mapping)
        Each panel with its lines, by (series, variant).
    look : mapping of (str, str) to Look
        The look of each of these lines, in the order of the legend.
    title : str
        Title of the figure.
    columns : int, optional
        Number of panels in a row; by default up to four.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; ``figure.savefig(path)`` saves it.
    """
    count = len(shown)
    across = columns or min(4, count)
    down = math.ceil(count / across)
    free = across * down - count
    width = 7.0 if across == 1 else min(12.0, 3.3 * across)
    figure = blank(
        figsize=(width, (3.4 if count == 1 else 2.7) * down + 0.9), dpi=110, layout="constrained"
    )
    grid = figure.subplots(down, across, squeeze=False)
    handles: dict[str, Any] = {}
    for place, ax in enumerate(grid.flat):
        if place >= count:
            ax.set_axis_off()
            continue
        panel, lines = shown[place]
        _panel(ax, panel, lines, look, handles)
    if title:
        figure.suptitle(title, fontsize=11)
    wanted = [name for name in (label(*key) for key in look) if name in handles]
    drawn = [handles[name] for name in wanted]
    if free:
        grid.flat[count].legend(drawn, wanted, frameon=False, fontsize=8.5, loc="center left")
    else:
        rows = min(len(wanted), 4)
        figure.legend(
            drawn, wanted, frameon=False, fontsize=8.5, loc="outside lower center", ncols=rows
        )
    return figure


def label(series: str, variant: str) -> str:
    """The legend's text for a line.

    Examples
    --------
    >>> label("pure", "ours"), label("", "ours")
    ('pure, ours', 'ours')
    """
    return f"{series}, {variant}" if series else variant


def _panel(
    ax: Any,
    panel: Panel,
    lines: Mapping[tuple[str, str], PanelLine],
    look: Mapping[tuple[str, str], Look],
    handles: dict[str, Any],
) -> None:
    from matplotlib.ticker import LogLocator

    ax.grid(alpha=0.25, linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    for key, line in lines.items():
        style = look[key]
        y = np.asarray(line.y, dtype=float)
        if line.x is None:
            dash = (0, (5, 2)) if style.dash == "-" else style.dash
            drawn = ax.axhline(float(y.flat[0]), color=style.colour, linestyle=dash, linewidth=1.1)
        else:
            x = np.asarray(line.x, dtype=float)
            order = np.argsort(x)
            x, y = x[order], y[order]
            if line.error is not None:
                half = np.asarray(line.error, dtype=float)[order]
                low = y - half
                if panel.y_scale == "log":
                    low = np.maximum(low, 0.2 * y)  # a logarithmic axis needs positive values
                ax.fill_between(x, low, y + half, color=style.colour, alpha=0.18, linewidth=0)
            marker = style.marker if line.error is not None else ""
            (drawn,) = ax.plot(x, y, color=style.colour, linestyle=style.dash, linewidth=1.4,
                               marker=marker, markersize=3.2)  # fmt: skip
        handles.setdefault(label(*key), drawn)
    if panel.x_scale == "log":
        ax.set_xscale("log", base=panel.x_base)
        if panel.x_base == 10.0:
            ax.xaxis.set_major_formatter("{x:g}")
    if panel.y_scale == "log":
        ax.set_yscale("log")
        low, high = ax.get_ylim()
        if high < 200.0 * low:  # powers of ten alone may give no tick at all
            ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    ax.set_title(panel.title, fontsize=9.5)
    ax.set_xlabel(panel.x_label, fontsize=8.5)
    ax.set_ylabel(panel.y_label, fontsize=8.5)
    ax.tick_params(labelsize=8)
