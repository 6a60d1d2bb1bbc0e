"""The online estimators on real streams, each record predicted before it is learnt.

River's models are not private, and they are given the same scaled features; they show what privacy costs
on a stream, not which library is better. Streams of River and scikit-learn come in their own order, and so does
electricity; tables that have none are shuffled once.
"""

from __future__ import annotations

import functools

import numpy as np
import real_tables
from table import Mean, Table, of_means

from questions import Run
from questions.data import Missing, file
from reticent.estimators import OnlineLinearRegression, OnlineLogisticRegression

QUESTION = 2
CHUNK = 25
QUIET = 1e4  # an epsilon at which there is next to no noise
ORDERED = ("phishing", "segments", "breast cancer", "digits", "electricity")
SHUFFLED = ("cover types", "adult", "bank", "credit", "covertype", "intrusion", "a9a", "w8a")
NUMBERS = (
    "california",
    "wine",
    "protein",
    "bike",
    "beijing",
    "sgemm",
    "blog",
    "indoor",
    "diabetes",
)

Stream = tuple[np.ndarray, np.ndarray]


def boxed(X: np.ndarray) -> np.ndarray:
    """Scaled to the unit ball by each column's range, as a user would who knows the ranges."""
    low, high = X.min(axis=0), X.max(axis=0)
    return (2.0 * (X - low) / np.where(high > low, high - low, 1.0) - 1.0) / np.sqrt(X.shape[1])


def ordered(name: str) -> Stream:
    from river import datasets
    from sklearn.datasets import load_breast_cancer, load_digits

    if name in ("phishing", "segments"):
        rows = list(datasets.Phishing() if name == "phishing" else datasets.ImageSegments())
        X = np.array([list(x.values()) for x, _ in rows], dtype=float)
        return boxed(X), np.array([y for _, y in rows])
    if name == "electricity":
        import pandas as pd

        frame = pd.read_parquet(file("electricity_elec2.parquet"))
        return boxed(frame.iloc[:, :-1].to_numpy(float)), frame.iloc[:, -1].to_numpy()
    X, y = (load_digits if name == "digits" else load_breast_cancer)(return_X_y=True)
    return boxed(X), y


def shuffled(name: str) -> Stream:
    table = real_tables.table(name)
    X = table.unit() / np.sqrt(table.X.shape[1])
    if table.label_bounds is None:
        return X, table.y
    low, high = table.label_bounds
    return X, 2.0 * (table.y - low) / (high - low) - 1.0


@functools.cache
def stream(name: str) -> Stream:
    return ordered(name) if name in ORDERED else shuffled(name)


def streams(table: Table, names: tuple[str, ...], most: int | None) -> dict[str, Stream]:
    found = {}
    for name in names:
        try:
            X, y = stream(name)
        except (Missing, FileNotFoundError) as missing:
            table.settings.append(f"{name} is left out: {missing}")
            continue
        found[name] = X[:most], y[:most]
    return found


def classified(
    X: np.ndarray, y: np.ndarray, seed: int, horizon: int | None, epsilon: float = 1.0
) -> tuple[float, float]:
    """Share predicted right, and mean log loss."""
    model = OnlineLogisticRegression(epsilon, random_state=seed, horizon=horizon)
    classes, hits, loss = np.unique(y), 0, 0.0
    for start in range(0, len(X), CHUNK):
        rows = slice(start, start + CHUNK)
        if start:
            sure = model.predict_proba(X[rows])
            place = np.searchsorted(classes, y[rows])
            hits += int((sure.argmax(axis=1) == place).sum())
            loss -= float(np.log(np.maximum(sure[np.arange(len(sure)), place], 1e-12)).sum())
        model.partial_fit(X[rows], y[rows], classes=classes)
    return hits / (len(X) - CHUNK), loss / (len(X) - CHUNK)


