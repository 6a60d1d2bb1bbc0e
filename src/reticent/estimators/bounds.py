"""Bounds of columns that nobody knows, found privately: histograms over powers of two, then finer ones.

Every record is counted once per column in a histogram over all powers of two that a double can hold, with exact
noise; the columns' intervals are where counts stand out of the noise. Two more histograms of ``PIECES`` equal
pieces then narrow each interval. Rows may have one more number found in the same way: the norm that few of them
exceed. What this costs, and why: docs/algorithms/private-bounds.md.

The thresholds are about usefulness alone. Privacy rests on the sensitivity of the counts, and everything after the
noise is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ndtri

from reticent.checks import FloatArray
from reticent.erm.groups import Groups
from reticent.noise import Source, release
from reticent.privacy import Budget, Gaussian, Laplace, Release
from reticent.privacy.curves import Curve

SHARE = 0.1
"""Of the budget: of mu squared, or of epsilon where delta = 0. Up to three times as much where records are few."""
PIECES = 16
_STAGES = (0.5, 0.25, 0.25)
"""What of that goes to the powers of two, and to each of the finer counts."""
_ROWS = 0.1
"""And of the whole, to the norm of the rows where columns are looked at too."""
ZOOMS = len(_STAGES) - 1
_POWERS = 2098  # frexp exponents of positive doubles, denormals included: -1073 to 1024
_LOWEST = -1073
_SMALL = 2.0**-900
"""Half of the least doubles is 0 or as much again; what is below this is multiplied by its reciprocal first."""
_RARE_FAR = 1e-6
"""The probability that any power of two without a record looks as if it had some."""
_RARE_NEAR = 1e-3
"""The same for the pieces of an interval, where a mistake costs little."""
_FEW = 0.01
"""The share of rows that may be longer than the norm that is found."""
_CLEAR, _ENOUGH = 0.1, 0.25
"""The first share of the records shall stand out of the noise, for which more of the budget is taken if need be;
columns are looked at one by one only where at least the second one does."""
_MOST = 0.5
"""But no more of the budget than this, nor than was asked for."""
_HOPELESS = 0.5
"""A search in which not even this share of the records would stand out is refused."""


@dataclass(frozen=True, eq=False)
class Columns:
    """What was found about columns; all of it is covered by the search's guarantee.

    Attributes
    ----------
    low, high : arrays
        Almost all records lie between these; equal where nothing was found, or one value only, such as 0.
    found : array of bool
        Whether anything stood out of the noise.
    mean, deviation : arrays
        About the mean and the standard deviation within, from the last counts.
    """

    low: FloatArray
    high: FloatArray
    mean: FloatArray
    deviation: FloatArray
    found: NDArray[np.bool_]


@dataclass(frozen=True)
class Search:
    """What finding bounds will release; public, decided before a record is read.

    Parameters
    ----------
    columns : int
        How many columns have their interval found, each by itself; may be 0.
    rows : bool
        Whether a norm of the rows is found as well.
    level : float
        What all of it may cost: mu, or epsilon where the noise is not Gaussian.
    noise : {"gaussian", "laplace"}
        The kind of noise on the counts.
    neighbours : {"zero-out", "replace"}
        A record that is blanked takes one count of each histogram along; one that is replaced moves
        it to another place as well.
    precision : {"lattice", "float"}
        "float" is for simulations.

    Examples
    --------
    >>> from reticent.privacy import Budget
    >>> search = Search.of(Budget(1.0, 1e-6), 100_000, columns=8, rows=True)
    >>> [release.mechanism for release in search.releases]
    ['counts of 8 columns by powers of two', 'counts of 8 columns by finer pieces',
     'counts of row norms by powers of two', 'counts of row norms by finer pieces']
    >>> round(search.level, 4)
    0.0749
    """

    columns: int
    rows: bool
    level: float
    noise: str
    neighbours: str
    precision: str

    @classmethod
    def of(
        cls,
        budget: Budget,
        count: int,
        columns: int,
        rows: bool = False,
        share: float = SHARE,
        precision: str = "lattice",
    ) -> Search:
        """The search that takes a share of a budget; reads the number of records only.

        Where there are so many columns that their counts would drown in noise, only the rows' norm
        is found, if that was asked for.
        """
        pure = budget.delta == 0.0
        whole = budget.epsilon if pure else budget.mu
        noise = "laplace" if pure else "gaussian"

        def made(share: float, columns: int) -> Search:
            level = whole * (share if pure else math.sqrt(share))
            return cls(columns, rows, level, noise, budget.neighbours, precision)

        for some in (columns, 0) if rows else (columns,):
            for times in (1.0, 1.5, 2.0, 3.0):
                search = made(min(times * share, max(share, _MOST)), some)
                if search._standing_out <= _CLEAR * count:
                    return search
            if search._standing_out <= _ENOUGH * count:
                return search
        if search._standing_out > _HOPELESS * count:
            raise ValueError(
                f"{count} records are too few to find bounds privately with this budget ({budget}): noise "
                f"hides any {search._standing_out:.0f} of them. State the bounds, raise epsilon, or bring "
                "more records; nothing was spent"
            )
        return search

    @property
    def _moved(self) -> float:
        """How far a record moves all columns' counts, in the norm that the noise is calibrated to."""
        each = self.columns if self.neighbours == "zero-out" else 2 * self.columns
        return math.sqrt(each) if self.noise == "gaussian" else float(each)

    @property
    def _moved_rows(self) -> float:
        each = 1 if self.neighbours == "zero-out" else 2
        return math.sqrt(each) if self.noise == "gaussian" else float(each)

    def _scales(self, rows: bool) -> list[float]:
        """The scale of the noise at each stage, on the columns' counts or on the rows'."""
        for_rows = (_ROWS if self.columns else 1.0) * self.rows
        whole = for_rows if rows else 1.0 - for_rows
        moved = self._moved_rows if rows else self._moved
        scales = []
        for part, size in zip(_STAGES, self._sizes(rows), strict=True):
            share = part * whole
            level = self.level * (math.sqrt(share) if self.noise == "gaussian" else share)
            if self.precision == "float":
                scales.append(moved / level)
            else:
                scales.append(release.scale_for(moved, level, size, self.noise))
        return scales

    def _sizes(self, rows: bool) -> list[int]:
        """How many counts each stage has."""
        first, columns = (_POWERS + 1, 1) if rows else (2 * _POWERS + 1, self.columns)
        return [columns * first] + [columns * PIECES] * ZOOMS

    def _release(self, words: str, moved: float, scale: float, size: int, count: int) -> Release:
        if self.precision == "lattice":
            moved = release.widened(moved, scale, size, self.noise)
        kind: Callable[[float], Curve] = Gaussian if self.noise == "gaussian" else Laplace
        name = "Gaussian, standard deviation" if self.noise == "gaussian" else "Laplace, scale"
        return Release(words, kind(moved / scale), moved, f"{name} {scale:.6g}", count)

    @property
    def releases(self) -> tuple[Release, ...]:
        """What is released, with its cost."""
        made = []
        columns = f"{self.columns} column{'s' * (self.columns > 1)}"
        for rows, words in ((False, columns), (True, "row norms")):
            if not (self.rows if rows else self.columns):
                continue
            moved = self._moved_rows if rows else self._moved
            first, *_, last = zip(self._scales(rows), self._sizes(rows), strict=True)
            made.append(self._release(f"counts of {words} by powers of two", moved, *first, 1))
            made.append(self._release(f"counts of {words} by finer pieces", moved, *last, ZOOMS))
        return tuple(made)

    @property
    def _standing_out(self) -> float:
        """The count that a power of two must have to be told from noise."""
        rows = not self.columns
        return self._scales(rows)[0] * _threshold(self.noise, self._sizes(rows)[0], _RARE_FAR)

    @property
    def needed(self) -> int:
        """With so many records, the share of them that shall stand out of the noise does."""
        return math.ceil(self._standing_out / _CLEAR)

    # Finding --------------------------------------------------------------------------------------

    def intervals(self, X: Any, weights: Any, source: Source, *, least: float = 0.0) -> Columns:
        """Low and high of every column; equal where no record stands out, or one value only, such as 0.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, columns)
            Finite.
        weights : array or None
            How much each record counts, from :func:`counted`; 0 is the null record. None: 1 each.
        source : Source
            Where the noise comes from. What :attr:`releases` says must have been charged.
        least : float
            The share of the records that may lie beyond each end.
        """
        count, columns = X.shape[0], self.columns
        scale, seen = self._scales(False)[0], self.by_powers(X, weights, source)
        far = _threshold(self.noise, seen.size, _RARE_FAR)
        lows, highs, there = np.zeros(columns), np.zeros(columns), np.zeros(columns, dtype=bool)
        for j in range(columns):
            found = _ends(seen[j], scale, far, self.noise, 0.0)
            if found is not None:
                there[j], lows[j], highs[j] = True, _edges(found[0])[0], _edges(found[1])[1]
        known = Columns(lows, highs, lows, np.zeros(columns), there)
        for scale in self._scales(False)[1:]:
            known = self._zoom(X, weights, source, known, scale, least * count)
        return known

    def by_powers(self, X: Any, weights: Any, source: Source) -> FloatArray:
        """Every column's counts by powers of two, with noise."""
        counts = np.empty((self.columns, 2 * _POWERS + 1))
        for j in range(self.columns):
            counts[j] = np.bincount(power(_column(X, j)), weights, 2 * _POWERS + 1)
        return self._noisy(counts, self._scales(False)[0], source)

    def _zoom(
        self, X: Any, weights: Any, source: Source, known: Columns, scale: float, beyond: float
    ) -> Columns:
        """The intervals cut to the pieces that stand out of the noise."""
        lows, highs = known.low, known.high
        seen = self.by_pieces(X, weights, source, lows, highs, scale)
        near = _threshold(self.noise, seen.size, _RARE_NEAR)
        new_lows, new_highs = lows.copy(), highs.copy()
        means, deviations = lows.copy(), np.zeros(self.columns)
        for j in range(self.columns):
            found = _ends(seen[j], scale, near, self.noise, beyond)
            if lows[j] < highs[j] and found is not None:
                new_lows[j] = _point(lows[j], highs[j], found[0] / PIECES)
                new_highs[j] = _point(lows[j], highs[j], (found[1] + 1) / PIECES)
                mean, deviation = _moments(seen[j], *found, scale)
                means[j] = _point(lows[j], highs[j], mean)
                deviations[j] = 2.0 * deviation * (0.5 * highs[j] - 0.5 * lows[j])
        return Columns(new_lows, new_highs, means, deviations, known.found)

    def by_pieces(
        self,
        X: Any,
        weights: Any,
        source: Source,
        lows: FloatArray,
        highs: FloatArray,
        scale: float,
    ) -> FloatArray:
        """Every column's counts by pieces of an interval, with noise of a scale."""
        counts = np.zeros((self.columns, PIECES))
        for j in range(self.columns):
            if lows[j] < highs[j]:
                places = _piece(_column(X, j), lows[j], highs[j])
                counts[j] = np.bincount(places, weights, PIECES)
        return self._noisy(counts, scale, source)

    def norm(self, sizes: FloatArray, weights: Any, source: Source) -> float | None:
        """A bound that few of these sizes exceed, 0 if most are 0; None where nothing stands out of the noise."""
        sizes = np.minimum(sizes, np.finfo(np.float64).max)
        first, *finer = self._scales(True)
        counts = np.bincount(power(sizes) - _POWERS, weights, _POWERS + 1).astype(np.float64)
        seen = self._noisy(counts[None, :], first, source)[0]
        far = _threshold(self.noise, counts.size, _RARE_FAR)
        near = _threshold(self.noise, PIECES, _RARE_NEAR)
        powers = _ends(seen, first, far, self.noise, 0.0)
        high = 0.0 if powers is None else _edges(powers[1] + _POWERS)[1]
        for scale in finer:
            seen = self.norms_by_pieces(sizes, weights, source, high, scale)
            found = _ends(seen, scale, near, self.noise, _FEW * max(float(seen.sum()), 0.0))
            if found is not None:
                high = high * (found[1] + 1) / PIECES
        return None if powers is None else high

    def norms_by_pieces(
        self, sizes: FloatArray, weights: Any, source: Source, high: float, scale: float
    ) -> FloatArray:
        """The counts of sizes by pieces of [0, high], with noise of a scale."""
        counts = np.zeros((1, PIECES))
        if high > 0.0:
            counts[0] = np.bincount(_piece(sizes, 0.0, high), weights, PIECES)
        return self._noisy(counts, scale, source)[0]

    def _noisy(self, counts: FloatArray, scale: float, source: Source) -> FloatArray:
        seen = release.noisy(
            counts.ravel(), scale, source, noise=self.noise, precision=self.precision
        )
        return seen.reshape(counts.shape)


