"""[chapter]: excess empirical risk of all its algorithms against epsilon, with the lower bounds.

Thakurta's *Private Optimization*: exponential mechanism (Theorem 6.5), objective perturbation (6.9), gradient descent
(6.11), FTRL (6.15), Frank-Wolfe for the LASSO (6.22), and the lower bounds of section 6.5. Natural data: logistic
regression in the unit ball. Hardest data: linear losses whose sum has norm p/epsilon or sqrt(p)/epsilon, the instance
of Theorem 6.26.

A lower bound is for the hardest data and up to a constant, which is drawn as 1. On natural data, where losses are
curved at their minimum, an algorithm may be below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from reticent import erm, losses, online, sets
from reticent.papers import formulas
from reticent.papers.figures.data import FloatArray
from reticent.papers.figures.figure import (
    BOUND,
    CORRECTED,
    IDLE,
    OURS,
    PUBLISHED,
    Figure,
    Row,
    Settings,
    Task,
)
from reticent.plots.panels import Panel
from reticent.privacy import Budget, gaussian

NAME = "chapter-1"
VARIANTS = (PUBLISHED, CORRECTED, OURS)
NATURAL = {
    "exponential": "exponential mechanism, pure",
    "objective-pure": "objective perturbation, pure",
    "objective": "objective perturbation",
    "gradient": "gradient descent",
    "ftrl": "FTRL",
    "frank-wolfe": "LASSO (published: not private)",
}
PURE = ("exponential", "objective-pure")
GAP = 1e-7  # precision of the least loss; a smaller excess is not shown


def settings(full: bool) -> Settings:
    return {
        "revision": 1,
        "records": 5_000 if full else 2_000,
        "dim": 10,
        "dim_pure": 2,
        "dim_lasso": 500 if full else 200,
        "delta": 1e-6,
        "epsilons": [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0] if full else [0.1, 0.3, 1.0, 3.0, 10.0],
        "most_steps": 10_000 if full else 300,
        "seeds": 20 if full else 10,
    }


def tasks(settings: Settings) -> list[Task]:
    runs = [
        {"seed": seed, "epsilon": epsilon, "what": what}
        for what in [*NATURAL, "hard"]
        for epsilon in settings["epsilons"]
        for seed in range(settings["seeds"])
    ]
    idle = [{"what": "idle", "seed": seed} for seed in range(settings["seeds"])]
    return [{"what": "bounds"}, *idle, *runs]


def lower_bound(records: int, dim: int, epsilon: float, kind: str) -> float:
    """Section 6.5's lower bounds on the excess of the sum of 1-Lipschitz losses in the unit ball, with constant 1.

    Examples
    --------
    >>> lower_bound(1000, 4, 0.1, "pure"), lower_bound(1000, 4, 0.1, "approximate")
    (40.0, 20.0)
    """
    if kind == "lasso":  # Corollary 6.24: n (n epsilon)^(-2/3), tight up to logarithms
        return min(float(records), records ** (1 / 3) / epsilon ** (2 / 3))
    return min(float(records), (dim if kind == "pure" else math.sqrt(dim)) / epsilon)


def _bounds(settings: Settings) -> list[Row]:
    n, rows = settings["records"], []
    for epsilon in settings["epsilons"]:
        for what in [*NATURAL, "hard-pure", "hard"]:
            pure = what in PURE or what == "hard-pure"
            kind = "lasso" if what == "frank-wolfe" else "pure" if pure else "approximate"
            dim = settings["dim_pure" if pure else "dim"]
            rows.append(Row(what, BOUND, epsilon, lower_bound(n, dim, epsilon, kind)))
    return rows


def natural(records: int, dim: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Rows on the unit sphere, labels of a logistic model inside the unit ball."""
    rng = np.random.default_rng([seed, dim])
    X = rng.standard_normal((records, dim))
    X /= np.linalg.norm(X, axis=1)[:, None]
    slope = rng.standard_normal(dim)
    odds = 0.7 * X @ slope / np.linalg.norm(slope)
    return X, np.where(rng.random(records) < 1.0 / (1.0 + np.exp(-odds)), 1.0, -1.0)


