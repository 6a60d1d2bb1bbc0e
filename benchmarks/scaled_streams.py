"""Streams that are scaled by their first records beside streams that are not: predict, then learn.

    python benchmarks/scaled_streams.py [--seeds 3] [--epsilons 1,4] [--tables NAME,...]

Accuracy, or R2, over all records but the first hundredth, each predicted before it is learnt from, in hundred batches;
features scaled from declared ranges to rows of norm 1 (`real_tables`), records in the order of the table's sample.
The records that centers and spreads are found from are predicted too, by a constant.
"""

from __future__ import annotations

import argparse
import os
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import real_tables

import reticent

TABLES = ("electricity", "phishing", "higgs", "credit", "covertype", "bank", "intrusion", "digits",
          "california", "wine", "protein", "bike", "beijing")  # fmt: skip
DELTA = 1e-6


def score(
    table: real_tables.RealTable, epsilon: float, known: bool, scaling: str, seed: int
) -> tuple[float, int]:
    """Predict and learn through a table; and how many records went into scaling."""
    X, y = table.unit() / np.sqrt(table.X.shape[1]), table.y
    count, batch = len(X), max(1, len(X) // 100)
    fields = {"scaling": scaling, "feature_norm": 1.0, "random_state": seed}
    fields["horizon"] = count + 1 if known else None
    if table.label_bounds is not None:
        model = reticent.OnlineLinearRegression(
            epsilon, DELTA, label_bounds=table.label_bounds, **fields
        )
    else:
        model = reticent.OnlineLogisticRegression(
            epsilon, DELTA, classes=np.unique(y).tolist(), **fields
        )
    lost = 0.0
    for start in range(0, count, batch):
        rows, labels = X[start : start + batch], y[start : start + batch]
        if start:
            guess = model.predict(rows)
            lost += float(
                np.sum((guess - labels) ** 2) if table.label_bounds else np.sum(guess != labels)
            )
        model.partial_fit(rows, labels)
    first = model._stream.plan.first
    worst = float(np.var(y[batch:])) if table.label_bounds is not None else 1.0
    return 1.0 - lost / (count - batch) / worst, 0 if first is None else first.count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilons", default="1,4")
    parser.add_argument("--tables", default=",".join(TABLES))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.tables.split(","):
        table = real_tables.table(name)
        for epsilon in map(float, given.epsilons.split(",")):
            for known in (True, False):
                row = {}
                for scaling in ("none", "auto"):
                    made = [
                        score(table, epsilon, known, scaling, seed) for seed in range(given.seeds)
                    ]
                    row[scaling] = float(np.mean([each[0] for each in made]))
                size = f"{len(table.y)} x {table.X.shape[1]}"
                words = "horizon known  " if known else "horizon unknown"
                print(
                    f"{name:12} {size:11} eps {epsilon:<4g} {words} none {row['none']:.3f} auto {row['auto']:.3f} "
                    f"from {made[0][1]} records",
                    flush=True,
                )


if __name__ == "__main__":
    main()
