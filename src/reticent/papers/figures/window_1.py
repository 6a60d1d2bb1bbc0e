"""[window], table I: measured regret of seven private online learners against the horizon and the window.

Lou and Cheung's table compares bounds; here every row is run on one problem that all of them can solve: squared losses
with a ridge over an l1 ball, which has a projection and a local linear minimiser.

The first three rows protect a record for ever and the others for W decisions, so at equal epsilon their guarantees
differ. The growth of the bounds is asymptotic: if the noise is as large as the set, regret is almost linear whatever
the bound says.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from reticent import losses, online, sets
from reticent.papers.figures.data import FloatArray, shorten
from reticent.papers.figures.figure import (
    CORRECTED,
    OURS,
    PUBLISHED,
    Figure,
    MeanOverSeeds,
    Row,
    Settings,
    Task,
)
from reticent.plots.panels import Panel
from reticent.privacy import Budget

NAME = "window-1"
ROWS = {
    "pocg": "POCG, two projections",
    "pqftl": "PQFTL, linear equation",
    "pftal": "PFTAL, pure, projection",
    "project-pure": "window, pure, projection",
    "project": "window, projection",
    "linear-pure": "window, pure, linear oracle",
    "linear": "window, linear oracle",
}
BOUNDS = {
    "pocg": "sqrt(T) ln^2(T/delta)",
    "pqftl": "ln^1.5 T",
    "pftal": "ln^2.5 T",
    "project-pure": "log^1.5(W) ln T",
    "project": "log^1.5(W) ln T",
    "linear-pure": "log^1.5(W) ln T",
    "linear": "log^1.5(W) ln T",
}
VARIANTS = (PUBLISHED, CORRECTED, OURS)


def settings(full: bool) -> Settings:
    return {
        "revision": 1,
        "dim": 5,
        "ridge": 0.5,
        "epsilon": 1.0,
        "delta": 1e-6,
        "window": 64,
        "horizons": [2**k for k in range(8, 19 if full else 16)],
        "windows": [2**k for k in range(2, 15 if full else 13, 1 if full else 2)],
        "seeds": 20 if full else 5,
    }


def tasks(settings: Settings) -> list[Task]:
    longest = settings["horizons"][-1]
    found = [
        {"seed": seed, "horizon": horizon, "window": settings["window"], "against": "T"}
        for horizon in settings["horizons"]
        for seed in range(settings["seeds"])
    ]
    found += [
        {"seed": seed, "horizon": longest, "window": window, "against": "W"}
        for window in settings["windows"]
        for seed in range(settings["seeds"])
    ]
    return found[::-1]  # the longest first, so that no core waits for one of these at the end


@functools.lru_cache(maxsize=2)
def stream(dim: int, horizon: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Features of norm at most 1, targets from a sparse decision on the boundary of the set."""
    rng = np.random.default_rng(seed)
    X = shorten(rng.standard_normal((horizon, dim)) / math.sqrt(dim))
    star = np.zeros(dim)
    star[:2] = (0.7, -0.3)
    return X, np.clip(2.0 * X @ star + 0.1 * rng.standard_normal(horizon), -1, 1)


def learner(
    row: str, variant: str, settings: Settings, horizon: int, window: int, seed: int
) -> Any:
    """A row of the table in one of its three variants."""
    ball = sets.L1Ball(settings["dim"], 1.0)
    loss = losses.Squared(ridge=settings["ridge"])
    epsilon, delta = settings["epsilon"], settings["delta"]
    common: dict[str, Any] = {"horizon": horizon, "seed": seed, "noise_precision": "float"}
    ever = Budget(epsilon, delta)
    if row == "pocg":
        schedule = {PUBLISHED: "published", CORRECTED: "proportional", OURS: "optimal"}[variant]
        inner = online.GradientDescent()
        return online.PerturbedIterates(
            ball, loss, inner=inner, schedule=schedule, budget=ever, **common
        )
    if row == "pqftl":
        more: dict[str, Any] = {
            PUBLISHED: {"calibration": "published", "damping": 0.0},
            CORRECTED: {"total": "tree", "weight": 1.0, "damping": 0.0},
            OURS: {},
        }[variant]
        return online.QuadraticLeader(ball, loss, budget=ever, **more, **common)
    pure = row in ("pftal", "project-pure", "linear-pure")
    # PFTAL is the window learner whose window is the whole stream
    protected = horizon if row == "pftal" else window
    budget = Budget(epsilon, 0.0 if pure else delta, window=protected)
    more = {}
    if row.startswith("linear"):
        more["step"] = "local-linear"
        if variant == PUBLISHED:
            more["constants"] = "published"
    if variant == PUBLISHED:
        more |= {"calibration": "published", "anchor": 0.0}
    elif variant == CORRECTED:
        more |= {"total": "window-tree", "anchor": 0.0}
    return online.FollowTheApproximateLeader(ball, loss, budget=budget, **more, **common)


