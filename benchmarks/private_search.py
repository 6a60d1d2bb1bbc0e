"""Is tuning worth its price? Defaults, ``PrivateSearchCV`` and an oracle, at epsilon .1, 1 and 8.

python benchmarks/private_search.py [seeds]: accuracy of ``PrivateLogisticRegression`` on held-out records of eight
tables. "default" spends the whole budget on one fit; "search" chooses among nine candidates (influence and
regularizer) within the same budget; "oracle" fits each candidate with the whole budget and takes the best on the
held-out records, which nobody could do privately. Tables that are not there are left out.
"""

from __future__ import annotations

import itertools
import os
import sys
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


def scores(X: np.ndarray, y: np.ndarray, epsilon: float, seed: int) -> tuple[float, float, float]:
    """Accuracy on held-out records: default, search, oracle."""
    low, high = X.min(axis=0), X.max(axis=0)
    X = DomainScaler((low, np.where(high > low, high, low + 1.0))).fit_transform(X)
    here, there, labels, truth = train_test_split(X, y, test_size=0.25, random_state=seed)

    seeds = itertools.count(1000 * seed)  # every fit has noise of its own

    def made(**more: object) -> PrivateLogisticRegression:
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
    return default, search.score(there, truth), max(tried)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"{'table':<20} {'epsilon':>7} {'default':>8} {'search':>8} {'oracle':>8}")
    for name, X, y in tables():
        for epsilon in (0.1, 1.0, 8.0):
            found = np.mean([scores(X, y, epsilon, seed) for seed in range(seeds)], axis=0)
            print(
                f"{name:<20} {epsilon:>7g} {found[0]:>8.3f} {found[1]:>8.3f} {found[2]:>8.3f}",
                flush=True,
            )
