"""Find unknown bounds of columns privately, from noisy histograms over powers of two and then over finer pieces.

For each column, every record is counted once in a histogram over all powers of two that a double can hold. The
column's interval is where noisy counts exceed a threshold; two more histograms of ``PIECES`` equal pieces narrow it.
A norm that few rows exceed can be found in the same way. Costs and proofs: docs/algorithms/private-bounds.md.

The thresholds affect utility only. Privacy follows from the sensitivity of the counts; everything after the noise is
post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ndtri

from reticent.checks import FloatArray
from reticent.noise import Source, release
from reticent.privacy import Budget, Release

SHARE = 0.1
"""Share of the budget for the search: of mu squared, or of epsilon if delta = 0. Up to three times that if records are
few."""
PIECES = 16
_STAGES = (0.5, 0.25, 0.25)
"""How that share is divided between the powers of two and each of the finer histograms."""
_ROWS = 0.1
"""Part of the search's share that goes to the norm of the rows if the columns are searched too."""
ZOOMS = len(_STAGES) - 1
_POWERS = 2098  # frexp exponents of positive doubles, denormals included: -1073 to 1024
_LOWEST = -1073
_SMALL = 2.0**-900
"""The smallest doubles cannot be halved exactly; intervals below this are multiplied by its reciprocal first."""
_RARE_FAR = 1e-6
"""Probability that the noisy count of any empty power of two exceeds the threshold."""
_RARE_NEAR = 1e-3
"""Probability that the noisy count of any empty piece of an interval exceeds the threshold, where a false positive does
little harm."""
_FEW = 0.01
"""Share of the rows that may exceed the norm that is found."""
_CLEAR, _ENOUGH = 0.1, 0.25
"""A count of the first share of the records should exceed the threshold, for which more of the budget is taken if
necessary. Columns are searched one by one only if a count of the second share does."""
_MOST = 0.5
"""Largest share of the budget that the search takes, unless more was asked for."""
_HOPELESS = 0.5
"""A search is refused if even a count of this share of the records would not exceed the threshold."""


@dataclass(frozen=True, eq=False)
class ColumnStatistics:
    """Intervals, means and deviations of columns, as found privately; the search's guarantee covers all of them.

    Attributes
    ----------
    low : array
        Lower end of the interval of each column, which holds almost all records; equal to the upper end if nothing was
        found or only one value, such as 0.
    high : array
        Upper end of the interval of each column.
    mean : array
        Approximate mean within the interval, from the last histogram.
    deviation : array
        Approximate standard deviation within the interval, from the last histogram.
    found : array of bool
        Whether any count of the column exceeded the threshold.
    """

    low: FloatArray
    high: FloatArray
    mean: FloatArray
    deviation: FloatArray
    found: NDArray[np.bool_]