def predicted(
    X: np.ndarray, y: np.ndarray, seed: int, horizon: int | None, epsilon: float = 1.0
) -> float:
    """Mean squared error, for labels within [-1, 1]."""
    model = OnlineLinearRegression(
        epsilon, label_bounds=(-1.0, 1.0), random_state=seed, horizon=horizon
    )
    loss = 0.0
    for start in range(0, len(X), CHUNK):
        rows = slice(start, start + CHUNK)
        if start:
            loss += float(((model.predict(X[rows]) - y[rows]) ** 2).sum())
        model.partial_fit(X[rows], y[rows])
    return loss / (len(X) - CHUNK)


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
         "ours, horizon known", "ours, ε = 8, known", "River, not private", "ours / River"],
        "Share of records predicted correctly before they are learnt, in chunks of 25; ε = 1 unless stated, δ = 10⁻⁶, "
        "default settings. The last column uses ours with a known horizon.",
        settings=["River: `LogisticRegression()`, one-vs-rest for several classes."],
    )  # fmt: skip
    found = streams(table, ORDERED + SHUFFLED, run.choose(6000, None))
    for name, (X, y) in found.items():
        seeds = range(run.choose(4, 10))
        endless = [classified(X, y, seed, None)[0] for seed in seeds]
        known = [classified(X, y, seed, len(X))[0] for seed in seeds]
        more = [classified(X, y, seed, len(X), 8.0)[0] for seed in seeds]
        other = rivers(X, y)
        counts = np.unique(y, return_counts=True)[1]
        table.add(
            name, len(X), X.shape[1], len(counts), float(counts.max() / len(y)), Mean.of(endless),
            Mean.of(known), Mean.of(more), other, of_means(known, [other] * len(known)),
        )  # fmt: skip
    return table


def unknown_horizon(run: Run) -> Table:
    table = Table(
        "unknown_horizon",
        QUESTION,
        "A horizon that is not known",
        ["stream", "records", "ε", "loss, endless", "loss, known", "excess, endless / known"],
        "Loss of predictions before their records are learnt: log loss of `OnlineLogisticRegression`, squared error of "
        "`OnlineLinearRegression` for labels within [-1, 1]; δ = 10⁻⁶, default settings. The excess is relative to the "
        f"same estimator at ε = {QUIET:g} with the same horizon. The noise of an endless total is up to 1.25 times "
        "that of a total built for the horizon.",
    )  # fmt: skip
    names = ORDERED + SHUFFLED[: run.choose(5, None)] + NUMBERS[: run.choose(5, None)]
    excess: dict[float, list[list[float]]] = {}
    for name, (X, y) in streams(table, names, run.choose(6000, None)).items():
        seeds = range(run.choose(4, 10))

        def loss(
            horizon: int | None, epsilon: float, X: np.ndarray = X, y: np.ndarray = y,
            name: str = name, seeds: range = seeds,
        ) -> np.ndarray:  # fmt: skip
            if name in NUMBERS:
                return np.array([predicted(X, y, seed, horizon, epsilon) for seed in seeds])
            return np.array([classified(X, y, seed, horizon, epsilon)[1] for seed in seeds])

        quiet = {horizon: loss(horizon, QUIET) for horizon in (None, len(X))}
        for epsilon in (1.0, 8.0):
            endless, known = loss(None, epsilon), loss(len(X), epsilon)
            ratio = of_means(list(endless - quiet[None]), list(known - quiet[len(X)]))
            excess.setdefault(epsilon, []).append(
                [float(np.mean(endless - quiet[None])), float(np.mean(known - quiet[len(X)]))]
            )
            table.add(
                name, len(X), epsilon, Mean.of(list(endless)), Mean.of(list(known)), ratio
            )  # fmt: skip
    for epsilon, pairs in excess.items():
        logs = np.log([one / other for one, other in pairs if one > 0.0 and other > 0.0])
        table.settings.append(
            f"Geometric mean of the ratios over {len(logs)} streams at ε = {epsilon:g}: {np.exp(logs.mean()):.3f}."
        )
    return table
