"""Draw the pictures of the README and the documentation from exact formulas.

python scripts/make_pictures.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.text import Text

import reticent
from reticent import papers, plots, sums

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"


def same_guarantee() -> None:
    """Error over time of a running total, full protection and (1, 1e-6) for all."""
    horizon, budget = 4096, reticent.Budget(1.0, 1e-6)
    steps = np.unique(np.round(np.geomspace(1, horizon - 1, 600)).astype(int))
    plain = sums.Tree(1, horizon, budget=budget, estimator="plain")
    honaker = sums.Tree(1, horizon, budget=budget)
    correlated = sums.Correlated(1, horizon, budget=budget)
    printed = papers.ftrl(1.0, 1e-6, horizon=horizon)
    nodes = np.array([int(t).bit_count() for t in steps])
    ax = plots.error_over_time(
        steps,
        {
            "binary tree, published noise": float(printed.scale) * np.sqrt(nodes),
            "binary tree, exact noise": [plain.error(int(t)) for t in steps],
            "Honaker's tree, exact": [honaker.error(int(t)) for t in steps],
            "correlated noise (default)": [correlated.error(int(t)) for t in steps],
        },
        title="A running total of 4096 records, each of norm at most 1: one guarantee, (1, 1e-6)",
    )
    save(ax, "same-guarantee")


def same_guarantee_window() -> None:
    """Error over time when a record is protected for 1024 outputs."""
    budget = reticent.Budget(1.0, 1e-6, window=1024)
    steps = np.unique(np.round(np.geomspace(1, 2**16 - 1, 900)).astype(int))
    tree = sums.WindowTree(1, budget=budget)
    correlated = sums.Correlated(1, budget=budget)
    printed = papers.window_tree_gaussian(1.0, 1e-6, window=1024)
    exact = np.array([tree.error(int(t)) for t in steps])
    ax = plots.error_over_time(
        steps,
        {
            "window tree, published noise": exact / tree.error(1) * float(printed.scale),
            "window tree, exact noise": exact,
            "correlated noise (default)": [correlated.error(int(t)) for t in steps],
        },
        title="An endless running total, each record protected for 1024 outputs: one guarantee, (1, 1e-6)",
    )
    save(ax, "same-guarantee-window")


def odds() -> None:
    """What epsilon 1 at delta 1e-6 means, in people."""
    guarantee = sums.Correlated(1, 4096, budget=reticent.Budget(1.0, 1e-6)).guarantee
    save(guarantee.odds().plot(), "odds")


def save(ax: Any, name: str) -> None:
    """A picture for paper, and two without a background: for light and for dark pages."""
    import matplotlib

    figure = ax.figure
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(PICTURES / f"{name}.png")
        for theme, ink in (("light", "#222222"), ("dark", "#dddddd")):
            for words in figure.findobj(Text):
                words.set_color(ink)
            for line in [*ax.spines.values(), *ax.get_xgridlines(), *ax.get_ygridlines()]:
                line.set_color(ink)
            ax.tick_params(which="both", colors=ink)
            path = PICTURES / f"{name}-{theme}.svg"
            figure.savefig(path, transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    same_guarantee()
    same_guarantee_window()
    odds()
    print(f"drawn in {PICTURES}")
