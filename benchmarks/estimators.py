"""Accuracy and speed of the private estimators, all settings at their defaults.

    python estimators.py [accuracy] [regression] [speed] [--seeds 10] [--data NAME ...]
    python estimators.py --table          # the tables of docs/estimators.md, from what is stored

Accuracy: rows scaled to unit norm beforehand, a quarter held out, a new split and new noise for each
seed; delta = 0 with ``neighbours="replace"`` and delta = 1e-5 with ``"zero-out"``; the last column is
the share of what scikit-learn's LogisticRegression (C = 100) gains over the larger class that is kept.
Regression: R2 on a quarter held out, features scaled by `DomainScaler` with the bounds of each table's
columns taken as public, beside AdaSSP with exact noise. Speed: seconds of ``fit`` beside scikit-learn.
Results go to results/estimators.json, with the version of the sources. Real data: the folder RETICENT_DATA, else
../shared/data.

Means of few seeds have errors; the half-width printed after each is one standard error.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import kept
import numpy as np
from erm_accuracy import (
    CLASSIFICATION,
    DELTA,
    EPSILONS,
    LARGE,
    cell,
    folder,
    regression_sets,
    split,
    unit_rows,
)

from reticent import PrivacyLeakWarning
from reticent.compiling import compile_at_once
from reticent.estimators import (
    DomainScaler,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
)

compile_at_once()


RESULTS = Path(__file__).parent / "results"
PAGE = kept.DOCS / "estimators.md"


def keep(part: str, rows: list[dict[str, Any]]) -> None:
    """Write one part of the results beside the others; a data set's earlier rows are replaced."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / "estimators.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    names = {row["data"] for row in rows}
    others = [row for row in known.get(part, []) if row["data"] not in names]
    versions = known.get("versions", {}) | {part: kept.version()}
    file.write_text(
        json.dumps(known | {part: others + rows, "versions": versions}, indent=1) + "\n"
    )


def write_page() -> None:
    """Write the tables of the page from what is stored."""
    known = json.loads((RESULTS / "estimators.json").read_text())
    page = kept.written(PAGE.read_text(), "accuracy", _accuracies(known))
    PAGE.write_text(kept.written(page, "regression", _regressions(known)))


def _accuracies(known: dict[str, Any]) -> str:
    out = [
        f"Version {known['versions']['accuracy']}:",
        "",
        "| data | guarantee | 0.1 | 1 | 8 |",
        "|---|---|---|---|---|",
    ]
    rows = {(row["data"], row["neighbours"], row["epsilon"]): row for row in known["accuracy"]}
    for name in CLASSIFICATION:
        for delta, neighbours in (("0", "replace"), ("1e-5", "zero-out")):
            cells = [_cell(rows[name, neighbours, epsilon]["logistic"]) for epsilon in EPSILONS]
            out.append(f"| {name} | delta = {delta}, {neighbours} | {' | '.join(cells)} |")
    return "\n".join([*out, ""])