@dataclass(frozen=True)
class BoundsSearch:
    """Description of a search for bounds: what it releases and what that costs. Uses public numbers only.

    Parameters
    ----------
    columns : int
        Number of columns whose interval is found, each on its own; may be 0.
    rows : bool
        Whether to find a norm of the rows too.
    level : float
        Privacy level of all releases together: mu for Gaussian noise, epsilon for Laplace noise.
    noise : {"gaussian", "laplace"}
        Distribution of the noise on the counts.
    neighbours : {"zero-out", "replace"}
        Neighbouring relation. Blanking a record lowers one count of each histogram by 1; replacing it also raises
        another one.
    precision : {"lattice", "float"}
        Where noisy counts lie; "float" is for simulations.

    Examples
    --------
    >>> from reticent.privacy import Budget
    >>> search = BoundsSearch.of(Budget(1.0, 1e-6), 100_000, columns=8, rows=True)
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
    ) -> BoundsSearch:
        """The search that takes a share of a budget; of the data, it uses only the number of records.

        If there are so many columns that noise would swamp their counts, only the norm of the rows is found, provided
        that ``rows`` asks for it.
        """

        def made(share: float, columns: int) -> BoundsSearch:
            noise, level = release.share_of(budget, share)
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
                f"{count} records are too few to find bounds privately with this budget ({budget}): a count must "
                f"reach {search._standing_out:.0f} to stand out from the noise. State the bounds, raise epsilon, or "
                "use more records; nothing was spent"
            )
        return search

    @property
    def _moved(self) -> float:
        """Sensitivity of the counts of all columns: in l2 for Gaussian noise, in l1 for Laplace noise."""
        each = self.columns if self.neighbours == "zero-out" else 2 * self.columns
        return math.sqrt(each) if self.noise == "gaussian" else float(each)

    @property
    def _moved_rows(self) -> float:
        each = 1 if self.neighbours == "zero-out" else 2
        return math.sqrt(each) if self.noise == "gaussian" else float(each)

    def _scales(self, rows: bool) -> list[float]:
        """Scale of the noise at each stage, on the counts of columns or of row norms."""
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
        """Number of counts at each stage."""
        first, columns = (_POWERS + 1, 1) if rows else (2 * _POWERS + 1, self.columns)
        return [columns * first] + [columns * PIECES] * ZOOMS

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases of the search, with their costs."""
        counts = partial(release.accounted, noise=self.noise, precision=self.precision)
        made = []
        columns = f"{self.columns} column{'s' * (self.columns > 1)}"
        for rows, words in ((False, columns), (True, "row norms")):
            if not (self.rows if rows else self.columns):
                continue
            moved = self._moved_rows if rows else self._moved
            first, *_, last = zip(self._scales(rows), self._sizes(rows), strict=True)
            made.append(counts(f"counts of {words} by powers of two", moved, *first))
            made.append(counts(f"counts of {words} by finer pieces", moved, *last, count=ZOOMS))
        return tuple(made)

    @property
    def _standing_out(self) -> float:
        """The smallest noisy count of a power of two that is taken to be more than noise."""
        rows = not self.columns
        return self._scales(rows)[0] * _threshold(self.noise, self._sizes(rows)[0], _RARE_FAR)

    @property
    def needed(self) -> int:
        """Number of records with which a count of ``_CLEAR`` of them reaches the threshold."""
        return math.ceil(self._standing_out / _CLEAR)

    # Finding --------------------------------------------------------------------------------------

    def intervals(
        self, X: Any, weights: Any, source: Source, *, least: float = 0.0
    ) -> ColumnStatistics:
        """The interval of every column; its ends are equal if no count stood out or only one value, such as 0, did.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, columns)
            The records; all values must be finite.
        weights : array or None
            Weight of each record in the counts, from `reticent.estimators.counts.counted`; a null record has weight 0.
            None: 1 each.
        source : Source
            Generator of the noise. :attr:`releases` must have been charged before.
        least : float
            Share of the records that may lie beyond each end. Default: 0.
        """
        count, columns = X.shape[0], self.columns
        scale, seen = self._scales(False)[0], self.by_powers(X, weights, source)
        far = _threshold(self.noise, seen.size, _RARE_FAR)
        lows, highs, there = np.zeros(columns), np.zeros(columns), np.zeros(columns, dtype=bool)
        for j in range(columns):
            found = _ends(seen[j], scale, far, self.noise, 0.0)
            if found is not None:
                there[j], lows[j], highs[j] = True, _edges(found[0])[0], _edges(found[1])[1]
        known = ColumnStatistics(lows, highs, lows, np.zeros(columns), there)
        for scale in self._scales(False)[1:]:
            known = self._zoom(X, weights, source, known, scale, least * count)
        return known

    def by_powers(self, X: Any, weights: Any, source: Source) -> FloatArray:
        """Noisy counts of every column by powers of two."""
        counts = np.empty((self.columns, 2 * _POWERS + 1))
        for j in range(self.columns):
            counts[j] = np.bincount(power(_column(X, j)), weights, 2 * _POWERS + 1)
        return self._noisy(counts, self._scales(False)[0], source)

    def _zoom(
        self,
        X: Any,
        weights: Any,
        source: Source,
        known: ColumnStatistics,
        scale: float,
        beyond: float,
    ) -> ColumnStatistics:
        """The intervals, narrowed to the pieces whose counts stand out from the noise."""
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
        return ColumnStatistics(new_lows, new_highs, means, deviations, known.found)

    def by_pieces(
        self,
        X: Any,
        weights: Any,
        source: Source,
        lows: FloatArray,
        highs: FloatArray,
        scale: float,
    ) -> FloatArray:
        """Noisy counts of every column by equal pieces of its interval; ``scale`` is the scale of the noise."""
        counts = np.zeros((self.columns, PIECES))
        for j in range(self.columns):
            if lows[j] < highs[j]:
                places = _piece(_column(X, j), lows[j], highs[j])
                counts[j] = np.bincount(places, weights, PIECES)
        return self._noisy(counts, scale, source)

    def norm(self, sizes: FloatArray, weights: Any, source: Source) -> float | None:
        """A bound that few of these sizes exceed (0 if most are 0), or None if no count stands out from the noise."""
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
        """Noisy counts of sizes by equal pieces of [0, high]; ``scale`` is the scale of the noise."""
        counts = np.zeros((1, PIECES))
        if high > 0.0:
            counts[0] = np.bincount(_piece(sizes, 0.0, high), weights, PIECES)
        return self._noisy(counts, scale, source)[0]

    def _noisy(self, counts: FloatArray, scale: float, source: Source) -> FloatArray:
        seen = release.noisy(
            counts.ravel(), scale, source, noise=self.noise, precision=self.precision
        )
        return seen.reshape(counts.shape)


