"""Noisy counts of the classes, and of a private model's own predictions, which turn its predictors into log-odds.

Counts of the classes serve ``class_weight="balanced"`` and give the base rates. A record is counted in one class, so
blanking it changes one count by 1 and replacing it changes at most two.

The coefficients of a private fit can have the wrong length even if their direction is right: its ridge is chosen for
data that are hard to separate, noise adds length, and the capped loss has a different link. One factor corrects that.
It is learnt from counts of both classes in intervals of the predictor; every record is in one interval. If columns were
not centred, the log-odds at the middle are unknown and are learnt too. See docs/algorithms/scaling.md.

The interval of a record depends only on the record and on earlier releases; everything else is post-processing of the
noisy counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from reticent.checks import FloatArray
from reticent.erm.problem import Groups
from reticent.noise import Source, release
from reticent.privacy import Budget, Release

SHARES = (0.02, 0.05, 0.1)
"""Shares of the budget that callers choose from: of mu squared, or of epsilon if delta = 0."""
_MANY, _FEW = 16, 4
"""Number of intervals: if columns are centred and the noise is small enough for that many counts, and otherwise."""
_NEAR = 0.5
"""Boundary of the inner two of few intervals, in units of the predictor of a row of norm 1 in a random direction."""
_WITHIN, _BEYOND = 0.25, 0.9
"""Typical predictors on both sides of that boundary, in the same unit."""
_FINE = 0.5
"""Approximate largest width of the intervals next to the middle; a step of 0.5 in log-odds loses little."""
_CLEAR, _TELLING = {_MANY: 0.02, _FEW: 0.125}, 0.25
"""Noise of the sum of all counts, as a share of the records: small enough, and the most that is accepted."""
RARE = 6.0
"""Log-odds at the middle beyond which a class is rare, and the slope there says little about even odds."""
_DOUBT = {_MANY: math.log(2.0), _FEW: math.log(3.0)}
"""Prior standard deviation of the logarithm of the slope: a factor of two, or of three if the noise is large."""
_SHIFT = 1.0
"""Prior standard deviation of the log-odds at the middle."""
_ROUGH = 0.02
"""Tolerance for the mean probability over intervals against the rate of the class, in addition to noise."""


def counted(given: Any, groups: Groups | None) -> Any:
    """The weight of each record in a count: 0 for a null record, and 1/m for each of a person's m records.

    Weights are rounded down to multiples of 2^-20, so that their sums are exact and a person counts at most 1.


    Parameters
    ----------
    given : array or None
        Sample weights; records of weight 0 are null records.
    groups : Groups or None
        Persons, if persons rather than records are protected.
    """
    present = None if given is None else (np.asarray(given) > 0.0).astype(np.float64)
    if groups is None:
        return present
    # with max_records the factors of a person's first records are 1 each and add up to at most max_records
    shares = np.floor(groups.factors / groups.most * 2.0**20) * 2.0**-20
    return shares if present is None else shares * present


@dataclass(frozen=True)
class ClassCounts(release.NoisyVector):
    """Description of noisy counts of the classes: sensitivity, noise and cost.

    Parameters
    ----------
    words : str
        Name of the release in the guarantee.
    moved : float
        Sensitivity of the counts: in l2 for Gaussian noise, in l1 for Laplace noise.
    size : int
        Number of classes.
    scale : float
        Scale of the noise on each count.
    noise : {"gaussian", "laplace"}
        Distribution of the noise.
    precision : {"lattice", "float"}
        Where noisy counts lie; "float" is for simulations.
    """

    @classmethod
    def of(
        cls,
        budget: Budget,
        classes: int,
        precision: str,
        share: float = SHARES[0],
        words: str = "counts of the classes",
    ) -> ClassCounts:
        """Counts that spend ``share`` of a budget."""
        places = 1.0 if budget.neighbours == "zero-out" else 2.0
        moved = places if budget.delta == 0.0 else math.sqrt(places)
        return cls.spending(share, budget, words, moved, classes, precision=precision)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.size

    def seen(self, numbers: Any, weights: Any, source: Source) -> FloatArray:
        """The noisy counts. Everything else this class computes is post-processing of them.

        Parameters
        ----------
        numbers : array of int
            Index of the class of each record.
        weights : array or None
            Weight of each record in the counts, from :func:`counted`. None: 1 each.
        source : Source
            Generator of the noise. :attr:`release` must have been charged before.
        """
        counts = np.bincount(numbers, weights, self.classes).astype(np.float64)
        return self.draw(counts, source)

    def factors(self, seen: FloatArray) -> FloatArray:
        """Class weights in (0, 1] from noisy counts: the smallest count divided by the count of the class."""
        # a count below the scale of its noise carries no information
        known = np.maximum(seen, self.scale)
        return np.asarray(known.min() / known)

    @property
    def doubt(self) -> float:
        """Standard deviation of the noise in the size of a class; with two classes, both counts are combined."""
        return self.deviation * (math.sqrt(0.5) if self.classes == 2 else 1.0)

    def rates(self, seen: FloatArray, count: int) -> FloatArray:
        """The share of each class among ``count`` records or persons, kept away from 0 and 1 by the noise's scale."""
        if self.classes == 2:  # the total is public, so each count is an estimate of both rates
            second = 0.5 * (count + seen[1] - seen[0])
            seen = np.array([count - second, second])
        return np.asarray(np.clip(seen, self.scale, count - self.scale) / count)


