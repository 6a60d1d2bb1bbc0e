"""The slope that turns a private model's predictors into log-odds, from noisy counts of its own predictions.

A private fit has the wrong scale even where its direction is right: its ridge is set for data that are hard to tell
apart, noise lengthens it, and a capped loss has another link. One number mends that, and it is learnt from counts of
both classes in intervals of the predictor, each of which a record is in once. Why and when: docs/algorithms/scaling.md.

What is counted depends on a record and on what was released before; all the rest is computed from the noisy counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from reticent.checks import FloatArray
from reticent.estimators.class_counts import SHARES, ClassCounts
from reticent.noise import Source
from reticent.privacy import Budget, Release

_PIECES = 16
"""Intervals of the predictor."""
_FINE = 0.5
"""About how wide those next to the middle are at most; a step of 0.5 in log-odds hides little."""
_CLEAR, _TELLING = 0.02, 0.25
"""Noise of all counts together, as a share of the records: small enough, and as much as they may have."""
RARE = 3.0
"""Log-odds of the middle beyond which a class is rare, and a line through the middle says little of even odds."""
_DOUBT = math.log(2.0)
"""Standard deviation of the logarithm of the slope beforehand: a factor of two."""


@dataclass(frozen=True)
class PredictorCounts:
    """Counts of records by class and predictor, before they are made.

    Parameters
    ----------
    count : int
        Of records, or of persons where these are protected.
    counts : ClassCounts
        What is released: the places of both classes.

    Examples
    --------
    >>> made = PredictorCounts.of(Budget(1.0, 1e-6), 10_000, "lattice")
    >>> made.release.mechanism, made.counts.classes
    ('counts of predictors by class', 32)
    >>> PredictorCounts.of(Budget(0.1, 1e-6), 1000, "lattice") is None
    True
    """

    count: int
    counts: ClassCounts

    @classmethod
    def of(cls, budget: Budget, count: int, precision: str) -> Self | None:
        """With the first share of the budget at which they are clear; None where they would tell nothing.

        Parameters
        ----------
        budget : Budget
            Of which a share is spent.
        count : int
            Of records, or of persons where these are protected.
        precision : {"lattice", "float"}
            "float" is for simulations.
        """
        for share in SHARES:
            words = "counts of predictors by class"
            counts = ClassCounts.of(budget, 2 * _PIECES, precision, share, words)
            made = cls(count, counts)
            if made.noise <= _CLEAR * count:
                break
        return made if made.noise <= _TELLING * count else None

    @property
    def noise(self) -> float:
        """Standard deviation of the noise on the sum of all counts."""
        return self.counts.deviation * math.sqrt(2.0 * _PIECES)

    @property
    def release(self) -> Release:
        """What they cost."""
        return self.counts.release

    def seen(
        self, z: FloatArray, numbers: FloatArray, middle: float, reach: float, weights: FloatArray | None,
        source: Source,
    ) -> FloatArray:  # fmt: skip
        """Noisy counts, one row for each class: all that is drawn.

        Parameters
        ----------
        z : array
            The predictor of every record, from its own features and from what was released.
        numbers : array of int
            The class of every record, 0 or 1.
        middle, reach : float
            The intervals end at ``middle - reach`` and ``middle + reach``; what is beyond is in the last.
        weights : array or None
            How much each record counts, from `reticent.estimators.bounds.counted`. None: 1 each.
        source : Source
            Where the noise comes from. The release must have been charged.
        """
        places = np.searchsorted(edges(reach)[1:-1], np.nan_to_num(z) - middle, side="right")
        seen = self.counts.seen(places + _PIECES * numbers, weights, source)
        return seen.reshape(2, _PIECES)

    def slope(self, seen: FloatArray, level: float, reach: float, usual: float) -> float:
        """The slope of the log-odds about the middle: posterior mean of its logarithm, given noisy counts.

        Parameters
        ----------
        seen : array
            What :meth:`seen` returned.
        level : float
            The log-odds at the middle of the intervals.
        reach : float
            As given there.
        usual : float
            What the slope would be if predictors were right already.
        """
        ends = edges(reach)
        z = 0.5 * (ends[1:] + ends[:-1])
        many, more = _of_total(seen.sum(axis=0), float(self.count)), seen[1] - seen[0]
        logs = np.linspace(-4.0, 4.0, 161) * _DOUBT
        sure = 2.0 * expit(level + usual * np.exp(logs)[:, None] * z) - 1.0
        noise = 2.0 * self.counts.deviation**2
        variance = noise * (1.0 + sure * sure) + many * (1.0 - sure * sure)
        fit = -0.5 * np.sum((more - many * sure) ** 2 / variance + np.log(variance), axis=-1)
        fit -= 0.5 * (logs / _DOUBT) ** 2
        weights = np.exp(fit - fit.max())
        return usual * math.exp(float(weights @ logs / weights.sum()))


def edges(reach: float) -> FloatArray:
    """Ends of the intervals about 0: of one width, or narrow in the middle and wide outwards where they reach far.

    Examples
    --------
    >>> edges(4.0)[8:].tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    >>> edges(40.0)[8:].round(1).tolist()
    [0.0, 0.5, 1.2, 2.3, 4.2, 7.4, 13.0, 22.8, 40.0]
    """
    half = _PIECES // 2
    steps = np.arange(-half, half + 1) / half
    times = reach / (_FINE * half)
    if times <= 1.001:
        return reach * steps
    a = brentq(lambda a: math.sinh(a) - times * a, 1e-3, 300.0)
    return reach * np.sinh(a * steps) / math.sinh(a)


def _of_total(seen: FloatArray, total: float) -> FloatArray:
    """The nearest counts that are not negative and add up to the total, which is public."""
    falling = np.sort(seen)[::-1]
    rest = (np.cumsum(falling) - total) / np.arange(1.0, len(seen) + 1.0)
    return np.maximum(seen - rest[np.flatnonzero(falling > rest)[-1]], 0.0)
