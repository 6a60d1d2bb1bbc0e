"""Audit lines for budgets: the guarantee of every public mechanism is within its budget, and not far below.

Every noise that an estimator draws must also appear in its guarantee, with the stated scale and as often as stated.
Whether each release costs what it claims at its scale is checked by the white-box lines.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from reticent import bandit, erm, losses, online, sets, sums, vertical
from reticent.audit.hooks import listening
from reticent.audit.whitebox import Exact
from reticent.audit.whitebox_matching import silent
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
_PRINTED = 2e-5
"""Tolerance on the logarithm to base two of a scale, since guarantees print six digits of a scale."""


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


_PURE_TOO = {  # accept delta = 0
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
                stated: Guarantee = (
                    made.guarantee_ if hasattr(made, "guarantee_") else made.guarantee
                )
                value = stated.epsilon(delta)
                if worst is None or value > worst.epsilon:
                    worst = Exact(name, 1.0, value, delta, value, value <= 1.0 + _SLACK,
                                  setting, fault=max(1.0, 1.0 / value))  # fmt: skip
                if value < least:
                    least, lowest = value, setting
    assert worst is not None
    if worst.holds:
        return Exact(
            name, 1.0, least, 0.0, least, True, f"least of all spent by {lowest}", fault=1.0 / least
        )
    return worst


def _tables() -> dict[str, Build]:
    """Fits of a table that is large enough for everything that estimators release in addition to coefficients."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(2000, 2)) / np.sqrt(2.0)
    y = X @ [0.5, 0.25]
    sign, three = (y > 0.0).astype(int), np.digitize(y, [-0.1, 0.1])
    persons = np.arange(2000) // 2

    def fitted(make: Any, labels: Any, groups: Any = None, **more: Any) -> Build:
        def build(b: Budget) -> Any:
            given = {"epsilon": b.epsilon, "delta": b.delta, "neighbours": b.neighbours}
            return make(**given, **more).fit(X, labels, groups=groups)

        return build

    logistic = partial(fitted, PrivateLogisticRegression, sign, classes=[0, 1])
    linear = partial(fitted, PrivateLinearRegression, y)
    return {
        "logistic": logistic(),
        "logistic, persons": logistic(persons),
        "logistic, private bounds and intervals": logistic(feature_norm="private", intervals=True),
        "logistic, balanced": logistic(class_weight="balanced"),
        "logistic, three classes": fitted(PrivateLogisticRegression, three, classes=[0, 1, 2]),
        "support vectors": fitted(PrivateLinearSVC, sign, classes=[0, 1]),
        "linear": linear(),
        "linear, persons": linear(persons),
        "linear, private bounds": linear(feature_norm="private", label_bounds="private"),
        "linear, one release": linear(solver="sufficient-statistics"),
        "linear, gradient descent": linear(solver="gradient-descent"),
        "lasso": fitted(PrivateLasso, y),
    }


def _unlike(drawn: list[float], stated: list[float]) -> str:
    """A sentence if the two lists of scales differ; scales are compared up to powers of two, the lattice steps."""
    left = [math.log2(scale) for scale in drawn]
    for scale in stated:
        away = [abs((other - math.log2(scale) + 0.5) % 1.0 - 0.5) for other in left]
        if not away or min(away) > _PRINTED:
            return f"noise of scale {scale:g} is stated but was not drawn"
        del left[int(np.argmin(away))]
    return f"{len(left)} pieces of noise were drawn but are not stated" if left else ""


def _accounted(name: str) -> Exact:
    """Compare the noise that was drawn with what guarantees state, piece by piece."""
    compared = 0
    for words, build in _tables().items():
        for neighbours in BOTH:
            for delta in (1e-6, 0.0):
                with warnings.catch_warnings(), listening(lambda _, made: silent(made)) as tape:
                    warnings.simplefilter("ignore")
                    model = build(Budget(4.0, delta, neighbours))
                drawn = [float(scale) for draw in tape.draws for scale in draw.scales]
                drawn += [choice.scale for choice in tape.choices]
                stated: list[float] = []
                for release in model.guarantee_.releases:
                    times = release.count * getattr(release.curve, "count", 1)
                    stated += times * [float(release.noise.split()[-1])]
                compared += len(stated)
                if unlike := _unlike(drawn, stated):
                    how = f"{words}, {neighbours}, delta = {delta:g}: {unlike}"
                    return Exact(name, 1.0, np.inf, delta, np.inf, False, how, fault=1.0)
    how = f"{compared} pieces of noise, drawn as often and as large as stated"
    return Exact(name, 1.0, 1.0, 0.0, 1.0, True, how, fault=2.0**_PRINTED)


def kept() -> Iterator[Case]:
    """Guarantees compared with the requested budgets, by package."""
    for name, builders in (
        ("running totals", _totals),
        ("learners and bandits", _learners),
        ("solvers and choices", _solvers),
        ("estimators", _faces),
    ):
        yield Case(f"budget of {name}", partial(_kept, name, builders))
    yield Case("noise of estimators, as stated", partial(_accounted, "noise of estimators"))
