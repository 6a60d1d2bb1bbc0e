"""diffprivlib's estimators, at the settings that its documentation recommends for data of known norm.

With an intercept it accounts for the constant feature by enlarging the norm, which costs accuracy;
so both ways are asked, and the better one counts.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression
from wire import arrays, serve, timed

warnings.simplefilter("ignore")


def logistic(
    data: str,
    epsilon: float,
    C: float,
    intercept: bool,
    seed: int,
    train: str = "",
    repeats: int = 1,
) -> dict[str, Any]:
    found = arrays(data)
    X, y = found["X"], found["y"]
    inside, outside = (
        (found[f"{part}{train}"] for part in ("train", "test")) if train else (slice(None),) * 2
    )
    A, b = X[inside], y[inside]
    accuracy, total = [], 0.0
    for i in range(repeats):
        model = LogisticRegression(
            epsilon=epsilon,
            data_norm=1.0,
            C=C,
            fit_intercept=intercept,
            max_iter=1000,
            random_state=seed + i,
        )
        _, seconds = timed(lambda model=model: model.fit(A, b))
        total += seconds
        accuracy.append(float(model.score(X[outside], y[outside])))
    return {"accuracy": float(np.mean(accuracy)), "seconds": total / repeats}


def linear(data: str, epsilon: float, intercept: bool, seed: int) -> dict[str, Any]:
    """R2 on all records; bounds are the public ones: features within a norm of 1, labels within 1."""
    found = arrays(data)
    X, y = found["X"], found["y"]
    ones = np.ones(X.shape[1])
    model = LinearRegression(
        epsilon=epsilon,
        bounds_X=(-ones, ones),
        bounds_y=(-1.0, 1.0),
        fit_intercept=intercept,
        random_state=seed,
    )
    _, seconds = timed(lambda: model.fit(X, y))
    return {"r2": float(model.score(X, y)), "seconds": seconds}


def _split(data: str) -> tuple[np.ndarray, ...]:
    found = arrays(data)
    X, y = found["X"], found["y"]
    return X[found["train0"]], y[found["train0"]], X[found["test0"]], y[found["test0"]]


def probabilities(data: str, epsilon: float, intercept: bool, seed: int) -> dict[str, Any]:
    """Of the second class, for records that were not learnt from; rows are within a norm of 1."""
    A, b, outside, _ = _split(data)
    model = LogisticRegression(
        epsilon=epsilon, data_norm=1.0, fit_intercept=intercept, max_iter=1000, random_state=seed
    )
    return {"sure": model.fit(A, b).predict_proba(outside)[:, 1].round(9).tolist()}


def linear_scores(data: str, epsilon: float, intercept: bool, seed: int) -> dict[str, Any]:
    """R2 on records that were not learnt from; entries are within the bounds that norm 1 spread evenly gives."""
    A, b, outside, labels = _split(data)
    ends = np.full(A.shape[1], 1.0 / np.sqrt(A.shape[1]))
    model = LinearRegression(
        epsilon=epsilon, bounds_X=(-ends, ends), bounds_y=(-1.0, 1.0), fit_intercept=intercept,
        random_state=seed,
    )  # fmt: skip
    guess = np.clip(model.fit(A, b).predict(outside), -1.0, 1.0)
    rest = np.sum((labels - guess) ** 2) / np.sum((labels - labels.mean()) ** 2)
    return {"R2": float(1.0 - rest)}


if __name__ == "__main__":
    serve({"logistic": logistic, "linear": linear, "probabilities": probabilities,
           "linear_scores": linear_scores})  # fmt: skip
