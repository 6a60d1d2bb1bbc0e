"""Everything private against known bounds: R squared of ``PrivateLinearRegression`` at epsilon = 1, delta = 1e-6.

python benchmarks/private_bounds.py [seeds]: "known" scales each column from its least and largest value in the table
and takes the labels' as bounds, as if these were public; "private" is
``PrivateLinearRegression(feature_norm="private", label_bounds="private")`` on the raw columns; "mean" predicts a
private mean of the labels, with private bounds and the whole budget. A quarter of each table is held out. Tables that
are not there are left out.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from reticent import PrivateLinearRegression
from reticent.estimators import DomainScaler

DATA = Path(os.environ.get("RETICENT_DATA", "../shared/data"))
FLIGHTS = ["month", "day", "sched_dep_time", "sched_arr_time", "distance", "hour", "minute",
           "dep_delay", "air_time"]  # fmt: skip


def _california(d: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    return d.drop(columns="MedHouseVal"), d["MedHouseVal"]


def _wine(d: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    return d.drop(columns=["quality", "colour"]), d["quality"]


def _bike(d: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    left = d.select_dtypes("number").drop(
        columns=["cnt", "casual", "registered", "instant"], errors="ignore"
    )
    return left, d["cnt"]


def _beijing(d: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    d = d[d["pm2.5"].notna()]
    return d.select_dtypes("number").drop(columns=["pm2.5", "No"], errors="ignore"), d["pm2.5"]


def _last(d: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    return d.iloc[:, :-1], d.iloc[:, -1]


def _sgemm(d: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    return d.iloc[:, :-4], np.log(d.iloc[:, -4:].mean(axis=1))


def _flights(d: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    return d[FLIGHTS], d["arr_delay"]


TABLES: dict[str, Callable[[pd.DataFrame], tuple[pd.DataFrame, pd.Series]]] = {
    "california_housing": _california, "wine_quality": _wine, "bike_sharing_hour": _bike,
    "beijing_pm25": _beijing, "protein_casp": _last, "sgemm_gpu": _sgemm, "nycflights13": _flights,
}  # fmt: skip


def tables() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, features and labels, rows that are not finite left out."""
    for name, pick in TABLES.items():
        path = DATA / f"{name}.parquet"
        if not path.exists():
            print(f"{name}: not there, left out", file=sys.stderr)
            continue
        features, labels = pick(pd.read_parquet(path))
        X, y = np.asarray(features, float), np.asarray(labels, float)
        kept = np.isfinite(X).all(axis=1) & np.isfinite(y)
        yield name, X[kept], y[kept]
    yield "diabetes", *load_diabetes(return_X_y=True, scaled=False)


def scores(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[float, float, float]:
    """R squared on held-out records: known bounds, private bounds, the private mean."""
    here, there, labels, truth = train_test_split(X, y, test_size=0.25, random_state=seed)
    low, high = X.min(axis=0), X.max(axis=0)
    scaler = DomainScaler((low, np.where(high > low, high, low + 1.0))).fit(here)
    known = PrivateLinearRegression(
        1.0, 1e-6, feature_norm=1.0, label_bounds=(y.min(), y.max()), random_state=seed
    ).fit(scaler.transform(here), labels)
    private = PrivateLinearRegression(
        1.0, 1e-6, feature_norm="private", label_bounds="private", random_state=500 + seed
    )
    try:
        found = private.fit(here, labels).score(there, truth)
    except ValueError:  # too few records: refused
        found = np.nan
    nothing = PrivateLinearRegression(
        1.0, 1e-6, feature_norm=1.0, label_bounds="private", random_state=1000 + seed
    )
    try:
        mean = nothing.fit(np.zeros((len(here), 1)), labels).score(np.zeros((len(there), 1)), truth)
    except ValueError:
        mean = np.nan
    return known.score(scaler.transform(there), truth), found, mean


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(
        f"{'table':<20} {'n':>7} {'p':>3} {'n/(5000 p)':>10} {'known':>7} {'private':>8} {'share':>6} {'mean':>7}"
    )
    for name, X, y in tables():
        found = np.array([scores(X, y, seed) for seed in range(seeds)])
        n, p = int(0.75 * len(y)), X.shape[1]
        known, private, mean = found.mean(axis=0)
        print(
            f"{name:<20} {n:>7} {p:>3} {n / (5000 * p):>10.2f} {known:>7.3f} {private:>8.3f} "
            f"{private / known:>6.0%} {mean:>7.3f}",
            flush=True,
        )
