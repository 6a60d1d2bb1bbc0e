"""A forest plot: coefficients, their intervals, and the part of each that privacy accounts for."""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent.plots.style import COLOURS, axes


def forest(summary: Any, *, title: str = "", ax: Any = None) -> Any:
    """Draw a summary's intervals; the thick part is what sampling alone would leave.

    Parameters
    ----------
    summary : Summary
        What ``model.summary()`` returned.
    title : str
        Above the picture.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax.figure.savefig(path)`` writes them to a file.
    """
    if not hasattr(summary, "interval"):
        raise TypeError(f"summary must be what model.summary() returned, got {summary!r}")
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
    ax.set_xlabel(f"coefficient, {summary.level:.0%} interval")
    ax.set_title(title, fontsize=10)
    ax.legend(frameon=False, fontsize=8, loc="best")
    return ax