def measure(settings: Settings, task: Task) -> list[Row]:
    horizon, window, seed = task["horizon"], task["window"], task["seed"]
    X, y = stream(settings["dim"], horizon, seed)
    loss, ball = losses.Squared(ridge=settings["ridge"]), sets.L1Ball(settings["dim"], 1.0)
    best = losses.best_fixed(ball, loss, X, y, gap=1e-6 * horizon).total
    against = task["against"]
    x = float(horizon if against == "T" else window)
    found = []
    for row in (
        ROWS
        if against == "T"
        else [name for name in ROWS if name.startswith(("project", "linear"))]
    ):
        for variant in VARIANTS:
            made = learner(row, variant, settings, horizon, window, seed)
            play = made.run(X, y, keep=1, keep_records=False)
            delta = 0.0 if "pure" in row or row == "pftal" else settings["delta"]
            true = made.guarantee.epsilon(delta)
            regret = play.total_loss - best
            found.append(Row(f"{row}/{against}", variant, x, regret, seed, true_epsilon=true))
    return found


def panels(settings: Settings) -> list[Panel]:
    horizons, windows = settings["horizons"], settings["windows"]
    found = [
        Panel(f"{row}/T", f"{title}\nbound: {BOUNDS[row]}", "horizon T", "regret", x_base=2.0)
        for row, title in ROWS.items()
    ]
    longest = int(math.log2(horizons[-1]))
    found += [
        Panel(f"{row}/W", f"{title}\nT = 2^{longest}", "window W", "regret", x_base=2.0)
        for row, title in ROWS.items()
        if row.startswith(("project", "linear")) and windows
    ]
    return found


def notes(settings: Settings) -> list[str]:
    return [
        f"epsilon = {settings['epsilon']:g}, delta = {settings['delta']:g} (0 where pure), "
        "zero-out neighbours; squared losses with "
        f"ridge {settings['ridge']:g} over the l1 ball, dimension {settings['dim']}; {settings['seeds']} seeds; "
        f"W = {settings['window']} in the panels against T",
        "published: the paper's noise (and, for the linear oracle, its constants), with corrected update and "
        "direction, since as printed regret is linear; corrected: the same mechanisms, exactly calibrated; "
        "ours: the defaults",
        "the published Gamma noise (pure) assumes a sensitivity of L + mu D, which is more than zero-out needs and "
        "may be less than replacement needs; true epsilon is under zero-out",
    ]


def findings(summaries: list[MeanOverSeeds]) -> list[str]:
    """One sentence per row: its regret at the longest horizon, and the exponent over the last doubling."""
    words = []
    for row, title in ROWS.items():
        parts = []
        for variant in VARIANTS:
            line = sorted(
                (one.x, one.mean)
                for one in summaries
                if one.panel == f"{row}/T" and one.variant == variant and one.x is not None
            )
            if len(line) > 1 and min(line[-1][1], line[-2][1]) > 0:
                (before, first), (after, last) = line[-2:]
                growth = math.log(last / first) / math.log(after / before)
                parts.append(f"{variant} {last:.4g} (T^{growth:.2f})")
        if parts:
            words.append(f"{title}, at the longest horizon and growing like: {', '.join(parts)}")
    return words


FIGURE = Figure(NAME, settings, tasks, measure, panels, notes, findings)
