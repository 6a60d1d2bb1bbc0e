"""Scaling: time and memory against one size at a time, with fitted exponents beside the expected ones.

The one thing a reader would get wrong: an exponent is fitted over the sizes shown, where fixed costs still weigh; it
lies below the expected one where they do, and that is no violation.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from table import Mean, Table
from timing import measure

import tacit
from questions import Run
from questions.frank_wolfe_speed import made_up
from questions.online_speed import stream
from questions.totals import BUDGET, HORIZON
from tacit import erm, losses, online, sets, sums

QUESTION = 4
PURE = tacit.Budget(1.0)
Case = tuple[str, str, Sequence[int], Callable[[int], Callable[[], object]], str, str]


def slopes(sizes: Sequence[int], rows: np.ndarray) -> list[float]:
    """The exponent in each round."""
    x = np.log(np.asarray(sizes, dtype=float))
    return [float(np.polyfit(x, np.log(row), 1)[0]) for row in rows]


def peak(task: Callable[[], object]) -> float:
    tracemalloc.start()
    task()
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(size)


def leader(dim: int, **more: Any) -> online.FollowTheRegularizedLeader:
    return online.FollowTheRegularizedLeader(
        sets.L2Ball(dim), losses.Logistic(), budget=BUDGET, **more
    )


def online_records(steps: int) -> Callable[[], object]:
    """In chunks, as an endless stream would come; what is kept must not grow with it."""
    X, y = stream(1024, 10)
    learner = leader(10, horizon=HORIZON)
    return lambda: learner.run(((X, y) for _ in range(steps // 1024)), keep=1, keep_records=False)


def online_dimension(dim: int) -> Callable[[], object]:
    X, y = stream(1024, dim)
    return partial(leader(dim, horizon=HORIZON).run, X, y)


def window(size: int) -> Callable[[], object]:
    rows = np.full((4096, 10), 0.1)
    return partial(sums.Correlated(10, budget=tacit.Budget(1.0, 1e-6, window=size)).run, rows)


def window_tree(size: int) -> Callable[[], object]:
    rows = np.full((4096, 10), 0.1)
    return partial(sums.WindowTree(10, budget=tacit.Budget(1.0, 1e-6, window=size)).run, rows)


def objective(count: int, columns: int) -> Callable[[], object]:
    X, y = stream(count, columns)
    return partial(erm.objective_perturbation, losses.Logistic(), None, X, y, budget=PURE, seed=0)


def selection(columns: int) -> Callable[[], object]:
    A, y = made_up(1000, columns, 50)
    where = sets.L1Ball(columns)
    return partial(erm.frank_wolfe, losses.Squared(), where, A, y, budget=BUDGET, steps=200, seed=0)


def cases(run: Run) -> list[Case]:
    def powers(low: int, high: int, more: int) -> list[int]:
        return [2**k for k in range(low, high + 1 + run.choose(0, more))]

    return [
        ("online learner", "T records", powers(14, 17, 4), online_records, "1", "0"),
        ("online learner", "d", powers(4, 9, 2), online_dimension, "1", "1"),
        ("Correlated with a window", "W", powers(6, 14, 2), window, "0", "0"),
        ("WindowTree", "W", powers(6, 14, 2), window_tree, "0 (log W)", "0 (log W)"),
        ("objective perturbation", "n", powers(13, 17, 2), lambda n: objective(n, 20), "1", "1"),
        ("objective perturbation", "p", powers(4, 8, 1), lambda p: objective(20_000, p), "1 to 2", "1 to 2"),
        ("sparse Frank-Wolfe, 200 steps", "p", powers(12, 17, 3), selection, "1/2 to 1", "1"),
    ]  # fmt: skip


def scaling(run: Run) -> Table:
    table = Table(
        "scaling", QUESTION, "Exponents of time and memory",
        ["what", "against", "from", "to", "ms at the smallest", "ms at the largest", "exponent of time", "expected",
         "exponent of memory", "expected "],
        "Slope of the logarithm of the time, and of the largest allocation during a call (what "
        "the caller passes in is not counted), against the "
        "logarithm of one size, the others fixed; all sizes take turns.",
    )  # fmt: skip
    for what, against, sizes, make, expected, memory in cases(run):
        made = {str(size): make(size) for size in sizes}
        pairs = [(str(sizes[-1]), str(sizes[0]))]
        seconds = measure(made, pairs, rounds=7, seconds=run.choose(12, 120))
        rounds = np.array([seconds[str(size)] for size in sizes]).T
        sizes_kept = [peak(task) for task in made.values()]
        table.add(
            what, against, sizes[0], sizes[-1], 1e3 * float(np.median(rounds[:, 0])),
            1e3 * float(np.median(rounds[:, -1])), Mean.of(slopes(sizes, rounds)), expected,
            slopes(sizes, np.array([sizes_kept]))[0], memory,
        )  # fmt: skip
        print(f"  {what}, {against}", flush=True)
    return table


TABLES = (scaling,)
