"""Accuracy of the offline solvers at equal privacy, all settings at their defaults.

    python erm_accuracy.py [classification] [regression] [lasso] [--seeds 10] [--data NAME ...]

Classification: rows scaled to unit norm, a quarter held out, a new split and new noise for each
seed; delta = 0 with ``neighbours="replace"`` and delta = 1e-5 with ``"zero-out"``. The column
"diffprivlib (quoted)" repeats figures measured elsewhere with diffprivlib 0.6.6, the better of C = 1
and 100, under the first of the two; the synthetic set there was another draw of the same size. Real
data is looked for in the folder RETICENT_DATA, else ../shared/data beside the checkout.

Means of few seeds have errors; the half-width printed after each is one standard error.
"""

from __future__ import annotations

import argparse
import math
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import reticent
from reticent import erm, losses, sets

QUOTED = {
    ("breast_cancer", 0.1): 0.648, ("breast_cancer", 1.0): 0.822, ("breast_cancer", 8.0): 0.962,
    ("digits", 0.1): 0.478, ("digits", 1.0): 0.566, ("digits", 8.0): 0.842,
    ("synthetic", 0.1): 0.648, ("synthetic", 1.0): 0.837, ("synthetic", 8.0): 0.8445,
}  # fmt: skip
EPSILONS = (0.1, 1.0, 8.0)
DELTA = 1e-5
LARGE = 30_000


def folder() -> Path:
    named = os.environ.get("RETICENT_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"


def unit_rows(X: np.ndarray) -> np.ndarray:
    return X / np.maximum(np.linalg.norm(X, axis=1), 1e-12)[:, None]


# Classification.


def breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(0)) / X.std(0), 2.0 * y - 1.0


def digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X, np.where(y > 4, 1.0, -1.0)


def synthetic() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = unit_rows(rng.standard_normal((50_000, 50)))
    true = rng.standard_normal(50)
    odds = 23.0 * X @ true / np.linalg.norm(true)  # the best possible accuracy is about 0.845
    return X, np.where(rng.random(50_000) < 1.0 / (1.0 + np.exp(-odds)), 1.0, -1.0)


def adult() -> tuple[np.ndarray, np.ndarray]:
    import pandas as pd

    table = pd.read_parquet(folder() / "adult.parquet").drop(columns="split")
    y = np.where(table.pop("income").astype(str).str.contains(">50K"), 1.0, -1.0)
    numbers = table.select_dtypes("number")
    words = pd.get_dummies(table.drop(columns=numbers.columns).astype(str)).to_numpy(float)
    # public bounds of what a census can hold, not those of these records
    top = np.array([{"age": 90.0, "fnlwgt": 1.5e6, "education-num": 16.0, "education_num": 16.0,
                     "hours-per-week": 99.0, "hours_per_week": 99.0}.get(name, 1e5)
                    for name in numbers.columns])  # fmt: skip
    return np.hstack([np.clip(numbers.to_numpy(float) / top, 0, 1), words]), y


def a9a() -> tuple[np.ndarray, np.ndarray]:
    X, y = sparse("a9a")
    return X.toarray(), y


def covertype() -> tuple[np.ndarray, np.ndarray]:
    import pandas as pd

    table = pd.read_parquet(folder() / "covertype.parquet")
    y = np.where(table.pop("Cover_Type") == 2, 1.0, -1.0)
    X = table.to_numpy(float)
    X[:, :10] /= np.array([4000.0, 360.0, 90.0, 1500.0, 700.0, 7500.0, 255.0, 255.0, 255.0, 7500.0])
    return X, y


def sparse(name: str) -> tuple[Any, np.ndarray]:
    z = np.load(folder() / f"{name}.npz")
    X = sp.csr_array((z["data"].astype(float), z["indices"], z["indptr"]), shape=tuple(z["shape"]))
    return X, np.where(z["y"] > 0, 1.0, -1.0)


CLASSIFICATION: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "breast_cancer": breast_cancer,
    "digits": digits,
    "synthetic": synthetic,
    "adult": adult,
    "a9a": a9a,
    "covertype": covertype,
}
SOLVERS: dict[str, Any] = {
    "objective": erm.objective_perturbation,
    "gradient": erm.gradient_descent,
    "output": erm.output_perturbation,
    "one pass": erm.averaged_iterate,
    "ftrl": erm.ftrl,
}


