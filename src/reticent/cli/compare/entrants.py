"""The entrants of a comparison: each solver and learner of the library with its defaults, for one table.

Solvers see features scaled by the declared bounds, with a constant appended, in rows of norm at most 1, as in the
estimators.

Nothing is tuned. The scores are those of the defaults, which is what a user gets who may not look at the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import reticent
from reticent import erm, estimators, losses, sets
from reticent.checks import FloatArray

INTERCEPT = 0.3  # the constant beside features of norm 1, as in the estimators


@dataclass(frozen=True)
class EncodedTable:
    """Encoded records.

    Parameters
    ----------
    X
        Features, in rows of norm at most ``norm``.
    y
        Labels: class names, or numbers within ``bounds``.
    classes
        The labels that the schema declares, or None.
    bounds
        The bounds of the labels that the schema declares, or None.
    """

    X: FloatArray
    y: Any
    norm: float
    classes: tuple[str, ...] | None
    bounds: tuple[float, float] | None

    @property
    def features(self) -> FloatArray:
        """Rows of norm at most 1, with a constant appended."""
        constant = np.full((len(self.X), 1), INTERCEPT)
        return np.hstack([self.X / self.norm, constant]) / math.hypot(1.0, INTERCEPT)

    @property
    def targets(self) -> FloatArray:
        """Labels -1 and 1 for two classes, or numbers scaled to [-1, 1]."""
        if self.classes is not None:
            return np.where(np.asarray(self.y) == self.classes[1], 1.0, -1.0)
        assert self.bounds is not None
        low, high = self.bounds
        return np.clip(2.0 * (np.asarray(self.y, dtype=float) - low) / (high - low) - 1.0, -1, 1)

    def part(self, rows: NDArray[np.int64]) -> EncodedTable:
        """A table of the given rows."""
        return EncodedTable(self.X[rows], self.y[rows], self.norm, self.classes, self.bounds)


@dataclass(frozen=True)
class EntrantScore:
    """An entrant's score on held-out records, and the true guarantee of its fit."""

    score: float
    true_epsilon: float


def _accuracy(predicted: Any, labels: Any) -> float:
    return 100.0 * float(np.mean(np.asarray(predicted) == np.asarray(labels)))


def _r2(predicted: FloatArray, targets: FloatArray) -> float:
    rest = float(np.sum((targets - predicted) ** 2))
    return 1.0 - rest / max(float(np.sum((targets - targets.mean()) ** 2)), 1e-300)


def _solve(train: EncodedTable, test: EncodedTable, solver: Any, loss: Any, where: Any, budget: reticent.Budget,
           seed: int, **more: Any) -> EntrantScore:  # fmt: skip
    fit = solver(loss, where, train.features, train.targets, budget=budget, seed=seed, **more)
    z = test.features @ fit.point
    score = _r2(z, test.targets) if test.classes is None else _accuracy(np.sign(z), test.targets)
    return EntrantScore(score, fit.guarantee.epsilon(budget.delta))


def _estimate(
    train: EncodedTable, test: EncodedTable, name: str, budget: reticent.Budget, seed: int
) -> EntrantScore:
    kind: Any = getattr(estimators, name)
    known: dict[str, Any] = {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "neighbours": budget.neighbours,
        "feature_norm": train.norm,
        "random_state": seed,
    }
    if train.classes is None:
        known["label_bounds"] = train.bounds
    else:
        known["classes"] = list(train.classes)
    model = kind(**known).fit(train.X, train.y)
    predicted = model.predict(test.X)
    score = (
        _r2(predicted, np.asarray(test.y, dtype=float))
        if test.classes is None
        else _accuracy(predicted, test.y)
    )
    return EntrantScore(score, model.guarantee_.epsilon(budget.delta))


Entrant = Callable[[EncodedTable, EncodedTable, reticent.Budget, int], EntrantScore]


def _solver(solver: Any, loss: Any, l1: bool = False, **more: Any) -> Entrant:
    def run(
        train: EncodedTable, test: EncodedTable, budget: reticent.Budget, seed: int
    ) -> EntrantScore:
        where = sets.L1Ball(train.features.shape[1], 5.0) if l1 else None
        return _solve(train, test, solver, loss, where, budget, seed, **more)

    return run


def _estimator(name: str) -> Entrant:
    def run(
        train: EncodedTable, test: EncodedTable, budget: reticent.Budget, seed: int
    ) -> EntrantScore:
        return _estimate(train, test, name, budget, seed)

    return run


def entrants(classes: tuple[str, ...] | None) -> dict[str, Entrant]:
    """All entrants that suit the labels, by their displayed name."""
    if classes is None:
        squared = losses.Squared()
        solvers = {
            "sufficient statistics": _solver(erm.sufficient_statistics, squared),
            "AdaSSP": _solver(erm.sufficient_statistics, squared, method="adassp"),
            "objective perturbation": _solver(erm.objective_perturbation, squared),
            "gradient descent": _solver(erm.gradient_descent, squared),
            "output perturbation": _solver(erm.output_perturbation, squared),
            "averaged iterate": _solver(erm.averaged_iterate, squared),
            "FTRL, one pass": _solver(erm.ftrl, squared),
            "Frank-Wolfe, l1 ball": _solver(erm.frank_wolfe, squared, l1=True),
        }
        faces = ("PrivateLinearRegression", "PrivateLasso", "OnlineLinearRegression")
    else:
        logistic = losses.Logistic()
        solvers = {
            "objective perturbation": _solver(erm.objective_perturbation, logistic),
            "gradient descent": _solver(erm.gradient_descent, logistic),
            "output perturbation": _solver(erm.output_perturbation, logistic),
            "averaged iterate": _solver(erm.averaged_iterate, logistic),
            "FTRL, one pass": _solver(erm.ftrl, logistic),
            "localisation": _solver(erm.localisation, losses.Logistic(ridge=1e-3)),
            "Frank-Wolfe, l1 ball": _solver(erm.frank_wolfe, logistic, l1=True),
        }
        if len(classes) > 2:
            solvers = {}  # a solver finds one decision; only the estimators combine several
        faces = ("PrivateLogisticRegression", "PrivateLinearSVC", "OnlineLogisticRegression")
    there = {name: _estimator(name) for name in faces if hasattr(estimators, name)}
    return there | solvers


def reference(train: EncodedTable, test: EncodedTable) -> tuple[float, float]:
    """The scores without privacy and without learning."""
    from sklearn.linear_model import LogisticRegression, Ridge

    if train.classes is None:
        model: Any = Ridge(1e-6).fit(train.features, train.targets)
        return _r2(model.predict(test.features), test.targets), 0.0
    model = LogisticRegression(C=1e3, max_iter=1000).fit(train.features, train.y)
    names, counts = np.unique(train.y, return_counts=True)
    most = names[int(np.argmax(counts))]
    right = _accuracy(model.predict(test.features), test.y)
    return right, _accuracy(np.full(len(test.y), most), test.y)
