"""Regret at the same guarantee: the papers' online and bandit learners with their own noise, and ours.

Some published noise protects less than it claims; its true epsilon stands beside it, and a ratio
where that is larger than ours compares unequal guarantees, in the paper's favour.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from table import Mean, Table, of_means, repeat

import reticent
from questions import Run
from reticent import losses, online, sets

QUESTION = 2
DELTA = 1e-6
KINDS = ("private", "clean", "published")


def records(count: int, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    star = np.ones(dim) / math.sqrt(dim)
    A = rng.standard_normal((count, dim)) / math.sqrt(dim)
    A /= np.maximum(1.0, np.linalg.norm(A, axis=1))[:, None]
    response = np.clip(A @ star + 0.01 * rng.standard_normal(count), -1, 1)
    return A, np.where(A @ star + 0.3 * rng.standard_normal(count) > 0, 1.0, -1.0), response


def online_regret(run: Run) -> Table:
    table = Table(
        "online_regret", QUESTION, "Online learners",
        ["learner", "ε", "ours", "published", "true ε of the published", "published / ours"],
        "Regret per record against the best fixed decision, d = 10, δ = 10⁻⁶, zero-out. Above 1 "
        "ours is better.",
        settings=["PQFTL: squared loss, ridge 1. PIGD: logistic loss, ridge 0.05, radius 5. "
                  "Window learner (WDP-COCOP): logistic loss, ridge 0.5, "
                  "radius 1, window 64. Published: the printed noise and schedule, with no tuning of our own."],
    )  # fmt: skip
    steps, dim = run.choose(10_000, 100_000), 10
    squared, stable, strong = (
        losses.Squared(ridge=1.0),
        losses.Logistic(ridge=0.05),
        losses.Logistic(ridge=0.5),
    )
    wide, unit = sets.L2Ball(dim, 5.0), sets.L2Ball(dim, 1.0)

    def pair(name: str, budget: reticent.Budget, seed: int) -> tuple[Any, Any]:
        common: dict[str, Any] = {"budget": budget, "seed": seed, "noise_precision": "float"}
        if name == "PQFTL":
            return tuple(
                online.QuadraticLeader(dim, squared, horizon=steps, **more, **common)
                for more in ({}, {"calibration": "published", "damping": 0.0})
            )
        if name == "PIGD":
            return tuple(
                online.PerturbedIterates(wide, stable, horizon=steps, **more, **common)
                for more in ({}, {"schedule": "published"})
            )
        common["budget"] = budget.with_(window=64)
        return tuple(
            online.FollowTheApproximateLeader(unit, strong, **more, **common)
            for more in ({}, {"calibration": "published", "anchor": 0.0})
        )

    kinds = {"PQFTL": (None, squared), "PIGD": (wide, stable), "window learner": (unit, strong)}
    for name, (where, loss) in kinds.items():
        for epsilon in (0.1, 1.0, 10.0):
            budget = reticent.Budget(epsilon, DELTA)

            def sample(
                seed: int,
                name: str = name,
                where: Any = where,
                loss: Any = loss,
                budget: reticent.Budget = budget,
            ) -> dict[str, float]:
                A, signs, response = records(steps, dim, seed)
                y = response if name == "PQFTL" else signs
                best = losses.best_fixed(where, loss, A, y, gap=1e-8).total
                mine, theirs = (
                    (learner.run(A, y, keep=1, keep_records=False).total_loss - best) / steps
                    for learner in pair(name, budget, seed)
                )
                return {"ours": mine, "published": theirs}

            found = repeat(
                sample, [("published", "ours")], least=run.choose(4, 10), most=40, seconds=run.choose(None, 300)
            )  # fmt: skip
            truth = pair(name, budget, 0)[1].guarantee.epsilon(DELTA)
            share = of_means(found["published"], found["ours"])
            table.add(name, epsilon, *(Mean.of(v) for v in found.values()), truth, share)
    return table


def bandit_plays(run: Run) -> Table:
    from bandit_regret import LEARNERS, SETS, World

    table = Table(
        "bandit_plays", QUESTION, "The private bandit",
        ["set", "dimension", "plays", "ours", "not private", "published", "published / ours", "ours / not private"],
        "Regret on linear losses relative to standing still at the center (1 means that nothing was learnt); "
        "ε = 1, δ = 10⁻⁶.",
    )  # fmt: skip
    for name in ("l1", "simplex"):
        for dim in run.choose((2,), (2, 10)):
            convex = SETS[name](dim)
            for steps in run.choose((2**12, 2**14), (2**12, 2**14, 2**16, 2**18)):

                def sample(seed: int, convex: Any = convex, steps: int = steps) -> dict[str, float]:
                    world = World(convex, "linear", steps, 1000 + seed)
                    return {kind: world.regret(LEARNERS[kind]) for kind in KINDS}

                pairs = [("published", "private"), ("private", "clean")]
                found = repeat(sample, pairs, least=6, most=200, seconds=run.choose(None, 600))
                shares = [of_means(found[a], found[b]) for a, b in pairs]
                table.add(name, dim, steps, *(Mean.of(v) for v in found.values()), *shares)
    return table
