"""Accuracy of the online estimators on real streams, each record predicted before it is learnt.

River's model is not private, and it is given the same scaled features; it shows what privacy costs
on a stream, not which library is better.
"""

from __future__ import annotations

import numpy as np
from table import Mean, Table, of_means

from questions import Run
from questions.data import Missing, file
from reticent.estimators import OnlineLogisticRegression

QUESTION = 2
CHUNK = 25


def boxed(X: np.ndarray) -> np.ndarray:
    """Scaled to the unit ball by each column's range, as a user would who knows the ranges."""
    low, high = X.min(axis=0), X.max(axis=0)
    return (2.0 * (X - low) / np.where(high > low, high - low, 1.0) - 1.0) / np.sqrt(X.shape[1])


def streams(table: Table) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    from river import datasets
    from sklearn.datasets import load_breast_cancer, load_digits

    found = {}
    for name, source in (("phishing", datasets.Phishing()), ("segments", datasets.ImageSegments())):
        rows = list(source)
        X = np.array([list(x.values()) for x, _ in rows], dtype=float)
        found[name] = boxed(X), np.array([y for _, y in rows])
    for name, load in (("breast cancer", load_breast_cancer), ("digits", load_digits)):
        X, y = load(return_X_y=True)
        found[name] = boxed(X), y
    try:
        import pandas as pd

        frame = pd.read_parquet(file("electricity_elec2.parquet"))
        X = boxed(frame.iloc[:, :-1].to_numpy(float))
        found["electricity"] = X, frame.iloc[:, -1].to_numpy()
    except Missing as missing:
        table.settings.append(f"electricity is left out: {missing}")
    return found


def ours(X: np.ndarray, y: np.ndarray, seed: int, horizon: int | None) -> float:
    model = OnlineLogisticRegression(random_state=seed, horizon=horizon)
    classes, hits = np.unique(y), 0
    for start in range(0, len(X), CHUNK):
        rows = slice(start, start + CHUNK)
        if start:
            hits += int((model.predict(X[rows]) == y[rows]).sum())
        model.partial_fit(X[rows], y[rows], classes=classes)
    return hits / (len(X) - CHUNK)


def rivers(X: np.ndarray, y: np.ndarray) -> float:
    from river import linear_model, multiclass

    binary = len(np.unique(y)) == 2
    labels = [bool(v) for v in y == np.unique(y)[1]] if binary else y.tolist()
    inner = linear_model.LogisticRegression()
    model = inner if binary else multiclass.OneVsRestClassifier(inner)
    hits = 0
    for t, (row, label) in enumerate(zip(X, labels, strict=True)):
        x = dict(enumerate(row.tolist()))
        if t >= CHUNK:
            hits += model.predict_one(x) == label
        model.learn_one(x, label)
    return hits / (len(X) - CHUNK)


def prequential(run: Run) -> Table:
    table = Table(
        "prequential",
        QUESTION,
        "Online classification of real streams",
        ["stream", "records", "columns", "classes", "largest class", "ours, endless",
         "ours, horizon known", "River, not private", "ours / River"],
        "Share of records predicted right before they are learnt, in chunks of 25; ε = 1, δ = 10⁻⁶, all "
        "settings at their defaults. The last column takes ours with a known horizon.",
        settings=["River: `LogisticRegression()`, one against the rest for several classes."],
    )  # fmt: skip
    for name, (X, y) in streams(table).items():
        if not run.full:
            X, y = X[:6000], y[:6000]
        seeds = range(run.choose(4, 10))
        endless = [ours(X, y, seed, None) for seed in seeds]
        known = [ours(X, y, seed, len(X)) for seed in seeds]
        other = rivers(X, y)
        counts = np.unique(y, return_counts=True)[1]
        table.add(
            name, len(X), X.shape[1], len(counts), float(counts.max() / len(y)), Mean.of(endless),
            Mean.of(known), other, of_means(known, [other] * len(known)),
        )  # fmt: skip
    return table
