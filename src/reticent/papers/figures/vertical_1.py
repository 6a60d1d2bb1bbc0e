"""[vertical], table 1 and corollary 1: block Frank-Wolfe under five samplings, and the parties' traffic.

Lou and Cheung, *Uplink Communication Efficient Differentially Private Sparse Optimization with Feature-wise Distributed
Data*: the bound of Theorem 1 with each row's p_min and expected curvature, and the measured gap; bytes from the parties
to the server against the number of records; error against epsilon.

Table 1 is about a product of sets and no privacy. The l1 ball of the paper's LASSO is not a product; "published" and
"corrected" solve the product of smaller balls in it, "ours" the ball.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reticent import losses, sets, vertical
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
from reticent.privacy import Budget

NAME = "vertical-1"
ONE_SHOT, COLUMNS = "every feature sketched once", "all columns"
SEARCH = "line search"
SAMPLINGS = {
    "elementary": "elementary: all blocks",
    "serial": "uniform serial: one block",
    "nice": "tau-nice",
    "distributed": "(K, tau)-distributed",
    "arbitrary": "arbitrary: by importance",
}
WIDE = 8  # bytes per number
GAP = 1e-9  # precision of the least mean loss; smaller gaps are not shown


class PrintedDistributed(vertical.Distributed):
    """Distributed sampling with table 1's p_min, (K tau)^2 / d^2, which is the square of the correct value."""

    def p_min(self, blocks: int) -> float:
        return super().p_min(blocks) ** 2


def settings(full: bool) -> Settings:
    return {
        "revision": 1,
        "blocks": 24,
        "parties": 4,
        "tau": 3,
        "rate_records": 200,
        "steps": 20_000 if full else 1_000,
        "records": 10_000 if full else 2_000,
        "seeds": 10 if full else 3,
        "sizes": [1_000, 4_000, 16_000, 64_000] if full else [1_000, 3_000, 10_000],
        "widths": [24, 240],
        "epsilon": 1.0,
        "delta": 1e-6,
        "epsilons": [0.3, 1.0, 3.0, 10.0, 30.0] if full else [1.0, 3.0, 10.0],
        "distortion": 0.2,
    }


def tasks(settings: Settings) -> list[Task]:
    seeds = range(settings["seeds"])
    found: list[Task] = [
        {"what": "rate", "sampling": name, "seed": seed} for name in SAMPLINGS for seed in seeds
    ]
    found += [
        {"what": "bytes", "records": n, "columns": columns}
        for n in settings["sizes"]
        for columns in settings["widths"]
    ]
    found += [
        {"what": "error", "epsilon": epsilon, "seed": seed}
        for epsilon in settings["epsilons"]
        for seed in seeds
    ]
    return found[::-1]