def counted(given: Any, groups: Groups | None) -> Any:
    """How much each record counts: nothing if its weight is 0, and of a person's m records 1/m each.

    Rounded down to multiples of 2^-20, so that sums of them are exact and a person counts 1 at most.

    Parameters
    ----------
    given : array or None
        Weights of the records, of which 0 marks null records.
    groups : Groups or None
        Persons, where these are protected.
    """
    present = None if given is None else (np.asarray(given) > 0.0).astype(np.float64)
    if groups is None:
        return present
    # of whom the first records count in full, the factors are 1 and add up to max_records
    shares = np.floor(groups.factors / groups.most * 2.0**20) * 2.0**-20
    return shares if present is None else shares * present


def _column(X: Any, j: int) -> FloatArray:
    return np.asarray(X[:, [j]].toarray()[:, 0] if sp.issparse(X) else X[:, j])


def power(values: FloatArray) -> Any:
    """The place of each value among the powers of two: negative ones, zero, positive ones."""
    exponent = np.frexp(values)[1] - (_LOWEST - 1)
    sign = np.sign(values).astype(np.int64)
    return _POWERS + sign * exponent


def _edges(place: int) -> tuple[float, float]:
    """The values that are counted at a place lie between these."""
    k = abs(place - _POWERS)
    if k == 0:
        return 0.0, 0.0
    # the last power of two is not a double any more
    low = math.ldexp(1.0, _LOWEST + k - 2)
    high = min(2.0 * low, np.finfo(np.float64).max)
    return (low, high) if place > _POWERS else (-high, -low)


