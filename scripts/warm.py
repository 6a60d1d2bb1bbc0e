"""Compile the loops of the usual learners and solvers, so that the first call of a fresh process is quick.

A loop is compiled for the rule, the set and the loss that are asked for; other combinations are compiled at their
first use. :mod:`reticent.compiling` says where the caches are kept.
"""

from __future__ import annotations

import time

import numpy as np

import reticent
from reticent import bandit, compiling, erm, losses, online, sets, sums
from reticent.estimators import river


def totals() -> None:
    """Every running total, in both precisions, with every number of buffers that the shipped filters have."""
    pure, approximate = reticent.Budget(1.0), reticent.Budget(1.0, 1e-6)
    rows = np.ones((3, 2))
    for precision in ("lattice", "float"):
        common = {"noise_precision": precision, "seed": 0}
        made = [
            sums.Independent(2, budget=approximate, **common),
            sums.Independent(2, budget=pure, noise="laplace", **common),
            sums.Tree(2, 8, budget=approximate, **common),
            sums.Tree(2, 8, budget=approximate, estimator="plain", **common),
            sums.Tree(2, 8, budget=pure, noise="gamma", **common),
            sums.WindowTree(2, budget=approximate.with_(window=2), **common),
        ]
        made += [
            sums.Correlated(2, horizon, budget=approximate, **common)
            for horizon in (8, 64, 256, 1024, 2**14, 2**17, 2**20, 2**22)
        ]
        made += [
            sums.Correlated(2, budget=approximate.with_(window=window), **common)
            for window in (2, 64, 1024, 2**14, 2**16, 2**20)
        ]
        for total in made:
            total.run(rows)
            total.add(rows[0])


def choices() -> None:
    reticent.noise.exponential_mechanism([0.0, 1.0], sensitivity=1.0, epsilon=1.0)


def learners() -> None:
    """The loops of the online learners."""
    rows, labels = np.full((3, 2), 0.5), np.array([1.0, -1.0, 1.0])
    budget = reticent.Budget(1.0, 1e-6)
    for precision in ("lattice", "float"):
        leader = online.FollowTheRegularizedLeader(
            sets.L2Ball(2), losses.Logistic(), budget=budget, horizon=5, noise_precision=precision
        )
        leader.run(rows, labels)
        leader.update(rows[0])
        leader.observe((rows[0], 1.0))
        online.FollowTheApproximateLeader(
            sets.L1Ball(2), losses.Logistic(ridge=0.1), budget=budget, horizon=3,
            step="local-linear", noise_precision=precision,
        ).run(rows, labels)  # fmt: skip


def twins() -> None:
    """What a stream calls for each of its events, and for a table of them."""
    rows = np.full((2, 2), 0.5)
    reticent.OnlineLogisticRegression().partial_fit(rows, [0, 1], classes=[0, 1])
    reticent.OnlineLinearRegression().partial_fit(rows, [0.0, 1.0])
    for kind, label in (
        (river.OnlineLogisticRegression, True),
        (river.OnlineLinearRegression, 0.5),
    ):
        twin = kind(features=["a", "b"])
        twin.learn_one({"a": 0.1, "b": 0.2}, label)
        twin.predict_one({"a": 0.1})
        if label is True:
            twin.predict_proba_one({"a": 0.1})


def solvers() -> None:
    """One fit of each kind, and one play of the bandit."""
    rng = np.random.default_rng(0)
    A, y = rng.uniform(-0.5, 0.5, (30_000, 3)), rng.choice((-1.0, 1.0), 30_000)
    erm.objective_perturbation(losses.Logistic(), None, A, y, budget=reticent.Budget(1.0, 1e-6))
    A, y = A[:300], y[:300]  # small tables have loops of their own
    for budget in (reticent.Budget(1.0), reticent.Budget(1.0, 1e-6)):
        erm.objective_perturbation(losses.Logistic(), None, A, y, budget=budget)
        erm.gradient_descent(losses.Logistic(), sets.L2Ball(3), A, y, budget=budget, steps=2)
        erm.frank_wolfe(losses.Squared(), sets.L1Ball(3), A, y, budget=budget, steps=2)
    player = bandit.ProjectionFreeBandit(sets.L1Ball(3), reticent.Budget(1.0, 1e-6), 1.0, 100)
    player.ask()
    player.tell(0.5)


if __name__ == "__main__":
    start = time.perf_counter()
    compiling.compile_at_once()
    totals()
    choices()
    learners()
    twins()
    solvers()
    print(f"compiled in {time.perf_counter() - start:.0f} s")
