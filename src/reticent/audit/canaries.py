"""Audit a whole training run at once, with many canaries that are each included by a coin flip.

Steinke, Nasr and Jagielski, *Privacy auditing with one (1) training run* (2023), Theorem 5.2. Each of m canaries is
included with probability one half; after one run an attacker guesses for some of them whether they were included. If
the run is (epsilon, delta)-private with respect to each of them, at least v of r guesses are right with probability at
most

    P[W >= v] + 2 m delta max_i (1/i) P[v - i <= W < v],      W ~ Binomial(r, e^epsilon / (1 + e^epsilon)).

If the claim is a whole trade-off curve, a bound on all m guesses that uses the whole curve does not lose delta for each
canary (after Mahloujifar, Melis and Chaudhuri, *Auditing f-differential privacy in one run*, 2024): see
:func:`trade_off_p_value`, and docs/audit.md for the proof of the form used here.

The inclusion of the canaries must be the only randomness of the data, and the person who scores them must not see
which were included.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, expit, ndtr, ndtri
from scipy.stats import binom

from reticent.audit.finding import Finding, as_curve, epsilon_of_part
from reticent.checks import fraction, integer, number
from reticent.noise import Source
from reticent.privacy import Curve, Gaussian, Guarantee


def p_value(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """An upper bound on the probability of at least ``right`` right guesses under (epsilon, delta)-privacy.

    Examples
    --------
    >>> p_value(10, 10, 10, 0.0, 0.0)  # ten coin tosses
    0.0009765625
    """
    chance = float(expit(epsilon))
    # the upper tail of a binomial law
    tail = float(betainc(right, guesses - right + 1, chance)) if right else 1.0
    if delta == 0.0 or right == 0:
        return min(1.0, tail)
    below = binom.pmf(np.arange(right - 1, -1, -1), guesses, chance)
    steepest = float((np.cumsum(below) / np.arange(1, right + 1)).max())
    return min(1.0, tail + 2.0 * canaries * delta * steepest)


Inverse = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""A function of p: for each of several claims, the least probability in one world of an event with probability p in the
other."""


