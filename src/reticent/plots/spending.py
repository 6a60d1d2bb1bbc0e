"""A ledger as a picture: what has been spent, entry by entry, compared with the budget."""

from __future__ import annotations

from typing import Any

from reticent.plots.style import COLOURS, axes, caption
from reticent.privacy.budget import rounded_up


def spending(ledger: Any, *, title: str = "", ax: Any = None) -> Any:
    """Draw the epsilon spent so far, after each entry of a ledger.

    Parameters
    ----------
    ledger : Ledger
        The ledger.
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
    >>> with reticent.Ledger(reticent.Budget(1.0, 1e-6)) as ledger:
    ...     total = reticent.sums.Correlated(1, 10, budget=reticent.Budget(0.5, 1e-6))
    >>> ledger.plot().get_ylabel()
    'epsilon so far at delta = 1e-6'
    """
    ax = axes() if ax is None else ax
    budget, entries = ledger.budget, ledger.entries
    spent, values = None, [0.0]
    for entry in entries:
        spent = entry.guarantee if spent is None else spent + entry.guarantee
        values.append(float(spent.epsilon(budget.delta)))
    ax.step(range(len(values)), values, where="post", linewidth=1.6, color=COLOURS[0])
    ax.plot(range(len(values)), values, "o", markersize=4, color=COLOURS[0], label="spent")
    ax.axhline(
        budget.epsilon,
        linestyle="--",
        linewidth=1.0,
        color=COLOURS[1],
        label=f"budget: {rounded_up(budget.epsilon)}",
    )
    ax.set_xticks(range(len(values)), ["", *(entry.what for entry in entries)], rotation=20)
    ax.set_ylim(0.0, 1.1 * max(budget.epsilon, *values))
    y = f"epsilon so far at delta = {rounded_up(budget.delta)}"
    return caption(ax, title, y=y, legend="lower right")
