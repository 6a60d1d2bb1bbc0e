"""An attack that can be inspected at any time: bets against a claim, whose winnings are the evidence.

A claim says, at each of its pairs (epsilon, delta), that for every event S of outputs

    P[A in S] <= e^epsilon P[B in S] + delta,          and the same with the worlds exchanged.

So a bet that pays ``1 + w (1[A in S] - e^epsilon 1[B in S] - delta)`` for one run of each world, with a stake w from 0
to ``1 / (e^epsilon + delta)``, has no positive expected gain if the claim is true, whatever S and w are, as long as
they were chosen before the two runs. Its capital is then a non-negative supermartingale that starts at 1, and by
Ville's inequality the probability that it *ever* exceeds 1/alpha is at most alpha. This allows three things that
counting on a fixed number of runs does not: events and stakes are improved continuously, by all runs so far; bets at
several pairs (epsilon, delta) are averaged, without dividing alpha between them; and a run may stop when the verdict is
clear, or continue.

The same capital is kept for smaller claims (of noise divided by s: every mu, or epsilon, times s): the largest s below
which all of them are refuted is a lower bound on the privacy loss, relative to the claim. Proofs: docs/audit.md.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from reticent.audit.attack import RepeatWatch, outputs_of, roc_of
from reticent.audit.finding import Finding, as_curve, epsilon_of_part, part_of
from reticent.audit.lower_bounds import cuts
from reticent.audit.statistics import Statistic, candidates
from reticent.checks import FloatArray, fraction, integer, number
from reticent.privacy import Curve, Gaussian, Guarantee, Pure
from reticent.trace import Progress

SHARES = np.round(
    np.concatenate([np.arange(0.02, 1.0, 0.02), [1.0], np.arange(1.05, 3.0, 0.05)]), 4
)
"""Which multiples of the claim are tested."""
DELTAS = (1e-6, 1e-4, 1e-2, 0.05, 0.2)
"""The deltas at which a claim that is not pure is tested, in addition to the requested one."""

_FEW_SHARES = (*(k / 10 for k in range(1, 11)), 1.25, 1.5, 2.0, 3.0)
_FIRST = 256  # at most so many runs of each world are used for learning only
_KEPT = 50_000  # the number of latest runs on which the next event is chosen
_STAKES = np.concatenate([[0.0], np.geomspace(1e-3, 0.98, 40)])
_LEARN = 20_000
_TOO_FEW = 32  # further runs of each world that are not worth choosing events for


@dataclass(frozen=True)
class _Levels:
    """Pairs (epsilon, delta) at which the claims are tested, one row per level and one column per share."""

    epsilon: FloatArray
    delta: FloatArray


@functools.lru_cache(maxsize=64)
def _levels(claim: Curve, delta: float, shares: tuple[float, ...]) -> _Levels:
    quick = claim.gdp is not None or claim.pure is not None
    if claim.gdp is not None:
        claim = Gaussian(claim.gdp)
    elif claim.pure is not None:
        claim = Pure(claim.pure)
    # compositions are slow: use fewer shares, each rounded up
    columns, place = np.unique(
        shares if quick else [_rounded_up(share) for share in shares], return_inverse=True
    )
    taken = columns.tolist()
    epsilons, deltas = [], []
    parts = [part for part in (part_of(claim, share) for share in taken) if part is not None]
    if len(parts) == len(taken):  # epsilon = 0: the total variation distance of the worlds
        epsilons.append([0.0] * len(taken))
        deltas.append([part.delta(0.0) for part in parts])
    for at in _deltas(claim, delta):
        values = [epsilon_of_part(claim, share, at) for share in taken]
        if max(values) > 0.0:
            epsilons.append(values)
            deltas.append([at] * len(taken))
    return _Levels(np.array(epsilons)[:, place], np.array(deltas)[:, place])


def _deltas(claim: Curve, delta: float) -> list[float]:
    """The deltas at which a claim is tested: the requested one, and others if it is not pure."""
    if claim.pure is not None:
        return [delta]
    return [at for at in dict.fromkeys((delta, *DELTAS)) if at > 0.0]


def _rounded_up(share: float) -> float:
    return next((s for s in _FEW_SHARES if s >= share), share)


@dataclass(frozen=True)
class _Event:
    """Scores above or below a threshold; ``flipped`` where world b is the likelier one."""

    threshold: float
    above: bool
    flipped: bool

    def share(self, scores: FloatArray) -> tuple[float, NDArray[np.bool_]]:
        inside = scores > self.threshold if self.above else scores < self.threshold
        return float(np.mean(inside)), inside

    def __str__(self) -> str:
        world = "b" if self.flipped else "a"
        sign = ">" if self.above else "<"
        return f"score {sign} {self.threshold:.6g}, likelier in world {world}"


class Bets:
    """Capital that grows where a claim is false.

    Parameters
    ----------
    claim : Curve
        The claim to test.
    delta : float
        The requested delta, one of those at which the claim is tested.
    shares : array
        The multiples of the claim to test, in ascending order.
    """

    def __init__(self, claim: Curve, delta: float, shares: FloatArray = SHARES) -> None:
        self._shares = shares
        self._levels = _levels(claim, delta, tuple(shares.tolist()))
        count = len(self._levels.epsilon)
        self._capital = np.zeros(
            (count, 2, len(self._shares))
        )  # logarithms, by level and direction
        self._best = np.zeros(len(self._shares))
        self._events: list[_Event] = []

    @property
    def evidence(self) -> FloatArray:
        """The largest logarithm of the capital so far, for each share."""
        return self._best

    def share(self, alarm: float) -> float:
        """The largest share of the claim below which everything is refuted; 0 if nothing is."""
        refuted = np.logical_and.accumulate(self._best >= -math.log(alarm))
        return float(self._shares[refuted][-1]) if refuted[0] else 0.0

    @property
    def words(self) -> str:
        """The event with the largest winnings, in words."""
        level, side, _ = np.unravel_index(np.argmax(self._capital), self._capital.shape)
        if not self._events:
            return "nothing was bet"
        return str(self._events[2 * int(level) + int(side)])

    def choose(self, a: FloatArray, b: FloatArray, frontier: float) -> None:
        """Choose for every level the event with the largest expected gain, judging by the scores so far."""
        points = cuts(np.sort(a), np.sort(b))
        column = int(np.argmin(np.abs(self._shares - frontier)))
        self._events, self._stakes = [], []
        above = {}
        for side, scores in (("a", np.sort(a)), ("b", np.sort(b))):
            above[side] = (
                scores.size - np.searchsorted(scores, points, side="right")
            ) / scores.size
        for level in range(len(self._levels.epsilon)):
            factor = math.exp(self._levels.epsilon[level, column])
            delta = self._levels.delta[level, column]
            for flipped in (False, True):
                first, second = (above["b"], above["a"]) if flipped else (above["a"], above["b"])
                best, chosen = -math.inf, _Event(float(points[0]), True, flipped)
                for upper in (True, False):
                    p, q = (first, second) if upper else (1.0 - first, 1.0 - second)
                    spread = p * (1.0 - p) + factor**2 * q * (1.0 - q) + (1.0 + factor**2) / len(a)
                    gain = (p - factor * q - delta) / np.sqrt(spread)
                    at = int(np.argmax(gain))
                    if gain[at] > best:
                        best, chosen = float(gain[at]), _Event(float(points[at]), upper, flipped)
                self._events.append(chosen)
                self._stakes.append(self._stake(level, chosen, a, b))

    def _stake(self, level: int, event: _Event, a: FloatArray, b: FloatArray) -> FloatArray:
        """The stakes, one for each share, that would have won most so far, reduced a little for caution."""
        first, second = (b, a) if event.flipped else (a, b)
        p, q = event.share(first)[0], event.share(second)[0]
        # as if one more run of each world had gone the wrong way
        p, q = p * len(a) / (len(a) + 1.0), (q * len(b) + 1.0) / (len(b) + 1.0)
        pay = self._payments(level)
        chances = np.array([p * (1 - q), (1 - p) * q, p * q, (1 - p) * (1 - q)])
        most = 1.0 / (np.exp(self._levels.epsilon[level]) + self._levels.delta[level])
        stakes = _STAKES[:, None] * most
        growth = np.einsum("i,ijk->jk", chances, np.log1p(stakes * pay[:, None, :]))
        return np.asarray(np.take_along_axis(stakes, growth.argmax(axis=0)[None], axis=0)[0])

    def _payments(self, level: int) -> FloatArray:
        """Payments for a stake of 1: in the event in the first world only, the second only, both, or neither."""
        factor, delta = np.exp(self._levels.epsilon[level]), self._levels.delta[level]
        return np.stack([1.0 - delta, -factor - delta, 1.0 - factor - delta, -delta])

    def play(self, a: FloatArray, b: FloatArray) -> None:
        """Bet on runs that were made after the events were chosen."""
        for k, (event, stakes) in enumerate(zip(self._events, self._stakes, strict=True)):
            first, second = (b, a) if event.flipped else (a, b)
            x, y = event.share(first)[1], event.share(second)[1]
            counts = np.array(
                [
                    np.count_nonzero(x & ~y),
                    np.count_nonzero(~x & y),
                    np.count_nonzero(x & y),
                    np.count_nonzero(~x & ~y),
                ]
            )
            gains = np.log1p(stakes[None, :] * self._payments(k // 2))
            self._capital[k // 2, k % 2] += counts @ gains
        count = self._capital.shape[0] * 2
        mean = logsumexp(self._capital, axis=(0, 1)) - math.log(count)
        self._best = np.maximum(self._best, mean)


def sequential(
    run: Callable[..., Any],
    world_a: Any,
    world_b: Any,
    *,
    claim: Guarantee | Curve | float,
    runs: int,
    delta: float = 0.0,
    statistic: Any = None,
    false_alarm: float = 1e-6,
    batch: int | None = None,
    seconds: float | None = None,
    stop: bool = True,
    name: str = "mechanism",
    progress: bool = False,
) -> Finding:
    """Attack a claim with bets, at several deltas at once, and stop when it is refuted.

    Parameters
    ----------
    run : callable
        ``run(world)`` runs the mechanism once and returns its output: a number, a vector, or a label. With ``batch``,
        ``run(world, size)`` returns ``size`` independent outputs, one per row.
    world_a : object
        An input, which is passed to ``run``.
    world_b : object
        A neighbouring input.
    claim : Guarantee, Curve or float
        Claim to test; a number is a pure epsilon.
    runs : int
        Largest number of runs in each world.
    delta : float
        The delta at which epsilon is bounded; one of the deltas at which the claim is tested.
    statistic : statistic, callable or list of them, optional
        What an attacker computes from the outputs: a function of an array of outputs (one per row) that returns a score
        for each, one of :mod:`reticent.audit.statistics`, or a list, of which the best is used. By default it suits the
        kind of output.
    false_alarm : float
        Upper bound on the probability that a true claim is ever refuted, however often the result is inspected.
    batch : int, optional
        Number of outputs per call; None calls ``run(world)`` for each.
    seconds : float, optional
        Approximate processor time to spend after the first runs, which may have to compile; fewer than ``runs`` runs
        are then made if they take long. Bets may be stopped for any reason.
    stop : bool
        Whether to stop when the claim is refuted; otherwise all runs are made, and the bound increases.
    name : str
        Name for printing.
    progress : bool
        Whether to show the progress on standard error.

    Returns
    -------
    Finding
        The bound, and whether the claim holds.

    See Also
    --------
    mechanism : One event on a fixed number of runs.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def noisy_count(world, size):
    ...     return world + rng.laplace(scale=1.0, size=size)
    >>> found = sequential(noisy_count, 10.0, 11.0, runs=20_000, batch=5_000, claim=1.0)
    >>> found.holds, found.epsilon > 0.7
    (True, True)
    >>> found = sequential(noisy_count, 10.0, 11.0, runs=20_000, batch=5_000, claim=0.5)
    >>> found.holds, found.runs < 5_000
    (False, True)
    """
    runs = integer(runs, "runs", low=8)
    delta = number(delta, "delta", low=0.0, high=1.0, open_high=True)
    alarm = fraction(false_alarm, "false_alarm")
    if seconds is not None:
        seconds = number(seconds, "seconds", low=0.0)
    curve = as_curve(claim)
    if curve is None:
        raise ValueError("claim must be given, because bets are made against a claim; got None")
    bets, watch, done = Bets(curve, delta), RepeatWatch(), 0
    past: list[NDArray[Any]] = [np.empty(0), np.empty(0)]
    chosen: Statistic | None = None
    scores: list[FloatArray] = [np.zeros(1), np.zeros(1)]
    with Progress(name, 2 * runs, progress) as bar:
        for size in _sizes(runs, seconds):
            fresh = [
                np.concatenate(list(outputs_of(run, world, size, batch, watch, side, bar)))
                for side, world in (("a", world_a), ("b", world_b))
            ]
            done += size
            if chosen is not None:
                scores = [chosen(rows) for rows in fresh]
                bets.play(scores[0], scores[1])
            if watch.repeated or (stop and bets.share(alarm) >= 1.0):
                break
            past = [
                rows if chosen is None else np.concatenate([old, rows])[-_KEPT:]
                for old, rows in zip(past, fresh, strict=True)
            ]
            chosen = _best(past, statistic)
            scores = [chosen(rows) for rows in past]
            frontier = max(bets.share(alarm), float(SHARES[0])) if stop else 1.0
            bets.choose(scores[0], scores[1], frontier)
    share = bets.share(alarm)
    epsilon, mu = _bound(curve, delta, share)
    how = f"share >= {share:g}: {bets.words}" if share else "no bet has won enough"
    if watch.repeated:
        epsilon, how = math.inf, "runs that should be independent had the same noise"
    return Finding(
        name, epsilon, delta, mu, curve, done, alarm, watch.repeated, how, roc_of(scores, alarm)
    )


def _bound(claim: Curve, delta: float, share: float) -> tuple[float, float | None]:
    """Epsilon at delta of this share of the claim, and mu if it has one."""
    if share == 0.0:
        return 0.0, 0.0 if claim.gdp is not None else None
    # every epsilon up to this value is refuted, so the true one is larger
    if claim.gdp is not None:
        mu = math.nextafter(share * claim.gdp, math.inf)
        return math.nextafter(Gaussian(mu).epsilon(delta), math.inf), mu
    return math.nextafter(epsilon_of_part(claim, share, delta), math.inf), None


def _sizes(runs: int, seconds: float | None = None) -> Iterator[int]:
    """Sizes of batches: a small one first, to learn from, then ever larger ones while there is time."""
    first = size = min(_FIRST, max(4, runs // 8))
    done, spent = 0, 0.0
    while done < runs:
        size = min(size, runs - done)
        began = time.process_time()
        yield size
        done += size
        size = max(size, done // 2)
        if done == first:
            continue
        spent += time.process_time() - began
        if seconds is not None and spent > 0.0:
            size = min(size, int((seconds - spent) * (done - first) / spent))
            if size < _TOO_FEW:
                return


def _best(past: list[NDArray[Any]], statistic: Any) -> Statistic:
    """The statistic that, having learnt from the first half of the runs, best separates the worlds on the second."""
    a, b = past
    tried = candidates(statistic, a)
    best, chosen = -math.inf, tried[0]
    for candidate in tried:
        half = min(len(a) // 2, _LEARN)
        if candidate.learns:
            candidate.fit(a[:half], b[:half])
        if len(tried) == 1:
            return candidate
        left, right = candidate(a[half : 2 * half]), candidate(b[half : 2 * half])
        spread = math.sqrt(float(np.var(left) + np.var(right))) or 1.0
        apart = abs(float(left.mean() - right.mean())) / spread
        if apart > 1.05 * best:
            best, chosen = apart, candidate
    return chosen
