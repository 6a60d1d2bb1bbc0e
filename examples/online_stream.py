"""Learn privately, online, from a real stream: NASA's Shuttle telemetry, 49,097 records, one after the other.

    python examples/online_stream.py

The stream comes with River. The nine sensor readings are scaled by a declared, public range, never by what
is in the data. Three privacy budgets run beside the same learner with next to no noise, and the outcome is one HTML
page.

Seven records in a hundred are anomalies, so a learner that never learns is right about the other ninety-three. The
measure is therefore the ROC AUC: how often an anomaly, before its label is seen, is scored above a nominal record.
It is 0.5 for whoever has learnt nothing, and privacy's price is visible in it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from river import datasets
from sklearn.metrics import roc_auc_score

import reticent
from reticent import losses, online, sets, trace
from reticent.plots.errors import error_over_time
from reticent.plots.over_time import over_time
from reticent.plots.utility import privacy_utility
from reticent.report import Page

RANGE = 150.0  # the sensors read from -150 to 150 or so; what is beyond is clipped
RADIUS = 40.0  # of the ball of decisions
CLEAN, IDLE = "not private", "majority class"
BUDGETS = {"epsilon = 0.1": 0.1, "epsilon = 1": 1.0, "epsilon = 8": 8.0, CLEAN: 1e6}
REPEATS = 5


def stream(most: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Readings and a constant, each row of norm at most 1; labels -1 (nominal) and 1 (anomaly)."""
    records = list(datasets.Shuttle().take(most) if most else datasets.Shuttle())
    readings = np.array([list(x.values()) for x, _ in records], dtype=float) / RANGE
    features = np.column_stack([readings, np.ones(len(readings))]) / np.sqrt(10.0)
    return features, np.array([1.0 if y else -1.0 for _, y in records])


def learn(X: np.ndarray, y: np.ndarray, epsilon: float) -> tuple[online.OnlineLearner, trace.Play]:
    """One private run, with fresh noise, and with its live progress on standard error."""
    learner = online.FollowTheRegularizedLeader(
        sets.L2Ball(X.shape[1], radius=RADIUS),
        losses.Logistic(),
        budget=reticent.Budget(epsilon, 1e-6),
        horizon=len(y),
    )
    return learner, learner.run(X, y, keep=len(y), progress=sys.stderr.isatty())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--records", type=int, help="only the first so many")
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder for the page")
    options = parser.parse_args()
    X, y = stream(options.records)
    steps = np.unique(np.geomspace(10, len(y), 300).astype(int))
    ranked: dict[str, list[float]] = {name: [] for name in BUDGETS}
    accuracy: dict[str, list[np.ndarray]] = {name: [] for name in BUDGETS}
    regret: dict[str, list[np.ndarray]] = {name: [] for name in BUDGETS}
    mean_losses: dict[str, list[float]] = {name: [] for name in BUDGETS}
    speeds, guarantees, noise = {}, {}, {}
    for name, epsilon in BUDGETS.items():
        for _ in range(REPEATS):
            learner, play = learn(X, y, epsilon)
            scores = np.einsum("ij,ij->i", play.decisions, X)
            hits = scores * y > 0.0
            ranked[name].append(float(roc_auc_score(y, scores)))
            accuracy[name].append(np.cumsum(hits)[steps - 1] / steps)
            regret[name].append(play.regret_curve()[1][steps - 1])
            mean_losses[name].append(play.mean_loss)
            speeds[name] = max(speeds.get(name, 0.0), len(y) / play.seconds)
        guarantees[name] = learner.guarantee
        noise[name] = [learner.total.error(int(t)) for t in steps]

    common = float(max(np.mean(y > 0), np.mean(y < 0)))
    columns = ["budget", "ROC AUC *", "accuracy *", "mean loss *", "records a second"]
    rows = [
        [
            name,
            f"{np.median(ranked[name]):.3f}",
            f"{np.median([run[-1] for run in accuracy[name]]):.4f}",
            f"{np.median(mean_losses[name]):.4f}",
            f"{speeds[name]:,.0f}",
        ]
        for name in BUDGETS
    ]
    rows.append(
        [
            IDLE,
            "0.500",
            f"{common:.4f}",
            f"{-np.dot([common, 1 - common], np.log([common, 1 - common])):.4f}",
            "-",
        ]
    )
    console = Console()
    table = Table(title=f"{len(y):,} records, each protected for ever at delta = 1e-6")
    for column in columns:
        table.add_column(column, justify="left" if column == "budget" else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(
        f"Medians of {REPEATS} runs. ROC AUC: how often an anomaly is scored above a nominal record, before "
        "either label is seen.\n* diagnostic: reads private data and is not covered by the guarantee"
    )
    console.print(f"epsilon = 1 guarantees: {guarantees['epsilon = 1'].odds()}")

    page = Page(
        "Private online learning on Shuttle",
        f"{len(y):,} records of NASA's telemetry, nine sensors, one decision after every record",
    )
    page.facts(
        {
            "records": f"{len(y):,}",
            "features": str(X.shape[1]),
            "runs of each budget": str(REPEATS),
            "records a second": f"{max(speeds.values()):,.0f}",
        }
    )
    page.heading("What privacy costs here")
    page.table(
        columns,
        rows,
        "Medians over the runs; * reads private data. The ROC AUC is the share of pairs of an anomaly and a nominal "
        "record in which the anomaly is scored higher, before either label is seen. Always predicting the majority "
        f"class is right about {common:.4f} of the records, and has learnt nothing.",
        kind="diagnostic",
    )
    private = {name: e for name, e in BUDGETS.items() if e < 1e6}
    page.figure(
        privacy_utility(
            list(private.values()),
            {"follow the regularised leader": np.transpose([ranked[name] for name in private])},
            measure="ROC AUC over the stream",
            references={CLEAN: float(np.median(ranked[CLEAN])), IDLE: 0.5},
        ),
        "Privacy against the ROC AUC.",
        kind="diagnostic",
    )
    page.figure(
        over_time(steps, accuracy, measure="accuracy so far"),
        "The share of records whose label was predicted before it was seen. Lines are medians, bands "
        "run from the first to the ninth decile of the runs.",
        kind="diagnostic",
    )
    page.figure(
        over_time(steps, regret, measure="regret so far"),
        "The loss so far beyond that of the decision that turned out best over all records.",
        kind="diagnostic",
    )
    page.heading("Where the privacy is spent")
    page.text(
        "Only the running total of gradients is noisy; every decision is computed from it. The noise is "
        "exact, known before the first record, and no record is read to draw it."
    )
    errors = error_over_time(steps, {name: noise[name] for name in private})
    errors.legend(frameon=False, fontsize=8, loc=(0.02, 0.6))  # between the lines
    page.figure(
        errors,
        "Standard deviation of the noise in one coordinate of the running total.",
    )
    page.heading("The guarantee, at epsilon = 1")
    page.guarantee(guarantees["epsilon = 1"])
    page.heading("What is private and what is not")
    page.privacy(
        ["every decision of one run: all of them together are what the guarantee is about"],
        [
            "accuracy, regret and their pictures",
            "the runs side by side: each spends a budget of its own, so publishing several adds them up",
        ],
    )
    page.heading("How to repeat this run")
    page.command(shlex.join(["python", *sys.argv]))
    path = page.write(options.out / "online-stream.html")
    console.print(f"report: {path.resolve()}")


if __name__ == "__main__":
    main()
