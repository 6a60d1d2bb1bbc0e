"""Features centered and scaled by what is released about them, out of the estimator's own budget.

Rows within ``feature_norm`` are divided by it; the sums of their entries and of their squares are released once. Every
column is then moved to its mean and divided by the square root of its standard deviation, and rows are clipped to a
norm that a stated share of them stays within, from one noisy histogram. Sensitivities, and why these choices:
docs/algorithms/scaling.md.

Whether any of this is done depends on public numbers alone: the shape of the table and the budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from reticent.checks import FloatArray
from reticent.erm.rounded_sums import UNIT, UNITS, weighted_rows
from reticent.estimators.units import ROOM, Units
from reticent.losses.records import row_norms, unit_rows
from reticent.noise import Source, release
from reticent.privacy import Budget, Gaussian, Laplace, Release
from reticent.solve.blocks import block_size, ends, summed

_SHARES = (0.02, 0.05, 0.1)
"""Of the budget for the moments, of mu squared or of epsilon: the first at which they are clear, else the last."""
_NORMS = (0.01, 0.02, 0.05)
"""The same for the counts of row norms; where none is telling, the root mean square of the norms takes their place."""
_BEYOND = 0.4
"""The largest share of the rows that may be clipped."""
_PRICE = 16.0
"""The share falls with the noise: so many times the noise of all means together, times the root of the columns."""
_TELLING = 0.1
"""Noise may be this share of the rows."""
_CLEAR, _ENOUGH = 0.25, 0.4
"""Noise of a variance may be this share of 1/p, of counts of the rows to be clipped; that of all means, of a row."""
_POWER = 0.5
"""Columns are divided by this power of their standard deviation."""
_DOUBT = 2.0
"""A variance counts for at least so many standard deviations of its noise."""
_EDGES = 2.0 ** np.linspace(-2.0, 3.0, 21)
"""Of the histogram, in units of the root mean square r of the norms: at most 1/k^2 of them are beyond k r."""
_MOST_NUMBERS = 2**23
"""A table with more entries is read as it is, without a copy in double precision."""


@dataclass(frozen=True)
class NoisySum:
    """A sum over the records with noise, before it is made.

    Parameters
    ----------
    words : str
        What it is of.
    moved : float
        How far one record moves it: Euclidean norm for Gaussian noise, 1-norm for Laplace noise.
    size : int
        How many numbers it has.
    scale : float
        Of the noise.
    noise : {"gaussian", "laplace"}
        Its kind.
    precision : {"lattice", "float"}
        "float" is for simulations.

    Examples
    --------
    >>> total = NoisySum.of("labels", Budget(1.0, 1e-6), 0.01, 1.0, 1, 1000.0)
    >>> total.release.noise
    'Gaussian, standard deviation 42.2468'
    """

    words: str
    moved: float
    size: int
    scale: float
    noise: str
    precision: str

    @classmethod
    def of(
        cls,
        words: str,
        budget: Budget,
        share: float,
        moved: float,
        size: int,
        largest: float,
        precision: str = "lattice",
    ) -> Self:
        """One that takes a share of a budget; its entries are at most ``largest``."""
        pure = budget.delta == 0.0
        noise = "laplace" if pure else "gaussian"
        level = budget.epsilon * share if pure else budget.mu * math.sqrt(share)
        if precision == "float":
            return cls(words, moved, size, moved / level, noise, precision)
        scale = release.scale_for(moved, level, size, noise)
        scale = max(scale, 2.0 * largest * 2.0**-30)
        return cls(words, release.widened(moved, scale, size, noise), size, scale, noise, precision)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on one number."""
        return self.scale * (1.0 if self.noise == "gaussian" else math.sqrt(2.0))

    @property
    def release(self) -> Release:
        """What it costs."""
        kind = Gaussian if self.noise == "gaussian" else Laplace
        words = "Gaussian, standard deviation" if self.noise == "gaussian" else "Laplace, scale"
        return Release(
            self.words, kind(self.moved / self.scale), self.moved, f"{words} {self.scale:.6g}"
        )

    def draw(self, total: FloatArray, source: Source) -> FloatArray:
        """The sum with noise. The release must have been charged."""
        return release.noisy(total, self.scale, source, noise=self.noise, precision=self.precision)


