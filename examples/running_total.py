"""Release a private running total of a real series: 442 patients' disease progression, one patient after the other.

    python examples/running_total.py

The series is scikit-learn's diabetes data (Efron, Hastie, Johnstone and Tibshirani 2004). A
patient's score lies between 25 and 346 by the scale's construction, so 350 is a public bound.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_diabetes

import reticent
from reticent import plots, sums

BOUND = 350.0
REPORT = Path("report")


def main() -> None:
    console = Console()
    scores = load_diabetes().target / BOUND
    budget = reticent.Budget(epsilon=1.0, delta=1e-6)
    pure = reticent.Budget(epsilon=1.0)
    horizon = len(scores)
    totals = {
        "correlated noise": sums.Correlated(1, horizon, budget=budget),
        "binary tree, Honaker": sums.Tree(1, horizon, budget=budget),
        "binary tree, pure": sums.Tree(1, horizon, budget=pure, noise="gamma"),
    }
    released = {name: [] for name in totals}
    for score in track(scores, description="patients", console=console):
        for name, total in totals.items():
            released[name].append(BOUND * total.add(np.array([score]))[0])

    table = Table(title=f"Mean progression after {horizon} patients, each protected for ever")
    for column in ("mechanism", "released mean", "noise (std)", "guarantee"):
        table.add_column(column)
    for name, total in totals.items():
        noise = BOUND * total.error(horizon) / horizon
        table.add_row(
            name, f"{released[name][-1] / horizon:.1f}", f"{noise:.1f}", str(total.guarantee)
        )
    console.print(table)
    console.print(f"diagnostic, reads private data: the true mean is {BOUND * scores.mean():.1f}")

    steps = np.arange(1, horizon + 1)
    ax = plots.axes()
    ax.plot(steps, BOUND * np.cumsum(scores) / steps, color="#555555", label="true (diagnostic)")
    for name, values in released.items():
        ax.plot(steps, np.array(values) / steps, linewidth=1.0, label=name)
    ax.set_ylim(0, BOUND)
    ax.set_xlabel("patients so far")
    ax.set_ylabel("mean disease progression")
    ax.legend(frameon=False, fontsize=8)
    REPORT.mkdir(exist_ok=True)
    ax.figure.savefig(REPORT / "running-total.png")
    console.print(f"picture: {REPORT / 'running-total.png'}")


if __name__ == "__main__":
    main()
