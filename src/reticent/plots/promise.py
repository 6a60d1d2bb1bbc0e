"""A guarantee as a picture: what an attacker can reach who tells whether a record takes part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reticent.plots.style import axes
from reticent.plots.tradeoff import claimed_misses


def promise(guarantees: Any, *, title: str = "", ax: Any = None) -> Any:
    """Draw the trade-off curve of a guarantee: the least share of misses at every share of false alarms.

    An attacker decides from the outputs whether a record takes part. No attacker gets below the curve; on the dotted
    diagonal, outputs tell nothing.

    Parameters
    ----------
    guarantees : Guarantee or mapping of str to Guarantee
        What is promised, or several promises by name.
    title : str
        Above the picture.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax.figure.savefig(path)`` writes them to a file.

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
