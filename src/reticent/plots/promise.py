"""A guarantee as a picture: how well an attacker can tell whether a record takes part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reticent.plots.style import axes
from reticent.plots.tradeoff import claimed_misses


def promise(guarantees: Any, *, title: str = "", ax: Any = None) -> Any:
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
    ax.set_xlabel("false alarms")
    ax.set_ylabel("misses")
    ax.set_title(title or "No attacker gets below the line", fontsize=10)
    ax.legend(frameon=False, fontsize=8, loc="upper right")
    return ax