def table(records: int, columns: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Features of size 1, and targets that depend on three of them, held by three different parties."""
    rng = np.random.default_rng([seed, columns])
    A = rng.choice([-1.0, 1.0], size=(records, columns))
    third = columns // 3
    target = 0.5 * A[:, 0] - 0.3 * A[:, third] + 0.2 * A[:, 2 * third]
    return A, np.clip(target + 0.1 * rng.standard_normal(records), -1, 1)


def _sampling(name: str, settings: Settings) -> Any:
    blocks, parties, tau = settings["blocks"], settings["parties"], settings["tau"]
    weights = np.linspace(1.0, 3.0, blocks)
    made: dict[str, Any] = {
        "elementary": vertical.Elementary(),
        "serial": vertical.UniformSerial(),
        "nice": vertical.TauNice(parties * tau),
        "distributed": vertical.Distributed(parties, tau),
        "arbitrary": vertical.Importance(tuple(weights / weights.sum())),
    }
    return made[name]


def _rate(settings: Settings, name: str, seed: int) -> list[Row]:
    blocks, steps = settings["blocks"], settings["steps"]
    A, y = table(settings["rate_records"], blocks, 0)  # one problem; seeds draw blocks
    loss = losses.Squared(feature_norm=math.sqrt(blocks))
    both = sets.Product([sets.L1Ball(1, 0.25) for _ in range(blocks)])
    best = losses.best_fixed(both, loss, A, y, gap=GAP * len(A)).total / len(A)
    gap = loss.mean_value(np.zeros(blocks), A, y) - best
    wanted = sorted({int(t) for t in np.geomspace(1, steps, 25)})
    sampling = _sampling(name, settings)
    runs: dict[str, tuple[Any, str]] = {
        CORRECTED: (sampling, "universal"),
        SEARCH: (sampling, "line-search"),
    }
    if name == "distributed":
        printed = PrintedDistributed(settings["parties"], settings["tau"])
        runs = {PUBLISHED: (printed, "universal")} | runs
    rows = []
    for variant, (drawn, step) in runs.items():
        seen: dict[int, float] = {}

        def look(moment: Any, seen: dict[int, float] = seen) -> bool:
            if moment.step in wanted:
                seen[moment.step] = loss.mean_value(moment.point, A, y) - best
            return False

        vertical.block_frank_wolfe(
            loss, both, A, y, sampling=drawn, steps=steps, step=step, seed=seed, callback=look
        )
        rows += [Row(name, variant, float(t), max(v, GAP), seed) for t, v in seen.items()]
    if seed == 0:
        curvature = vertical.expected_curvature(A.T @ A / len(A), both, sampling)
        p_min = sampling.p_min(blocks)
        rows += [
            Row(name, BOUND, float(t), float(vertical.convergence_bound(t, gap, curvature, p_min)))
            for t in wanted
        ]
    return rows


def _run(
    settings: Settings, A: FloatArray, y: FloatArray, epsilon: float, variant: str, seed: int
) -> Any:
    """Run the protocol between parties in this process."""
    parties = settings["parties"]
    # Parties get practically unlimited ledgers, because the published noise may cost far more than its budget.
    about: dict[str, Any] = {
        "ids": range(len(A)),
        "labels": y,
        "key": bytes(16),
        "ledger": Budget(1e6, 0.5),
        "noise_precision": "float",
    }
    cuts = np.array_split(np.arange(A.shape[1]), parties)
    members = {
        f"party {k}": vertical.Party(f"party {k}", A[:, cut], seed=1000 * seed + k, **about)
        for k, cut in enumerate(cuts)
    }
    coordinator = vertical.Coordinator(vertical.InProcess(members))
    budget = Budget(epsilon, settings["delta"])
    if variant == OURS:
        return coordinator.run(budget=budget, distortion=settings["distortion"], seed=seed)
    rounds = max(2, round((len(A) * epsilon) ** (2 / 3)))  # Theorem 3's T, its constants taken as 1
    calibration = "published" if variant == PUBLISHED else "exact"
    return coordinator.run(
        budget=budget,
        variant="product",
        rounds=rounds,
        columns=len(cuts[0]),
        own="sketched",
        distortion=settings["distortion"],
        calibration=calibration,
        seed=seed,
    )


def printed_uplink(records: int, settings: Settings) -> float:
    """Bytes of corollary 1: K T indices and as many sketches of m numbers, T = (n epsilon)^(2/3)."""
    rounds = round((records * settings["epsilon"]) ** (2 / 3))
    return settings["parties"] * rounds * (4.0 + WIDE * sketch_length(records, rounds, settings))


def sketch_length(records: int, rounds: int, settings: Settings) -> int:
    """The paper's m = log(2 T/delta) / iota^2, and never more than a column."""
    wanted = math.log(2.0 * rounds / settings["delta"]) / settings["distortion"] ** 2
    return min(records, math.ceil(wanted))


def _bytes(settings: Settings, records: int, columns: int) -> list[Row]:
    epsilon, panel = settings["epsilon"], f"uplink/{columns}"
    A, y = table(records, columns, 0)
    fit = _run(settings, A, y, epsilon, OURS, 0)
    cached = _run(settings, A, y, epsilon, CORRECTED, 0)
    x = float(records)
    once = columns * WIDE * sketch_length(records, 1, settings)
    return [
        Row(panel, PUBLISHED, x, printed_uplink(records, settings)),
        Row(panel, CORRECTED, x, float(cached.traffic.total_uplink)),
        Row(panel, OURS, x, float(fit.traffic.total_uplink)),
        Row(panel, ONE_SHOT, x, float(once)),
        Row(panel, COLUMNS, x, float(records * columns * WIDE)),
    ]


def _error(settings: Settings, epsilon: float, seed: int) -> list[Row]:
    A, y = table(settings["records"], settings["blocks"], seed)
    loss, ball = losses.Squared(feature_norm=math.sqrt(A.shape[1])), sets.L1Ball(A.shape[1])
    best = losses.best_fixed(ball, loss, A, y, gap=GAP * len(A)).total / len(A)
    rows = []
    for variant in (PUBLISHED, CORRECTED, OURS):
        fit = _run(settings, A, y, epsilon, variant, seed)
        excess = max(loss.mean_value(fit.point, A, y) - best, GAP)
        true = fit.guarantee.epsilon(settings["delta"])
        rows.append(Row("error", variant, epsilon, excess, seed, true_epsilon=true))
    idle = loss.mean_value(np.zeros(A.shape[1]), A, y) - best
    rows.append(Row("error", IDLE, None, idle, seed))
    return rows


def measure(settings: Settings, task: Task) -> list[Row]:
    if task["what"] == "rate":
        return _rate(settings, task["sampling"], task["seed"])
    if task["what"] == "bytes":
        return _bytes(settings, task["records"], task["columns"])
    return _error(settings, task["epsilon"], task["seed"])


def panels(settings: Settings) -> list[Panel]:
    found = [
        Panel(name, title, "step t", "gap of the mean loss") for name, title in SAMPLINGS.items()
    ]
    parties = settings["parties"]
    found += [
        Panel(f"uplink/{d}", f"uplink, {d} columns, {parties} parties", "records n", "bytes")
        for d in settings["widths"]
    ]
    n = settings["records"]
    found.append(Panel("error", f"LASSO, n = {n:,}", "epsilon", "excess mean loss"))
    return found


def notes(settings: Settings) -> list[str]:
    return [
        f"table 1: {settings['blocks']} blocks of one coordinate, K = {settings['parties']}, tau = {settings['tau']} "
        f"(tau-nice: {settings['parties'] * settings['tau']} blocks), {settings['seeds']} seeds; bound: Theorem 1 with "
        "the row's own p_min and expected curvature; corrected: the universal step, which is our default too",
        "published, in the panel of distributed sampling: the step with the printed p_min, (K tau)^2/d^2",
        f"uplink at epsilon = {settings['epsilon']:g}: corrected and ours are bytes measured on the wire; published is "
        "corollary 1's count (an index and a sketch from every party in every round) and the two others are computed",
        f"error: (epsilon, {settings['delta']:g}), zero-out neighbours, all parties together; "
        "published and corrected over the product of l1 balls with Theorem 3's number of rounds, ours over the l1 ball",
        "published: the printed noise, with its 1/n moved to where it belongs; as printed, sketches are not private",
    ]


FIGURE = Figure(NAME, settings, tasks, measure, panels, notes)
