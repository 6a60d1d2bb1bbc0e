"""Learn privately, online, from a real stream: NASA's Shuttle telemetry, 49,097 records, one after the other.

    python examples/online_stream.py

The stream comes with River. The nine sensor readings are scaled by declared, public ranges, never by what
is in the data. Three privacy budgets run beside a learner that is as good as non-private.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from river import datasets

import tacit
from tacit import losses, online, plots, sets

REPORT = Path("report")
RANGE = 150.0  # the sensors read from -150 to 150 or so; what is beyond is clipped
BUDGETS = {"epsilon = 0.1": 0.1, "epsilon = 1": 1.0, "epsilon = 8": 8.0, "all but non-private": 1e6}


def stream() -> tuple[np.ndarray, np.ndarray]:
    """Readings and a constant, each row of norm at most 1; labels -1 (nominal) and 1 (anomaly)."""
    records = list(datasets.Shuttle())
    readings = np.array([list(x.values()) for x, _ in records], dtype=float) / RANGE
    features = np.column_stack([readings, np.ones(len(readings))]) / np.sqrt(10.0)
    return features, np.array([1.0 if y else -1.0 for _, y in records])


def main() -> None:
    console = Console()
    X, y = stream()
    table = Table(title=f"{len(y)} records, each protected for ever at delta = 1e-6")
    for column in ("budget", "mean loss", "records a second", "guarantee"):
        table.add_column(column)
    steps = np.arange(1, len(y) + 1)
    ax = plots.axes()
    for name, epsilon in BUDGETS.items():
        learner = online.FollowTheRegularizedLeader(
            sets.L2Ball(X.shape[1], radius=10.0),
            losses.Logistic(),
            budget=tacit.Budget(epsilon, 1e-6),
            horizon=len(y),
        )
        play = learner.run(X, y, progress=True)
        mean = np.cumsum(play.losses) / steps
        speed = f"{len(y) / play.seconds:,.0f}"
        table.add_row(name, f"{mean[-1]:.4f}", speed, str(learner.guarantee))
        ax.plot(steps, mean, linewidth=1.2, label=name)
    ax.set_xscale("log")
    ax.set_xlabel("records so far")
    ax.set_ylabel("mean loss so far (diagnostic, reads private data)")
    ax.legend(frameon=False, fontsize=8)
    REPORT.mkdir(exist_ok=True)
    ax.figure.savefig(REPORT / "online-stream.png")
    console.print(table)
    console.print(
        "losses are diagnostics: they read private data and are not covered by the guarantee"
    )
    console.print(f"picture: {REPORT / 'online-stream.png'}")


if __name__ == "__main__":
    main()
