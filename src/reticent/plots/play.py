"""Curves of a run over time: average loss and regret.

Both are computed from private records, and each figure says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

NOTE = "diagnostic: reads private data"


def _axes(axes: Any) -> Any:
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("drawing needs matplotlib: pip install matplotlib") from error
    return pyplot.subplots(figsize=(6.0, 4.0), layout="constrained")[1]


def _finish(axes: Any, title: str, label: str | None) -> Any:
    axes.set_xlabel("records")
    axes.set_title(f"{title} ({NOTE})", fontsize="medium")
    axes.grid(True, alpha=0.3)
    if label:
        axes.legend(frameon=False)
    return axes


def losses(
    steps: ArrayLike, cumulative: ArrayLike, *, label: str | None = None, axes: Any = None
) -> Any:
    """Draw the average loss per record so far against the number of records.

    Parameters
    ----------
    steps : array_like of int
        Numbers of records, increasing.
    cumulative : array_like
        The total loss up to and including each of them.
    label : str, optional
        Label of the line.
    axes : matplotlib axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes; ``axes.figure.savefig(path)`` saves the figure.
    """
    axes = _axes(axes)
    numbers = np.asarray(steps, dtype=float)
    axes.plot(numbers, np.asarray(cumulative) / numbers, label=label)
    axes.set_ylabel("average loss so far")
    axes.set_xscale("log")
    return _finish(axes, "loss", label)


def regret(
    steps: ArrayLike, values: ArrayLike, *, label: str | None = None, axes: Any = None
) -> Any:
    """Draw the regret so far against the number of records on a logarithmic axis, where ln T is a straight line.

    Parameters
    ----------
    steps : array_like of int
        Numbers of records, increasing.
    values : array_like
        The regret up to each of them.
    label : str, optional
        Label of the line.
    axes : matplotlib axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes; ``axes.figure.savefig(path)`` saves the figure.
    """
    axes = _axes(axes)
    axes.plot(np.asarray(steps, dtype=float), np.asarray(values), label=label)
    axes.set_ylabel("regret so far")
    axes.set_xscale("log")
    return _finish(axes, "regret", label)
