"""The units in which a model learns: columns clipped, centred and scaled, and rows clipped to a norm.

A stated ``feature_norm`` only clips rows; private bounds clip every column to its interval first. Coefficients are
mapped back to the units of the given features.

Features are centred and scaled by noisy moments, released within the estimator's own budget. Rows are clipped to
``feature_norm`` and divided by it, and the sums of their entries and of the squares of these are released once. Every
column is then centred at its mean and divided by the square root of its standard deviation, and rows are clipped to a
norm that a given share of them stays within, found from one noisy histogram. Sensitivities and the reasons for these
choices: docs/algorithms/scaling.md.

Whether scaling is done depends on public numbers only: the shape of the table and the budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from reticent.checks import FloatArray
from reticent.erm.rounded_sums import UNIT, UNITS, weighted_rows
from reticent.estimators.bounds import ColumnStatistics
from reticent.losses.records import clip_rows, row_norms, unit_rows
from reticent.noise import Source
from reticent.noise.release import NoisyVector
from reticent.privacy import Budget, Release
from reticent.solve.blocks import block_size, ends, summed

# Appending the intercept may round the norm of a row to just above the stated one.
ROOM = 1.0 + 2.0**-30
NARROW = 1e-300
"""A column in an interval this narrow is taken to be constant: its coefficient, or an intermediate result, could
overflow."""
_SHARES = (0.02, 0.05, 0.1)
"""Shares of the budget for the moments, of mu squared or of epsilon: the first that makes noise small, else the
last."""
_NORMS = (0.01, 0.02, 0.05)
"""Shares of the budget for the counts of row norms: the first that makes them useful; if none does, the root mean
square of the norms replaces the norm found from them."""
_BEYOND = 0.4
"""Largest share of the rows that may be clipped."""
_PRICE = 16.0
"""The share of clipped rows falls with the noise: it is this times the norm of the noise on all means times the root of
the number of columns."""
_TELLING = 0.1
"""Counts of row norms are used if their noise is at most this share of the rows."""
_CLEAR, _ENOUGH = 0.25, 0.4
"""Limits on noise: of a variance relative to 1/p and of counts relative to the rows to be clipped; and of all means
relative to a row."""
_POWER = 0.5
"""Columns are divided by their standard deviation to this power."""
_DOUBT = 2.0
"""A variance is taken to be at least this many standard deviations of its noise."""
_EDGES = 2.0 ** np.linspace(-2.0, 3.0, 21)
"""Bin edges of norms, in units of their root mean square r; at most 1/k^2 of the norms exceed k r."""
_MOST_NUMBERS = 2**23
"""A table with more entries is read without a copy in double precision, and not scaled."""


@dataclass(frozen=True, eq=False)
class Units:
    """The map from features to rows of norm at most ``norm``.

    Parameters
    ----------
    norm : float
        Norm to which rows are clipped after centring and scaling.
    low : array, optional
        Lower end of the interval to which each column is clipped first.
    high : array, optional
        Upper end of that interval.
    center : array, optional
        What is then subtracted from each column.
    scale : array, optional
        What each column is then divided by.
    first : float, optional
        Norm to which rows are clipped before anything else.
    weighed : bool
        Whether rows beyond the norm were scaled down with constant and label instead of clipped; predictions then
        need no clipping to ``norm``.

    Examples
    --------
    >>> import numpy as np
    >>> units = Units(1.0, np.array([0.0]), np.array([10.0]), np.array([5.0]), np.array([5.0]))
    >>> units.scaled(np.array([[10.0], [99.0], [5.0]])).ravel().tolist()
    [1.0, 1.0, 0.0]
    """

    norm: float
    low: FloatArray | None = None
    high: FloatArray | None = None
    center: FloatArray | None = None
    scale: FloatArray | None = None
    first: float | None = None
    weighed: bool = False

    @classmethod
    def of(cls, columns: ColumnStatistics, norm: float, sparse: bool) -> Units:
        """Map each column's interval to [-1, 1]; around 0 for sparse features, so that zeros stay zeros."""
        low, high = columns.low, columns.high
        if sparse:
            high = np.maximum(np.abs(low), np.abs(high))
            low = -high
        half = 0.5 * high - 0.5 * low
        center = 0.5 * low + 0.5 * high
        # a column in which nothing was found is always at its centre, which is 0, or next to it
        return cls(norm, low, high, center, np.where(half > NARROW, half, 1.0))

    def scaled(self, X: Any) -> Any:
        """Columns clipped, centred and scaled; rows are not clipped to ``norm`` yet."""
        if self.scale is None or self.center is None:
            return X
        if sp.issparse(X) and self.low is None:
            X = X.toarray()  # a block of rows, which centring would fill
        if sp.issparse(X):
            made = sp.csr_array(X, copy=True)
            made.data = np.clip(made.data, *self._ends(made)) / self.scale[made.indices]
            return made
        if self.first is not None:
            if X.ndim == 1:
                return self.scaled(X[None, :])[0]
            X = clip_rows(X, self.first)[0]
        # halved, because the difference of two doubles may exceed the largest one
        inside = 0.5 * (X if self.low is None else np.clip(X, self.low, self.high))
        return np.asarray((inside - 0.5 * self.center) / (0.5 * self.scale))

    def clipped(self, X: Any) -> Any:
        """Features in their own units, clipped to the bounds as in training."""
        if self.weighed and self.first is not None:
            return clip_rows(X.toarray() if sp.issparse(X) else X, self.first)[0]
        return self.unscaled(clip_rows(self.scaled(X), self.norm)[0])

    def unscaled(self, X: Any) -> Any:
        """The inverse of :meth:`scaled`."""
        if self.scale is None or self.center is None:
            return X
        if sp.issparse(X):
            X.data = X.data * self.scale[X.indices]
            return X
        return X * self.scale + self.center

    def _ends(self, X: Any) -> tuple[FloatArray, FloatArray]:
        assert self.low is not None
        assert self.high is not None
        return self.low[X.indices], self.high[X.indices]

    def back(self, weights: FloatArray, intercepts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients and intercepts for the given features, from those for rows of norm 1."""
        weights = weights / self.norm
        if self.scale is None or self.center is None:
            return weights, intercepts
        weights = weights / self.scale
        if self.low is not None and self.high is not None:
            # in a column that is always at its centre, or next to it, only noise was learnt
            weights = np.where(0.5 * self.high - 0.5 * self.low > NARROW, weights, 0.0)
        return weights, intercepts - weights @ self.center


def clip_entries(X: Any, bound: float) -> Any:
    """A copy with every entry clipped to [-bound, bound]."""
    if not sp.issparse(X):
        return np.clip(X, -bound, bound)
    clipped = sp.csr_array(X, copy=True)
    clipped.data = np.clip(clipped.data, -bound, bound)
    return clipped


def to_unit(y: Any, low: float, high: float) -> Any:
    """Labels within the bounds mapped to [-1, 1]; to 0 if the bounds are equal."""
    # halved, because found bounds may be farther apart than the largest double
    half = 0.5 * high - 0.5 * low
    if not half > 0.0:
        return 0.0 * y
    return np.clip((0.5 * y - 0.5 * low) / half * 2.0 - 1.0, -1.0, 1.0)


def from_unit(z: Any, low: float, high: float) -> Any:
    """Predictions for labels within the bounds, from those for labels mapped to [-1, 1]."""
    half = 0.5 * high - 0.5 * low
    return low + half + half * z


def in_labels(
    coefficients: FloatArray, intercept: float, low: float, high: float
) -> tuple[FloatArray, float]:
    """A linear predictor of labels within bounds, from one of labels mapped to [-1, 1]."""
    return (0.5 * high - 0.5 * low) * coefficients, float(from_unit(intercept, low, high))


def moments_sensitivity(columns: int, weight: float, budget: Budget) -> float:
    """Joint sensitivity of the sums of rows a of norm at most 1 and of ``weight`` times their squared entries.

    Parameters
    ----------
    columns : int
        Length of a row.
    weight : float
        Weight of the squares, at least ``sqrt(1/2)``.
    budget : Budget
        Determines the norm (Euclidean if delta > 0, else the 1-norm) and the neighbouring relation.


    Examples
    --------
    >>> round(moments_sensitivity(9, 1.0, Budget(1.0, 1e-6, "replace")) ** 2, 6)
    4.5
    """
    if budget.delta == 0.0:
        return budget.sensitivity(math.sqrt(columns) + weight)
    if budget.neighbours == "zero-out":
        return math.hypot(1.0, weight)
    return math.sqrt(2.0 + 2.0 * weight**2 + 0.5 / weight**2)


@dataclass(frozen=True)
class Scaling:
    """Description of what scaling releases. Uses public numbers only.

    Parameters
    ----------
    count : int
        Number of records, or of persons if persons are protected.
    columns : int
        Number of columns of the table.
    weight : float
        Weight of the squares relative to the entries.
    beyond : float
        Share of the rows that may be clipped.
    moments : NoisyVector
        Sums of entries and of squares.
    norms : NoisyVector or None
        Counts of row norms; None if noise would swamp them.


    Examples
    --------
    >>> found, why = Scaling.of(Budget(1.0, 1e-6), 100_000, 8)
    >>> [release.mechanism for release in found.releases]
    ['sums of features and of their squares', 'counts of row norms']
    """

    count: int
    columns: int
    weight: float
    beyond: float
    moments: NoisyVector
    norms: NoisyVector | None

    @classmethod
    def of(
        cls,
        budget: Budget,
        count: int,
        columns: int,
        precision: str = "lattice",
        bent: bool = True,
        shares: tuple[tuple[float, ...], tuple[float, ...]] = (_SHARES, _NORMS),
        forced: bool = False,
        frugal: bool = False,
    ) -> tuple[Scaling | None, str]:
        """The scaling of a table of this shape, or None; and the reason. Uses public numbers only.

        Parameters
        ----------
        budget : Budget
            Budget of which shares are spent.
        count : int
            Number of records, or of persons if persons are protected.
        columns : int
            Number of columns of the table.
        precision : {"lattice", "float"}
            Where noisy values lie; "float" is for simulations.
        bent : bool
            Whether rows beyond the norm are clipped; else they are scaled down together with their labels, which leaves
            linear relations intact. Default: True.
        shares : two tuples
            Shares of the budget to choose from, for the moments and for the counts of row norms.
        forced : bool
            Whether to scale however large the noise is. Default: False.
        frugal : bool
            Whether to spend no more on the counts of row norms than makes them useful. Default: False.
        """
        # this weight minimises the noise in a variance if mean and deviation are both 1 / sqrt(columns)
        weight = max(1.0, (0.5 * math.sqrt(columns)) ** (1.0 / 3.0))
        moved = moments_sensitivity(columns, weight, budget) * ROOM
        moved *= 1.0 + 4.0 * UNITS * UNIT * count
        for share in shares[0]:
            moments = NoisyVector.spending(
                share,
                budget,
                "sums of features and of their squares",
                moved,
                2 * columns,
                2.0 * weight * count,
                precision,
            )
            if moments.deviation / (weight * count) <= _CLEAR / columns:
                break
        shift = moments.deviation * math.sqrt(columns) / count
        words = f"noise of norm {shift:.3g} on the means of {columns} columns is"
        if shift > _ENOUGH and not forced:
            return None, f"{words} not small beside rows of norm 1"
        # the error from noise is linear in the norm, and the error from clipping falls with the share beyond it
        noise = columns / budget.epsilon if budget.delta == 0.0 else math.sqrt(columns) / budget.mu
        price = _PRICE * math.sqrt(columns) * budget.sensitivity(noise) / count
        beyond = min(_BEYOND, price) if bent else _BEYOND
        each = 1.0 if budget.neighbours == "zero-out" else 2.0
        moved = each if budget.delta == 0.0 else math.sqrt(each)
        norms = None
        for share in shares[1]:
            tried = NoisyVector.spending(
                share, budget, "counts of row norms", moved, len(_EDGES) + 1, 2.0 * count, precision
            )
            # up to about six counts are added
            noise = tried.deviation * math.sqrt(6.0) / count
            if noise <= _TELLING:
                norms = tried
            if noise <= (_TELLING if frugal else _CLEAR * beyond):
                break
        made = cls(count, columns, weight, beyond, moments, norms)
        return made, f"{words} small beside rows of norm 1"

    @property
    def clear(self) -> bool:
        """Whether means, variances and norms are clearly larger than their noise."""
        each = self.moments.deviation / self.count
        fine = each / self.weight <= _CLEAR / self.columns
        return fine and each * math.sqrt(self.columns) <= 0.5 * _ENOUGH and self.norms is not None

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases, with their costs."""
        both = (self.moments, self.norms)
        return tuple(one.release for one in both if one is not None)

    def sums(self, X: Any, norm: float, weights: Any) -> FloatArray:
        """The sums to which :attr:`moments` adds noise: of clipped and divided rows, and of their squared entries.

        Parameters
        ----------
        X : array
            Records; all values must be finite.
        norm : float
            Norm to which rows are clipped and by which they are divided.
        weights : array or None
            Weight of each record. None: 1 each.
        """
        counts = np.ones(X.shape[0]) if weights is None else weights
        parts = []
        for start, stop in ends(*block_size(X)):
            rows = unit_rows(np.ascontiguousarray(X[start:stop], np.float64), norm)[0]
            both = np.hstack([rows, self.weight * np.square(rows)])
            parts.append(weighted_rows(both, counts[start:stop]))
        # all of a stream's first records may be gaps, which must look like one that is not
        return summed(parts) if parts else np.zeros(2 * self.columns)

    def units(self, X: Any, norm: float, weights: Any, source: Source) -> Units:
        """Centre, scale and norm of the features.

        Parameters
        ----------
        X : array
            Records; all values must be finite.
        norm : float
            Norm to which rows are clipped first.
        weights : array or None
            Weight of each record, from `reticent.estimators.counts.counted`. None: 1 each.
        source : Source
            Generator of the noise. :attr:`releases` must have been charged before.
        """
        p = self.columns
        seen = self.moments.draw(self.sums(X, norm, weights), source) / self.count
        mean = np.clip(seen[:p], -1.0, 1.0)
        # the noise of a mean adds its variance to the squared mean and to the distances from it
        own = (self.moments.deviation / self.count) ** 2
        variance = seen[p:] / self.weight - mean * mean + own
        doubt = self.moments.deviation / (self.weight * self.count)
        typical = max(float(variance.mean()), doubt)
        spread = np.clip(variance, max(_DOUBT * doubt, 1e-4 * typical), 1.0)
        scale = (spread / typical) ** (0.5 * _POWER)
        length = math.sqrt(max(float(np.sum((variance + own) / scale**2)), doubt * math.sqrt(p)))
        if self.norms is not None:
            edges = length * _EDGES
            seen = self.norms.draw(counts_of_norms(X, norm, mean, scale, edges, weights), source)
            beyond = np.cumsum(seen[:0:-1])[::-1]
            doubts = _DOUBT * self.norms.deviation * np.sqrt(np.arange(len(beyond), 0.0, -1.0))
            many = np.flatnonzero(beyond > np.maximum(self.beyond * self.count, doubts))
            length = float(edges[min(int(many[-1]) + 1, len(edges) - 1) if many.size else 0])
        return Units(norm=length * norm, center=mean * norm, scale=scale, first=norm)


def counts_of_norms(
    X: Any, norm: float, mean: FloatArray, scale: FloatArray, edges: FloatArray, weights: Any
) -> FloatArray:
    """Counts of rows by norm, in the intervals between edges, after clipping, centring and scaling."""
    rows = unit_rows(np.ascontiguousarray(X, np.float64), norm)[0]
    places = np.searchsorted(edges, row_norms((rows - mean) / scale))
    return np.bincount(places, weights, len(edges) + 1).astype(np.float64)


def too_large(count: int, columns: int) -> bool:
    """Whether a table is too large to be scaled.

    With persons, ``count`` is their number, because the number of their records is not public.
    """
    return count * columns > _MOST_NUMBERS
