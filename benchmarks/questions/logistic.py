"""Logistic regression at the same guarantee: ours per solver, diffprivlib, and DP-SGD of Opacus tuned on a grid.

Rows of norm one, a quarter of the records held out, a new split and new noise for each seed, the same for all.

The peers are tuned on the held-out records of the first seeds, which costs them no privacy here and
would in earnest; ours runs at its defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from peers.client import Peer
from table import Mean, Table, of_means, repeat

import reticent
from questions import Run
from questions.data import Missing, classification, split
from reticent import erm, losses, sets

QUESTION = 2
EPSILONS = (0.1, 1.0, 8.0)
DELTA = 1e-5
LARGE = 30_000
TUNED_ON = 2
SOLVERS = {
    "objective": erm.objective_perturbation,
    "gradient": erm.gradient_descent,
    "output": erm.output_perturbation,
}


def names(run: Run) -> tuple[str, ...]:
    return ("breast_cancer", "digits", "synthetic", *run.choose((), ("adult", "a9a", "covertype")))


def seeds_for(run: Run, count: int) -> tuple[int, int]:
    """At least, and at most where the ratio has not settled."""
    if count < LARGE:
        return run.choose((6, 40), (10, 100))
    return run.choose((3, 3), (10, 10))


def arrays(X: np.ndarray, y: np.ndarray, seeds: int) -> dict[str, np.ndarray]:
    found = {"X": X, "y": y}
    for seed in range(seeds):
        found[f"train{seed}"], found[f"test{seed}"] = split(len(y), seed)
    return found


Predict = Callable[[np.ndarray], np.ndarray]


def by_estimator(budget: reticent.Budget, A: np.ndarray, b: np.ndarray, seed: int) -> Predict:
    """What a user would call, at its defaults; that there are two classes is public."""
    model = reticent.PrivateLogisticRegression(
        budget.epsilon, budget.delta, neighbours=budget.neighbours, classes=(-1.0, 1.0), random_state=seed
    )  # fmt: skip
    return model.fit(A, b).predict


def by_solver(
    solve: Any, budget: reticent.Budget, A: np.ndarray, b: np.ndarray, seed: int
) -> Predict:
    point = solve(losses.Logistic(), None, A, b, budget=budget, seed=seed).point
    return lambda X: np.sign(X @ point)


def ways(budget: reticent.Budget) -> dict[str, Callable[..., Predict]]:
    """A rule from records, labels and a seed, by each of ours; the first is the one compared."""
    solvers = {name: partial(by_solver, solve, budget) for name, solve in SOLVERS.items()}
    return {"estimator": partial(by_estimator, budget)} | solvers


def ceiling(X: np.ndarray, y: np.ndarray) -> float:
    scores = []
    for seed in range(2):
        train, test = split(len(y), seed)
        where, ridge = sets.L2Ball(X.shape[1], 100.0), losses.Logistic(ridge=1e-6)
        best = losses.best_fixed(where, ridge, X[train], y[train], gap=1e-3, time_limit=60.0)
        scores.append(float(np.mean(np.sign(X[test] @ best.point) == y[test])))
    return float(np.mean(scores))


Asked = Callable[[dict[str, Any], int], float]


def tuned(score: Asked, grid: list[dict[str, Any]], seeds: int) -> dict[str, Any]:
    """The setting that is best on the held-out records of the first seeds."""
    few = range(min(TUNED_ON, seeds))
    return max(grid, key=lambda setting: np.mean([score(setting, seed) for seed in few]))


def opacus_grid(run: Run) -> list[dict[str, Any]]:
    if run.full:
        shapes = ((1.0, 10), (1.0, 30), (1.0, 100), (0.1, 100), (0.1, 300), (0.02, 300))
        rates, clips = (0.25, 1.0, 4.0, 16.0), (0.05, 0.1, 0.3, 1.0)
    else:
        shapes, rates, clips = ((1.0, 30), (0.1, 100)), (0.5, 4.0), (0.1, 1.0)
    return [
        {"rate": rate, "steps": steps, "lr": lr, "clip": clip, "intercept": False}
        for (rate, steps), lr, clip in product(shapes, rates, clips)
    ]


def compared(
    run: Run,
    table: Table,
    peer: Peer,
    grid: list[dict[str, Any]],
    budget: Callable[[float], reticent.Budget],
) -> Table:
    for name in names(run):
        try:
            X, y = classification(name)
        except Missing as missing:
            table.settings.append(f"{name} is left out: {missing}")
            continue
        least, most = seeds_for(run, len(y))
        path = peer.put(name, **arrays(X, y, most))
        best = ceiling(X, y)
        for epsilon in EPSILONS:
            limit = budget(epsilon)
            fixed = {"data": path, "epsilon": epsilon}
            if limit.delta:
                fixed["delta"] = limit.delta

            def score(setting: dict[str, Any], seed: int, fixed: Any = fixed) -> float:
                asked = fixed | setting | {"seed": seed, "train": str(seed)}
                return peer.ask("logistic", **asked)["accuracy"]

            mine = ways(limit)
            setting = tuned(score, grid, least)

            def sample(
                seed: int,
                X: Any = X,
                y: Any = y,
                mine: Any = mine,
                score: Any = score,
                setting: Any = setting,
            ) -> dict[str, float]:
                train, test = split(len(y), seed)
                found = {"peer": score(setting, seed)}
                for way, solve in mine.items():
                    right = solve(X[train], y[train], seed)(X[test]) == y[test]
                    found[way] = float(np.mean(right))
                return found  # fmt: skip

            default = next(iter(mine))
            found = repeat(
                sample, [(default, "peer")], least=least, most=most, seconds=run.choose(None, 3600)
            )
            words = ", ".join(f"{k} {v:g}" for k, v in setting.items() if k != "intercept")
            words += ", intercept" if setting["intercept"] else ""
            cells = [Mean.of(found[way]) for way in mine]
            share = of_means(found[default], found["peer"])
            table.add(name, epsilon, best, *cells, Mean.of(found["peer"]), words, share)
            print(f"  {name} {epsilon:g}", flush=True)
    return table


COLUMNS = ["data", "ε", "not private", "our estimator", *(f"our {name}" for name in SOLVERS)]
READING = (
    "Accuracy on held-out records. Ours run with their defaults: the estimator `PrivateLogisticRegression`, and the "
    "solvers of `reticent.erm` without an intercept. The last column compares the estimator with the peer: above 1 "
    "ours is more accurate."
)


def logistic_pure(run: Run) -> Table:
    table = Table(
        "logistic_pure", QUESTION, "Logistic regression, δ = 0, compared with diffprivlib",
        [*COLUMNS, "diffprivlib", "its setting", "ours / diffprivlib"],
        "Neighbours differ by replacing one record, diffprivlib's relation. " + READING,
        settings=["diffprivlib: the best of C = 1, 100, each with and without an intercept, "
                  "`data_norm=1`, at most 1000 iterations."],
    )  # fmt: skip
    grid = [{"C": C, "intercept": b} for C, b in product((1.0, 100.0), (False, True))]
    peer = run.peer("diffprivlib")
    return compared(run, table, peer, grid, lambda e: reticent.Budget(e, 0.0, "replace"))


def logistic_approximate(run: Run) -> Table:
    table = Table(
        "logistic_approximate", QUESTION, "Logistic regression, δ = 10⁻⁵, compared with DP-SGD of Opacus",
        [*COLUMNS, "Opacus", "its setting", "ours / Opacus"],
        "Our neighbours blank one record (zero-out); those of Opacus leave it out of a Poisson sample. " + READING,
        settings=[
            f"Opacus: the best of {len(opacus_grid(run))} settings (sampling rate and steps, "
            f"learning rate, clipping norm), momentum 0.9, start at 0, "
            "noise by its PRV accountant to within half a percent of ε.",
        ],
    )  # fmt: skip
    peer = run.peer("opacus")
    return compared(run, table, peer, opacus_grid(run), lambda e: reticent.Budget(e, DELTA))
