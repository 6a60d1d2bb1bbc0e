"""White-box audit lines of fits on tables in which all records of a person are protected together.

One person has three records, the others have one each. All three are blanked or replaced. Since the number of a
person's records is private, they are also replaced by a single one, so that the two tables differ in length.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from reticent import erm, losses, sets
from reticent.audit import minimisers
from reticent.audit.whitebox_estimators import as_it_comes, whole_tables
from reticent.audit.whitebox_matching import InputPair, Outcome
from reticent.audit.whitebox_records import BOTH, FAR, HUGE, Case, FloatArray, Run, case
from reticent.estimators import PrivateLinearRegression, PrivateLogisticRegression
from reticent.noise import Source
from reticent.privacy import Budget

_IDS = np.array([7, 1, 7, 7, 2, 3])
_MINE = _IDS == 7
_RULES: dict[str, int | None] = {"1/m each": None, "the first two": 2}


def _tables(neighbours: str, dim: int, labels: tuple[float, float]) -> Iterator[InputPair]:
    """The person's rows are beyond every bound: all of them and equal, only the last one, or only the first one."""
    mine, theirs = labels
    first = np.flatnonzero(_MINE)
    for size in (1.0, 3.0, HUGE):
        for rows, words in (
            (first, "all records"),
            (first[-1:], "the last"),
            (first[:1], "the first"),
        ):
            X, y = np.zeros((len(_IDS), dim)), np.full(len(_IDS), theirs)
            X[rows, 0], y[rows] = size, mine
            other, marks = X.copy(), y.copy()
            other[_MINE] = 0.0 if neighbours == "zero-out" else -X[_MINE]
            if neighbours == "zero-out":
                marks[_MINE] = theirs
            why = f"{words} of a person, {size:g} long"
            yield InputPair((X, y, _IDS), (other, marks, _IDS), why)
            one = np.ones(len(_IDS), bool)
            one[first[1:]] = False
            yield InputPair(
                (X, y, _IDS), (other[one], marks[one], _IDS[one]), f"{why}, who then has one record"
            )


def _fitted(solve: Callable[..., Any]) -> Run:
    def run(data: Any, source: Source) -> Outcome:
        X, y, ids = data
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = solve(X, y, groups=ids)
        if isinstance(found, erm.Fit):
            return Outcome(found.point, found.guarantee)
        return Outcome(found.coef_, found.guarantee_)

    return run


def _model(make: Callable[..., Any], X: FloatArray, y: FloatArray, groups: Any) -> Any:
    return make().fit(X, y, groups=groups)


def tables_of_persons() -> Iterator[Case]:
    """Every solver that takes ``groups``, under both rules for how much a person's records count."""
    linear, squared = losses.Linear(), losses.Squared()
    for neighbours in BOTH:
        budget = Budget(1.0, 1e-6, neighbours)
        asked: dict[str, Any] = {"epsilon": 1.0, "neighbours": neighbours, "fit_intercept": False}
        for rule, most in _RULES.items():
            given: dict[str, Any] = {"budget": budget, "max_records": most}
            statistics = partial(
                PrivateLinearRegression, solver="sufficient-statistics", max_records=most, **asked
            )
            lines: dict[str, tuple[Callable[..., Any], int, tuple[float, float]]] = {
                "gradient_descent": (partial(
                    erm.gradient_descent, linear, sets.L2Ball(2, FAR), steps=3, step_size=1.0,
                    average="last", **given), 2, (1.0, 1.0)),
                "frank_wolfe": (partial(
                    erm.frank_wolfe, linear, sets.L1Ball(2, 2.0), steps=3, **given), 2, (1.0, 1.0)),
                "sufficient_statistics": (partial(
                    erm.sufficient_statistics, squared, None, **given), 1, (7.0, 0.0)),
                "PrivateLinearRegression": (partial(_model, statistics), 1, (7.0, 0.0)),
            }  # fmt: skip
            for words, (solve, dim, labels) in lines.items():
                yield case(
                    f"{words} of persons, {rule}, {neighbours}",
                    _fitted(solve),
                    partial(_tables, neighbours, dim, labels),
                )
            ids = np.arange(2000)
            mine = [0, 5, 9]
            ids[mine] = 0
            yield case(
                f"PrivateLinearRegression of persons with defaults, {rule}, {neighbours}",
                as_it_comes(neighbours, max_records=most),
                partial(whole_tables, neighbours, mine, ids),
                quick=neighbours == "zero-out",
            )
            hinge = partial(
                erm.objective_perturbation, losses.SmoothHinge(0.1), None, regularizer=300.0,
                **given | {"budget": Budget(4.0, 1e-6, neighbours)},
            )  # fmt: skip
            logistic = partial(
                PrivateLogisticRegression, classes=[-1, 1], regularizer=100.0, max_records=most,
                **asked | {"epsilon": 4.0},
            )  # fmt: skip
            for words, solve in {
                "objective_perturbation": hinge,
                "PrivateLogisticRegression": partial(_model, logistic),
            }.items():
                setting = f"{words} of persons, {rule}, {neighbours}"
                pairs = list(_tables(neighbours, 1, (1.0, 1.0)))[6:8]
                check = partial(minimisers.minimiser, setting, _fitted(solve), pairs)
                yield Case(setting, check, quick=neighbours == "zero-out")
