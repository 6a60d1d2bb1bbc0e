"""Draw the pictures of the README and the documentation from exact formulas.

python scripts/make_pictures.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import reticent
from reticent import papers, plots, sums

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"


def same_promise() -> None:
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
        title="A running total of 4096 records, each of norm at most 1: one promise, (1, 1e-6)",
    )
    ax.figure.savefig(PICTURES / "same-promise.png")


def same_promise_window() -> None:
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
        title="An endless running total, each record protected for 1024 outputs: one promise, (1, 1e-6)",
    )
    ax.figure.savefig(PICTURES / "same-promise-window.png")


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    same_promise()
    same_promise_window()
    print(f"drawn in {PICTURES}")
