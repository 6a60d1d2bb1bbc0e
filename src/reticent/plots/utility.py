"""The cost of privacy: a score against epsilon, one line for each learner, with references that need no privacy.

Scores are measured on records, so the whole picture is a diagnostic, even if the models in it are private.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent.plots.over_time import draw
from reticent.plots.style import axes, caption

_MARKS = ("o", "s", "^", "D", "v", "P", "X")


def privacy_utility(
    epsilons: ArrayLike,
    scores: Mapping[str, ArrayLike],
    *,
    measure: str,
    references: Mapping[str, float] | None = None,
    quantiles: tuple[float, float] = (0.1, 0.9),
    title: str = "",
    ax: Any = None,
) -> Any:
    """Draw the privacy-utility curve.

    Parameters
    ----------
    epsilons : array_like
        Privacy budgets, increasing.
    scores : mapping of str to array_like
        For each name either one score for each epsilon, or one row of such scores for each repeat; the line is their
        median.
    measure : str
        Label of the vertical axis.
    references : mapping of str to float, optional
        Scores drawn as horizontal lines, such as that of a model without privacy, or of a constant.
    quantiles : (float, float)
        The quantiles between which the band of the repeats lies.
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
    >>> ax = privacy_utility([0.1, 1], {"ours": [0.6, 0.9]}, measure="accuracy")
    >>> ax.get_xscale()
    'log'
    """
    ax = axes() if ax is None else ax
    x = np.asarray(epsilons, dtype=float)
    draw(
        ax,
        x,
        scores,
        quantiles,
        alpha=0.15,
        what=("scores", "score", "epsilons"),
        style=lambda n: {"linewidth": 1.5, "marker": _MARKS[n % len(_MARKS)], "markersize": 5},
    )
    for place, (name, value) in enumerate((references or {}).items()):
        style = (":", "--")[place % 2]
        ax.axhline(value, color="#999999", linewidth=1.0, linestyle=style, label=name)
    ax.set_xscale("log")
    ax.set_xticks(x, [f"{value:g}" for value in x])
    ax.minorticks_off()
    legend = "best" if len(scores) + len(references or {}) > 1 else None
    return caption(ax, title, x="epsilon: more privacy to the left", y=measure, legend=legend)
