"""The error of running totals over time, several mechanisms side by side.

These are exact standard deviations of the noise, computed, not measured from data; drawing them
spends no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent.plots.style import axes


def error_over_time(
    steps: ArrayLike, errors: Mapping[str, ArrayLike], *, title: str = "", ax: Any = None
) -> Any:
    """Draw one line a mechanism: standard deviation of the noise against the number of the total.

    Parameters
    ----------
    steps
        The numbers of the totals, increasing.
    errors
        For each mechanism's name, its error at those steps (``total.error(t)``).
    title : str
        Above the picture.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax.figure.savefig(path)`` writes them to a file.
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
    ax.set_xlabel("number of the total")
    ax.set_ylabel("standard deviation of the noise")
    ax.set_title(title, fontsize=10)
    ax.legend(frameon=False, fontsize=8, loc="best")
    return ax