def moments_sensitivity(columns: int, weight: float, budget: Budget) -> float:
    """How far one row a of norm at most 1 moves the sums of a and of ``weight`` times its squares.

    Parameters
    ----------
    columns : int
        The length of a row.
    weight : float
        Of the squares, at least ``sqrt(1/2)``.
    budget : Budget
        Euclidean norm where delta > 0, else the 1-norm.

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
    """What scaling will release; public, decided before a record is read.

    Parameters
    ----------
    count : int
        Of records, or of persons where these are protected.
    columns : int
        Of the table.
    weight : float
        Of the squares beside the entries.
    beyond : float
        The share of the rows that may be clipped.
    moments : NoisySum
        Sums of entries and of squares.
    norms : NoisySum or None
        Counts of row norms; None where they would be lost in noise.

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
    moments: NoisySum
    norms: NoisySum | None

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
        """The scaling of a table of this shape, or None; and why. Reads public numbers only.

        Parameters
        ----------
        budget : Budget
            Of which shares are spent.
        count : int
            Of records, or of persons where these are protected.
        columns : int
            Of the table.
        precision : {"lattice", "float"}
            "float" is for simulations.
        bent : bool
            Whether rows beyond the norm are bent, or count less with their labels, which a line does not mind.
        shares : two tuples
            Shares of the budget to choose from for the moments and for the counts of row norms.
        forced : bool
            Whether to scale however large the noise is.
        frugal : bool
            Whether counts that are telling are enough, however few rows shall be clipped.
        """
        # the noise in a variance is least where mean and deviation are both 1 / sqrt(columns)
        weight = max(1.0, (0.5 * math.sqrt(columns)) ** (1.0 / 3.0))
        moved = moments_sensitivity(columns, weight, budget) * ROOM
        moved *= 1.0 + 4.0 * UNITS * UNIT * count
        for share in shares[0]:
            moments = NoisySum.of(
                "sums of features and of their squares",
                budget,
                share,
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
        # what noise costs is linear in the norm, and what clipping costs falls with the share beyond it
        noise = columns / budget.epsilon if budget.delta == 0.0 else math.sqrt(columns) / budget.mu
        price = _PRICE * math.sqrt(columns) * budget.sensitivity(noise) / count
        beyond = min(_BEYOND, price) if bent else _BEYOND
        each = 1.0 if budget.neighbours == "zero-out" else 2.0
        moved = each if budget.delta == 0.0 else math.sqrt(each)
        norms = None
        for share in shares[1]:
            tried = NoisySum.of(
                "counts of row norms", budget, share, moved, len(_EDGES) + 1, 2.0 * count, precision
            )
            # the counts of half a dozen pieces are added
            noise = tried.deviation * math.sqrt(6.0) / count
            if noise <= _TELLING:
                norms = tried
            if noise <= (_TELLING if frugal else _CLEAR * beyond):
                break
        made = cls(count, columns, weight, beyond, moments, norms)
        return made, f"{words} small beside rows of norm 1"

    @property
    def clear(self) -> bool:
        """Whether means, variances and norms are told apart from their noise."""
        each = self.moments.deviation / self.count
        fine = each / self.weight <= _CLEAR / self.columns
        return fine and each * math.sqrt(self.columns) <= 0.5 * _ENOUGH and self.norms is not None

    @property
    def releases(self) -> tuple[Release, ...]:
        """What is released, with its cost."""
        both = (self.moments, self.norms)
        return tuple(one.release for one in both if one is not None)

    def sums(self, X: Any, norm: float, weights: Any) -> FloatArray:
        """What :attr:`moments` adds noise to: sums of rows within the norm, and of their squares.

        Parameters
        ----------
        X : array
            Finite.
        norm : float
            What rows are clipped to, and divided by.
        weights : array or None
            How much each record counts. None: 1 each.
        """
        counts = np.ones(X.shape[0]) if weights is None else weights
        parts = []
        for start, stop in ends(*block_size(X)):
            rows = unit_rows(np.ascontiguousarray(X[start:stop], np.float64), norm)[0]
            both = np.hstack([rows, self.weight * np.square(rows)])
            parts.append(weighted_rows(both, counts[start:stop]))
        return summed(parts)

    def units(self, X: Any, norm: float, weights: Any, source: Source) -> Units:
        """Center, scale and norm of the features.

        Parameters
        ----------
        X : array
            Finite.
        norm : float
            What rows are clipped to first.
        weights : array or None
            How much each record counts, from `reticent.estimators.bounds.counted`. None: 1 each.
        source : Source
            Where the noise comes from. What :attr:`releases` says must have been charged.
        """
        p = self.columns
        seen = self.moments.draw(self.sums(X, norm, weights), source) / self.count
        mean = np.clip(seen[:p], -1.0, 1.0)
        # the noise of a mean is part of its square, and of what the distances from it are
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
    """How many rows, clipped to a norm, centered and scaled, are as long as each interval between edges says."""
    rows = unit_rows(np.ascontiguousarray(X, np.float64), norm)[0]
    places = np.searchsorted(edges, row_norms((rows - mean) / scale))
    return np.bincount(places, weights, len(edges) + 1).astype(np.float64)


def too_large(count: int, columns: int) -> bool:
    """Whether a table is read as it is; of persons their number counts, since that of their records is not public."""
    return count * columns > _MOST_NUMBERS
