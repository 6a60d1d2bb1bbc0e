"""Every estimator at its defaults on real tables, beside its other solvers, private baselines and what is not private.

    python benchmarks/accuracy.py regression | classification [--seeds 5] [--epsilons .1,1,8] [--tables NAME,...]

Three quarters of the records are learnt from, the rest is for testing; a new split and new noise for each seed.
Features are scaled from declared ranges (`real_tables`) to rows of norm at most one, for every entrant alike. The last
lines are means over tables of the excess relative to not private: (1 - R2) or log loss, divided by that without
privacy, less 1, cut at 1 (as bad as no model); and the table on which the first entrant loses most to another.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import real_tables
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

import reticent

DELTA = 1e-6

Found = dict[str, dict[str, float]]


def regression(table: real_tables.RealTable, epsilon: float, seed: int, X: np.ndarray) -> Found:
    train, test = table.split(seed)
    model = reticent.PrivateLinearRegression
    common: dict[str, Any] = {"feature_norm": 1.0, "label_bounds": table.label_bounds}
    common |= {"random_state": seed, "noise_precision": "float"}
    entrants = {
        "ours": model(epsilon, DELTA, **common),
        "one release": model(epsilon, DELTA, solver="sufficient-statistics", **common),
        "objective": model(epsilon, DELTA, solver="objective-perturbation", **common),
        "AdaSSP": model(epsilon, DELTA, solver="adassp", **common),
        "ours, delta = 0": model(epsilon, 0.0, **common),
        "not private": LinearRegression(),
    }
    found = {}
    for name, entrant in entrants.items():
        score = float(entrant.fit(X[train], table.y[train]).score(X[test], table.y[test]))
        found[name] = {"R2": score, "loss": 1.0 - score}
    return found


def classification(table: real_tables.RealTable, epsilon: float, seed: int, X: np.ndarray) -> Found:
    train, test = table.split(seed)
    model = reticent.PrivateLogisticRegression
    common: dict[str, Any] = {"feature_norm": 1.0, "classes": [0, 1], "random_state": seed}
    common |= {"noise_precision": "float"}
    entrants = {
        "ours": model(epsilon, DELTA, **common),
        "influence 0.75": model(epsilon, DELTA, influence=0.75, **common),
        "output perturbation": model(epsilon, DELTA, solver="output-perturbation", **common),
        "ours, delta = 0": model(epsilon, 0.0, **common),
        "not private": LogisticRegression(C=1e4, max_iter=300),
    }
    found = {}
    y = table.y[test]
    for name, entrant in entrants.items():
        sure = entrant.fit(X[train], table.y[train]).predict_proba(X[test])[:, 1]
        found[name] = {
            "accuracy": float(np.mean((sure > 0.5) == y)),
            "AUC": float(roc_auc_score(y, sure)),
            "AP": float(average_precision_score(y, sure)),
            "ECE": calibration_error(y, sure),
            "loss": float(log_loss(y, np.clip(sure, 1e-9, 1.0 - 1e-9), labels=[0, 1])),
        }
    rate = float(np.mean(table.y[train]))
    found["base rate"] = {
        "accuracy": max(float(np.mean(y)), 1.0 - float(np.mean(y))), "AUC": 0.5,
        "AP": float(np.mean(y)), "ECE": abs(rate - float(np.mean(y))),
        "loss": float(log_loss(y, np.full(len(y), rate), labels=[0, 1])),
    }  # fmt: skip
    return found


def calibration_error(y: np.ndarray, sure: np.ndarray, bins: int = 15) -> float:
    """Expected calibration error: mean distance of rates from probabilities over equal bins of probability."""
    place = np.minimum((sure * bins).astype(int), bins - 1)
    gaps = [abs(float(np.sum(y[place == k] - sure[place == k]))) for k in range(bins)]
    return float(np.sum(gaps) / len(y))


TASKS: dict[str, tuple[Callable[..., Found], dict[str, Any], tuple[str, ...]]] = {
    "regression": (regression, real_tables.REGRESSION, ("R2",)),
    "classification": (
        classification, real_tables.CLASSIFICATION, ("accuracy", "AUC", "AP", "ECE", "loss")
    ),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", default="0.1,1,8")
    parser.add_argument("--tables", default="")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    run, tables, shown = TASKS[given.task]
    names = given.tables.split(",") if given.tables else list(tables)
    begun = time.perf_counter()
    excess: dict[float, dict[str, dict[str, float]]] = {}
    for name in names:
        try:
            table = real_tables.table(name)
        except FileNotFoundError:
            print(f"{name} is not in the folder of RETICENT_DATA and is left out")
            continue
        X = table.unit() / np.sqrt(table.X.shape[1])
        for epsilon in map(float, given.epsilons.split(",")):
            found = [run(table, epsilon, seed, X) for seed in range(given.seeds)]
            best = np.mean([each["not private"]["loss"] for each in found])
            row = []
            for entrant in found[0]:
                means = {k: float(np.mean([each[entrant][k] for each in found])) for k in shown}
                row.append(f"{entrant} " + "/".join(f"{value:.3f}" for value in means.values()))
                loss = np.mean([each[entrant]["loss"] for each in found])
                share = float(min(loss / best - 1.0, 1.0))
                excess.setdefault(epsilon, {}).setdefault(entrant, {})[name] = share
            size = f"{len(table.y)} x {table.X.shape[1]}"
            print(f"{name:13} {size:12} eps {epsilon:<4g} " + "; ".join(row), flush=True)
    print(
        f"\nmean excess over {len(names)} tables, relative to not private, and the worst table of the first"
    )
    for epsilon, entrants in excess.items():
        first = entrants["ours"]
        words = ", ".join(f"{k} {np.mean(list(v.values())):.3f}" for k, v in entrants.items())
        others = {k: v for k, v in entrants.items() if k not in ("ours", "not private")}
        lost = {(t, k): first[t] - v[t] for k, v in others.items() for t in first}
        worst = max(lost, key=lambda pair: lost[pair])
        print(
            f"eps {epsilon:<4g} {words}; loses most on {worst[0]} to {worst[1]}: {lost[worst]:.3f}"
        )
    print(f"{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