def _column(X: Any, j: int) -> FloatArray:
    return np.asarray(X[:, [j]].toarray()[:, 0] if sp.issparse(X) else X[:, j])


def power(values: FloatArray) -> Any:
    """The bin of each value among the powers of two, in the order negative, zero, positive."""
    exponent = np.frexp(values)[1] - (_LOWEST - 1)
    sign = np.sign(values).astype(np.int64)
    return _POWERS + sign * exponent


def _edges(place: int) -> tuple[float, float]:
    """The interval of values that are counted in a bin."""
    k = abs(place - _POWERS)
    if k == 0:
        return 0.0, 0.0
    # the last power of two is beyond the largest double
    low = math.ldexp(1.0, _LOWEST + k - 2)
    high = min(2.0 * low, np.finfo(np.float64).max)
    return (low, high) if place > _POWERS else (-high, -low)


def _point(low: float, high: float, share: float) -> float:
    return low * (1.0 - share) + high * share


def _piece(values: FloatArray, low: float, high: float) -> Any:
    """The equal piece of an interval that each value falls into; values outside count in the outermost pieces."""
    inside = np.clip(values, low, high)
    if max(abs(low), abs(high)) < _SMALL:
        low, high, inside = low / _SMALL, high / _SMALL, inside / _SMALL
    # halved, because the width of an interval may exceed the largest double
    share = (0.5 * inside - 0.5 * low) / (0.5 * high - 0.5 * low)
    return np.minimum((PIECES * share).astype(np.int64), PIECES - 1)


def _threshold(noise: str, tries: int, rare: float) -> float:
    """A bound that ``tries`` noise values of scale 1 all stay below, except with probability ``rare``."""
    if noise == "gaussian":
        return float(-ndtri(rare / (2.0 * tries)))
    return math.log(tries / rare)


def _ends(
    seen: FloatArray, scale: float, threshold: float, noise: str, beyond: float
) -> tuple[int, int] | None:
    """The first and the last bin that hold records; outside them are few records, or only noise."""
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
    """Mean and standard deviation of positions in [0, 1], from noisy counts of the pieces."""
    weights = np.where(seen > scale, seen, 0.0)[first : last + 1]
    places = (np.arange(first, last + 1) + 0.5) / PIECES
    if not weights.sum() > 0.0:
        weights = np.ones(len(places))
    mean = float(np.average(places, weights=weights))
    variance = float(np.average((places - mean) ** 2, weights=weights))
    return mean, math.sqrt(variance + 1.0 / (12.0 * PIECES**2))
