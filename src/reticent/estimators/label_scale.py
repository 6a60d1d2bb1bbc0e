"""Centre and scale labels within their bounds by noisy releases, before a fit with delta = 0.

Bounds on labels are often wide, and the noise of a fit is proportional to them. `PrivateLinearRegression` first
releases the mean label; then counts of the distances from it determine a distance that covers most labels; then the sum
of the remainders, clipped to that distance, corrects the mean. The fit learns from labels centred there and clipped to
that distance. Sensitivities and the reasons for these choices: docs/algorithms/scaling.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from reticent.checks import FloatArray
from reticent.erm.rounded_sums import UNIT, UNITS
from reticent.noise import Source
from reticent.noise.release import NoisyVector
from reticent.privacy import Budget, Release

_COUNTS, _SUMS = (0.01, 0.02, 0.05), (0.01, 0.02)
"""Shares of the budget for the counts and for the sum: the first that makes noise small, else the last."""
_CLEAR, _TELLING = 0.02, 0.2
"""Noise of half a dozen counts, as a share of the records: small enough, and the most that is accepted."""
_LEVEL = 0.05
"""Noise on the mean of clipped labels that is small enough, in units of the clip."""
_LEAST = 2.0
"""Labels are clipped to at least about this many standard deviations."""
_DOUBT = 2.0
"""Counts below this many standard deviations of their noise are not taken for labels."""
_EDGES = 2.0 ** (np.arange(-18, 1) / 3.0)
"""Upper ends of the intervals of the distance, in units of half the width of the bounds; the last has none."""
_SQUARES = (
    np.concatenate(
        [
            [1.0 / 3.0],
            np.full(len(_EDGES) - 1, (1.0 + 2.0 ** (-1.0 / 3.0) + 2.0 ** (-2.0 / 3.0)) / 3.0),
        ]
    )
    * _EDGES**2
)
"""Mean squares of distances that are uniform within each interval except the last."""


@dataclass(frozen=True)
class LabelScale:
    """Description of what is released about labels in [-1, 1]. Uses public numbers only.

    Parameters
    ----------
    count : int
        Number of records, or of persons if persons are protected.
    times : float
        Approximate clip of the labels, as a multiple of their standard deviation.
    distances : NoisyVector
        Counts of distances from the mean label.
    rest : NoisyVector
        Sum of the centred and clipped labels, in units of the clip.

    Examples
    --------
    >>> made = LabelScale.of(Budget(1.0, 0.0), 10_000, 8)
    >>> [release.mechanism for release in made.releases]
    ['counts of distances of labels', 'sum of clipped labels']
    >>> LabelScale.of(Budget(0.1, 0.0), 300, 8) is None
    True
    """

    count: int
    times: float
    distances: NoisyVector
    rest: NoisyVector

    @classmethod
    def of(
        cls, budget: Budget, count: int, columns: int, precision: str = "lattice"
    ) -> Self | None:
        """The releases for a table of this shape; None if noise would swamp the counts. Uses public numbers only.

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
        """
        # as in the rounds of clipped residuals: more standard deviations where there is less noise
        noise = columns / budget.epsilon if budget.delta == 0.0 else math.sqrt(columns) / budget.mu
        times = max(_LEAST, math.sqrt(2.0 * math.log(max(count / noise, 1.0))) - 1.0)
        each = budget.sensitivity(1.0)
        moved = each if budget.delta == 0.0 else math.sqrt(each)
        for share in _COUNTS:
            distances = NoisyVector.spending(
                share,
                budget,
                "counts of distances of labels",
                moved,
                len(_EDGES) + 1,
                2.0 * count,
                precision,
            )
            error = distances.deviation * math.sqrt(6.0) / count
            if error <= _CLEAR:
                break
        if error > _TELLING:
            return None
        moved = each * (1.0 + 4.0 * UNITS * UNIT * count)
        for share in _SUMS:
            rest = NoisyVector.spending(
                share, budget, "sum of clipped labels", moved, 1, float(count), precision
            )
            if rest.deviation <= _LEVEL * count:
                break
        return cls(count, times, distances, rest)

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases, with their costs."""
        return self.distances.release, self.rest.release

    def found(
        self, labels: FloatArray, mean: float, doubt: float, weights: FloatArray | None, source: Source
    ) -> tuple[float, float]:  # fmt: skip
        """The centre of the labels, and a distance, at most 1, that covers most of them.

        Parameters
        ----------
        labels : array
            Labels in [-1, 1].
        mean : float
            Their released mean.
        doubt : float
            Standard deviation of the noise in the mean.
        weights : array or None
            Weight of each record, from `reticent.estimators.counts.counted`. None: 1 each.
        source : Source
            Generator of the noise. :attr:`releases` must have been charged before.
        """
        seen = self.distances.draw(counts_of_distances(labels, mean, weights), source)
        beyond = np.cumsum(seen[:0:-1])[::-1]
        doubts = _DOUBT * self.distances.deviation * np.sqrt(np.arange(len(beyond), 0.0, -1.0))
        rare = math.erfc(self.times / math.sqrt(2.0)) * self.count
        many = np.flatnonzero(beyond > np.maximum(rare, doubts))
        last = min(int(many[-1]) + 1, len(_EDGES) - 1) if many.size else 0
        clip = float(_EDGES[last])
        left = float(self.rest.draw(sum_of_clipped(labels, mean, clip, weights), source)[0])
        # what is left is as large as the noise of the mean was, and no larger than the clip
        error, likely = self.rest.deviation / self.count, doubt / clip
        left *= clip / self.count * likely**2 / (likely**2 + error**2)
        left = min(max(left, -clip), clip)
        # labels far out say little about most of them; noise is taken for spread, and the first mean was off
        squares = _SQUARES[: last + 1]
        square = float(squares @ seen[: last + 1])
        square += self.distances.deviation * float(np.linalg.norm(squares))
        square = max(square / self.count - left**2, float(_SQUARES[0]))
        return mean + left, min(clip, self.times * math.sqrt(square))


def counts_of_distances(labels: FloatArray, mean: float, weights: FloatArray | None) -> FloatArray:
    """How many labels are in each interval of the distance from a mean; each is counted once."""
    places = np.searchsorted(_EDGES, np.abs(labels - mean))
    return np.bincount(places, weights, len(_EDGES) + 1).astype(np.float64)


def sum_of_clipped(
    labels: FloatArray, mean: float, clip: float, weights: FloatArray | None
) -> FloatArray:
    """The sum of labels moved by a mean and clipped, in units of the clip: within [-1, 1] each."""
    left = moved(labels, mean, clip)
    return np.array([np.sum(left if weights is None else left * weights)])


def moved(labels: FloatArray, mean: float, clip: float) -> FloatArray:
    """Labels moved to a mean and clipped, in units of the clip."""
    return np.clip((labels - mean) / clip, -1.0, 1.0)
