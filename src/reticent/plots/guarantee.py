"""A guarantee as a picture: how well an attacker can tell whether a record takes part, by age, and for a crowd.

The numbers are exact and computed from a guarantee; drawing them spends no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from reticent.plots.style import COLOURS, axes, caption
from reticent.plots.tradeoff import claimed_misses
from reticent.privacy.budget import rounded_up


def guarantee_curve(guarantees: Any, *, title: str = "", ax: Any = None) -> Any:
    """Draw the trade-off curve of a guarantee: the smallest share of misses at each share of false alarms.

    An attacker decides from the outputs whether a record takes part. No attacker gets below the curve; on the dotted
    diagonal the outputs reveal nothing.

    Parameters
    ----------
    guarantees : Guarantee or mapping of str to Guarantee
        The guarantee, or several by name.
    title : str
        Title of the figure.
    ax : matplotlib axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes; ``ax.figure.savefig(path)`` saves the figure.

    Examples
    --------
    >>> import reticent
    >>> total = reticent.sums.Correlated(1, 10, budget=reticent.Budget(1.0, 1e-6))
    >>> ax = total.guarantee.plot()
    >>> ax.get_xlabel()
    'false alarms'
    """
    ax = axes(4.6, 4.2) if ax is None else ax
    lines = guarantees if isinstance(guarantees, Mapping) else {"": guarantees}
    alarms = np.linspace(0.0, 1.0, 201)
    for name, one in lines.items():
        misses = claimed_misses(one.delta, alarms)
        (line,) = ax.plot(alarms, misses, linewidth=1.6, label=name or one.summary)
        ax.fill_between(alarms, misses, 0.0, color=line.get_color(), alpha=0.08, linewidth=0)
    ax.plot([0, 1], [1, 0], linestyle=":", linewidth=1.0, color="0.5", label="nothing is told")
    title = title or "No attacker gets below the line"
    return caption(ax, title, x="false alarms", y="misses", legend="upper right")


def by_age(guarantees: Any, *, title: str = "", ax: Any = None) -> Any:
    """Draw epsilon against age, one line for each guarantee.

    Parameters
    ----------
    guarantees : ByAge or mapping of str to ByAge
        The result of `Guarantee.by_age`, or several of these by name.
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
    lines = guarantees if isinstance(guarantees, Mapping) else {"": guarantees}
    for name, line in lines.items():
        ages, values = np.array(line.ages), np.array(line.epsilons)
        shown = np.isfinite(values)
        ax.plot(ages[shown], values[shown], marker="o", markersize=3, linewidth=1.4, label=name)
        if not shown.all():  # nothing is guaranteed from there on
            ax.axvline(float(ages[~shown][0]), linewidth=0.8, linestyle=":", color="0.5")
    ax.set_xscale("log")
    ax.set_ylim(bottom=0)
    y = f"epsilon at delta = {rounded_up(next(iter(lines.values())).delta)}"
    legend = "best" if any(lines) else None
    return caption(ax, title, x="age: outputs from the record's own", y=y, legend=legend)


def odds(numbers: Any, *, title: str = "", ax: Any = None) -> Any:
    """Draw what a guarantee means for a number of people.

    Parameters
    ----------
    numbers : Odds
        The result of `Guarantee.odds`.
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
