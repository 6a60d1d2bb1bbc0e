"""Is tuning worth its price? Defaults, ``PrivateSearchCV`` and an oracle, at epsilon .1, 1 and 8.

python benchmarks/private_search.py [--seeds 5] [--minutes 60] [--page]: accuracy of ``PrivateLogisticRegression`` on
held-out records of eight tables. "default" spends the whole budget on one fit; "search" chooses among nine candidates
(influence and regularizer) within the same budget; "oracle" fits each candidate with the whole budget and takes the
best on the held-out records, which nobody could do privately; "stated" is the default with the epsilon of one fit of
the search, which is what `describe` states that a search gives up. Tables that are not there are left out. Cells that
are measured already are kept; ``--page`` writes them to docs/algorithms/private-search.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import ParameterGrid, train_test_split

from reticent import PrivateLogisticRegression, PrivateSearchCV
from reticent.estimators import DomainScaler

DATA = Path(os.environ.get("RETICENT_DATA", "../shared/data"))
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "private_search.json"
PAGE = ROOT / "docs" / "algorithms" / "private-search.md"
BEGIN, END = "<!-- generated: search -->", "<!-- end generated -->"
EPSILONS = (0.1, 1.0, 8.0)
GRID = {"influence": [0.5, 0.75, 1.0], "regularizer": [None, 30.0, 300.0]}
MOST = 20_000  # records of a table


def _numbers(name: str, target: str, positive: object) -> tuple[np.ndarray, np.ndarray]:
    d = pd.read_parquet(DATA / f"{name}.parquet")
    y = (d.pop(target) == positive).to_numpy().astype(int)
    d = d.drop(
        columns=[c for c in ("split", "id", "encounter_id", "patient_nbr", "duration") if c in d]
    )
    return d.select_dtypes("number").fillna(0).to_numpy(float), y


def tables() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, features and labels."""
    sources = {
        "adult": ("income", ">50K"), "bank_marketing": ("y", "yes"), "covertype": ("Cover_Type", 2),
        "default_credit_vfl": ("y", 1), "electricity_elec2": ("price_up", 1), "higgs_7500": ("label", 1),
        "diabetes130": ("readmitted", "NO"),
    }  # fmt: skip
    for name, (target, positive) in sources.items():
        if not (DATA / f"{name}.parquet").exists():
            print(f"{name}: not there, left out", file=sys.stderr)
            continue
        X, y = _numbers(name, target, positive)
        if 0 < y.mean() < 1:
            order = np.random.default_rng(0).permutation(len(y))[:MOST]
            yield name, X[order], y[order]
        else:
            print(f"{name}: no such class, left out", file=sys.stderr)
    yield "breast_cancer", *load_breast_cancer(return_X_y=True)


def scores(X: np.ndarray, y: np.ndarray, epsilon: float, cell: list[int]) -> list[float]:
    """Accuracy on held-out records: default, stated, search, oracle. Every fit of every cell has noise of its own."""
    low, high = X.min(axis=0), X.max(axis=0)
    X = DomainScaler((low, np.where(high > low, high, low + 1.0))).fit_transform(X)
    seeds = iter(np.random.SeedSequence(cell).generate_state(20).tolist())
    here, there, labels, truth = train_test_split(X, y, test_size=0.25, random_state=next(seeds))

    def made(epsilon: float = epsilon, **more: object) -> PrivateLogisticRegression:
        return PrivateLogisticRegression(
            epsilon, feature_norm=1.0, classes=[0, 1], random_state=next(seeds), **more
        )

    default = made().fit(here, labels).score(there, truth)
    search = PrivateSearchCV(made(), GRID, epsilon, verbose=0, random_state=next(seeds)).fit(
        here, labels
    )
    tried = []
    for candidate in ParameterGrid(GRID):
        try:
            tried.append(made(**candidate).fit(here, labels).score(there, truth))
        except ValueError:
            continue
    stated = made(search.best_estimator_.epsilon).fit(here, labels).score(there, truth)
    return [default, stated, search.score(there, truth), max(tried)]


def measured(seeds: int, minutes: float) -> None:
    """All cells, by turns; those that the file holds already are left as they are."""
    end = time.monotonic() + 60.0 * minutes
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    listed = list(tables())
    for seed, (place, (name, X, y)), (k, epsilon) in itertools.product(
        range(seeds), enumerate(listed), enumerate(EPSILONS)
    ):
        rows = known.setdefault(f"{name}, {epsilon:g}", [])
        if len(rows) <= seed and time.monotonic() < end:
            rows.append(scores(X, y, epsilon, [place, k, seed]))
            print(name, epsilon, seed, *(f"{value:.3f}" for value in rows[-1]), flush=True)
            lines = [f"{json.dumps(cell)}: {json.dumps(found)}" for cell, found in known.items()]
            RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def write_page() -> None:
    """The table into docs/algorithms/private-search.md."""
    lines = ["| table | epsilon | seeds | default | stated | search | oracle |", "|" + "---|" * 7]
    gains, beyond = [], []
    for cell, found in json.loads(RESULTS.read_text()).items():
        if found:
            means = np.mean(found, axis=0)
            gains.append(means[2:] - means[0])
            beyond.append([each[2] - each[1] for each in found])
            parts = " | ".join(f"{value:.3f}" for value in means)
            lines.append(f"| {cell.replace(', ', ' | ')} | {len(found)} | {parts} |")
    search, oracle = np.array(gains).T
    every = np.concatenate(beyond)
    error = every.std(ddof=1) / np.sqrt(len(every))
    lines += [
        "",
        f"Compared with the defaults, the search is better in {(search > 0).sum()} of {len(search)} cells; its gain is "
        f"{search.mean():+.3f} on average, between {search.min():+.3f} and {search.max():+.3f}. The oracle gains "
        f"{oracle.mean():+.3f} on average and at most {oracle.max():+.3f}. Compared with the defaults at the epsilon "
        f"of one of its fits, the column 'stated', the search gains {every.mean():+.3f} on average over cells and "
        f"seeds, with a standard error of {error:.3f}.",
    ]
    before, rest = PAGE.read_text().split(BEGIN)
    body = "\n".join(lines)
    PAGE.write_text(f"{before}{BEGIN}\n{body}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    if given.page:
        write_page()
    else:
        measured(given.seeds, given.minutes)
