"""The slope that turns a private model's predictors into log-odds, from noisy counts of its own predictions.

A private fit has the wrong scale even where its direction is right: its ridge is set for data that are hard to tell
apart, noise lengthens it, and a capped loss has another link. One number mends that, and it is learnt from counts of
both classes in intervals of the predictor, each of which a record is in once. Where columns were not centered, nobody
knows which predictor stands for the base rate, and a second number is learnt. Why and when: docs/algorithms/scaling.md.

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

_MANY, _FEW = 16, 4
"""Intervals of the predictor: where columns are centered and noise is small beside so many counts, and elsewhere."""
_NEAR = 0.5
"""Where the inner two of few intervals end, in units of what rows of norm 1 have in a random direction."""
_WITHIN, _BEYOND = 0.25, 0.9
"""Typical predictors on both sides of that end, in the same unit."""
_FINE = 0.5
"""About how wide those next to the middle are at most; a step of 0.5 in log-odds hides little."""
_CLEAR, _TELLING = {_MANY: 0.02, _FEW: 0.125}, 0.25
"""Noise of all counts together, as a share of the records: small enough, and as much as they may have."""
RARE = 6.0
"""Log-odds of the middle beyond which a class is rare, and a line through the middle says little of even odds."""
_DOUBT = {_MANY: math.log(2.0), _FEW: math.log(3.0)}
"""Standard deviation of the logarithm of the slope beforehand: a factor of two, of three where noise is large."""
_SHIFT = 1.0
"""The same of the log-odds at the middle."""
_ROUGH = 0.02
"""How far the mean probability over intervals may be off the rate of the class, beside noise."""


@dataclass(frozen=True)
class PredictorCounts:
    """Counts of records by class and predictor, before they are made.

    Parameters
    ----------
    count : int
        Of records, or of persons where these are protected.
    columns : int
        Of the table.
    centered : bool
        Whether the middle of the intervals is known to have the odds that it stands for.
    pieces : int
        Number of intervals.
    counts : ClassCounts
        What is released: the places of both classes.

    Examples
    --------
    >>> made = PredictorCounts.of(Budget(1.0, 1e-6), 10_000, 8, True, "lattice")
    >>> made.release.mechanism, made.counts.classes
    ('counts of predictors by class', 32)
    >>> PredictorCounts.of(Budget(0.5, 1e-6), 430, 30, False, "lattice").counts.classes
    8
    >>> PredictorCounts.of(Budget(0.1, 1e-6), 1000, 8, True, "lattice") is None
    True
    """

    count: int
    columns: int
    centered: bool
    pieces: int
    counts: ClassCounts

    @classmethod
    def of(
        cls, budget: Budget, count: int, columns: int, centered: bool, precision: str
    ) -> Self | None:
        """As many as are telling, with the first share of the budget at which they are clear; None for none.

        Parameters
        ----------
        budget : Budget
            Of which a share is spent.
        count : int
            Of records, or of persons where these are protected.
        columns : int
            Of the table.
        centered : bool
            Whether columns are moved to their means.
        precision : {"lattice", "float"}
            "float" is for simulations.
        """
        for pieces in (_MANY, _FEW) if centered else (_FEW,):
            for share in SHARES:
                words = "counts of predictors by class"
                counts = ClassCounts.of(budget, 2 * pieces, precision, share, words)
                made = cls(count, columns, centered, pieces, counts)
                if made.noise <= _CLEAR[pieces] * count:
                    break
            if made.noise <= _TELLING * count:
                return made
        return None

    @property
    def noise(self) -> float:
        """Standard deviation of the noise on the sum of all counts."""
        return self.counts.deviation * math.sqrt(2.0 * self.pieces)

    @property
    def release(self) -> Release:
        """What they cost."""
        return self.counts.release

    def intervals(self, reach: float) -> tuple[FloatArray, FloatArray]:
        """Where the intervals about 0 meet, and what stands for the predictors in each.

        Parameters
        ----------
        reach : float
            No predictor is further from the middle.
        """
        if self.pieces == _MANY:
            ends = edges(reach)
            return ends[1:-1], 0.5 * (ends[1:] + ends[:-1])
        unit = reach / math.sqrt(self.columns)
        points = np.array([-_BEYOND, -_WITHIN, _WITHIN, _BEYOND])
        return unit * np.array([-_NEAR, 0.0, _NEAR]), unit * points

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
            The intervals lie about ``middle`` and end at ``middle - reach`` and ``middle + reach``; what is beyond is
            in the last.
        weights : array or None
            How much each record counts, from `reticent.estimators.bounds.counted`. None: 1 each.
        source : Source
            Where the noise comes from. The release must have been charged.
        """
        places = np.searchsorted(self.intervals(reach)[0], np.nan_to_num(z) - middle, side="right")
        seen = self.counts.seen(places + self.pieces * numbers, weights, source)
        return seen.reshape(2, self.pieces)

    def line(
        self, seen: FloatArray, level: float, reach: float, usual: float, rate: float, doubt: float
    ) -> tuple[float, float]:
        """Log-odds at the middle and their slope: posterior means of the first and of the logarithm of the second.

        Parameters
        ----------
        seen : array
            What :meth:`seen` returned.
        level : float
            The log-odds at the middle of the intervals, or what they are about where columns are not centered.
        reach : float
            As given there.
        usual : float
            What the slope would be if predictors were right already.
        rate : float
            Of the second class, as it was released.
        doubt : float
            Standard deviation of the noise in it.
        """
        z = self.intervals(reach)[1]
        many, more = _of_total(seen.sum(axis=0), float(self.count)), seen[1] - seen[0]
        spread = _DOUBT[self.pieces]
        logs, shifts = np.linspace(-4.0, 4.0, 161) * spread, np.linspace(-3.0, 3.0, 25) * _SHIFT
        odds = (level + shifts)[:, None, None] + usual * np.exp(logs)[:, None] * z
        sure = 2.0 * expit(odds) - 1.0
        noise = 2.0 * self.counts.deviation**2
        variance = noise * (1.0 + sure * sure) + many * (1.0 - sure * sure)
        fit = -0.5 * np.sum((more - many * sure) ** 2 / variance + np.log(variance), axis=-1)
        fit -= 0.5 * (logs / spread) ** 2 + 0.5 * (shifts[:, None] / _SHIFT) ** 2
        mean = 0.5 + 0.5 * (sure @ many) / self.count
        fit -= 0.5 * (mean - rate) ** 2 / (doubt**2 + _ROUGH**2)
        weights = np.exp(fit - fit.max())
        weights /= weights.sum()
        slope = usual * math.exp(float(weights.sum(axis=0) @ logs))
        return level + float(weights.sum(axis=1) @ shifts), slope


def edges(reach: float) -> FloatArray:
    """Ends of the intervals about 0: of one width, or narrow in the middle and wide outwards where they reach far.

    Examples
    --------
    >>> edges(4.0)[8:].tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    >>> edges(40.0)[8:].round(1).tolist()
    [0.0, 0.5, 1.2, 2.3, 4.2, 7.4, 13.0, 22.8, 40.0]
    """
    half = _MANY // 2
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
