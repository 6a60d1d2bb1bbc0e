"""The style of all figures: colours that colour-blind readers can tell apart, a thin grid, and wide margins."""

from __future__ import annotations

from typing import Any

# Okabe and Ito's palette without its yellow, which is too pale for lines
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#555555")


def blank(**options: Any) -> Any:
    """An empty figure with these options of matplotlib's, which is imported here only."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install matplotlib") from error
    return Figure(**options)


def axes(width: float = 7.0, height: float = 4.2) -> Any:
    """Make a figure with one pair of axes in the common style.

    Parameters
    ----------
    width : float
        Width in inches.
    height : float
        Height in inches.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    return row(1, width, height)[0]


def caption(
    ax: Any,
    title: str,
    x: str | None = None,
    y: str | None = None,
    legend: str | None = "best",
) -> Any:
    """Write the title and the labels of axes, place the legend unless that is None, and return the axes."""
    if x is not None:
        ax.set_xlabel(x)
    if y is not None:
        ax.set_ylabel(y)
    ax.set_title(title, fontsize=10)
    if legend is not None:
        ax.legend(frameon=False, fontsize=8, loc=legend)
    return ax


def row(count: int, width: float = 3.4, height: float = 3.2) -> list[Any]:
    """Make a figure with several pairs of axes side by side, in the common style.

    Parameters
    ----------
    count : int
        Number of pairs of axes.
    width : float
        Width of each in inches.
    height : float
        Height of each in inches.

    Returns
    -------
    list of matplotlib.axes.Axes
        The axes, from left to right.
    """
    figure = blank(figsize=(count * width, height), dpi=150, layout="constrained")
    made = [figure.add_subplot(1, count, k + 1) for k in range(count)]
    for ax in made:
        ax.grid(alpha=0.25, linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_prop_cycle(color=COLOURS)
    return made
