"""A measure of several runs over time, each as a line with a band: regret, accuracy, loss.

The band is what the repeats did, from the smallest quantile to the largest, not a confidence
interval of their mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.plots.style import COLOURS, axes

_BAND = (0.1, 0.9)
_DASHES = ("-", "--", "-.", (0, (1, 1.2)), (0, (5, 1, 1, 1, 1, 1)))


def over_time(
    steps: ArrayLike,
    runs: Mapping[str, ArrayLike],
    *,
    measure: str,
    title: str = "",
    unit: str = "records",
    log: bool = True,
    quantiles: tuple[float, float] = _BAND,
    ax: Any = None,
) -> Any:
    """Draw one line a name, with a band where there are repeats.

    Parameters
    ----------
    steps
        Numbers of records, increasing.
    runs
        For each name either one value a step, or repeats by steps; the line is their median.
    measure
        What is on the vertical axis.
    title : str
        Above the picture.
    unit
        What is counted on the horizontal axis, which is logarithmic where ``log`` says so.
    log : bool
        Whether the vertical axis is logarithmic.
    quantiles
        Where the band begins and ends.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax.figure.savefig(path)`` writes them to a file.

    Examples
    --------
    >>> ax = over_time([1, 10, 100], {"ours": [[3, 2, 1], [5, 4, 3]]}, measure="regret")
    >>> ax.lines[0].get_ydata().tolist()
    [4.0, 3.0, 2.0]
    """
    ax = axes() if ax is None else ax
    t = np.asarray(steps, dtype=float)
    draw(
        ax,
        t,
        runs,
        quantiles,
        alpha=0.18,
        what=("runs", "value", "steps"),
        # dashes as well as colours: a print in grey must be readable too
        style=lambda n: {"linewidth": 1.6, "linestyle": _DASHES[n % len(_DASHES)]},
    )
    if log:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_xlabel(unit)
    ax.set_ylabel(measure)
    ax.set_title(title, fontsize=10)
    if len(runs) > 1:
        ax.legend(frameon=False, fontsize=8, loc="best")
    return ax


def draw(
    ax: Any,
    x: NDArray[np.float64],
    runs: Mapping[str, ArrayLike],
    quantiles: tuple[float, float],
    *,
    style: Callable[[int], Mapping[str, Any]],
    alpha: float,
    what: tuple[str, str, str],
) -> None:
    """Draw one line per name, the median of its repeats, with a band between two of their quantiles.

    Parameters
    ----------
    runs
        For each name either one value for each x, or repeats by x.
    style
        What tells the n-th line apart in a print in grey.
    alpha
        How dense a band is.
    what
        How the caller's user knows the runs, one value, and the x; for the refusal of a wrong shape.
    """
    argument, value, along = what
    for place, (name, values) in enumerate(runs.items()):
        colour = COLOURS[place % len(COLOURS)]
        table = np.atleast_2d(np.asarray(values, dtype=float))
        if table.shape[1] != x.size:
            raise ValueError(
                f"{argument}[{name!r}] must have one {value} for each of the {x.size} {along}, got "
                f"shape {table.shape}"
            )
        if len(table) > 1:
            low, high = np.quantile(table, quantiles, axis=0)
            ax.fill_between(x, low, high, color=colour, alpha=alpha, linewidth=0.0)
        ax.plot(x, np.median(table, axis=0), color=colour, label=name, **style(place))
