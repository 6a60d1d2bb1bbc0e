"""Lines about budgets: what every public mechanism promises is within what it was asked for, and not far below."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from reticent import bandit, erm, losses, online, sets, sums, vertical
from reticent.audit.whitebox import Exact
from reticent.audit.whitebox_records import BOTH, Case
from reticent.estimators import (
    OnlineLinearRegression,
    OnlineLogisticRegression,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateScaler,
)
from reticent.noise import exponential_mechanism, report_noisy_max
from reticent.privacy import Budget, Guarantee

Build = Callable[[Budget], Any]

_ROWS = np.array([[0.6, 0.0], [0.0, 0.8], [-0.6, 0.1], [0.1, -0.8]])
_SIGNS = np.array([1.0, 1.0, -1.0, -1.0])
_SLACK = 1e-9


def _tree(noise: str, budget: Budget) -> Any:
    return sums.Tree(2, 100, budget=budget, noise=noise)


def _window_tree(noise: str, budget: Budget) -> Any:
    return sums.WindowTree(2, budget=budget.with_(window=10), noise=noise)


def _totals() -> dict[str, Build]:
    made: dict[str, Build] = {
        "Tree, Honaker": lambda b: sums.Tree(2, 100, budget=b),
        "Tree, plain": lambda b: sums.Tree(2, 100, budget=b, estimator="plain"),
        "Correlated": lambda b: sums.Correlated(2, 100, budget=b),
        "Independent": lambda b: sums.Independent(2, 100, budget=b),
        "WindowTree": lambda b: sums.WindowTree(2, budget=b.with_(window=10)),
        "Correlated, window": lambda b: sums.Correlated(2, None, budget=b.with_(window=10)),
    }
    for noise in ("laplace", "gamma"):
        made[f"Tree, {noise}"] = partial(_tree, noise)
        made[f"WindowTree, {noise}"] = partial(_window_tree, noise)
    return made


def _learners() -> dict[str, Build]:
    ball, ridged = sets.L2Ball(2, 1.0), losses.Logistic(ridge=0.1)
    plays: dict[str, Any] = {"horizon": 50, "lipschitz": 1.0, "values": (-1.0, 1.0)}
    iterates = partial(online.PerturbedIterates, ball, ridged, inner=online.ImplicitGradient())
    return {
        "leader": lambda b: online.FollowTheRegularizedLeader(
            ball, losses.Logistic(), budget=b, horizon=50, regularizer=1.0
        ),
        "approximate leader": lambda b: online.FollowTheApproximateLeader(
            ball, ridged, step="projection", budget=b, horizon=50
        ),
        "iterates": lambda b: iterates(budget=b, horizon=50),
        "iterates, window": lambda b: iterates(budget=b.with_(window=10)),
        "quadratic leader": lambda b: online.QuadraticLeader(
            ball, losses.Squared(ridge=0.1), budget=b, horizon=50
        ),
        "projection-free bandit": lambda b: bandit.ProjectionFreeBandit(
            sets.Simplex(2), b, **plays
        ),
        "projected bandit": lambda b: bandit.ProjectedBandit(sets.Box([-1.0], [1.0]), b, **plays),
    }


def _solvers() -> dict[str, Build]:
    ball, smooth = sets.L2Ball(2, 1.0), losses.Logistic()
    ridged, squared = losses.Logistic(ridge=1.0), losses.Squared()
    data = (_ROWS, _SIGNS)
    return {
        "gradient descent": lambda b: erm.gradient_descent(smooth, ball, *data, budget=b, steps=3),
        "gradient descent, sampled": lambda b: erm.gradient_descent(
            smooth, ball, *data, budget=b, steps=3, sampling=0.5
        ),
        "ftrl": lambda b: erm.ftrl(smooth, ball, *data, budget=b, passes=2),
        "frank-wolfe": lambda b: erm.frank_wolfe(smooth, sets.L1Ball(2), *data, budget=b, steps=3),
        "objective perturbation": lambda b: erm.objective_perturbation(
            smooth, None, *data, budget=b
        ),
        "output perturbation": lambda b: erm.output_perturbation(ridged, ball, *data, budget=b),
        "averaged iterate": lambda b: erm.averaged_iterate(ridged, ball, *data, budget=b),
        "localisation": lambda b: erm.localisation(ridged, ball, *data, budget=b, steps=2),
        "sufficient statistics": lambda b: erm.sufficient_statistics(
            squared, None, *data, budget=b
        ),
        "adassp": lambda b: erm.sufficient_statistics(
            squared, None, *data, budget=b, method="adassp"
        ),
        "exponential mechanism": lambda b: erm.exponential_mechanism(
            smooth,
            sets.Box([-1.0, -1.0], [1.0, 1.0]),
            *data,
            budget=b,
            version="plain",
            net=((0.0, 0.0), (1.0, 1.0)),
        ),
        "sketches": lambda b: vertical.one_shot_sketch(
            [_ROWS[:, :1], _ROWS[:, 1:]], _SIGNS, budget=b, sketch_size=2, radius=1.0
        ),
        "choice": lambda b: exponential_mechanism([1.0, 2.0], sensitivity=1.0, budget=b),
        "noisy maximum": lambda b: report_noisy_max([1.0, 2.0], sensitivity=1.0, budget=b),
    }


def _faces() -> dict[str, Build]:
    def asked(b: Budget) -> dict[str, Any]:
        return {"epsilon": b.epsilon, "delta": b.delta, "neighbours": b.neighbours}

    def online_(make: Any, **more: Any) -> Build:
        return lambda b: make(horizon=50, **asked(b), **more).partial_fit(_ROWS, _SIGNS)

    def table(make: Any, y: Any = _SIGNS, **more: Any) -> Build:
        return lambda b: make(**asked(b), **more).fit(_ROWS, y)

    three = np.array([0, 1, 2, 0])
    return {
        "PrivateLogisticRegression": table(PrivateLogisticRegression, classes=[-1, 1]),
        "PrivateLogisticRegression, three classes": table(
            PrivateLogisticRegression, three, classes=[0, 1, 2]
        ),
        "PrivateLinearSVC": table(PrivateLinearSVC, classes=[-1, 1]),
        "PrivateLinearRegression": table(PrivateLinearRegression),
        "PrivateLasso": table(PrivateLasso),
        "PrivateScaler": lambda b: PrivateScaler((-1.0, 1.0), **asked(b)).fit(_ROWS),
        "OnlineLogisticRegression": online_(OnlineLogisticRegression, classes=[-1, 1]),
        "OnlineLinearRegression": online_(OnlineLinearRegression),
    }


_PURE_TOO = {  # what takes delta = 0
    "Tree, plain": False, "Tree, laplace": True, "Tree, gamma": True, "WindowTree, laplace": True,
    "WindowTree, gamma": True, "leader": True, "projection-free bandit": True, "projected bandit": True,
    "quadratic leader": True, "gradient descent": True, "ftrl": True, "frank-wolfe": True,
    "objective perturbation": True, "output perturbation": True, "averaged iterate": True,
    "localisation": True, "sufficient statistics": True, "exponential mechanism": True,
    "choice": True, "noisy maximum": True, "PrivateLogisticRegression": True,
    "PrivateLogisticRegression, three classes": True, "PrivateLinearSVC": True, "PrivateScaler": True,
}  # fmt: skip


def _kept(name: str, builders: Callable[[], dict[str, Build]]) -> Exact:
    worst: Exact | None = None
    least, lowest = 2.0, ""
    for words, build in builders().items():
        for neighbours in BOTH:
            for delta in (1e-6, 0.0) if _PURE_TOO.get(words) else (1e-6,):
                budget = Budget(1.0, delta, neighbours)
                setting = f"{words}, {neighbours}, delta = {delta:g}"
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        made = build(budget)
                except (ValueError, RuntimeError) as error:
                    return Exact(name, 1.0, np.inf, delta, np.inf, False,
                                 f"{setting} was not built: {error}", fault=1.0)  # fmt: skip
                promised: Guarantee = (
                    made.guarantee_ if hasattr(made, "guarantee_") else made.guarantee
                )
                value = promised.epsilon(delta)
                if worst is None or value > worst.epsilon:
                    worst = Exact(name, 1.0, value, delta, value, value <= 1.0 + _SLACK,
                                  setting, fault=max(1.0, 1.0 / value))  # fmt: skip
                if value < least:
                    least, lowest = value, setting
    assert worst is not None
    if worst.holds:
        return Exact(
            name, 1.0, least, 0.0, least, True, f"the least is spent by {lowest}", fault=1.0 / least
        )
    return worst


def kept() -> Iterator[Case]:
    """What is promised against what was asked for, by package."""
    for name, builders in (
        ("running totals", _totals),
        ("learners and bandits", _learners),
        ("solvers and choices", _solvers),
        ("estimators", _faces),
    ):
        yield Case(f"budget of {name}", partial(_kept, name, builders))
