"""Faces of the online learners: the time of one record beside River's own model, and accuracy on real streams.

    python benchmarks/online_faces.py [--quick]

Times are ratios of interleaved runs on the same stream; the targets stand beside them. Accuracy is
prequential (predict, then learn), the mean of several seeds at epsilon = 1, delta = 1e-6.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from river import datasets, linear_model
from timing import interleaved, ratio

from tacit.estimators import OnlineLogisticRegression
from tacit.estimators import river as twins

QUICK = "--quick" in sys.argv
RECORDS = 1000 if QUICK else 5000
ROUNDS = 5 if QUICK else 21
SEEDS = range(2 if QUICK else 10)


def stream(dim: int) -> list[tuple[dict[str, float], bool]]:
    rng = np.random.default_rng(dim)
    X = rng.standard_normal((RECORDS, dim)) / np.sqrt(2 * dim)
    names = [f"feature {i}" for i in range(dim)]
    return [(dict(zip(names, row.tolist(), strict=True)), bool(row[0] > 0)) for row in X]


def feed(learn: Callable[[dict, object], object], records: Iterable) -> Callable[[], None]:
    def task() -> None:
        for x, y in records:
            learn(x, y)

    return task


def ask(predict: Callable[[dict], object], records: Iterable) -> Callable[[], None]:
    return feed(lambda x, _: predict(x), records)


def speed() -> None:
    print("one record at a time: time / time of River's own model, on the same stream")
    print(f"{'':44}{'dim':>5}{'us':>8}{'ratio':>8}{'spread':>8}{'target':>8}")
    for dim in (10, 54):
        records = stream(dim)
        names = list(records[0][0])
        numbers = [(x, float(y) - 0.5) for x, y in records]
        River, Linear = linear_model.LogisticRegression(), linear_model.LinearRegression()
        ours = twins.OnlineLogisticRegression(features=names)
        hashed = twins.OnlineLogisticRegression(dimension=64)
        windowed = twins.OnlineLogisticRegression(features=names, window=1024)
        regression = twins.OnlineLinearRegression(features=names)
        seconds = interleaved(
            {
                "River": feed(River.learn_one, records),
                "declared features": feed(ours.learn_one, records),
                "declared features, window 1024": feed(windowed.learn_one, records),
                "hashed into 64": feed(hashed.learn_one, records),
                "River's linear regression": feed(Linear.learn_one, numbers),
                "linear regression": feed(regression.learn_one, numbers),
                "River predict_proba_one": ask(River.predict_proba_one, records),
                "predict_proba_one": ask(ours.predict_proba_one, records),
            },
            ROUNDS,
        )
        for name, other, target in (
            ("declared features", "River", "1.5"),
            ("declared features, window 1024", "River", "1.5"),
            ("hashed into 64", "River", ""),
            ("linear regression", "River's linear regression", "1.5"),
            ("predict_proba_one", "River predict_proba_one", ""),
        ):
            middle, spread = ratio(seconds[name], seconds[other])
            micro = float(np.median(seconds[name])) / RECORDS * 1e6
            print(f"{name:44}{dim:5}{micro:8.2f}{middle:8.2f}{spread:8.2f}{target:>8}")


def boxed(X: np.ndarray) -> np.ndarray:
    """Scaled to the unit ball by each column's range, as a user would who knows the ranges."""
    low, high = X.min(axis=0), X.max(axis=0)
    return (2.0 * (X - low) / np.where(high > low, high - low, 1.0) - 1.0) / np.sqrt(X.shape[1])


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    from sklearn.datasets import load_breast_cancer, load_digits

    found = {}
    for name, source in (("phishing", datasets.Phishing()), ("segments", datasets.ImageSegments())):
        rows = list(source)
        X = np.array([list(x.values()) for x, _ in rows], dtype=float)
        found[name] = boxed(X), np.array([y for _, y in rows])
    for name, load in (("breast cancer", load_breast_cancer), ("digits", load_digits)):
        X, y = load(return_X_y=True)
        found[name] = boxed(X), y
    data = os.environ.get("TACIT_DATA", Path(__file__).parents[2] / "shared" / "data")
    path = Path(data) / "electricity_elec2.parquet"
    if path.exists():
        import pandas

        frame = pandas.read_parquet(path)
        found["electricity"] = (
            boxed(frame.iloc[:, :-1].to_numpy(float)),
            frame.iloc[:, -1].to_numpy(),
        )
    return found


def prequential(model: OnlineLogisticRegression, X: np.ndarray, y: np.ndarray) -> float:
    """Accuracy before learning, in blocks of 25 records."""
    hits = 0
    classes = np.unique(y)
    for start in range(0, len(X), 25):
        rows = slice(start, start + 25)
        if start:
            hits += int((model.predict(X[rows]) == y[rows]).sum())
        model.partial_fit(X[rows], y[rows], classes=classes)
    return hits / (len(X) - 25)


def accuracy() -> None:
    print(
        "\naccuracy at epsilon = 1: majority, then prequential without and with a horizon, then fit"
    )
    for name, (X, y) in tables().items():
        majority = np.unique(y, return_counts=True)[1].max() / len(y)
        endless, known, whole = [], [], []
        for seed in SEEDS:
            endless.append(prequential(OnlineLogisticRegression(random_state=seed), X, y))
            model = OnlineLogisticRegression(random_state=seed, horizon=len(X))
            known.append(prequential(model, X, y))
            model = OnlineLogisticRegression(random_state=seed, classes=np.unique(y))
            whole.append(model.fit(X, y).score(X, y))
        text = "".join(
            f"{np.mean(values):9.3f} +- {np.std(values) / np.sqrt(len(values)):.3f}"
            for values in (endless, known, whole)
        )
        print(f"{name:16}{len(X):7} x {X.shape[1]:<3}{majority:8.3f}{text}")


if __name__ == "__main__":
    speed()
    accuracy()
