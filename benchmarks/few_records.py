"""Regressions on the first records of real tables: the default solver beside rounds of clipped residuals.

    python benchmarks/few_records.py [--seeds 10]

R2 on held-out records, delta = 1e-6, where n mu is so small that the default is not to take rounds
(docs/algorithms/sufficient-statistics.md).
"""

from __future__ import annotations

import argparse
import os
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import real_tables

import reticent

TABLES = ("beijing", "bike", "california", "diabetes", "flights", "protein", "sgemm", "songs", "wine")  # fmt: skip
SIZES = ((3000, 0.1), (800, 0.1), (800, 1.0))
SOLVERS = ("auto", "boosted-statistics")


def score(name: str, count: int, epsilon: float, seed: int, solver: str) -> float:
    table = real_tables.table(name)
    X = table.unit() / np.sqrt(table.X.shape[1])
    train, test = table.split(seed)
    model = reticent.PrivateLinearRegression(
        epsilon, 1e-6, feature_norm=1.0, label_bounds=table.label_bounds, solver=solver,
        random_state=seed, noise_precision="float",
    ).fit(X[train[:count]], table.y[train[:count]])  # fmt: skip
    return float(model.score(X[test], table.y[test]))


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--seeds", type=int, default=10)
    seeds = asked.parse_args().seeds
    warnings.simplefilter("ignore")
    heads = (f"{count:,} records, epsilon = {epsilon:g}" for count, epsilon in SIZES)
    print(f"| table | {' | '.join(heads)} |\n|---|{'--:|' * len(SIZES)}")
    for name in TABLES:
        cells = []
        for count, epsilon in SIZES:
            if len(real_tables.table(name).y) * 3 // 4 < count:
                cells.append("")
                continue
            made = [
                np.mean([score(name, count, epsilon, seed, solver) for seed in range(seeds)])
                for solver in SOLVERS
            ]
            cells.append(" / ".join(f"{each:.2f}" for each in made))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
