"""[online], figure 2 (a): average regret of private online linear regression on synthetic data.

Jain, Kothari and Thakurta, *Differentially Private Online Learning*, appendix G.1: d = 10, T = 100,000, alpha = 1,
Gaussian features and targets <g, x*> plus noise of 0.01. Rows are scaled to norm at most 1, which the noise of PQFTL
assumes.

Regret is relative to ridge regression on all records at once, and alpha multiplies every record's loss, so the best
decision is strongly pulled towards 0.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent import losses, online
from reticent.papers.figures.data import FloatArray, shorten
from reticent.papers.figures.figure import (
    CLEAN,
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
from reticent.privacy import Budget, Guarantee
from reticent.sums import Mechanism


@dataclass(frozen=True, kw_only=True)
class NoNoise(Mechanism):
    """A total that adds nothing; pass it as ``total=NoNoise`` to a learner.

    It needs a budget like any other total, since learners choose constants by it, but it protects nothing, and its
    guarantee says so.
    """

    forgets = True

    def __post_init__(self) -> None:
        self._keep(noise_precision="float")
        super().__post_init__()

    def _check_budget(self) -> None:
        pass

    def _scale(self, steps: int | None) -> float:
        return 0.0

    def _guarantee(self) -> Guarantee:
        return Guarantee.none("a total without noise, a baseline")

    def variance(self, t: int, steps: int | None) -> float:
        return 0.0

    def draws(self, steps: int | None, t: int, rows: int) -> int:
        return rows

    def memory(self, steps: int | None) -> dict[str, NDArray[Any]]:
        return {}

    def mix(
        self,
        steps: int | None,
        memory: dict[str, NDArray[Any]],
        fresh: NDArray[Any],
        t: int,
        rows: int,
    ) -> NDArray[Any]:
        fresh[...] = 0.0
        return fresh


NAME = "online-2a"
PLAIN = {"weight": 1.0, "damping": 0.0}
LEARNERS: dict[str, dict[str, Any]] = {
    PUBLISHED: {"calibration": "published", "damping": 0.0},
    CORRECTED: {"total": "tree", **PLAIN},
    OURS: {},
}


def settings(full: bool) -> Settings:
    return {
        "revision": 1,
        "dim": 10,
        "horizon": 100_000,
        "ridge": 1.0,
        "delta": 1e-6,
        "epsilons": [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0] if full else [0.01, 0.1, 1.0, 10.0],
        "seeds": 20 if full else 3,
    }


def by_epsilon(settings: Settings, clean: float | None) -> list[Task]:
    """A task for each seed and epsilon, and one for each seed at the epsilon that stands for no privacy."""
    return [
        {"seed": seed, "epsilon": epsilon}
        for seed in range(settings["seeds"])
        for epsilon in [clean, *settings["epsilons"]]
    ]


def tasks(settings: Settings) -> list[Task]:
    return by_epsilon(settings, clean=None)


@functools.lru_cache(maxsize=2)
def stream(dim: int, horizon: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Features of norm at most 1 and targets within [-1, 1]."""
    rng = np.random.default_rng(seed)
    best = rng.standard_normal(dim)
    best /= np.linalg.norm(best)
    X = shorten(rng.standard_normal((horizon, dim)) / math.sqrt(dim))
    return X, np.clip(X @ best + 0.01 * rng.standard_normal(horizon), -1, 1)


def regrets(
    panel: str, settings: Settings, task: Task, X: FloatArray, y: FloatArray, refresh: int = 1
) -> list[Row]:
    """Average regret of every private learner at one epsilon, or of the learner without noise."""
    loss = losses.Squared(ridge=settings["ridge"])
    best = losses.best_fixed(None, loss, X, y, gap=1e-10).total
    epsilon, seed = task["epsilon"], task["seed"]
    chosen = LEARNERS if epsilon is not None else {CLEAN: {"total": NoNoise, **PLAIN}}
    rows = []
    for variant, more in chosen.items():
        budget = Budget(1.0 if epsilon is None else epsilon, settings["delta"])
        learner = online.QuadraticLeader(
            X.shape[1],
            loss,
            budget=budget,
            horizon=len(X),
            seed=seed,
            refresh=refresh,
            noise_precision="float",
            **more,
        )
        play = learner.run(X, y, keep=1, keep_records=False)
        true = None if epsilon is None else learner.guarantee.epsilon(settings["delta"])
        value = (play.total_loss - best) / len(X)
        rows.append(Row(panel, variant, epsilon, value, seed, true_epsilon=true))
    if epsilon is None:
        still = 0.5 * float(y @ y)  # the loss of the decision 0, which pays nothing for the ridge
        rows.append(Row(panel, IDLE, None, (still - best) / len(X), seed))
    return rows


def measure(settings: Settings, task: Task) -> list[Row]:
    X, y = stream(settings["dim"], settings["horizon"], task["seed"])
    return regrets("synthetic", settings, task, X, y)


def panels(settings: Settings) -> list[Panel]:
    title = f"Gaussian features, d = {settings['dim']}, T = {settings['horizon']:,}"
    return [Panel("synthetic", title, "epsilon", "average regret")]


def notes(settings: Settings) -> list[str]:
    return [
        f"(epsilon, {settings['delta']:g}) for all; zero-out neighbours; "
        f"{settings['seeds']} seeds, each with data of its own",
        "published: the noise of PQFTL's two trees; corrected: the same trees, accounted jointly and exactly; "
        "ours: correlated noise and damping of the first decisions",
        "without learning: the decision 0 throughout, to which the ridge pulls",
        "true epsilon is what the noise really gives: the published amount protects more than claimed",
    ]


FIGURE = Figure(NAME, settings, tasks, measure, panels, notes)
