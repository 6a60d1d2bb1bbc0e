"""White-box audit lines of the estimators and the scaler."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from reticent.audit import minimisers
from reticent.audit.whitebox_beside import best_of, releases
from reticent.audit.whitebox_matching import InputPair, Outcome, pushed, silent
from reticent.audit.whitebox_records import (
    BOTH,
    HUGE,
    TINY,
    Case,
    FloatArray,
    Run,
    case,
    labelled,
    products,
    tables,
    wrong,
)
from reticent.estimators import (
    OnlineLinearRegression,
    OnlineLogisticRegression,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateScaler,
)
from reticent.noise import Source


def _fitted(make: Callable[[], Any], *names: str) -> Run:
    def run(data: Any, source: Source) -> Outcome:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make().fit(*data)
        return Outcome([getattr(model, name) for name in names], model.guarantee_)

    return run


def _minimiser(setting: str, make: Callable[[], Any], here: Any, there: Any) -> Case:
    pair = InputPair(here, there, "a record three times too long")
    check = partial(minimisers.minimiser, setting, _fitted(make, "coef_"), [pair])
    return Case(setting, check)


def estimators() -> Iterator[Case]:
    """Each estimator with each of its solvers, and the scaler."""
    rows = 4
    one, none = np.array([[3.0], [0.0]]), np.zeros((2, 1))
    y = np.array([1, 1])
    for neighbours in BOTH:
        b: dict[str, Any] = {"epsilon": 4.0, "neighbours": neighbours, "fit_intercept": False}
        other = none if neighbours == "zero-out" else -one
        logistic = partial(PrivateLogisticRegression, regularizer=100.0, **b)
        classifiers: dict[str, Any] = {
            "PrivateLogisticRegression": partial(logistic, classes=[-1, 1]),
            "PrivateLogisticRegression, pure": partial(logistic, classes=[-1, 1], delta=0.0),
            "PrivateLinearSVC": partial(PrivateLinearSVC, regularizer=300.0, classes=[-1, 1], **b),
        }
        for words, make in classifiers.items():
            yield _minimiser(f"{words}, {neighbours}", make, (one, y), (other, y))
        if neighbours == "zero-out":
            three = np.array([0, 1])
            yield _minimiser(
                "PrivateLogisticRegression, three classes, zero-out",
                partial(logistic, classes=[0, 1, 2]),
                (one, three),
                (none, three),
            )
            yield _minimiser(
                "PrivateLogisticRegression, sample weights, zero-out",
                partial(logistic, classes=[-1, 1], weight_bound=2.0),
                (one, y, np.array([9.0, 1.0])),
                (one, y, np.array([0.0, 1.0])),
            )
        small = b | {"epsilon": 1.0}
        yield case(
            f"PrivateLogisticRegression, gradient-descent, {neighbours}",
            _fitted(
                partial(
                    PrivateLogisticRegression, solver="gradient-descent", classes=[-1, 1], **small
                ),
                "coef_",
            ),
            partial(labelled, neighbours, rows, 2),
        )
        regression = partial(PrivateLinearRegression, **small)
        regressors: dict[str, Any] = {
            "PrivateLinearRegression, sufficient-statistics": partial(
                regression, solver="sufficient-statistics"
            ),
            "PrivateLinearRegression, adassp": partial(regression, solver="adassp"),
            "PrivateLinearRegression, gradient-descent": partial(
                regression, solver="gradient-descent"
            ),
            "PrivateLasso, frank-wolfe": partial(PrivateLasso, solver="frank-wolfe", **small),
            "PrivateLasso, sufficient-statistics": partial(
                PrivateLasso, solver="sufficient-statistics", **small
            ),
        }
        for words, make in regressors.items():
            yield case(
                f"{words}, {neighbours}",
                _fitted(make, "coef_"),
                partial(products, neighbours, rows),
            )
        high, low = np.array([7.0, 0.0]), np.array([-7.0, 0.0])
        there = (none, high) if neighbours == "zero-out" else (one, low)
        yield _minimiser(
            f"PrivateLinearRegression, objective-perturbation, {neighbours}",
            partial(
                PrivateLinearRegression, solver="objective-perturbation", regularizer=30.0, **b
            ),
            (one, high),
            there,
        )
        for delta in (1e-6, 0.0):
            scaler = partial(
                PrivateScaler, (-2.0, 2.0), epsilon=1.0, delta=delta, neighbours=neighbours
            )
            yield case(
                f"PrivateScaler, {neighbours}, {'gaussian' if delta else 'gamma'}",
                _fitted(scaler, "center_", "scale_"),
                partial(_moments, neighbours, rows),
            )
            yield from releases(neighbours, delta)
        yield case(
            f"PrivateLinearRegression with defaults, {neighbours}",
            as_it_comes(neighbours),
            partial(whole_tables, neighbours, [0], None),
        )
        # the linear term of objective perturbation is not released; other lines cover it
        yield case(
            f"PrivateLinearRegression with defaults, pure, one release, {neighbours}",
            as_it_comes(neighbours, delta=0.0, solver="sufficient-statistics"),
            partial(whole_tables, neighbours, [0], None),
        )
        yield Case(f"PrivateSearchCV, {neighbours}", partial(best_of, neighbours))
        yield from _online(neighbours)


def as_it_comes(neighbours: str, **more: Any) -> Run:
    """A whole fit with defaults: centers, spreads, norms and the level of the labels, and then the boosted rounds."""

    def run(data: Any, source: Source) -> Outcome:
        X, y, ids = data
        made = PrivateLinearRegression(
            feature_norm=1.0, label_bounds=(-1.0, 1.0), neighbours=neighbours, **more
        )
        model = made.fit(X, y, groups=ids)
        return Outcome([model.coef_, model.intercept_], model.guarantee_)

    return run


def whole_tables(neighbours: str, mine: list[int], ids: Any) -> Iterator[InputPair]:
    """Two thousand records, enough for scaling; those of one person are blanked, or replaced by others."""
    rng = np.random.default_rng(0)
    table = rng.uniform(-1.0, 1.0, size=(2000, 2)) / np.sqrt(2.0)
    labels = table @ [0.5, 0.25]
    for size, label in ((1.0, 1.0), (1.0, -1.0), (3.0, 7.0), (1e300, HUGE), (0.2, 1.0)):
        others = [(0.0, 0.0, 0.0)]
        if neighbours == "replace":
            others = [(-size, 0.0, -label), (0.0, size, -label), (0.0, 0.0, 0.0)]
        X, y = table.copy(), labels.copy()
        X[mine], y[mine] = (size, 0.0), label
        for *row, mark in others:
            Y, marks = X.copy(), y.copy()
            Y[mine], marks[mine] = row, mark
            why = f"({size:g}, 0), {label:g} becomes {tuple(row)}, {mark:g}"
            yield InputPair((X, y, ids), (Y, marks, ids), why)
    if ids is not None:
        # the number of a person's records is private
        kept = np.delete(np.arange(len(X)), mine[1:])
        yield InputPair(
            (X, y, ids), (Y[kept], marks[kept], ids[kept]), f"{why}, and only one record"
        )


def _moments(neighbours: str, rows: int) -> Iterator[InputPair]:
    """Records of the scaler: each adds its entries, scaled to [-1, 1], and their squares; a blanked one adds 0."""
    for size in (2.0, 50.0, HUGE, TINY, 1.0, 0.7):
        for other in (0.0,) if neighbours == "zero-out" else (-size, 0.0, 2.0):
            X, Y = np.zeros((rows, 2)), np.zeros((rows, 2))
            X[0], Y[0] = size, other
            yield InputPair((X,), (Y,), f"a record of {size:g} becomes {other:g}")


def _steps(neighbours: str, label: float) -> Iterator[InputPair]:
    for here, there, _, why in (*tables(neighbours, 3, 2), *wrong(neighbours, 3)):
        y = np.full(len(here), label)
        yield InputPair((here, y), (there, y), why)


def _online(neighbours: str) -> Iterator[Case]:
    """Stream estimators one record at a time, and their River counterparts, pushed to where slopes are largest."""
    common: dict[str, Any] = {
        "fit_intercept": False,
        "ridge": 1.0,
        "coefficient_norm": 1e6,
        "horizon": 3,
        "epsilon": 1.0,
        "delta": 1e-6,
        "neighbours": neighbours,
    }

    def streamed(make: Callable[[], Any]) -> Run:
        def run(data: Any, source: Source) -> Outcome:
            X, y = data
            model, seen = make(), []
            for k in range(len(X)):
                model.partial_fit(X[k : k + 1], y[k : k + 1])
                seen.append([model.coef_, model.intercept_])
            return Outcome(seen, model.guarantee_)

        return run

    far, both = (pushed(-40.0),), (pushed(-40.0), pushed(40.0))
    logistic = partial(OnlineLogisticRegression, **common)
    yield case(
        f"OnlineLogisticRegression, {neighbours}",
        streamed(partial(logistic, classes=[-1, 1])),
        partial(_steps, neighbours, 1.0),
        starts=far,
    )
    yield case(
        f"OnlineLogisticRegression, three classes, {neighbours}",
        streamed(partial(logistic, classes=[0, 1, 2])),
        partial(_steps, neighbours, 1.0),
        starts=both,
    )
    yield case(
        f"OnlineLinearRegression, {neighbours}",
        streamed(partial(OnlineLinearRegression, **common)),
        partial(_steps, neighbours, 7.0),
        starts=(*far, silent),
    )
    try:
        from reticent.estimators import river
    except ImportError:  # River is an extra
        return

    def learnt(make: Callable[[], Any]) -> Run:
        def run(data: Any, source: Source) -> Outcome:
            X, y = data
            model, seen = make(), []
            for row, label in zip(X, y, strict=True):
                model.learn_one({"a": float(row[0]), "b": float(row[1])}, label)
                seen.append(_weights(model))
            return Outcome(seen, model.guarantee)

        return run

    yield case(
        f"river.OnlineLogisticRegression, {neighbours}",
        learnt(
            partial(river.OnlineLogisticRegression, features=["a", "b"], classes=(-1, 1), **common)
        ),
        partial(_steps, neighbours, 1.0),
        starts=far,
    )
    yield case(
        f"river.OnlineLinearRegression, {neighbours}",
        learnt(partial(river.OnlineLinearRegression, features=["a", "b"], **common)),
        partial(_steps, neighbours, 7.0),
        starts=(*far, silent),
    )


def _weights(model: Any) -> FloatArray:
    return np.array(list(model.weights.values()))
