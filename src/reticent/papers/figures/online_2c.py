"""[online], figure 2 (c): accuracy of private online logistic regression on forest cover.

Jain, Kothari and Thakurta, appendix G.2: a tenth of 581,012 records held out, PIGD on the others, mean over runs.
Without the forest cover data, the Shuttle telemetry bundled with River is used instead. The privacy of PIGD rests on a
ridge, so its loss has one (0.005), which the other learners do not need; accuracy is that of the last decision on the
held-out records.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent import losses, online, sets
from reticent.papers.figures import data
from reticent.papers.figures.figure import CORRECTED, OURS, PUBLISHED, Figure, Row, Settings, Task
from reticent.papers.figures.online_2a import by_epsilon
from reticent.plots.panels import Panel
from reticent.privacy import Budget

NAME = "online-2c"
NEGLIGIBLE = 1e6  # an epsilon at which the noise no longer matters
TITLES = {
    "covertype": "forest cover, 54 features",
    "shuttle": "Shuttle (bundled stand-in), 9 features",
}


def settings(full: bool) -> Settings:
    name = data.available("covertype")
    return {
        "revision": 1,
        "data": name,
        "train": 0.9,
        "most": None if full else 200_000,
        "ridge": 0.005,
        "radius": 10.0,
        "delta": 1e-6,
        "epsilons": [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0] if full else [0.1, 1.0, 10.0, 100.0],
        "seeds": 10 if full else 3,
    }


def tasks(settings: Settings) -> list[Task]:
    return by_epsilon(settings, clean=NEGLIGIBLE)


def _learners(settings: Settings, dim: int, common: dict[str, Any]) -> dict[tuple[str, str], Any]:
    ball = sets.L2Ball(dim, settings["radius"])
    curved, plain = losses.Logistic(ridge=settings["ridge"]), losses.Logistic()
    schedules = {PUBLISHED: "published", CORRECTED: "proportional", OURS: "optimal"}
    found: dict[tuple[str, str], Any] = {
        ("PIGD", variant): online.PerturbedIterates(ball, curved, schedule=schedule, **common)
        for variant, schedule in schedules.items()
    }
    found["FTRL", OURS] = online.FollowTheRegularizedLeader(ball, plain, **common)
    return found


def measure(settings: Settings, task: Task) -> list[Row]:
    X, y = data.records(settings["data"])
    seed, epsilon = task["seed"], task["epsilon"]
    order = np.random.default_rng(seed).permutation(len(X))
    cut = int(settings["train"] * len(X))
    train, test = order[:cut][: settings["most"]], order[cut:]
    clean = epsilon == NEGLIGIBLE
    common = {
        "budget": Budget(epsilon, settings["delta"]),
        "horizon": len(train),
        "seed": seed,
        "noise_precision": "float",
    }
    learners = _learners(settings, X.shape[1], common)
    if clean:
        learners = {key: learners[key] for key in (("PIGD", OURS), ("FTRL", OURS))}
    A, b = np.ascontiguousarray(X[train]), y[train]
    rows = []
    for (series, variant), learner in learners.items():
        learner.run(A, b, keep=1, keep_records=False)
        right = 100.0 * float(np.mean(np.sign(X[test] @ learner.decision) == y[test]))
        if clean:
            rows.append(Row("accuracy", "not private", None, right, seed, series))
            continue
        true = learner.guarantee.epsilon(settings["delta"])
        rows.append(Row("accuracy", variant, epsilon, right, seed, series, true))
    share = float(np.mean(y[test] > 0))
    if clean:
        rows.append(Row("accuracy", "the larger class", None, 100 * max(share, 1 - share), seed))
    return rows


def panels(settings: Settings) -> list[Panel]:
    title = TITLES[settings["data"]]
    return [
        Panel("accuracy", title, "epsilon", "accuracy on records held out, %", y_scale="linear")
    ]


def notes(settings: Settings) -> list[str]:
    most = settings["most"]
    words = [
        f"(epsilon, {settings['delta']:g}), zero-out neighbours; "
        f"{settings['seeds']} runs, each with a split of its own",
        "published, corrected and ours of PIGD differ only in the noise: the paper's, the same shape exactly "
        "calibrated, and the shape with the least noise over all decisions together, "
        "which is not the least for the last; "
        "FTRL is the learner to use instead",
        f"'not private' is the same learner at epsilon {NEGLIGIBLE:g}; "
        f"PIGD's ridge of {settings['ridge']:g} costs it accuracy",
    ]
    if most is not None:
        words.append(f"at most {most:,} records to learn from; all with --full")
    return words


FIGURE = Figure(NAME, settings, tasks, measure, panels, notes)
