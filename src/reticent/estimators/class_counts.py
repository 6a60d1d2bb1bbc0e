"""Noisy counts of the classes, for ``class_weight="balanced"`` and for base rates.

A record is counted in one class, so blanking it changes one count by 1 and replacing it changes at most two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.checks import FloatArray
from reticent.noise import Source, release
from reticent.privacy import Budget

SHARES = (0.02, 0.05, 0.1)
"""Shares of the budget that callers choose from: of mu squared, or of epsilon if delta = 0."""


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
        noise, level = release.share_of(budget, share)
        moved = math.sqrt(places) if noise == "gaussian" else places
        scale = moved / level
        if precision == "lattice":
            scale = release.scale_for(moved, level, classes, noise)
        return cls(words, moved, classes, scale, noise, precision)

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
            Weight of each record in the counts, from `reticent.estimators.bounds.counted`. None: 1 each.
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
