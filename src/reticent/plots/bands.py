"""Repeats drawn as a line with a band: their median, between two of their quantiles.

The band is what the repeats did, not a confidence interval of their mean; where there was one
repeat there is none.
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
    """Draw one line a name, with a band where there are repeats.

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
