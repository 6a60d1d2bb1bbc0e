"""Is a rare class to be found towards the middle of the declared ranges? One direction, without labels, on many tables.

    python benchmarks/rare.py

Few short steps of gradient descent from 0 on a class of one percent learn minus the mean of the features, which reads
no label: records score high where they are far from the typical one towards the origin. Printed is the AUC of that
score, not private, with features scaled from their declared ranges to [-1, 1] and to [0, 1], and of minus the mean
over the standard deviations of the columns. Classes that are not rare are cut to one percent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import real_tables
import sklearn.datasets
from sklearn.metrics import roc_auc_score

MOST, RATE = 20_000, 0.01
KINDS = ("back", "satan", "ipsweep", "portsweep", "warezclient", "teardrop", "nmap", "neptune", "smurf")  # fmt: skip
"""Attacks of kddcup99 with two hundred records at least, or nearly."""

Task = tuple[str, str, Any, Any]
"""Table, class, features, and whether each record is of the class."""


def tasks() -> Iterator[Task]:
    """Every rare class, at most 20,000 records; the rarest first where a table has them as they are."""
    X, y = real_tables._frame("covertype", "Cover_Type")
    for k in range(1, 8):
        yield "covertype", f"type {k}", X, y.to_numpy() == k
    X, y = real_tables._frame("kddcup99_10pct", "label")
    y = y.astype(str).to_numpy()
    for kind in KINDS:
        kept = (y == "normal.") | (y == f"{kind}.")
        yield "intrusion", kind, X[kept], y[kept] == f"{kind}."
    X, y = real_tables._frame("wine_quality", "quality")
    yield "wine", "4 and less", X, y.to_numpy() <= 4
    yield "wine", "8 and more", X, y.to_numpy() >= 8
    X, y = sklearn.datasets.load_digits(return_X_y=True)
    for k in range(10):
        yield "digits", str(k), X, y == k
    for name in ("w8a", "hospital", "bank", "credit", "adult"):
        X, y = real_tables.CLASSIFICATION[name]()
        yield name, "yes", X, y == 1
    for name in ("electricity", "higgs", "breast_cancer"):
        X, y = real_tables.CLASSIFICATION[name]()
        yield name, "yes", X, y == 1
        yield name, "no", X, y == 0
    for name in ("blog", "flights", "protein", "california", "bike", "beijing"):
        X, y = real_tables.REGRESSION[name]()
        yield name, "highest", X, y >= np.quantile(y, 1.0 - RATE)
        if np.mean(y <= np.quantile(y, RATE)) < 2.0 * RATE:  # else there are ties
            yield name, "lowest", X, y <= np.quantile(y, RATE)


def cut(y: Any) -> Any:
    """Places of at most 20,000 records of the others and of a hundredth as many of the class, ten at least."""
    order = np.random.default_rng(7).permutation(len(y))
    others = order[~y[order]][:MOST]
    return np.concatenate([others, order[y[order]][: max(10, int(RATE * len(others)))]])


def scores(X: Any, y: Any) -> list[float]:
    """AUC of minus the mean for ranges of [-1, 1] and of [0, 1], and of both over standard deviations."""
    low, high = real_tables.outward(X)
    kept = cut(y)
    unit, y = np.clip((X[kept] - low) / (0.5 * (high - low)) - 1.0, -1.0, 1.0), y[kept]
    spread = np.sqrt(np.maximum(unit.var(axis=0), 0.01 * unit.var(axis=0).mean()))
    found = []
    for scaled in (unit, 0.5 * unit + 0.5):
        mean = scaled.mean(axis=0)
        found += [roc_auc_score(y, -scaled @ mean), roc_auc_score(y, -scaled @ (mean / spread))]
    return found


def main() -> None:
    tables: dict[str, list[list[float]]] = {}
    print(f"{'table':14}{'class':14}  -m [-1,1]  over sd  -m [0,1]  over sd")
    for name, kind, X, y in tasks():
        found = scores(np.asarray(X, float), y)
        tables.setdefault(name, []).append(found)
        print(f"{name:14}{kind:14}" + "".join(f"{each:10.3f}" for each in found), flush=True)
    everything = np.concatenate([np.array(made) for made in tables.values()])
    print(f"{len(everything)} classes, mean", everything.mean(axis=0).round(3))
    print("least", everything.min(axis=0).round(3))
    print("share above 0.5", np.mean(everything > 0.5, axis=0).round(2))
    for left_out in ((), ("covertype", "intrusion")):
        means = np.array([np.mean(m, axis=0) for name, m in tables.items() if name not in left_out])
        error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
        without = f" without {' and '.join(left_out)}" if left_out else ""
        print(f"{len(means)} tables{without}:", means.mean(axis=0).round(3), "+-", error.round(3))


if __name__ == "__main__":
    main()