def trade_off_p_value(right: int, canaries: int, inverse: Inverse) -> NDArray[np.float64]:
    """An upper bound on the probability of at least ``right`` right guesses about all canaries, under trade-off curves.

    Parameters
    ----------
    right : int
        Number of right guesses.
    canaries : int
        Number of canaries; all of them were guessed.
    inverse : callable
        ``inverse(p)`` returns, for each of the curves, the least probabilities in one world of events that have the
        probabilities p in the other.

    Returns
    -------
    array
        One bound for each curve.

    Examples
    --------
    >>> bool(
    ...     trade_off_p_value(10, 10, lambda p: p) < 0.0011
    ... )  # ten coin tosses: the worlds are equal
    True
    """
    m = canaries
    high = np.zeros(np.shape(inverse(np.zeros(1))))
    low = high - 40.0

    def is_possible(logarithm: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether the curves allow at least ``right`` right guesses with probability ``e^logarithm``."""
        tail = np.exp(logarithm)
        correct, wrong = tail * right / m, tail * (m - right) / m
        for c in range(right - 1, -1, -1):
            more = np.maximum(inverse(np.minimum(correct, 1.0)) - wrong, 0.0)
            correct, wrong = correct + c / (m - c) * more, wrong + more
        return correct + wrong <= 1.0

    sure = is_possible(high) if right else np.ones(high.shape, dtype=bool)
    for _ in range(40):
        middle = 0.5 * (low + high)
        possible = is_possible(middle)
        low, high = np.where(possible, middle, low), np.where(possible, high, middle)
    return np.where(sure, 1.0, np.exp(high))


def _inverse(curve: Curve, shares: NDArray[np.float64]) -> Inverse:
    """The least probability of an event with probability p in the other world, under shares of a claim."""
    if curve.gdp is not None:
        mu = shares * curve.gdp
        return lambda p: np.asarray(ndtr(ndtri(p) - mu))
    epsilons = np.array([_profile(curve, float(share)) for share in shares])
    kept = np.isfinite(epsilons).all(axis=0)
    levels, scaled = _LEVELS[kept], epsilons[:, kept]
    # P <= e^epsilon Q + delta, for the event and for its complement
    slopes = np.hstack([np.exp(-scaled), np.exp(scaled)])
    constants = np.hstack([-np.exp(-scaled) * levels, 1.0 - levels - np.exp(scaled)])

    def inverse(p: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(np.max(constants + slopes * p[:, None], axis=1), 0.0)

    return inverse


@functools.lru_cache(maxsize=256)
def _profile(curve: Curve, share: float) -> tuple[float, ...]:
    return tuple(epsilon_of_part(curve, share, delta) for delta in _LEVELS.tolist())


_LEVELS = np.concatenate([[0.0], np.geomspace(1e-6, 0.5, 24)])


def epsilon_bound(right: int, guesses: int, canaries: int, delta: float, alarm: float) -> float:
    """The largest epsilon that these guesses refute; it exceeds the truth with probability at most ``alarm``."""

    def refuted(epsilon: float) -> bool:
        return p_value(right, guesses, canaries, epsilon, delta) <= alarm

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high):
        low, high = high, 2.0 * high
        if high > 64.0:  # the chance of a wrong guess is then beyond double precision
            return low
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def one_run(
    train: Callable[[NDArray[np.bool_]], Any],
    score: Callable[[Any], Any],
    canaries: int,
    *,
    delta: float = 0.0,
    claim: Guarantee | Curve | float | None = None,
    guesses: Sequence[int] | int | None = None,
    false_alarm: float = 1e-6,
    seed: int | None = None,
    name: str = "training run",
) -> Finding:
    """A lower bound on epsilon from a single run with many canaries.

    Parameters
    ----------
    train
        ``train(included)`` runs the learner or solver on the included canaries (an array of ``canaries`` booleans) and
        on any fixed records, and returns its output. Leaving a canary out must be what the guarantee protects: for
        ``"zero-out"``, replacing it by the null record.
    score
        ``score(output)`` returns one number per canary: the higher, the more likely it was included. It sees the output
        and the canaries, never ``included``.
    canaries
        Number of canaries.
    delta
        The delta at which epsilon is bounded. The theorem loses m times delta, so it should be well below
        ``false_alarm / canaries``; otherwise nothing can be refuted, and ``how`` says so.
    claim
        Claim with which the bound is compared.
    guesses
        Number of canaries to guess, the most certain first, half of them as included and half as not. A list tries
        several, each with its share of the false-alarm probability. By default a tenth, a third, and all.
    false_alarm
        Upper bound on the probability that the result exceeds the true epsilon.
    seed
        Seed of the coin flips; None takes them from the operating system.
    name : str
        Name for printing.

    Returns
    -------
    Finding
        The bound, and how it compares with the claim.


    Examples
    --------
    A sum of one-hot canaries with far too little noise:

    >>> rng = np.random.default_rng(0)
    >>> def train(included):
    ...     return included + rng.normal(scale=0.3, size=included.size)
    >>> found = one_run(train, lambda output: output, 1000, delta=1e-11, claim=1.0, seed=1)
    >>> found.epsilon > 2.0, found.holds
    (True, False)
    """
    m = integer(canaries, "canaries", low=2)
    delta = number(delta, "delta", low=0.0, high=1.0, open_high=True)
    alarm = fraction(false_alarm, "false_alarm")
    if guesses is None:
        guesses = sorted({max(2, m // 10), max(2, m // 3), m})
    tries = [guesses] if isinstance(guesses, int) else list(guesses)
    tries = [integer(r, "guesses", low=2, high=m) for r in tries]
    if not tries:
        raise ValueError("guesses must name at least one number of guesses, got an empty list")
    included, scores = _tossed(train, score, m, seed)
    order = np.argsort(scores, kind="stable")
    best, how = 0.0, "no number of guesses refutes anything"
    if all(p_value(r, r, m, 0.0, delta) > alarm / len(tries) for r in tries):
        how = (
            f"delta = {delta:g} is too large for {m} canaries: even {max(tries)} right guesses would "
            "refute nothing; use a smaller delta, or fewer guesses"
        )
    for r in tries:
        right = _right(included, order, r)
        bound = epsilon_bound(right, r, m, delta, alarm / len(tries))
        if bound > best:
            best, how = bound, f"{right} of {r} guesses about {m} canaries were right"
    return Finding(
        name=name,
        epsilon=best,
        delta=delta,
        gdp=None,
        claim=as_curve(claim),
        runs=1,
        false_alarm=alarm,
        how=how,
    )


class _Doubt:
    """Capital from bets that many guesses are right, run after run, against shares of a claim.

    Under a share of the claim, at least v guesses are right with probability at most t. A bet that pays q/t if they are
    and (1 - q)/(1 - t) otherwise, with q > t, has no positive expected gain; v is chosen by earlier runs.
    """

    _OFTEN = 0.9  # the probability q with which at least v guesses should be right
    _BELOW = 1.3  # v is so many standard deviations below the mean so far

    def __init__(self, claim: Curve, canaries: int) -> None:
        self._claim, self._canaries = claim, canaries
        self._capital = np.zeros(len(_FEWER))
        self._best = np.zeros(len(_FEWER))
        self._counts: list[int] = []
        self._limits: dict[int, NDArray[np.float64]] = {}

    def _limit(self, threshold: int) -> NDArray[np.float64]:
        if threshold not in self._limits:
            inverse = _inverse(self._claim, _FEWER)
            self._limits[threshold] = trade_off_p_value(threshold, self._canaries, inverse)
        return self._limits[threshold]

    def look(self, right: int) -> None:
        """Bet on one more run, in which ``right`` guesses were right."""
        if self._counts:
            m, mean = self._canaries, float(np.mean(self._counts))
            deviation = math.sqrt(mean * (m - mean) / m)
            # few thresholds, because each takes time
            threshold = int(mean - self._BELOW * deviation) // 4 * 4
            limit = self._limit(threshold)
            bets = limit < self._OFTEN
            with np.errstate(divide="ignore"):
                won = np.log(self._OFTEN / limit)
                lost = np.log((1.0 - self._OFTEN) / (1.0 - limit))
            self._capital += np.where(bets, won if right >= threshold else lost, 0.0)
            self._best = np.maximum(self._best, self._capital)
        self._counts.append(right)

    def share(self, alarm: float) -> float:
        refuted = np.logical_and.accumulate(self._best >= -math.log(alarm))
        return float(_FEWER[refuted][-1]) if refuted[0] else 0.0


_FEWER = np.round(np.concatenate([np.arange(0.1, 1.0, 0.05), [1.0, 1.1, 1.25, 1.5, 2.0]]), 4)


def few_runs(
    train: Callable[[NDArray[np.bool_]], Any],
    score: Callable[[Any], Any],
    canaries: int,
    *,
    claim: Guarantee | Curve | float,
    runs: int = 200,
    delta: float = 1e-6,
    false_alarm: float = 1e-6,
    name: str = "training runs",
) -> Finding:
    """Several runs with many canaries each, tested against a whole trade-off curve.

    At a false-alarm probability of 1e-6 a single run says little about Gaussian noise, whatever the number of canaries:
    once in a million runs a private mechanism may reveal much. Evidence from independent runs multiplies.

    Parameters
    ----------
    train : callable
        ``train(included)`` runs the learner or solver on the included canaries (an array of ``canaries`` booleans) and
        on any fixed records, and returns its output.
    score : callable
        ``score(output)`` returns one number per canary: the higher, the more likely it was included.
    canaries : int
        Number of canaries in each run.
    claim : Guarantee, Curve or float
        Claim to test.
    runs : int
        Largest number of runs; the audit stops earlier if the claim is refuted.
    delta : float
        The delta at which epsilon is bounded.
    false_alarm : float
        Upper bound on the probability that a true claim is ever refuted.
    name : str
        Name for printing.

    Returns
    -------
    Finding
        The bound, and whether the claim holds.


    Examples
    --------
    >>> from reticent.privacy import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> def train(included):
    ...     return included + rng.normal(scale=0.5, size=included.size)
    >>> few_runs(train, lambda output: output, 500, claim=Gaussian(2.0)).holds
    True
    >>> few_runs(train, lambda output: output, 500, claim=Gaussian(0.8)).holds
    False
    """
    m, runs = integer(canaries, "canaries", low=2), integer(runs, "runs", low=2)
    delta = number(delta, "delta", low=0.0, high=1.0, open_high=True)
    alarm = fraction(false_alarm, "false_alarm")
    curve = as_curve(claim)
    if curve is None:
        raise ValueError("claim must be given, because guesses are compared with a claim; got None")
    doubt, done = _Doubt(curve, m), 0
    while done < runs and doubt.share(alarm) < 1.0:
        included, scores = _tossed(train, score, m, None)
        order = np.argsort(scores, kind="stable")
        doubt.look(_right(included, order, m))
        done += 1
    share = doubt.share(alarm)
    mu = None if curve.gdp is None else share * curve.gdp
    epsilon = 0.0
    if share > 0.0:
        bound = (
            Gaussian(mu).epsilon(delta) if mu is not None else epsilon_of_part(curve, share, delta)
        )
        epsilon = math.nextafter(bound, math.inf)
    mean = float(np.mean(doubt._counts))
    how = f"{mean:.1f} of {m} guesses were right on average of {done} runs"
    return Finding(name, epsilon, delta, mu, curve, done, alarm, how=how)


def _tossed(
    train: Callable[[NDArray[np.bool_]], Any], score: Callable[[Any], Any], m: int, seed: int | None
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which canaries were included, and the scores of all of them."""
    words = Source(seed).words((m + 63) // 64)
    included = np.unpackbits(words.view(np.uint8))[:m].astype(bool)
    scores = np.asarray(score(train(included.copy())), dtype=np.float64).reshape(-1)
    if scores.shape != (m,) or np.isnan(scores).any():
        raise ValueError(
            f"score must return one number for each of the {m} canaries, got shape {scores.shape}"
            + (" with NaN" if np.isnan(scores).any() else "")
        )
    return included, scores


def _right(included: NDArray[np.bool_], order: NDArray[np.int64], guesses: int) -> int:
    """How many of the most certain guesses are right, half of them "included" and half "left out"."""
    m = len(included)
    out, in_ = order[: guesses // 2], order[m - (guesses - guesses // 2) :]
    return int(np.count_nonzero(~included[out]) + np.count_nonzero(included[in_]))


def expected_bound(
    epsilon: float, canaries: int, delta: float = 0.0, false_alarm: float = 1e-6
) -> float:
    """The average bound that :func:`one_run` finds at best, if guesses are right as often as epsilon allows.

    It helps to choose the number of canaries: a thousand cannot show epsilon = 0.1.

    Parameters
    ----------
    epsilon : float
        The true epsilon.
    canaries : int
        Number of canaries, all of which are guessed.
    delta : float
        The delta at which epsilon is bounded.
    false_alarm : float
        Probability with which the bound may exceed the true epsilon.

    Returns
    -------
    float
        The expected lower bound on epsilon.

    Examples
    --------
    >>> round(expected_bound(1.0, 1000), 2)
    0.67
    """
    right = math.floor(canaries * float(expit(epsilon)))
    return epsilon_bound(right, canaries, canaries, delta, false_alarm)