def _point(low: float, high: float, share: float) -> float:
    return low * (1.0 - share) + high * share


def _piece(values: FloatArray, low: float, high: float) -> Any:
    """Which of the equal pieces of an interval a value falls into; those beyond it, the outermost."""
    inside = np.clip(values, low, high)
    if max(abs(low), abs(high)) < _SMALL:
        low, high, inside = low / _SMALL, high / _SMALL, inside / _SMALL
    # halves, for the width of an interval may be beyond the largest double
    share = (0.5 * inside - 0.5 * low) / (0.5 * high - 0.5 * low)
    return np.minimum((PIECES * share).astype(np.int64), PIECES - 1)


def _threshold(noise: str, tries: int, rare: float) -> float:
    """What noise of scale 1 stays below in so many tries but for a rare event."""
    if noise == "gaussian":
        return float(-ndtri(rare / (2.0 * tries)))
    return math.log(tries / rare)


def _ends(
    seen: FloatArray, scale: float, threshold: float, noise: str, beyond: float
) -> tuple[int, int] | None:
    """The first and the last place that matter: outside them are few records, or noise."""
    ends = []
    places = np.arange(1, len(seen) + 1)
    if noise == "gaussian":
        limits = threshold * scale * np.sqrt(places)
    else:
        # a sum of k Laplace variables of scale b exceeds this with probability e^-L (Chernoff)
        limits = math.sqrt(8.0) * scale * np.maximum(np.sqrt(places * threshold), threshold)
        limits[0] = scale * threshold
    for counts in (seen, seen[::-1]):
        together = np.cumsum(counts)
        stand_out = (counts > threshold * scale + beyond) | (together > limits + beyond)
        if not stand_out.any():
            return None
        ends.append(int(np.argmax(stand_out)))
    first, last = ends[0], len(seen) - 1 - ends[1]
    return (first, last) if first <= last else None


def _moments(seen: FloatArray, first: int, last: int, scale: float) -> tuple[float, float]:
    """Mean and standard deviation of places in [0, 1], from counts with noise."""
    weights = np.where(seen > scale, seen, 0.0)[first : last + 1]
    places = (np.arange(first, last + 1) + 0.5) / PIECES
    if not weights.sum() > 0.0:
        weights = np.ones(len(places))
    mean = float(np.average(places, weights=weights))
    variance = float(np.average((places - mean) ** 2, weights=weights))
    return mean, math.sqrt(variance + 1.0 / (12.0 * PIECES**2))