def _regressions(known: dict[str, Any]) -> str:
    out = [
        f"Version {known['versions']['regression']}:", "",
        "| data | epsilon | ours | AdaSSP | not private |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for row in known["regression"]:
        if row["neighbours"] == "zero-out":
            cells = f"{_cell(row['auto'])} | {_cell(row['adassp'])} | {row['not private']:.3f}"
            out.append(f"| {row['data']} | {row['epsilon']:g} | {cells} |")
    return "\n".join([*out, ""])


def _cell(scores: list[float]) -> str:
    return cell(scores).replace("±", " ± ")


def accuracy(names: list[str], seeds: int) -> None:
    from sklearn.linear_model import LogisticRegression

    print(f"{'data':14s} {'epsilon':>7s} {'promise':>15s} {'not private':>11s} "
          f"{'logistic':>12s} {'svc':>12s} {'kept':>6s}")  # fmt: skip
    for name in names:
        found: list[dict[str, Any]] = []
        try:
            X, y = CLASSIFICATION[name]()
        except FileNotFoundError:
            print(f"{name:14s} skipped: no such file in {folder()}; set RETICENT_DATA")
            continue
        X, y = unit_rows(X), y.astype(int)
        repeats = min(seeds, 3) if len(y) > 10 * LARGE else seeds
        parts = [split(len(y), seed) for seed in range(repeats)]
        plain = np.mean([LogisticRegression(C=100.0, max_iter=300).fit(X[a], y[a]).score(X[b], y[b])
                         for a, b in parts[:3]])  # fmt: skip
        base = max(np.mean(y == 1), np.mean(y == -1))
        for epsilon in EPSILONS:
            for delta, neighbours in ((0.0, "replace"), (DELTA, "zero-out")):
                row: dict[str, Any] = {"data": name, "epsilon": epsilon, "delta": delta,
                                       "neighbours": neighbours, "not private": plain}  # fmt: skip
                for title, kind in (
                    ("logistic", PrivateLogisticRegression),
                    ("svc", PrivateLinearSVC),
                ):
                    scores = [
                        kind(epsilon, delta, neighbours=neighbours, classes=[-1, 1], random_state=s)
                        .fit(X[a], y[a]).score(X[b], y[b])
                        for s, (a, b) in enumerate(parts)
                    ]  # fmt: skip
                    row[title] = scores
                row["kept"] = (np.mean(row["logistic"]) - base) / (plain - base)
                found.append(row)
                both = f"{cell(row['logistic']):>12s} {cell(row['svc']):>12s}"
                print(f"{name:14s} {epsilon:7g} {delta:6g} {neighbours:>8s} {plain:11.3f} "
                      f"{both} {row['kept']:6.2f}", flush=True)  # fmt: skip
        keep("accuracy", found)


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    import pandas as pd
    from sklearn.datasets import load_diabetes

    out = {"diabetes": load_diabetes(return_X_y=True)}
    for name, (file, target, dropped) in regression_sets().items():
        try:
            table = pd.read_parquet(folder() / file)
        except FileNotFoundError:
            print(f"{name:12s} skipped: no {file} in {folder()}; set RETICENT_DATA")
            continue
        y = table.pop(target or table.columns[-1]).to_numpy(float)
        X = table.drop(columns=[c for c in dropped if c in table]).select_dtypes("number")
        out[name] = (X.to_numpy(float), y)
    return out


def regression(seeds: int) -> None:
    from sklearn.linear_model import LinearRegression

    print(f"\n{'data':12s} {'n x p':>11s} {'epsilon':>7s} {'promise':>15s} {'not private':>11s} "
          f"{'linear':>13s} {'AdaSSP':>13s}")  # fmt: skip
    found = []
    for name, (X, y) in tables().items():
        # Robust ranges stand for what is publicly known about a column; noise does not depend on them.
        low, high = np.quantile(X, 0.005, axis=0), np.quantile(X, 0.995, axis=0)
        high = np.where(high > low, high, low + 1.0)
        X = DomainScaler((low, high)).fit_transform(X)
        bounds = (float(y.min()), float(y.max()))
        parts = [split(len(y), seed) for seed in range(seeds)]
        plain = np.mean(
            [LinearRegression().fit(X[a], y[a]).score(X[b], y[b]) for a, b in parts[:3]]
        )
        for epsilon in EPSILONS:
            for neighbours in ("zero-out", "replace"):
                row: dict[str, Any] = {"data": name, "epsilon": epsilon, "delta": 1e-6,
                                       "neighbours": neighbours, "not private": plain}  # fmt: skip
                for solver in ("auto", "adassp"):
                    row[solver] = [
                        PrivateLinearRegression(epsilon, 1e-6, neighbours=neighbours, solver=solver,
                                                label_bounds=bounds, random_state=s)
                        .fit(X[a], y[a]).score(X[b], y[b])
                        for s, (a, b) in enumerate(parts)
                    ]  # fmt: skip
                found.append(row)
                print(f"{name:12s} {len(y):7d}x{X.shape[1]:<3d} {epsilon:7g} {'1e-6 ' + neighbours:>15s} "
                      f"{plain:11.3f} {cell(row['auto']):>13s} {cell(row['adassp']):>13s}", flush=True)  # fmt: skip
    keep("regression", found)


def speed() -> None:
    from sklearn.linear_model import LogisticRegression

    print(
        f"\n{'data':14s} {'n x p':>12s} {'scikit-learn':>12s} {'ours, lattice':>13s} {'ratio':>6s}"
    )
    found = []
    for name in ("breast_cancer", "digits", "synthetic", "a9a", "covertype"):
        try:
            X, y = CLASSIFICATION[name]()
        except FileNotFoundError:
            print(f"{name:14s} skipped: no such file in {folder()}; set RETICENT_DATA")
            continue
        X, y = unit_rows(X), y.astype(int)
        ours, theirs = [], []
        PrivateLogisticRegression(classes=[-1, 1]).fit(X[:100], y[:100])  # compile
        for _ in range(3):
            start = time.perf_counter()
            PrivateLogisticRegression(classes=[-1, 1]).fit(X, y)
            ours.append(time.perf_counter() - start)
            start = time.perf_counter()
            LogisticRegression().fit(X, y)
            theirs.append(time.perf_counter() - start)
        ratio = min(ours) / min(theirs)
        found.append({"data": name, "n": len(y), "p": X.shape[1], "ours": min(ours),
                      "scikit-learn": min(theirs), "ratio": ratio})  # fmt: skip
        print(f"{name:14s} {len(y):8d}x{X.shape[1]:<4d} {min(theirs):10.3f} s {min(ours):11.3f} s "
              f"{ratio:6.2f}", flush=True)  # fmt: skip
    keep("speed", found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["accuracy", "regression", "speed"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--data", nargs="*", default=list(CLASSIFICATION))
    parser.add_argument("--table", action="store_true", help="write the page, and measure nothing")
    arguments = parser.parse_args()
    if arguments.table:
        write_page()
        return
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    if "accuracy" in arguments.parts:
        accuracy(arguments.data, arguments.seeds)
    if "regression" in arguments.parts:
        regression(arguments.seeds)
    if "speed" in arguments.parts:
        speed()


if __name__ == "__main__":
    main()
