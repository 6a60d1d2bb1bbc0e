"""Sparse streams beside River: time and memory of a record against the columns, and the regret beside the ball's.

    python benchmarks/sparse_streams.py [RECORDS]  # time and memory: hashed records of 50, declared ones of 10
    python benchmarks/sparse_streams.py regret     # the sparse leader's cube beside the approximate leader's ball

Times are processor time of this process: the median over batches of records after a start, in turns with River. Records
are dictionaries of 50 features whose names are spread log-uniformly (a few are in every record, most are rare). River's
model is not private. Losses are read off the data: not private.
"""

from __future__ import annotations

import functools
import os
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp

import reticent
from reticent import losses, online, sets
from reticent.compiling import compile_at_once
from reticent.estimators import OnlineLogisticRegression
from reticent.estimators.river import OnlineLogisticRegression as Twin

compile_at_once()


FEATURES = 50
BATCH = 500


def matrix(count: int, columns: int, features: int = FEATURES) -> tuple[Any, np.ndarray]:
    """CSR rows whose columns are log-uniform, and labels of a logistic model."""
    rng = np.random.default_rng(0)
    places = np.floor(columns ** rng.random((count, features))).astype(np.int64) - 1
    places = places * 2654435761 % columns
    ends = np.arange(0, count * features + 1, features)
    X = sp.csr_array(
        (np.full(count * features, 1.0 / np.sqrt(features)), places.ravel(), ends),
        shape=(count, columns),
    )
    X.sum_duplicates()
    w = 3.0 * rng.standard_normal(columns)
    y = np.where(rng.random(count) < 1.0 / (1.0 + np.exp(-(X @ w))), 1.0, -1.0)
    return X, y


def dictionaries(X: Any) -> list[dict[str, float]]:
    return [
        {
            f"f{place}": value
            for place, value in zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)
        }
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]


def batches(count: int) -> Iterator[slice]:
    for start in range(0, count, BATCH):
        yield slice(start, start + BATCH)


def microseconds(work: Callable[[slice], None], rows: slice) -> float:
    begun = time.process_time()
    work(rows)
    return (time.process_time() - begun) / BATCH * 1e6


def median(times: list[float]) -> float:
    """Of batches after the first two, in which what there is to compile is compiled."""
    return float(np.median(times[2:]))


def one_by_one(models: dict[str, Any], X: list[Any], y: list[Any]) -> dict[str, list[float]]:
    """Times of every model, in turns batch by batch, so that what else the machine does slows all of them."""

    def learn(model: Any, rows: slice) -> None:
        for x, label in zip(X[rows], y[rows], strict=True):
            model.learn_one(x, label)

    def predict(model: Any, rows: slice) -> None:
        for x in X[rows]:
            model.predict_one(x)

    def both(model: Any, rows: slice) -> None:
        for x, label in zip(X[rows], y[rows], strict=True):
            model.predict_one(x)
            model.learn_one(x, label)

    found: dict[str, list[float]] = {name: [] for name in models}
    for what in (learn, predict, predict, both):
        times: dict[str, list[float]] = {name: [] for name in models}
        for rows in batches(len(X)):
            for name, model in models.items():
                times[name].append(microseconds(functools.partial(what, model), rows))
        for name in models:
            found[name].append(median(times[name]))
    return found


def lines(columns: str, ours: Any, X: list[Any], y: list[Any]) -> None:
    """The times beside River's, and how many times River's they are."""
    from river import linear_model, optim

    theirs = linear_model.LogisticRegression(optim.SGD(0.1))
    found = one_by_one({"reticent": ours, "River": theirs}, X, y)
    for name, times in found.items():
        print(f"| {columns} | {name} | " + " | ".join(f"{t:.1f}" for t in times) + " |")
    ratios = [a / b for a, b in zip(*found.values(), strict=True)]
    print(f"| {columns} | ratio | " + " | ".join(f"{r:.2f}" for r in ratios) + " |", flush=True)


