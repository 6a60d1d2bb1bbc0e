"""Time several things side by side, so that a noisy machine treats them alike.

The clock is that of the processor time of this process. Everything here runs on one thread, where on an idle machine
it goes as the clock on the wall does; on a busy one it stands still while others have their turn.

Absolute times mean little on a shared machine; ratios of runs that were interleaved do. The spread
of a :class:`Ratio` is that of the median, which falls as rounds are added, not the distance between
two single rounds, which does not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from reticent.compiling import compile_at_once

compile_at_once()  # one round to warm up is then enough

SPREAD = 0.15  # no ratio is printed with more, unless its time ran out
PROCESSES = 3  # that make a table of times
MOST_PROCESSES = 6  # where a ratio has not settled
# What the processes of one run may have in common and no number of them shows. Six processes of each table, 104
# ratios (without two tables that are measured otherwise since), on two busy cores, minutes apart: between them the
# logarithm of a ratio had a standard deviation of 0.031 at the median, 0.038 over all and 0.066 or more at one ratio
# in twenty. A median of three then has 0.025 and the difference of two such medians 0.036, of which two floors are
# more than four. With what is added where processes differ more, all of 150 ratios agree with those of another run in
# 99 % of cases and more (tests/benchmarks draws it).
FLOOR = 0.08
MOST_ROUNDS = 201
SHORTEST = 0.02  # seconds: a shorter task is called several times in its turn


class Clocked(float):
    """Seconds that a task has measured by itself, in another process for instance."""


@dataclass(frozen=True)
class Ratio:
    """A median of ratios, and how far off it may be, relative: half the width of a 95 % interval.

    Of what several processes have measured, how far off another such run may be.
    """

    value: float
    spread: float
    rounds: int

    @classmethod
    def of(cls, first: np.ndarray, second: np.ndarray) -> Ratio:
        """Of first / second, round by round."""
        ratios = np.sort(np.asarray(first, dtype=float) / np.asarray(second, dtype=float))
        middle = float(np.median(ratios))
        rank = _rank(len(ratios))
        low, high = float(ratios[rank]), float(ratios[-1 - rank])
        spread = max(high - middle, middle - low) / middle
        return cls(middle, spread, len(ratios))

    @classmethod
    def pooled(cls, parts: Sequence[Ratio]) -> Ratio:
        """Of the same ratio, measured by several processes: their median.

        Its spread is the largest of three: that within a process; twice the distance of the farthest process from the
        median, or of five and more of the second farthest, so that a single odd one, which does not move the median,
        does not widen it; and the floor. The first two fall as processes are added, as the error of the median does.
        """
        logs = np.log([each.value for each in parts])
        middle = float(np.median(logs))
        within = float(np.median([each.spread for each in parts]))
        away = float(np.sort(np.abs(logs - middle))[-1 if len(parts) < 5 else -2])
        shrunk = math.sqrt(PROCESSES / len(parts))
        spread = max(shrunk * within, math.expm1(shrunk * 2.0 * away), FLOOR)
        return cls(math.exp(middle), spread, sum(each.rounds for each in parts))

    @classmethod
    def exact(cls, value: float) -> Ratio:
        """Computed by a formula: no repeats, no spread."""
        return cls(float(value), 0.0, 0)


@dataclass(frozen=True)
class Measured:
    """A number that was measured and has a unit: the median of rounds. Only ratios have a spread."""

    value: float
    rounds: int

    @classmethod
    def of(cls, values: Sequence[float] | np.ndarray) -> Measured:
        return cls(float(np.median(values)), len(values))


def _rank(count: int) -> int:
    """How many of the smallest and of the largest lie outside the 95 % interval of the median.

    The number of values below the median is binomial whatever their distribution.
    """
    outside, below = -1, 0.0
    for k in range((count + 1) // 2):
        below += math.comb(count, k) / 2.0**count
        if below > 0.025:
            break
        outside = k
    return max(outside, 0)


def clock(task: Callable[[], object], calls: int = 1) -> float:
    """Seconds of one call, as the mean of several."""
    start = time.process_time()
    for _ in range(calls):
        answer = task()
    seconds = (time.process_time() - start) / calls
    return float(answer) if isinstance(answer, Clocked) else seconds


def _calls(task: Callable[[], object]) -> int:
    """How many calls make a turn that the clock can tell, found after one to warm up."""
    if isinstance(task(), Clocked):
        return 1
    return max(1, math.ceil(SHORTEST / max(clock(task), 1e-6)))


def interleaved(tasks: dict[str, Callable[[], object]], rounds: int = 15) -> dict[str, np.ndarray]:
    """Seconds of each task in each round, after one round to warm up."""
    for task in tasks.values():
        task()
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            seconds[name].append(clock(task))
    return {name: np.array(values) for name, values in seconds.items()}


def measure(
    tasks: dict[str, Callable[[], object]],
    pairs: Sequence[tuple[str, str]],
    *,
    rounds: int = 9,
    least: float = 1.5,
    seconds: float = 10.0,
    spread: float = SPREAD,
) -> dict[str, np.ndarray]:
    """Seconds of each task in each round, with more rounds until the ratios of all pairs have settled.

    It takes ``least`` seconds or more, since what the neighbours on a machine do changes by the second, and
    rounds that all fell into one such moment would agree with each other and not with another run. Every
    second round runs backwards, so that nobody always comes after the same neighbour.
    """
    begun = time.perf_counter()
    calls = {name: _calls(task) for name, task in tasks.items()}
    found: dict[str, list[float]] = {name: [] for name in tasks}
    for done in range(1, MOST_ROUNDS + 1):
        for name in list(tasks) if done % 2 else reversed(list(tasks)):
            found[name].append(clock(tasks[name], calls[name]))
        if done < rounds:
            continue
        ratios = [Ratio.of(np.array(found[a]), np.array(found[b])) for a, b in pairs]
        spent = time.perf_counter() - begun
        # Half the limit, so that another run of the same command stays below it too.
        settled = spent >= least and all(each.spread <= spread / 2 for each in ratios)
        if settled or spent > seconds:
            break
    return {name: np.array(values) for name, values in found.items()}


def ratio(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Median and interquartile distance of first / second, round by round."""
    low, middle, high = np.quantile(first / second, [0.25, 0.5, 0.75])
    return float(middle), float(high - low)