def sparse_targets(records: int, dim: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Entries of size 1, and targets from a decision with three nonzero entries."""
    rng = np.random.default_rng([seed, dim, 1])
    X = rng.choice([-1.0, 1.0], size=(records, dim))
    noise = 0.1 * rng.standard_normal(records)
    return X, np.clip(X[:, :3] @ [0.5, -0.3, 0.2] + noise, -1, 1)


def hardest(records: int, dim: int, length: float, seed: int) -> FloatArray:
    """Costs of norm at most 1 whose sum has the given length, in a direction of random signs."""
    rng = np.random.default_rng([seed, dim, 2])
    signs = rng.choice([-1.0, 1.0], size=dim)
    whole = min(records, int(length))
    pairs = rng.choice([-1.0, 1.0], size=((records - whole - 1) // 2, dim))
    last = (length - whole) * signs[None]  # the remainder of a length that is not a whole number
    D = np.concatenate([np.tile(signs, (whole, 1)), last, pairs, -pairs]) / math.sqrt(dim)
    return -D[rng.permutation(len(D))]


# One function per panel: the point that a variant finds, and the guarantee of what it released.
Solved = tuple[FloatArray, Any]


def _exponential(
    loss: Any, X: FloatArray, y: Any, variant: str, epsilon: float, settings: Settings, seed: int
) -> Solved:
    calibration = "published" if variant == PUBLISHED else "exact"
    fit = erm.exponential_mechanism(
        loss,
        sets.L2Ball(X.shape[1], 1.0),
        X,
        y,
        budget=Budget(epsilon),
        version="plain",
        calibration=calibration,
        seed=seed,
    )
    return fit.point, fit.guarantee


def _objective(loss: Any, X: FloatArray, y: Any, variant: str, epsilon: float,
               settings: Settings, seed: int, delta: float) -> Solved:  # fmt: skip
    ball = sets.L2Ball(X.shape[1], 1.0)
    more: dict[str, Any] = {}
    if variant != OURS:
        # Theorem 6.9's choice: the ridge that balances the noise and its own pull
        slope, bend = loss.scalar_bounds(ball)
        p = X.shape[1]
        if delta == 0.0:
            least = bend / -math.expm1(-epsilon / 2.0)
            more["regularizer"] = max(
                least, math.sqrt(32.0) * p * slope / (epsilon * ball.diameter)
            )
        else:
            noise = formulas.objective_perturbation_gaussian(
                epsilon, delta, norm=slope, smoothness=bend
            )
            more["regularizer"] = max(2.0 * bend / epsilon, math.sqrt(p) * float(noise.scale))
    if variant == PUBLISHED:
        more["calibration"] = "published"
    fit = erm.objective_perturbation(
        loss, ball, X, y, budget=Budget(epsilon, delta), seed=seed, **more
    )
    return fit.point, fit.guarantee


def _gradient(
    loss: Any, X: FloatArray, y: Any, variant: str, epsilon: float, settings: Settings, seed: int
) -> Solved:
    n, p = X.shape
    ball, delta = sets.L2Ball(p, 1.0), settings["delta"]
    more: dict[str, Any] = {}
    if variant != OURS:
        # Theorem 6.11: T = n^2 epsilon^2 / p, as far as time allows, and its step
        T = int(min(max(1.0, n**2 * epsilon**2 / p), settings["most_steps"]))
        slope = loss.scalar_bounds(ball)[0]
        if variant == PUBLISHED:
            noise = float(formulas.gradient_descent(epsilon, delta, steps=T).scale)
        else:
            noise = math.sqrt(T) / gaussian.mu(epsilon, delta)
        step = n * ball.diameter / (slope * math.sqrt(T * (n**2 + p * noise**2)))
        calibration = "published" if variant == PUBLISHED else "exact"
        more = {"steps": T, "step_size": step, "average": "uniform", "calibration": calibration}
    fit = erm.gradient_descent(loss, ball, X, y, budget=Budget(epsilon, delta), seed=seed, **more)
    return fit.point, fit.guarantee


def _ftrl(
    loss: Any, X: FloatArray, y: Any, variant: str, epsilon: float, settings: Settings, seed: int
) -> Solved:
    ball, budget = sets.L2Ball(X.shape[1], 1.0), Budget(epsilon, settings["delta"])
    if variant == CORRECTED:
        learner = online.FollowTheRegularizedLeader(
            ball, loss, budget=budget, horizon=len(X), total="tree", seed=seed
        )
        decisions = learner.run(X, y, keep=len(X), keep_records=False).decisions
        return np.asarray(decisions.mean(axis=0)), learner.guarantee
    calibration = "published" if variant == PUBLISHED else "exact"
    fit = erm.ftrl(loss, ball, X, y, budget=budget, calibration=calibration, seed=seed)
    return fit.point, fit.guarantee


def _frank_wolfe(
    loss: Any, X: FloatArray, y: Any, variant: str, epsilon: float, settings: Settings, seed: int
) -> Solved:
    more: dict[str, Any] = {}
    if variant != OURS:
        # Theorem 6.22 with curvature 4 and l1-Lipschitz constant 2, those of the LASSO of 6.4.3
        steps = (4.0 * len(X) * epsilon / 2.0) ** (2 / 3)
        calibration = "published" if variant == PUBLISHED else "exact"
        more = {"steps": max(2, round(steps)), "calibration": calibration}
    budget = Budget(epsilon, settings["delta"])
    fit = erm.frank_wolfe(loss, sets.L1Ball(X.shape[1]), X, y, budget=budget, seed=seed, **more)
    return fit.point, fit.guarantee


def _problem(settings: Settings, what: str, seed: int) -> tuple[Any, Any, FloatArray, FloatArray]:
    n = settings["records"]
    if what == "frank-wolfe":
        X, y = sparse_targets(n, settings["dim_lasso"], seed)
        return losses.Squared(), sets.L1Ball(X.shape[1]), X, y
    X, y = natural(n, settings["dim_pure" if what in PURE else "dim"], seed)
    return losses.Logistic(), sets.L2Ball(X.shape[1], 1.0), X, y


def _idle(settings: Settings, seed: int) -> list[Row]:
    """The excess of the decision 0, which needs no records."""
    rows = []
    for what in NATURAL:
        loss, where, X, y = _problem(settings, what, seed)
        still = len(X) * loss.mean_value(np.zeros(X.shape[1]), X, y)
        rows.append(Row(what, IDLE, None, still - _least(loss, where, X, y), seed))
    return rows


def _natural(settings: Settings, what: str, epsilon: float, seed: int) -> list[Row]:
    n, delta = settings["records"], 0.0 if what in PURE else settings["delta"]
    loss, where, X, y = _problem(settings, what, seed)
    solvers: dict[str, Callable[..., Solved]] = {
        "exponential": _exponential,
        "gradient": _gradient,
        "ftrl": _ftrl,
        "frank-wolfe": _frank_wolfe,
    }
    best = _least(loss, where, X, y)
    rows = []
    for variant in VARIANTS:
        facts = (loss, X, y, variant, epsilon, settings, seed)
        point, guarantee = (
            _objective(*facts, delta) if what.startswith("objective") else solvers[what](*facts)
        )
        excess = max(n * loss.mean_value(point, X, y) - best, GAP)
        rows.append(
            Row(what, variant, epsilon, excess, seed, true_epsilon=guarantee.epsilon(delta))
        )
    return rows


def _least(loss: Any, where: Any, X: FloatArray, y: FloatArray) -> float:
    if isinstance(loss, losses.Squared):
        fit = erm.frank_wolfe(loss, where, X, y, budget=None, steps=1000)
        gap = float(np.min(fit.trace.diagnostics["gap"]))
        return len(X) * (loss.mean_value(fit.point, X, y) - gap)
    return float(losses.best_fixed(where, loss, X, y, gap=GAP).total)


def _hard(settings: Settings, epsilon: float, seed: int) -> list[Row]:
    n, delta, rows = settings["records"], settings["delta"], []
    loss = losses.Linear()
    for panel, dim, kind in (
        ("hard-pure", settings["dim_pure"], "pure"),
        ("hard", settings["dim"], "approximate"),
    ):
        A = hardest(n, dim, lower_bound(n, dim, epsilon, kind), seed)
        total = A.sum(axis=0)
        solved: dict[str, Solved]
        facts = (loss, A, None, OURS, epsilon, settings, seed)
        if kind == "pure":
            solved = {
                "exponential mechanism": _exponential(*facts),
                "objective perturbation": _objective(*facts, 0.0),
            }
        else:
            solved = {
                "gradient descent": _gradient(*facts),
                "FTRL": _ftrl(*facts),
                "objective perturbation": _objective(*facts, delta),
            }
        for series, (point, guarantee) in solved.items():
            excess = float(total @ point + np.linalg.norm(total))
            true = guarantee.epsilon(0.0 if kind == "pure" else delta)
            rows.append(Row(panel, OURS, epsilon, excess, seed, series, true))
    return rows


def measure(settings: Settings, task: Task) -> list[Row]:
    if task["what"] == "bounds":
        return _bounds(settings)
    if task["what"] == "idle":
        return _idle(settings, task["seed"])
    if task["what"] == "hard":
        return _hard(settings, task["epsilon"], task["seed"])
    return _natural(settings, task["what"], task["epsilon"], task["seed"])


def panels(settings: Settings) -> list[Panel]:
    titles = {}
    for what, title in NATURAL.items():
        dim = settings["dim_pure" if what in PURE else "dim"]
        titles[what] = f"{title}, p = {settings['dim_lasso'] if what == 'frank-wolfe' else dim}"
    titles["hard-pure"] = f"hardest data, pure, p = {settings['dim_pure']}"
    titles["hard"] = f"hardest data, p = {settings['dim']}"
    return [Panel(what, title, "epsilon", "excess summed loss") for what, title in titles.items()]


def notes(settings: Settings) -> list[str]:
    return [
        f"n = {settings['records']:,} records; delta = {settings['delta']:g} (0 where pure), zero-out neighbours; "
        f"{settings['seeds']} seeds, each with data of its own",
        "bound: p/epsilon (pure), sqrt(p)/epsilon, n^(1/3)/epsilon^(2/3) (LASSO): "
        "for the hardest data, up to a constant drawn as 1; natural data may be below it",
        "published: printed noise and constants, with at most "
        f"{settings['most_steps']:,} steps of gradient descent where the theorem requires n^2 epsilon^2/p; "
        "corrected: the same, exactly calibrated; ours: the solvers' defaults",
        "Frank-Wolfe's printed noise contains an extra 1/n: "
        "its line is not private in any useful sense, as its true epsilon shows",
        "on the hardest data only our solvers are shown: the printed objective perturbation is not defined "
        "for losses without curvature",
    ]


FIGURE = Figure(NAME, settings, tasks, measure, panels, notes)
