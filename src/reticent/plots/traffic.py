"""Bytes sent and received by each party, round by round.

How many bytes are sent depends on which columns were chosen, which the guarantee covers; drawing them spends nothing
more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent.plots.style import COLOURS, axes, caption


def bytes_by_party(
    names: Sequence[str], uplink: ArrayLike, downlink: ArrayLike, *, title: str = "", ax: Any = None
) -> Any:
    """Draw the cumulative bytes against the rounds: uplink as solid lines, downlink as dashed ones.

    Parameters
    ----------
    names : sequence of str
        The parties.
    uplink : array_like
        Bytes from the parties, of shape (rounds, parties).
    downlink : array_like
        Bytes to the parties, of the same shape.
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
    up, down = (np.cumsum(np.asarray(values, dtype=float), axis=0) for values in (uplink, downlink))
    rounds = np.arange(len(up))
    for k, name in enumerate(names):
        colour = COLOURS[k % len(COLOURS)]
        ax.plot(rounds, up[:, k], color=colour, linewidth=1.4, label=f"{name}: {up[-1, k]:,.0f} up")
        label = f"{name}: {down[-1, k]:,.0f} down"
        ax.plot(rounds, down[:, k], color=colour, linewidth=1.0, linestyle="--", label=label)
    ax.set_yscale("log")
    return caption(ax, title, x="round", y="bytes so far")
