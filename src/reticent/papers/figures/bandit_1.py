"""[bandit], theorem 1: measured regret of private bandits against the number of plays.

Ene, Nguyen and Vladu, *Projection-Free Bandit Optimization with Privacy Guarantees*, print no numbers; their theorem
bounds the regret by T^(3/4) up to logarithms. Losses here: linear, of norm 1, random around a fixed mean direction; and
quadratic, (1/2D) |x - center|^2 around a center that moves in circles.

Regret is shown relative to that of staying at the center, so a value near 1 is a learner that has not started to learn;
its exponent is then near 1 whatever the theorem says about long horizons.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from reticent import bandit, losses, sets
from reticent.bandit.geometry import survey
from reticent.papers.figures.data import FloatArray
from reticent.papers.figures.figure import (
    CLEAN,
    CORRECTED,
    OURS,
    PUBLISHED,
    Figure,
    MeanOverSeeds,
    Row,
    Settings,
    Task,
)
from reticent.plots.panels import Panel, label
from reticent.privacy import Budget

NAME = "bandit-1"
APPROXIMATE, PURE, MIDDLE = "", "pure", "paper's centring"
# (kind of guarantee, variant): the learner's options in addition to its budget
LEARNERS: dict[tuple[str, str], dict[str, Any]] = {
    (APPROXIMATE, PUBLISHED): {"calibration": "published"},
    (APPROXIMATE, CORRECTED): {"total": "tree", "centring": "middle"},
    (APPROXIMATE, OURS): {},
    (PURE, PUBLISHED): {"calibration": "published"},
    (PURE, OURS): {},
    (APPROXIMATE, CLEAN): {},
    (MIDDLE, CLEAN): {"centring": "middle"},
}
FIRST_SEED = 1000  # the learners' own constants were chosen on seeds 0, 1 and 2
LATER = 2**12  # exponents are fitted from here on


def two_lanes(n: int) -> sets.FlowPolytope:
    """A road of two lanes that may be changed at every crossing except the first; it has n free dimensions."""
    layers = n // 2 + 1
    edges: list[tuple[Any, Any]] = [("start", (0, lane)) for lane in range(2)]
    for layer in range(layers - 1):
        pairs = itertools.product(range(2), range(2))
        edges += [
            ((layer, a), (layer + 1, b)) for a, b in pairs if layer or n % 2 or (a, b) != (0, 1)
        ]
    edges += [((layers - 1, lane), "goal") for lane in range(2)]
    return sets.FlowPolytope(edges, "start", "goal")


def bridgeless(n: int) -> sets.SpanningTreePolytope:
    """The spanning trees of a graph with n + 1 edges and no bridge."""
    nodes = {2: 3, 10: 6, 50: 10}[n]
    edges = list(itertools.combinations(range(nodes), 2))
    if n == 10:
        edges = [edge for edge in edges if edge not in ((0, 2), (0, 3), (1, 4), (2, 5))]
    return sets.SpanningTreePolytope(edges + edges[: n + 1 - len(edges)])


SETS: dict[str, Any] = {
    "l1 ball": sets.L1Ball,
    "simplex": lambda n: sets.Simplex(n + 1),
    "flows": two_lanes,
    "spanning trees": bridgeless,
}


def linear(convex: Any, plays: int, rng: np.random.Generator) -> tuple[FloatArray, Any, Any]:
    """Linear costs: the vectors, the loss, and the range of its values."""
    geometry = survey(convex, True)
    n = geometry.dim
    mean = rng.standard_normal(n)
    rows = mean / np.linalg.norm(mean) + rng.standard_normal((plays, n)) / np.sqrt(n)
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    center = geometry.center if geometry.basis is None else geometry.basis.T @ geometry.center
    largest = geometry.reach + float(np.linalg.norm(center))
    return geometry.lift(rows), losses.Linear(), (-largest, largest)


def drifting(convex: Any, plays: int, rng: np.random.Generator) -> tuple[FloatArray, Any, Any]:
    """Quadratic costs: the moving centers, the loss, and the range of its values."""
    corners = [convex.linear_minimizer(g) for g in rng.standard_normal((3, convex.dim))]
    center = convex.center
    angle = 2 * np.pi * 16 * np.arange(plays)[:, None] / plays
    ring = np.cos(angle) * (corners[1] - center) + np.sin(angle) * (corners[2] - center)
    rows = center + 0.6 * (corners[0] - center) + 0.2 * ring
    return rows, losses.Quadratic(1.0 / convex.diameter), (0.0, 0.5 * convex.diameter)


LOSSES = {"linear": linear, "quadratic": drifting}


def settings(full: bool) -> Settings:
    return {
        "revision": 1,
        "sets": list(SETS) if full else ["l1 ball", "simplex"],
        "dims": [2, 10, 50] if full else [2, 10],
        "losses": list(LOSSES),
        "horizons": [2**k for k in range(10, 21 if full else 17, 2)],
        "epsilon": 1.0,
        "delta": 1e-6,
        "seeds": 5 if full else 3,
    }


def tasks(settings: Settings) -> list[Task]:
    found = [
        {"set": name, "dim": dim, "loss": loss, "seed": FIRST_SEED + seed, "horizon": horizon}
        for horizon in settings["horizons"]
        for name in settings["sets"]
        for dim in settings["dims"]
        for loss in settings["losses"]
        for seed in range(settings["seeds"])
    ]
    return found[::-1]


def total_loss(rows: FloatArray, loss: Any, x: FloatArray) -> float:
    if isinstance(loss, losses.Linear):
        return float(rows.sum(axis=0) @ x)
    return 0.5 * loss.scale * float(np.sum((rows - x) ** 2))


def measure(settings: Settings, task: Task) -> list[Row]:
    convex = SETS[task["set"]](task["dim"])
    plays, seed = task["horizon"], task["seed"]
    rng = np.random.default_rng([seed, convex.dim])  # the same losses at every length
    rows, loss, values = LOSSES[task["loss"]](convex, plays, rng)
    panel = f"{task['set']}/{task['dim']}/{task['loss']}"
    best: float | None = None
    found = []
    for (series, variant), more in LEARNERS.items():
        delta = 0.0 if series == PURE else settings["delta"]
        asked: dict[str, Any] = {"budget": Budget(settings["epsilon"], delta)}
        if variant == CLEAN:
            asked = {"private": False}
        learner = bandit.ProjectionFreeBandit(
            convex,
            lipschitz=1.0,
            values=values,
            horizon=plays,
            seed=seed,
            noise_precision="float",
            **asked,
            **more,
        )
        play = learner.run(rows, loss=loss, keep=2)
        if best is None:
            comparator: Any = play.comparator
            best = total_loss(rows, loss, comparator.point())
        still = total_loss(rows, loss, convex.center) - best
        true = None if variant == CLEAN else learner.guarantee.epsilon(delta)
        relative = (play.total_loss - best) / still
        found.append(Row(panel, variant, float(plays), relative, seed, series, true))
    return found


def exponent(horizons: list[float], relative: list[float]) -> float:
    """Slope of the logarithm of the regret against that of T, over the later horizons.

    Examples
    --------
    >>> T = [2.0**k for k in range(12, 17)]
    >>> round(exponent(T, [t**-0.25 for t in T]), 6)
    0.75
    """
    later = [(T, v) for T, v in zip(horizons, relative, strict=True) if T >= LATER and v > 0]
    if len(later) < 2:
        return float("nan")
    T, v = np.array(later).T
    return 1.0 + float(np.polyfit(np.log(T), np.log(v), 1)[0])


def panels(settings: Settings) -> list[Panel]:
    return [
        Panel(f"{name}/{dim}/{loss}", f"{name}, n = {dim}, {loss}", "plays T",
              "regret, standing still = 1", x_base=2.0)
        for loss in settings["losses"] for name in settings["sets"] for dim in settings["dims"]
    ]  # fmt: skip


def notes(settings: Settings) -> list[str]:
    return [
        f"epsilon = {settings['epsilon']:g}, delta = {settings['delta']:g} (0 where pure), "
        f"zero-out neighbours; {settings['seeds']} seeds",
        "regret of a play relative to that of standing still at the center: 1 means that nothing was learnt; "
        "the theorem's T^(3/4) is a slope of -1/4 here",
        "published: the paper's noise and constants, with its sign corrected; "
        "corrected: its tree and centring, exact noise; "
        "ours: correlated noise, and a baseline for the values that is learnt privately; "
        "'not private, paper's centring' is the learner of Garber and Kretzu",
    ]


def findings(summaries: list[MeanOverSeeds]) -> list[str]:
    """One sentence per learner: its exponents of the regret over the later horizons, over all panels."""
    found: dict[tuple[str, str], list[float]] = {}
    for panel in dict.fromkeys(one.panel for one in summaries):
        for key in LEARNERS:
            line = sorted(
                (one.x, one.mean)
                for one in summaries
                if one.panel == panel and (one.series, one.variant) == key and one.x is not None
            )
            slope = exponent([x for x, _ in line], [mean for _, mean in line])
            if slope == slope:  # NaN if the runs are too short
                found.setdefault(key, []).append(slope)
    return [
        f"exponent of the regret over T >= {LATER}, {label(*key)}: {np.mean(slopes):.2f} on average "
        f"({min(slopes):.2f} .. {max(slopes):.2f}); the theorem's is 0.75"
        for key, slopes in found.items()
    ]


FIGURE = Figure(NAME, settings, tasks, measure, panels, notes, findings)