def speed(count: int = 10_000) -> None:
    print(
        "| columns | | learn_one, us | predict_one, us | the same again, us | predict_one and learn_one, us |"
    )
    print("|---|---|---|---|---|---|")
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (count, 10)) / np.sqrt(10)
    names = [f"f{j}" for j in range(10)]
    X = [dict(zip(names, row, strict=True)) for row in rows.tolist()]
    y = (rows[:, 0] > 0).tolist()
    lines("10, declared", Twin(features=names, seed=0), X, y)
    for power in (18, 20, 22):
        A, labels = matrix(count, 2**power)
        X, y = dictionaries(A), (labels > 0).tolist()
        lines(f"2^{power}", Twin(dimension=2**power, seed=0), X, y)
    print()
    print(
        "| columns | partial_fit, us a record | predict, us a record | touched columns | bytes each |"
    )
    print("|---|---|---|---|---|")
    for power in (18, 20, 22):
        A, labels = matrix(count, 2**power)
        parts = [A[rows] for rows in batches(count)]
        tracemalloc.start()
        model = OnlineLogisticRegression(classes=[-1, 1], random_state=0)
        model.partial_fit(parts[0], labels[:BATCH])
        model.partial_fit(A, labels)
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        touched = model._stream._learner.total.touched

        def learn(rows: slice, model: Any = model, parts: Any = parts, y: Any = labels) -> None:
            model.partial_fit(parts[rows.start // BATCH], y[rows])

        def predict(rows: slice, model: Any = model, parts: Any = parts) -> None:
            model.predict(parts[rows.start // BATCH])

        times = [
            median([microseconds(work, rows) for rows in batches(count)])
            for work in (learn, predict)
        ]
        print(
            f"| 2^{power} | {times[0]:.1f} | {times[1]:.1f} | {touched:,} | {held / touched:.0f} |",
            flush=True,
        )


def progressive(
    learn: Callable[[Any, Any], Any], weights: Callable[[Any], Any], X: Any, y: np.ndarray
) -> float:
    """Mean logistic loss of every batch under what was learnt before it, without the ridge."""
    total = 0.0
    for rows in batches(len(y)):
        total += float(np.sum(np.logaddexp(0.0, -y[rows] * weights(X[rows]))))
        learn(X[rows], y[rows])
    return total / len(y)


def regret(count: int = 50_000, repeats: int = 3) -> None:
    print("| columns | epsilon | horizon | ball | cube | best fixed in the ball |")
    print("|---|---|---|---|---|---|")
    loss = losses.Logistic(ridge=1e-3)
    for columns in (2**10, 2**12):
        X, y = matrix(count, columns, 20)
        best = losses.best_fixed(sets.L2Ball(columns, 10.0), losses.Logistic(), X, y)
        floor = float(np.mean(best.losses))
        for epsilon in (1.0, 4.0):
            budget = reticent.Budget(epsilon, 1e-6)
            for horizon in (count, None):
                ball, cube = [], []
                for seed in range(repeats):
                    dense = online.FollowTheApproximateLeader(
                        sets.L2Ball(columns, 10.0), loss, budget=budget, horizon=horizon, seed=seed,
                        noise_precision="float", lipschitz=1.0,
                    )  # fmt: skip
                    sparse = online.SparseLeader(
                        columns, loss, budget=budget, horizon=horizon, seed=seed
                    )

                    def learn(A: Any, b: Any, dense: Any = dense) -> None:
                        dense.run(A, b, keep=1, keep_records=False)

                    ball.append(progressive(learn, lambda A, dense=dense: A @ dense.decision, X, y))

                    def learn_sparse(A: Any, b: Any, sparse: Any = sparse) -> None:
                        sparse.run(A, b, keep_records=False)

                    cube.append(
                        progressive(
                            learn_sparse, lambda A, sparse=sparse: sparse.predict(A)[:, 0], X, y
                        )
                    )
                known = "none" if horizon is None else f"{horizon:,}"
                print(
                    f"| {columns:,} | {epsilon:g} | {known} | {np.mean(ball):.4f} | {np.mean(cube):.4f} "
                    f"| {floor:.4f} |",
                    flush=True,
                )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    regret() if "regret" in sys.argv[1:] else speed(*map(int, sys.argv[1:]))
