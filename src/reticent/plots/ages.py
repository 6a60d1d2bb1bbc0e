"""Epsilon by age, as exact numbers computed from a guarantee; drawing them spends no privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reticent.plots.style import axes


def by_age(promises: Any, *, title: str = "", ax: Any = None) -> Any:
    """Draw epsilon against age, one line for each guarantee.

    Parameters
    ----------
    promises : ByAge or mapping of str to ByAge
        What `Guarantee.by_age` returned, or several of these by name.
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
    lines = promises if isinstance(promises, Mapping) else {"": promises}
    for name, line in lines.items():
        ages, values = np.array(line.ages), np.array(line.epsilons)
        shown = np.isfinite(values)
        ax.plot(ages[shown], values[shown], marker="o", markersize=3, linewidth=1.4, label=name)
        if not shown.all():  # nothing is guaranteed from there on
            ax.axvline(float(ages[~shown][0]), linewidth=0.8, linestyle=":", color="0.5")
    ax.set_xscale("log")
    ax.set_ylim(bottom=0)
    ax.set_xlabel("age: outputs from the record's own")
    ax.set_ylabel(f"epsilon at delta = {next(iter(lines.values())).delta:g}")
    ax.set_title(title, fontsize=10)
    if any(lines):
        ax.legend(frameon=False, fontsize=8, loc="best")
    return ax
