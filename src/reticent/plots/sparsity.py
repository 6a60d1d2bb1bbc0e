"""The path of a sparse solver: coefficients that become nonzero one after the other, and their number.

Frank-Wolfe over an l1 ball adds at most one coordinate per step (Jaggi 2013, section 3), which the picture shows.

The guarantee of a private solver covers its iterates only if the solver says that it releases them; otherwise the
path is a diagnostic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent.plots.style import COLOURS, axes

_NAMED = 6


def sparsity_path(
    steps: ArrayLike,
    coefficients: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    truth: ArrayLike | None = None,
    title: str = "",
    ax: Any = None,
) -> Any:
    """Draw each coefficient over the steps, with the largest final ones coloured and named.

    Parameters
    ----------
    steps : array_like
        Numbers of the steps, increasing.
    coefficients : array_like
        One row for each step, one column for each coefficient.
    names : sequence of str, optional
        Names of the coefficients; by default their numbers.
    truth : array_like, optional
        Coefficients that the data were generated with, drawn as dots at the end.
    title : str
        Title of the figure.
    ax : matplotlib axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes of the coefficients. The number of nonzero coefficients is on a second axis to the right.

    Examples
    --------
    >>> ax = sparsity_path([1, 2], [[0.0, 0.5], [0.2, 0.5]])
    >>> [int(v) for v in ax.figure.axes[1].lines[0].get_ydata()]
    [1, 2]
    """
    ax = axes() if ax is None else ax
    t, path = np.asarray(steps, dtype=float), np.asarray(coefficients, dtype=float)
    if path.ndim != 2 or len(path) != t.size:
        raise ValueError(
            f"coefficients must have one row for each of the {t.size} steps, got shape {path.shape}"
        )
    count = ax.twinx()
    count.spines[["top", "left"]].set_visible(False)
    nonzero = np.count_nonzero(path, axis=1)
    count.step(t, nonzero, where="post", color="#999999", linewidth=1.0, linestyle=":")
    count.set_ylabel("nonzero coefficients (dotted)")
    count.set_ylim(0, max(4, 1.15 * nonzero.max()))
    order = np.argsort(-np.abs(path[-1]), kind="stable")
    shown = [k for k in order if np.any(path[:, k])]
    for place, k in reversed(list(enumerate(shown))):
        main = place < _NAMED
        label = (f"{k}" if names is None else names[k]) if main else None
        colour = COLOURS[place] if main else "#b0b0b0"
        ax.plot(
            t,
            path[:, k],
            color=colour,
            linewidth=1.6 if main else 0.8,
            drawstyle="steps-post",
            label=label,
        )
        if truth is not None and main:
            ax.plot(t[-1], np.asarray(truth, dtype=float)[k], "o", color=colour, markersize=4)
    # draw the lines of the coefficients above that of the count
    ax.set_zorder(count.get_zorder() + 1)
    ax.patch.set_visible(False)
    ax.set_xlabel("step")
    ax.set_ylabel("coefficient")
    ax.set_title(title, fontsize=10)
    if shown:
        handles, labels = ax.get_legend_handles_labels()
        # below the axes, because inside it would cover coefficients
        ax.legend(
            handles[::-1],
            labels[::-1],
            frameon=False,
            fontsize=8,
            ncols=_NAMED,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.13),
        )
    return ax
