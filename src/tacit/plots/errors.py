"""The error of running totals over time, several mechanisms side by side.

The one thing a reader would get wrong: these are exact standard deviations of the noise, computed, not measured from
data; drawing them spends no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tacit.plots.style import axes


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

    Returns
    -------
    The matplotlib axes; ``ax.figure.savefig(path)`` writes them to a file.
    """
    ax = axes() if ax is None else ax
    t = np.asarray(steps)
    lines: Sequence[str] = list(errors)
    for name in lines:
        values = np.asarray(errors[name], dtype=float)
        (line,) = ax.plot(t, values, linewidth=1.4, label=name)
        ax.annotate(
            f" {values[-1]:.3g}", (t[-1], values[-1]), color=line.get_color(), fontsize=8, va="center"
        )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xlabel("number of the total")
    ax.set_ylabel("standard deviation of the noise")
    ax.set_title(title, fontsize=10)
    ax.legend(frameon=False, fontsize=8, loc="best")
    return ax
