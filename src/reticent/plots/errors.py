"""The error of running totals over time, for several mechanisms side by side.

These are exact standard deviations of the noise, computed and not measured on data, so drawing them spends no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent.plots.style import axes, caption


def error_over_time(
    steps: ArrayLike, errors: Mapping[str, ArrayLike], *, title: str = "", ax: Any = None
) -> Any:
    """Draw one line for each mechanism: the standard deviation of the noise against the number of the total.

    Parameters
    ----------
    steps : array_like of int
        Numbers of the totals, increasing.
    errors : mapping of str to array_like
        For each mechanism's name, its error at those steps (``total.error(t)``).
    title : str
        Title of the figure.
    ax : matplotlib axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes; ``ax.figure.savefig(path)`` saves the figure.
    """
    ax = axes() if ax is None else ax
    t = np.asarray(steps)
    for name, line in errors.items():
        values = np.asarray(line, dtype=float)
        ax.plot(t, values, linewidth=1.4, label=f"{name}: at most {values.max():.3g}")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter("")
    return caption(ax, title, x="number of the total", y="standard deviation of the noise")
