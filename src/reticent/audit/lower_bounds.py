"""Lower bounds on epsilon and mu from counted events, which are wrong only with a stated probability.

An event S, fixed before the runs on which it is counted, has probability p in one world and q in the other. Privacy
demands p <= e^epsilon q + delta, and mu-GDP that the normal quantiles of p and q differ by at most mu (Dong, Roth and
Su, *Gaussian differential privacy*, Definition 2.6). The Clopper-Pearson limits for p and q turn counts into bounds
that hold for every number of runs, without asymptotics.

The limits hold for an event that was fixed in advance. An event selected on the same runs on which it is counted would
always look like a leak.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtri

from reticent.checks import FloatArray

_THRESHOLDS = 400
_CAUTION = 0.01
"""Events are compared by confidence limits at this level, because observed shares of rare events are often too high."""


def smallest(count: ArrayLike, runs: ArrayLike, alarm: float) -> FloatArray:
    """A lower confidence limit for the probability of an event that happened ``count`` times in ``runs``.

    It exceeds the true probability with probability at most ``alarm`` (Clopper and Pearson 1934).

    Examples
    --------
    >>> round(float(smallest(10, 10, 0.05)), 4)  # 0.05 ** (1 / 10)
    0.7411
    """
    k, n = np.broadcast_arrays(np.asarray(count, float), np.asarray(runs, float))
    limit = betaincinv(np.maximum(k, 0.5), n - k + 1.0, alarm)
    return np.where(k > 0, limit, 0.0)


def largest(count: ArrayLike, runs: ArrayLike, alarm: float) -> FloatArray:
    """An upper confidence limit for the probability of an event that happened ``count`` times in ``runs``.

    It is below the true probability with probability at most ``alarm`` (Clopper and Pearson 1934).
    """
    k, n = np.broadcast_arrays(np.asarray(count, float), np.asarray(runs, float))
    limit = betaincinv(k + 1.0, np.maximum(n - k, 0.5), 1.0 - alarm)
    return np.where(k < n, limit, 1.0)


def epsilon_of(p: ArrayLike, q: ArrayLike, delta: float) -> FloatArray:
    """The least epsilon that allows an event of probability p in one world and q in the other; may be negative."""
    over = np.maximum(np.asarray(p, float) - delta, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(over > 0.0, np.log(over) - np.log(np.asarray(q, float)), -np.inf)


def mu_of(p: ArrayLike, q: ArrayLike) -> FloatArray:
    """The least mu such that mu-GDP allows an event of probability p in one world and q in the other; or negative."""
    with np.errstate(invalid="ignore"):
        gap = ndtri(np.asarray(p, float)) - ndtri(np.asarray(q, float))
    # both probabilities 0, or both 1: such an event says nothing
    return np.where(np.isnan(gap), -np.inf, gap)


@dataclass(frozen=True)
class Event:
    """All outputs whose score is above, or below, a threshold; ``first`` is the likelier world."""

    threshold: float
    above: bool
    first: str

    def count(self, scores: FloatArray) -> int:
        """How many of the scores are in the event."""
        return int(
            np.count_nonzero(scores > self.threshold if self.above else scores < self.threshold)
        )

    def __str__(self) -> str:
        return f"score {'>' if self.above else '<'} {self.threshold:.6g}, likelier in world {self.first}"


@dataclass(frozen=True)
class Counted:
    """An event with its counts in both worlds, the likelier one first."""

    event: Event
    count: int
    runs: int
    other_count: int
    other_runs: int

    def epsilon(self, delta: float, alarm: float) -> float:
        """A lower bound on epsilon at this delta, which exceeds the truth with probability at most ``alarm``."""
        return max(0.0, float(epsilon_of(*self._limits(alarm), delta)))

    def mu(self, alarm: float) -> float:
        """A lower bound on the mu of Gaussian differential privacy, wrong with probability at most ``alarm``."""
        return max(0.0, float(mu_of(*self._limits(alarm))))

    def _limits(self, alarm: float) -> tuple[FloatArray, FloatArray]:
        half = 0.5 * alarm
        return (
            smallest(self.count, self.runs, half),
            largest(self.other_count, self.other_runs, half),
        )


def count(event: Event, a: FloatArray, b: FloatArray) -> Counted:
    """Count an event among the scores of both worlds."""
    first, second = (a, b) if event.first == "a" else (b, a)
    return Counted(event, event.count(first), len(first), event.count(second), len(second))


def best_event(
    a: FloatArray, b: FloatArray, runs: int, alarm: float, delta: float | None
) -> tuple[float, Event]:
    """The threshold event with the best expected bound from ``runs`` further runs of each world, and that bound.

    ``delta`` is None if a bound on mu is wanted. The present scores serve to choose the event, never as evidence.
    """
    a, b = np.sort(a), np.sort(b)
    points = cuts(a, b)
    counts, sizes = {}, {"a": len(a), "b": len(b)}
    for name, scores in (("a", a), ("b", b)):
        counts[name, False] = np.searchsorted(scores, points, side="left")
        counts[name, True] = len(scores) - np.searchsorted(scores, points, side="right")
    best, chosen = -math.inf, Event(float(points[0]), True, "b")
    for first, second in (("a", "b"), ("b", "a")):
        for above in (True, False):
            low = smallest(counts[first, above], sizes[first], _CAUTION)
            high = largest(counts[second, above], sizes[second], _CAUTION)
            p = smallest(runs * low, runs, 0.5 * alarm)
            q = largest(runs * high, runs, 0.5 * alarm)
            bounds = mu_of(p, q) if delta is None else epsilon_of(p, q, delta)
            k = int(np.argmax(bounds))
            if bounds[k] > best:
                best, chosen = float(bounds[k]), Event(float(points[k]), above, first)
    return best, chosen


def cuts(a: FloatArray, b: FloatArray) -> FloatArray:
    """Thresholds between the scores: at evenly spaced quantiles, and far into both tails."""
    pooled = np.unique(np.concatenate([a, b]))
    if len(pooled) == 1:
        return pooled
    between = pooled[:-1] + 0.5 * np.diff(pooled)
    # adjacent doubles have no midpoint, and infinite scores no finite one
    between = np.where(np.isfinite(between), between, pooled[:-1])
    if len(between) <= 2 * _THRESHOLDS:
        return between
    even = np.linspace(0.0, len(between) - 1.0, _THRESHOLDS)
    tail = np.geomspace(1.0, 0.1 * len(between), _THRESHOLDS // 4)
    at = np.unique(np.concatenate([even, tail, len(between) - 1.0 - tail]).astype(np.int64))
    return between[at]


def band(runs: int, alarm: float) -> float:
    """Half-width of a confidence band for a whole distribution function, wrong with probability at most ``alarm``.

    This is the inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's constant.
    """

    return math.sqrt(math.log(2.0 / alarm) / (2.0 * runs))
