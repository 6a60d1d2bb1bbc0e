"""Audit a whole training run at once: many canaries, each in or out by the toss of a coin.

Steinke, Nasr and Jagielski, *Privacy auditing with one (1) training run* (2023), Theorem 5.2. Each of m
canaries is included with probability a half; after one run an attacker guesses for some of them
whether they were in. If the run is (epsilon, delta)-private with respect to any one of them, r guesses
are right at least v times with probability at most

    P[W >= v] + 2 m delta max_i (1/i) P[v - i <= W < v],      W ~ Binomial(r, e^epsilon / (1 + e^epsilon)).

The one thing a reader would get wrong: the canaries must be the only thing that is random about the
data, and whoever scores them must not see which were in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binom

from reticent._checks import integer, number
from reticent.audit.finding import Finding, as_curve
from reticent.noise import Source
from reticent.privacy import Curve, Guarantee


def p_value(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """How likely at least ``right`` right guesses are, at most, under (epsilon, delta)-privacy.

    Examples
    --------
    >>> p_value(10, 10, 10, 0.0, 0.0)  # ten coin tosses
    0.0009765625
    """
    chance = float(expit(epsilon))
    tail = float(binom.sf(right - 1, guesses, chance))
    if delta == 0.0 or right == 0:
        return min(1.0, tail)
    below = binom.pmf(np.arange(right - 1, -1, -1), guesses, chance)
    steepest = float((np.cumsum(below) / np.arange(1, right + 1)).max())
    return min(1.0, tail + 2.0 * canaries * delta * steepest)


def epsilon_bound(right: int, guesses: int, canaries: int, delta: float, alarm: float) -> float:
    """The largest epsilon that these guesses refute, wrong with probability at most ``alarm``."""

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
        ``train(included)`` runs the learner or solver on the canaries that are included (an array of
        ``canaries`` booleans) and whatever fixed records go with them, and returns its output. Leaving
        a canary out must be what the guarantee protects: for ``"zero-out"``, the null record instead.
    score
        ``score(output)`` returns one number a canary: the higher, the likelier it was in. It sees the
        output and the canaries, never ``included``.
    canaries
        How many there are.
    delta
        Where the bound on epsilon is sought. The theorem allows for m deltas, so it should be well
        below ``false_alarm / canaries``, or nothing can be refuted; ``how`` then says so.
    claim
        What to hold against the bound.
    guesses
        How many of the canaries to guess for, the surest first, half of them as in and half as out. A
        list tries several, each with its share of the false-alarm probability. By default a tenth, a
        third, and all.
    false_alarm
        The probability that the bound is above the truth is at most this.
    seed
        For the coins; None takes them from the operating system.
    name : str
        What the line is called.

    Returns
    -------
    Finding

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
    alarm = number(false_alarm, "false_alarm", low=0.0, high=1.0, open_low=True, open_high=True)
    if guesses is None:
        guesses = sorted({max(2, m // 10), max(2, m // 3), m})
    tries = [guesses] if isinstance(guesses, int) else list(guesses)
    tries = [integer(r, "guesses", low=2, high=m) for r in tries]
    if not tries:
        raise ValueError("guesses must name at least one number of guesses, got an empty list")
    words = Source(seed).words((m + 63) // 64)
    included = np.unpackbits(words.view(np.uint8))[:m].astype(bool)
    scores = np.asarray(score(train(included.copy())), dtype=np.float64).reshape(-1)
    if scores.shape != (m,) or np.isnan(scores).any():
        raise ValueError(
            f"score must return one number for each of the {m} canaries, got shape {scores.shape}"
            + (" with NaN" if np.isnan(scores).any() else "")
        )
    order = np.argsort(scores, kind="stable")
    best, how = 0.0, "no number of guesses refutes anything"
    if all(p_value(r, r, m, 0.0, delta) > alarm / len(tries) for r in tries):
        how = (
            f"delta = {delta:g} is too large for {m} canaries: even {max(tries)} right guesses would "
            "refute nothing; ask at a smaller delta, or for fewer guesses"
        )
    for r in tries:
        out, in_ = order[: r // 2], order[m - (r - r // 2) :]
        right = int(np.count_nonzero(~included[out]) + np.count_nonzero(included[in_]))
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


def expected_bound(
    epsilon: float, canaries: int, delta: float = 0.0, false_alarm: float = 1e-6
) -> float:
    """What :func:`one_run` finds on average at best if every guess is right as often as epsilon allows.

    A budget for how many canaries are worth their while: a thousand cannot show epsilon = 0.1.
    """
    right = math.floor(canaries * float(expit(epsilon)))
    return epsilon_bound(right, canaries, canaries, delta, false_alarm)
