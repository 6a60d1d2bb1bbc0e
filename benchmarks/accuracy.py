"""Every estimator at its defaults on real tables, beside its other solvers, private baselines and what is not private.

    python benchmarks/accuracy.py regression | classification [--seeds 5] [--epsilons .1,1,8] [--tables NAME,...]
    python benchmarks/accuracy.py picture

The first two add to benchmarks/results/accuracy.json what they have measured; the last draws the picture at the top of
docs/benchmarks.md from it. diffprivlib runs in its own environment (benchmarks/peers), the better of with and without
an intercept on each split; it has no delta.

Three quarters of the records are learnt from, the rest is for testing; a new split and new noise for each seed.
Features are scaled from declared ranges (`real_tables`) to rows of norm at most one, for every entrant alike. The last
lines are means over tables of the excess relative to not private: (1 - R2) or log loss, divided by that without
privacy, less 1, cut at 1 (as bad as no model); and the table on which the first entrant loses most to another.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import real_tables
from excess import RESULTS, SHOWN, excesses
from peers.client import Peer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

import reticent

DELTA = 1e-6
PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "accuracy.svg"

Found = dict[str, dict[str, float]]


def peer_of(peer: Peer, table: real_tables.RealTable, X: np.ndarray, seed: int) -> str:
    """What the peer reads of one split: labels of a regression within [-1, 1]."""
    train, test = table.split(seed)
    y = table.y.astype(float)
    if table.label_bounds is not None:
        low, high = table.label_bounds
        y = (y - low) / (high - low) * 2.0 - 1.0
    return peer.put(f"{table.name}-{seed}", X=X, y=y, train0=train, test0=test)


def best_of(answers: list[dict[str, float]], key: str) -> dict[str, float]:
    """The answer of the better setting."""
    return max(answers, key=lambda each: each[key])


def regression(
    table: real_tables.RealTable, epsilon: float, seed: int, X: np.ndarray, peer: Peer
) -> Found:
    train, test = table.split(seed)
    model = reticent.PrivateLinearRegression
    common: dict[str, Any] = {"feature_norm": 1.0, "label_bounds": table.label_bounds}
    common |= {"random_state": seed, "noise_precision": "float"}
    entrants = {
        "ours": model(epsilon, DELTA, **common),
        "ours, not scaled": model(epsilon, DELTA, scaling="none", **common),
        "AdaSSP": model(epsilon, DELTA, solver="adassp", scaling="none", **common),
        "ours, delta = 0": model(epsilon, 0.0, **common),
        "not private": LinearRegression(),
    }
    found = {}
    for name, entrant in entrants.items():
        score = float(entrant.fit(X[train], table.y[train]).score(X[test], table.y[test]))
        found[name] = {"R2": score, "loss": 1.0 - score}
    where = peer_of(peer, table, X, seed)
    best = best_of(
        [
            peer.ask("linear_scores", data=where, epsilon=epsilon, intercept=on, seed=seed)
            for on in (True, False)
        ],
        "R2",
    )
    found["diffprivlib"] = {"R2": best["R2"], "loss": 1.0 - best["R2"]}
    return found


def classification(
    table: real_tables.RealTable, epsilon: float, seed: int, X: np.ndarray, peer: Peer
) -> Found:
    train, test = table.split(seed)
    model = reticent.PrivateLogisticRegression
    common: dict[str, Any] = {"feature_norm": 1.0, "classes": [0, 1], "random_state": seed}
    common |= {"noise_precision": "float"}
    entrants = {
        "ours": model(epsilon, DELTA, **common),
        "ours, not scaled": model(epsilon, DELTA, scaling="none", **common),
        "ours, delta = 0": model(epsilon, 0.0, **common),
        "not private": LogisticRegression(C=1e4, max_iter=300),
    }
    found = {}
    y = table.y[test]
    for name, entrant in entrants.items():
        found[name] = scores(y, entrant.fit(X[train], table.y[train]).predict_proba(X[test])[:, 1])
    where = peer_of(peer, table, X, seed)
    answers = [
        peer.ask("probabilities", data=where, epsilon=epsilon, intercept=on, seed=seed)["sure"]
        for on in (True, False)
    ]
    found["diffprivlib"] = min(
        (scores(y, np.array(sure)) for sure in answers), key=lambda each: each["loss"]
    )
    rate = float(np.mean(table.y[train]))
    found["base rate"] = {
        "accuracy": max(float(np.mean(y)), 1.0 - float(np.mean(y))), "AUC": 0.5,
        "AP": float(np.mean(y)), "ECE": abs(rate - float(np.mean(y))),
        "loss": float(log_loss(y, np.full(len(y), rate), labels=[0, 1])),
    }  # fmt: skip
    return found


def scores(y: np.ndarray, sure: np.ndarray) -> dict[str, float]:
    """Of probabilities of the second class."""
    return {
        "accuracy": float(np.mean((sure > 0.5) == y)),
        "AUC": float(roc_auc_score(y, sure)),
        "AP": float(average_precision_score(y, sure)),
        "ECE": calibration_error(y, sure),
        "loss": float(log_loss(y, np.clip(sure, 1e-9, 1.0 - 1e-9), labels=[0, 1])),
    }


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


def keep(task: str, name: str, epsilon: float, found: list[Found]) -> None:
    """Add one table at one epsilon to the results: every seed of every entrant."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    place = known.setdefault(task, {}).setdefault(name, {})
    place[f"{epsilon:g}"] = {
        entrant: {
            key: [round(each[entrant][key], 5) for each in found] for key in found[0][entrant]
        }
        for entrant in found[0]
    }
    RESULTS.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n")


def picture() -> None:
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "accuracy"
    known = json.loads(RESULTS.read_text())
    figure, axes = plt.subplots(
        1, len(known), figsize=(5.2 * len(known), 3.8), layout="constrained"
    )
    for axis, (task, tables) in zip(np.atleast_1d(axes), sorted(known.items()), strict=True):
        for entrant in SHOWN:
            made = excesses(tables, entrant)
            if made:
                means, errors = zip(*made.values(), strict=True)
                axis.errorbar(
                    list(made), means, yerr=errors, label=entrant, marker="o", ms=4, capsize=2
                )
        axis.set(
            xscale="log", xlabel="epsilon", title=f"{task}, {len(tables)} tables",
            ylabel="excess loss relative to not private",
        )  # fmt: skip
        axis.axhline(0.0, color="black", lw=0.8)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})
    print(f"wrote {PICTURE}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=(*TASKS, "picture"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", default="0.1,1,8")
    parser.add_argument("--tables", default="")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.task == "picture":
        picture()
        return
    peer = Peer("diffprivlib")
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
            found = [run(table, epsilon, seed, X, peer) for seed in range(given.seeds)]
            keep(given.task, name, epsilon, found)
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
    peer.close()
    print(f"{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
