"""The trade-off of an attacker who distinguishes two neighbouring inputs: misses against false alarms.

This is the picture of Dong, Roth and Su, *Gaussian differential privacy*, section 2: a mechanism keeps its guarantee
if no attacker gets below the claimed curve; the diagonal is perfect privacy.

The band holds for the whole curve at once, so a claim is refuted if the band lies below the claimed curve anywhere. A
measured curve well above the claim may just mean a weak attack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent.checks import FloatArray
from reticent.plots.style import COLOURS, axes, caption

FINE = np.concatenate([np.linspace(0.0, 4.0, 161), np.geomspace(4.1, 60.0, 60)])
COARSE = np.concatenate([np.linspace(0.0, 2.0, 21), np.geomspace(2.2, 40.0, 16)])


def claimed_misses(
    delta: Callable[[float], float], false_alarms: ArrayLike, epsilons: ArrayLike = FINE
) -> FloatArray:
    """The smallest share of misses that a privacy profile ``delta(epsilon)`` allows.

    It is the upper envelope of the lines that each (epsilon, delta(epsilon)) allows (Dong, Roth and Su, Proposition
    2.12) over a grid of epsilons, and therefore never above the claimed curve.

    Parameters
    ----------
    delta : callable
        The privacy profile, a function of epsilon.
    false_alarms : array_like
        Shares of false alarms.
    epsilons : array_like
        The grid of epsilons.

    Returns
    -------
    array
        A share of misses for each share of false alarms.

    Examples
    --------
    >>> claimed_misses(lambda epsilon: 0.0 if epsilon >= 0.5 else 1.0, [0.0, 0.5, 1.0]).round(3)
    array([1.   , 0.303, 0.   ])
    """
    x = np.asarray(false_alarms, dtype=float)
    best = np.zeros_like(x)
    for epsilon in np.asarray(epsilons, dtype=float):
        left = 1.0 - delta(float(epsilon))
        if left <= 0.0:
            continue
        steep = np.exp(epsilon)
        best = np.maximum(best, np.maximum(left - steep * x, (left - x) / steep))
    return best


def trade_off(
    false_alarms: ArrayLike,
    misses: ArrayLike,
    half_width: float = 0.0,
    *,
    claims: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    title: str = "",
    ax: Any = None,
) -> Any:
    """Draw a measured trade-off with its band, and claimed ones.

    Parameters
    ----------
    false_alarms : array_like
        Shares of an attacker's errors of the first kind, one for each threshold.
    misses : array_like
        Shares of errors of the second kind, at the same thresholds.
    half_width : float
        Error bound of each share.
    claims : mapping of str to (array_like, array_like), optional
        For each name, false alarms and the smallest shares of misses that the claim allows.
    title : str
        Title of the figure.
    ax : matplotlib axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes; ``ax.figure.savefig(path)`` saves the figure.
    """
    ax = axes(5.4, 4.8) if ax is None else ax
    x, y = np.asarray(false_alarms, dtype=float), np.asarray(misses, dtype=float)
    order = np.lexsort((-y, x))
    x, y = x[order], y[order]
    ax.plot(
        [0.0, 1.0],
        [1.0, 0.0],
        color="#999999",
        linewidth=0.8,
        linestyle=":",
        label="perfect privacy",
    )
    for k, (name, (left, right)) in enumerate((claims or {}).items()):
        colour = COLOURS[(1 + k) % len(COLOURS)]
        ax.plot(left, right, color=colour, linewidth=1.4, linestyle="--", label=name)
    if half_width > 0.0:
        # both shares are uncertain, so the curve may move along the diagonal
        across = np.concatenate([x - half_width, x[::-1] + half_width])
        along = np.concatenate([y - half_width, y[::-1] + half_width])
        ax.fill(across, along, color=COLOURS[0], alpha=0.18, linewidth=0.0, label="band")
    ax.plot(x, y, color=COLOURS[0], linewidth=1.4, label="measured")
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    return caption(
        ax,
        title,
        x="false alarms: says b in world a",
        y="misses: says a in world b",
        legend="upper right",
    )