@dataclass(frozen=True)
class PredictorCounts:
    """Description of noisy counts of records by class and predictor.

    Parameters
    ----------
    count : int
        Number of records, or of persons if persons are protected.
    columns : int
        Number of columns of the table.
    centered : bool
        Whether columns are centred, so that the log-odds at the middle of the intervals are known.
    pieces : int
        Number of intervals.
    counts : ClassCounts
        The release: one count per class and interval.

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
        """As many counts as are useful, with the smallest sufficient share of the budget; None if none are useful.

        Parameters
        ----------
        budget : Budget
            Budget of which a share is spent.
        count : int
            Number of records, or of persons if persons are protected.
        columns : int
            Number of columns of the table.
        centered : bool
            Whether columns are centred at their means.
        precision : {"lattice", "float"}
            Where noisy counts lie; "float" is for simulations.
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
        """The release of these counts, with its cost."""
        return self.counts.release

    def intervals(self, reach: float) -> tuple[FloatArray, FloatArray]:
        """Boundaries of the intervals around 0, and a typical predictor in each.

        Parameters
        ----------
        reach : float
            Largest distance of a predictor from the middle.
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
        """Noisy counts, one row per class.

        Parameters
        ----------
        z : array
            Predictor of every record, computed from its own features and from released numbers only.
        numbers : array of int
            Class of every record, 0 or 1.
        middle : float
            Middle of the intervals.
        reach : float
            The intervals end at ``middle - reach`` and ``middle + reach``; predictors beyond count in the outermost.
        weights : array or None
            Weight of each record in the counts, from :func:`counted`. None: 1 each.
        source : Source
            Generator of the noise. :attr:`release` must have been charged before.
        """
        places = np.searchsorted(self.intervals(reach)[0], np.nan_to_num(z) - middle, side="right")
        seen = self.counts.seen(places + self.pieces * numbers, weights, source)
        return seen.reshape(2, self.pieces)

    def line(
        self, seen: FloatArray, level: float, reach: float, usual: float, rate: float, doubt: float
    ) -> tuple[float, float]:
        """Log-odds at the middle and their slope: posterior means of the former and of the logarithm of the latter.

        Parameters
        ----------
        seen : array
            Noisy counts, from :meth:`seen`.
        level : float
            Log-odds at the middle of the intervals; a prior mean if columns are not centred.
        reach : float
            Largest distance of a predictor from the middle, as given to :meth:`seen`.
        usual : float
            Slope of predictors that need no correction.
        rate : float
            Released rate of the second class.
        doubt : float
            Standard deviation of the noise in ``rate``.
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
    """Boundaries of the intervals around 0: equally spaced, or wider outwards if ``reach`` is large.


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
    """The nearest non-negative counts that add up to the public total."""
    falling = np.sort(seen)[::-1]
    rest = (np.cumsum(falling) - total) / np.arange(1.0, len(seen) + 1.0)
    return np.maximum(seen - rest[np.flatnonzero(falling > rest)[-1]], 0.0)
