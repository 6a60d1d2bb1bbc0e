"""Bytes that each party sent and was sent, round by round.

How many bytes travel depends on which columns were chosen, which the guarantee covers; drawing them
spends nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent.plots.style import COLOURS, axes


def bytes_by_party(
    names: Sequence[str], uplink: ArrayLike, downlink: ArrayLike, *, title: str = "", ax: Any = None
) -> Any:
    """Draw the bytes so far against the rounds: uplink in full lines, downlink in dashed ones.

    Parameters
    ----------
    names
        The parties.
    uplink
        Bytes from the parties, an array of shape (rounds, parties).
    downlink
        Bytes to them, of the same shape.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax.figure.savefig(path)`` writes them to a file.
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
    ax.set_xlabel("round")
    ax.set_ylabel("bytes so far")
    ax.set_title(title, fontsize=10)
    ax.legend(frameon=False, fontsize=8, loc="best")
    return ax
