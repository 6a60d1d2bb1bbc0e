"""A forest plot: coefficients with their intervals, and how much of each interval is due to privacy."""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent.plots.style import COLOURS, axes, caption


def forest(summary: Any, *, title: str = "", ax: Any = None) -> Any:
    """Draw the intervals of a summary. The thick part of each is the interval that sampling alone would give.

    Parameters
    ----------
    summary : Summary
        The summary that ``model.summary()`` returned.
    title : str
        Title of the figure.
    ax : matplotlib axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes; ``ax.figure.savefig(path)`` saves the figure.
    """
    if not hasattr(summary, "interval"):
        raise TypeError(f"summary must be a Summary, as model.summary() returns, got {summary!r}")
    ax = axes() if ax is None else ax
    places = np.arange(len(summary.names))[::-1]
    whole = summary.interval
    share = summary.sampling_error / np.maximum(summary.standard_error, 1e-300)
    middle = summary.estimate
    ax.hlines(
        places, whole[:, 0], whole[:, 1], linewidth=1.2, color=COLOURS[0], label="with privacy"
    )
    ax.hlines(
        places,
        middle + share * (whole[:, 0] - middle),
        middle + share * (whole[:, 1] - middle),
        linewidth=4.0,
        color=COLOURS[1],
        label="sampling alone",
    )
    ax.plot(middle, places, "o", markersize=4, color="black")
    ax.axvline(0.0, linewidth=0.8, linestyle=":", color="0.5")
    ax.set_yticks(places, summary.names)
    return caption(ax, title, x=f"coefficient, {summary.level:.0%} interval")
