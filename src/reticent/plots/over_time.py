"""A measure of several runs over time, such as regret, accuracy or loss, each as a line with a band.

The band shows the spread of the repeats, between two of their quantiles; it is not a confidence interval of their mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.plots.style import COLOURS, axes, caption

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
    """Draw one line for each name, with a band if there are repeats.

    Parameters
    ----------
    steps : array_like
        Numbers of records, increasing.
    runs : mapping of str to array_like
        For each name either one value for each step, or one row of such values for each repeat; the line is their
        median.
    measure : str
        Label of the vertical axis.
    title : str
        Title of the figure.
    unit : str
        Label of the horizontal axis: what is counted.
    log : bool
        Whether the horizontal axis is logarithmic.
    quantiles : (float, float)
        The quantiles between which the band lies.
    ax : matplotlib axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes; ``ax.figure.savefig(path)`` saves the figure.

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
        # dashes as well as colours, so that the figure can be read in print without colour
        style=lambda n: {"linewidth": 1.6, "linestyle": _DASHES[n % len(_DASHES)]},
    )
    if log:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:,.0f}")
    return caption(ax, title, x=unit, y=measure, legend="best" if len(runs) > 1 else None)


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
    """Draw one line for each name, with a band if there are repeats.

    Parameters
    ----------
    ax : matplotlib axes
        Axes to draw on.
    x : array
        Positions on the horizontal axis.
    runs : mapping of str to array
        For each name either one value for each x, or one row of such values for each repeat.
    quantiles : (float, float)
        The quantiles between which the band lies.
    style : callable
        Maps the number of a line to its line style, by which it can be told apart in print without colour.
    alpha : float
        Opacity of a band.
    what : (str, str, str)
        The caller's words for the runs, one value and the x, for the error about a wrong shape.
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
