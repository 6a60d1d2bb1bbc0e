"""Draw repeated runs as a line with a band: their median, and the range between two of their quantiles.

The band shows the spread of the repeats; it is not a confidence interval of their mean. A single run has no band.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.plots.style import COLOURS


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
