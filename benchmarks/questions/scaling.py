"""Scaling: time and memory against one size at a time, with fitted exponents beside the expected ones.

Memory is what Python and NumPy hold, less the caller's own arrays: of a stream, what its object holds once it has
run, since that is what must not grow; of a fit, the most at once.

An exponent is fitted over the sizes shown, where fixed costs still weigh; it lies below the
expected one where they do, and that is no violation.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from table import Mean, Table
from timing import Clocked, Measured, clock, measure

import reticent
from questions import Run
from questions.frank_wolfe_speed import made_up
from questions.online_speed import stream
from questions.totals import BUDGET, HORIZON
from reticent import erm, losses, online, sets, sums

QUESTION = 4
PURE = reticent.Budget(1.0)
Task = Callable[[], object]


class Work(NamedTuple):
    """What is timed; and what memory is measured of, which makes its object anew and gives it back."""

    timed: Task
    whole: Task
    stream: bool = False


Case = tuple[str, str, Sequence[int], Callable[[int], Work], str, str]


def slopes(sizes: Sequence[int], rows: np.ndarray) -> list[float]:
    """The exponent in each round."""
    x = np.log(np.asarray(sizes, dtype=float))
    return [float(np.polyfit(x, np.log(row), 1)[0]) for row in rows]


def memory(work: Work) -> float:
    """Of a stream, what its object holds once it has run; of a fit, the most at once."""
    work.whole()  # what a first call imports and compiles is no part of it
    gc.collect()
    tracemalloc.start()
    try:
        kept = work.whole()
        gc.collect()
        now, most = tracemalloc.get_traced_memory()
        del kept
        return float(now if work.stream else most)
    finally:  # everything after it would be slow otherwise
        tracemalloc.stop()


def leader(dim: int, **more: Any) -> online.FollowTheRegularizedLeader:
    return online.FollowTheRegularizedLeader(
        sets.L2Ball(dim), losses.Logistic(), budget=BUDGET, **more
    )


def online_records(steps: int) -> Work:
    """In chunks, as an endless stream would come; what is kept must not grow with it."""
    X, y = stream(1024, 10)

    def go(learner: online.FollowTheRegularizedLeader) -> object:
        chunks = ((X, y) for _ in range(steps // 1024))
        return learner.run(chunks, keep=1, keep_records=False)

    def whole() -> object:
        learner = leader(10, horizon=HORIZON)
        go(learner)
        return learner

    return Work(partial(go, leader(10, horizon=HORIZON)), whole, stream=True)


def online_dimension(dim: int) -> Work:
    X, y = stream(1024, dim)

    def whole() -> object:
        learner = leader(dim, horizon=HORIZON)
        learner.run(X, y)
        return learner

    return Work(partial(leader(dim, horizon=HORIZON).run, X, y), whole, stream=True)


def window(kind: Callable[..., Any], size: int) -> Work:
    rows = np.full((4096, 10), 0.1)

    def make() -> Any:
        return kind(10, budget=reticent.Budget(1.0, 1e-6, window=size))

    def whole() -> object:
        total = make()
        for _ in range(5):  # further than the largest window
            total.run(rows)
        return total

    return Work(partial(make().run, rows), whole, stream=True)


def objective(count: int, columns: int) -> Work:
    X, y = stream(count, columns)
    fit = partial(erm.objective_perturbation, losses.Logistic(), None, X, y, budget=PURE, seed=0)
    return Work(fit, fit)


def selection(columns: int) -> Work:
    """Seconds of a step: those of a longer run less those of a shorter one, so that setting up cancels."""
    A, y = made_up(1000, columns, 50)
    where = sets.L1Ball(columns)
    fit = partial(erm.frank_wolfe, losses.Squared(), where, A, y, budget=BUDGET, seed=0)

    def step() -> Clocked:
        few, many = (clock(partial(fit, steps=steps)) for steps in (50, 450))
        return Clocked((many - few) / 400)

    return Work(step, partial(fit, steps=50))


def cases(run: Run) -> list[Case]:
    def powers(low: int, high: int, more: int) -> list[int]:
        return [2**k for k in range(low, high + 1 + run.choose(0, more))]

    return [
        ("online learner", "T records", powers(14, 17, 4), online_records, "1", "0"),
        ("online learner", "d", powers(4, 9, 2), online_dimension, "1", "at most 1"),
        ("Correlated with a window", "W", powers(6, 14, 2), partial(window, sums.Correlated), "0", "0"),
        ("WindowTree", "W", powers(6, 14, 2), partial(window, sums.WindowTree), "0 (log W)", "0 (log W)"),
        ("objective perturbation", "n", powers(13, 17, 2), lambda n: objective(n, 20), "1", "at most 1"),
        ("objective perturbation", "p", powers(4, 8, 1), lambda p: objective(20_000, p), "1 to 2", "1 to 2"),
        ("sparse Frank-Wolfe, one step", "p", powers(12, 17, 3), selection, "1/2 to 1", "at most 1"),
    ]  # fmt: skip


def scaling(run: Run) -> Table:
    table = Table(
        "scaling", QUESTION, "Exponents of time and memory",
        ["what", "against", "from", "to", "ms at the smallest", "ms at the largest", "exponent of time", "expected",
         "kB at the smallest", "kB at the largest", "exponent of memory", "expected "],
        "Slope of log time and of log memory against the logarithm of one size, with the others fixed; "
        "all sizes take turns. Memory is what a stream holds after it has run, or the peak of a fit, "
        "not counting what the caller passes in. A stream holds a block of noise drawn in advance, "
        "whose size is fixed.",
    )  # fmt: skip
    for what, against, sizes, make, expected, room in cases(run):
        made = {str(size): make(size) for size in sizes}
        pairs = [(str(sizes[-1]), str(sizes[0]))]
        timed = {size: work.timed for size, work in made.items()}
        seconds = measure(timed, pairs, rounds=5, seconds=run.choose(5, 40))
        rounds = np.array([seconds[str(size)] for size in sizes]).T
        sizes_kept = [memory(work) for work in made.values()]
        table.add(
            what, against, sizes[0], sizes[-1], Measured.of(1e3 * rounds[:, 0]),
            Measured.of(1e3 * rounds[:, -1]), Mean.of(slopes(sizes, rounds)), expected,
            *(Measured.of([sizes_kept[i] / 1e3]) for i in (0, -1)),
            Measured.of(slopes(sizes, np.array([sizes_kept]))), room,
        )  # fmt: skip
        print(f"  {what}, {against}", flush=True)
    return table


def parties(run: Run) -> Table:
    from vertical import protocol, synthetic

    records, columns, rounds = run.choose((1000, 512, 8), (10_000, 2048, 16))
    table = Table(
        "parties", QUESTION, "Feature-distributed learning against the number of parties K",
        ["variant", "from", "to", "ms at the smallest", "ms at the largest", "exponent of time", "expected",
         "uplink bytes at the smallest", "at the largest", "exponent of bytes", "expected "],
        f"All parties in one process: {records:,} records, {columns:,} columns in all, {rounds} rounds, ε = 1. "
        "The columns are divided among the parties, so the work on them is the same for every K and only "
        "the overhead per party grows. In 'ball', one party's column moves in each round; in "
        "'product', one column of every party.",
    )  # fmt: skip
    sizes = [2**k for k in range(1, run.choose(5, 6) + 1)]
    for variant, expected in (("ball", "0 to 1"), ("product", "1")):
        tasks, sent = {}, []
        for size in sizes:
            more = {"variant": variant, "rounds": rounds}
            tasks[str(size)] = partial(
                protocol, synthetic(size, records, columns), BUDGET, 0, **more
            )
            sent.append(tasks[str(size)]().traffic.total_uplink)
        pairs = [(str(sizes[-1]), str(sizes[0]))]
        seconds = measure(tasks, pairs, rounds=5, seconds=run.choose(6, 40))
        found = np.array([seconds[str(size)] for size in sizes]).T
        ends = [Measured.of(1e3 * found[:, i]) for i in (0, -1)]
        table.add(
            variant, sizes[0], sizes[-1], *ends, Mean.of(slopes(sizes, found)), "0 to 1",
            *(Measured.of([sent[i]]) for i in (0, -1)), Measured.of(slopes(sizes, np.array([sent]))),
            expected,
        )  # fmt: skip
    return table
