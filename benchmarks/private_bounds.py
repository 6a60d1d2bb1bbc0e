"""Everything private against known bounds: R squared of ``PrivateLinearRegression`` at epsilon = 1, delta = 1e-6.

python benchmarks/private_bounds.py [--seeds 5] [--only TEXT] [--page]: "known" scales each column from its least and
largest value in the table and takes the labels' as bounds, as if these were public; "private" is
``PrivateLinearRegression(feature_norm="private", label_bounds="private")`` on the raw columns; "mean" predicts a
private mean of the labels, with private bounds and the whole budget. A quarter of each table is held out. Tables that
are not there are left out. Scores go to benchmarks/results/private_bounds.json, and ``--page`` writes them from there
to docs/algorithms/private-bounds.md.
"""

from __future__ import annotations

import argparse
import json
import math
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
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "private_bounds.json"
PAGE = ROOT / "docs" / "algorithms" / "private-bounds.md"
BEGIN, END = "<!-- generated: bounds -->", "<!-- end generated -->"
ENOUGH = 5000  # records times epsilon, per column, from which on the bar of 90 % is meant
BAR, WORSE = 0.9, 0.02
TELLING = 0.05  # a share of less than this says nothing
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


def _blog(d: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    return d.drop(columns=["target", "split"]), d["target"]


def _year(d: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    return d.drop(columns="year"), d["year"]


def _flights(d: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    return d[FLIGHTS], d["arr_delay"]


TABLES: dict[str, Callable[[pd.DataFrame], tuple[pd.DataFrame, pd.Series]]] = {
    "california_housing": _california, "wine_quality": _wine, "bike_sharing_hour": _bike,
    "beijing_pm25": _beijing, "protein_casp": _last, "sgemm_gpu": _sgemm, "nycflights13": _flights,
    "blogfeedback": _blog, "yearpredictionmsd_first1176": _year,
}  # fmt: skip


def tables(only: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, features and labels, rows that are not finite left out."""
    for name, pick in TABLES.items():
        if only not in name:
            continue
        path = DATA / f"{name}.parquet"
        if not path.exists():
            print(f"{name}: not there, left out", file=sys.stderr)
            continue
        features, labels = pick(pd.read_parquet(path))
        X, y = np.asarray(features, float), np.asarray(labels, float)
        kept = np.isfinite(X).all(axis=1) & np.isfinite(y)
        yield name, X[kept], y[kept]
    if only in "diabetes":
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


def measured(seeds: int, only: str) -> None:
    """All tables; each is written as it is done."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, X, y in tables(only):
        found = [scores(X, y, seed) for seed in range(seeds)]
        known[name] = {"n": int(0.75 * len(y)), "p": X.shape[1], "scores": found}
        print(name, *np.mean(found, axis=0).round(3), flush=True)
        lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in known.items()]
        RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def render(known: dict[str, dict]) -> str:
    """The table in Markdown, and whether the bars are met."""
    lines = ["| table | n | p | n/(5,000 p) | seeds | known | private | share | mean |"]
    lines.append("|" + "---|" * 9)
    met, asked, worst = 0, 0, math.inf
    for name, row in known.items():
        share = row["n"] / (ENOUGH * row["p"])
        stated, private, mean = np.mean(row["scores"], axis=0)
        cells = "not found | "
        if math.isfinite(private):
            part = f"{private / stated:.0%}" if stated > TELLING else ""
            cells = f"{private:.3f} | {part}"
            worst = min(worst, private - mean)
        if share >= 1.0:
            asked += 1
            met += private >= BAR * stated
        lines.append(
            f"| {name} | {row['n']:,} | {row['p']} | {share:.2f} | {len(row['scores'])} | {stated:.3f} | {cells} "
            f"| {mean:.3f} |"
        )
    lines += [
        "",
        f"Where n epsilon is at least 5,000 p, fits with private bounds keep {BAR:.0%} of R\u00b2 in {met} of {asked} "
        f"tables. Their mean over seeds is never more than {max(0.0, -worst):.3f} below that of the private mean"
        f"{'' if worst >= -WORSE else f', which misses the bar of {WORSE:g}'}.",
    ]
    return "\n".join(lines)


def write_page() -> None:
    """The table into docs/algorithms/private-bounds.md."""
    before, rest = PAGE.read_text().split(BEGIN)
    body = render(json.loads(RESULTS.read_text()))
    PAGE.write_text(f"{before}{BEGIN}\n{body}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="tables whose name holds this text")
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    if given.page:
        write_page()
    else:
        measured(given.seeds, given.only)