def split(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(count)
    return order[: count * 3 // 4], order[count * 3 // 4 :]


def cell(values: list[float]) -> str:
    return f"{np.mean(values):.3f}±{np.std(values) / math.sqrt(len(values)):.3f}"


def classification(names: list[str], seeds: int) -> None:
    print("\nAccuracy of logistic regression on held-out records (mean ± standard error)\n")
    print(f"{'data':14s} {'epsilon':>7s} {'promise':>20s} {'best, not private':>18s} "
          + " ".join(f"{name:>12s}" for name in SOLVERS) + "  diffprivlib (quoted)")  # fmt: skip
    for name in names:
        try:
            X, y = CLASSIFICATION[name]()
        except FileNotFoundError:
            print(f"{name:14s} skipped: no such file in {folder()}; set RETICENT_DATA")
            continue
        X = unit_rows(X)
        loss = losses.Logistic()
        large = len(y) > LARGE
        chosen = {k: v for k, v in SOLVERS.items() if not large or k in ("objective", "gradient")}
        repeats = min(seeds, 3) if len(y) > 10 * LARGE else seeds
        ceiling = []
        for seed in range(min(3, repeats)):
            train, test = split(len(y), seed)
            where, ridge = sets.L2Ball(X.shape[1], 100.0), losses.Logistic(ridge=1e-6)
            best = losses.best_fixed(where, ridge, X[train], y[train], gap=1e-3, time_limit=60.0)
            ceiling.append(float(np.mean(np.sign(X[test] @ best.point) == y[test])))
        for epsilon in EPSILONS:
            for budget in (
                reticent.Budget(epsilon, 0.0, "replace"),
                reticent.Budget(epsilon, DELTA),
            ):
                cells = []
                for title in SOLVERS:
                    if title not in chosen:
                        cells.append("-")
                        continue
                    scores = []
                    for seed in range(repeats):
                        train, test = split(len(y), seed)
                        fit = chosen[title](
                            loss, None, X[train], y[train], budget=budget, seed=seed
                        )
                        scores.append(float(np.mean(np.sign(X[test] @ fit.point) == y[test])))
                    cells.append(cell(scores))
                pure = budget.delta == 0.0
                promise = "pure, replace" if pure else f"{DELTA:g}, zero-out"
                quoted = QUOTED.get((name, epsilon)) if pure else None
                print(f"{name:14s} {epsilon:7g} {promise:>20s} {np.mean(ceiling):18.3f} "
                      + " ".join(f"{value:>12s}" for value in cells)
                      + f"  {'' if quoted is None else quoted}", flush=True)  # fmt: skip


# Linear regression.


def regression_sets() -> dict[str, tuple[str, str, list[str]]]:
    return {
        "california": ("california_housing.parquet", "MedHouseVal", []),
        "wine": ("wine_quality.parquet", "quality", ["colour"]),
        "protein": ("protein_casp.parquet", "", []),
        "bike": ("bike_sharing_hour.parquet", "cnt", ["casual", "registered", "instant", "dteday"]),
    }


def regression(seeds: int) -> None:
    import pandas as pd

    print("\nR2 of linear regression on all records, standardised, a constant added, unit norm "
          "(mean ± standard error); delta = 1e-6, zero-out\n")  # fmt: skip
    print(f"{'data':12s} {'epsilon':>7s} {'least squares':>13s} {'joint':>12s} {'AdaSSP, exact':>14s} "
          f"{'AdaSSP, printed':>15s}")  # fmt: skip
    for name, (file, target, dropped) in regression_sets().items():
        try:
            table = pd.read_parquet(folder() / file)
        except FileNotFoundError:
            print(f"{name:12s} skipped: no {file} in {folder()}; set RETICENT_DATA")
            continue
        target = target or table.columns[-1]
        y = table.pop(target).to_numpy(float)
        X = table.drop(columns=[c for c in dropped if c in table]).select_dtypes("number")
        X = X.to_numpy(float)
        X = np.c_[(X - X.mean(0)) / X.std(0), np.ones(len(X))]
        X, y = unit_rows(X), (y - y.mean()) / np.abs(y - y.mean()).max()

        def r2(x: np.ndarray, X: np.ndarray = X, y: np.ndarray = y) -> float:
            return float(1.0 - ((y - X @ x) ** 2).sum() / ((y - y.mean()) ** 2).sum())

        top = r2(np.linalg.lstsq(X, y)[0])
        for epsilon in EPSILONS:
            cells = []
            for more in (
                {},
                {"method": "adassp"},
                {"method": "adassp", "calibration": "published"},
            ):
                scores = [
                    r2(erm.sufficient_statistics(losses.Squared(), None, X, y, seed=seed,
                                                 budget=reticent.Budget(epsilon, 1e-6), **more).point)
                    for seed in range(seeds)
                ]  # fmt: skip
                cells.append(cell(scores))
            print(f"{name:12s} {epsilon:7g} {top:13.3f} {cells[0]:>12s} {cells[1]:>14s} "
                  f"{cells[2]:>15s}", flush=True)  # fmt: skip


# LASSO.


def lasso_sets() -> dict[str, Callable[[], tuple[Any, np.ndarray]]]:
    def dense(name: str) -> Callable[[], tuple[Any, np.ndarray]]:
        def load() -> tuple[Any, np.ndarray]:
            z = np.load(folder() / f"{name}.npz")
            X, y = z["X"].astype(float), z["y"]
            if y.dtype.kind not in "iuf":
                y = np.where(y == np.unique(y)[0], -1.0, 1.0)
            y = y.astype(float)
            X = (X - X.mean(0)) / np.maximum(X.std(0), 1e-9)
            y = y - y.mean()
            return np.clip(X / 3.0, -1, 1), y / np.abs(y).max()

        return load

    return {
        "riboflavin": dense("riboflavin"),
        "leukemia": dense("leukemia_golub1999"),
        "arcene": dense("arcene"),
        "dorothea": lambda: sparse("dorothea_valid"),
        "farm_ads": lambda: sparse("farm_ads"),
        "rcv1": lambda: sparse("rcv1_vw_1500"),
    }


def lasso(seeds: int) -> None:
    print("\nExcess mean squared loss of the LASSO on the l1 ball of radius 1, entries within 1; "
          "delta = 1e-6, zero-out (mean ± standard error)\n")  # fmt: skip
    print(f"{'data':12s} {'n x p':>14s} {'zero':>7s} {'epsilon':>7s} {'private':>14s} {'steps':>6s} "
          f"{'printed noise':>14s} {'its true epsilon':>17s}")  # fmt: skip
    for name, load in lasso_sets().items():
        try:
            X, y = load()
        except FileNotFoundError:
            print(f"{name:12s} skipped: no such file in {folder()}; set RETICENT_DATA")
            continue
        n, p = X.shape
        loss, where = losses.Squared(), sets.L1Ball(p)
        exact = erm.frank_wolfe(loss, where, X, y, budget=None, steps=400)
        least = loss.mean_value(exact.point, X, y) - float(np.min(exact.trace.diagnostics["gap"]))
        zero = loss.mean_value(np.zeros(p), X, y) - least
        for epsilon in EPSILONS:
            budget = reticent.Budget(epsilon, 1e-6)
            ours = [erm.frank_wolfe(loss, where, X, y, budget=budget, seed=s) for s in range(seeds)]
            steps = ours[0].trace.settings["steps"]
            printed = [
                erm.frank_wolfe(loss, where, X, y, budget=budget, seed=s, steps=steps,
                                calibration="published")
                for s in range(seeds)
            ]  # fmt: skip
            found = [
                cell([loss.mean_value(fit.point, X, y) - least for fit in fits])
                for fits in (ours, printed)
            ]
            truth = printed[0].guarantee.epsilon(1e-6)
            print(f"{name:12s} {n:6d}x{p:<7d} {zero:7.4f} {epsilon:7g} {found[0]:>14s} {steps:6} "
                  f"{found[1]:>14s} {truth:17.4g}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["classification", "regression", "lasso"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--data", nargs="*", default=list(CLASSIFICATION))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", losses.GapWarning)
    start = time.perf_counter()
    if "classification" in arguments.parts:
        classification(arguments.data, arguments.seeds)
    if "regression" in arguments.parts:
        regression(arguments.seeds)
    if "lasso" in arguments.parts:
        lasso(min(arguments.seeds, 5))
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
