"""A dot for every person: how many the best attacker is right about, compared with guessing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reticent.plots.style import COLOURS, axes


def odds(numbers: Any, *, title: str = "", ax: Any = None) -> Any:
    """Draw what a guarantee means for a number of people.

    Parameters
    ----------
    numbers : Odds
        What `Guarantee.odds` returned.
    title : str
        Title of the figure.
    ax : matplotlib axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes; ``ax.figure.savefig(path)`` saves the figure.
    """
    ax = axes(7.0, 3.6) if ax is None else ax
    wide = max(1, round(math.sqrt(2.5 * numbers.people)))
    number = np.arange(numbers.people)
    across, down = number % wide, number // wide
    groups = (
        (number < numbers.blind, "0.75", f"right by guessing: {numbers.blind:,}"),
        (
            (number >= numbers.blind) & (number < numbers.right),
            COLOURS[1],
            f"right by looking at the outputs as well: at most {numbers.right - numbers.blind:,} more",
        ),
        (
            number >= numbers.right,
            COLOURS[0],
            f"wrong: at least {numbers.people - numbers.right:,}",
        ),
    )
    for which, colour, label in groups:
        ax.scatter(across[which], -down[which], s=9, color=colour, label=label, linewidths=0)
    ax.set_axis_off()
    ax.set_title(title or f"Of {numbers.people:,} people", fontsize=10)
    ax.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=1)
    return ax
