"""How many records each class has, counted with noise: what ``class_weight="balanced"`` and base rates need.

A record is counted in one class, so blanking it moves one count by 1, and replacing it moves two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.checks import FloatArray
from reticent.noise import Source
from reticent.noise import release as noisy_release
from reticent.privacy import Budget, Gaussian, Laplace, Release

SHARES = (0.02, 0.05, 0.1)
"""Of the budget: of mu squared, or of epsilon where delta = 0."""


@dataclass(frozen=True)
class ClassCounts:
    """A count of each class with noise, before it is made.

    Parameters
    ----------
    classes : int
        How many there are.
    moved : float
        How far one record moves the counts, in the norm that the noise is calibrated to.
    scale : float
        Of the noise.
    noise : {"gaussian", "laplace"}
        Its kind.
    precision : {"lattice", "float"}
        "float" is for simulations.
    words : str
        What is counted.
    """

    classes: int
    moved: float
    scale: float
    noise: str
    precision: str
    words: str = "counts of the classes"

    @classmethod
    def of(
        cls,
        budget: Budget,
        classes: int,
        precision: str,
        share: float = SHARES[0],
        words: str = "counts of the classes",
    ) -> ClassCounts:
        """Counts that take a share of a budget."""
        places = 1.0 if budget.neighbours == "zero-out" else 2.0
        pure = budget.delta == 0.0
        moved = places if pure else math.sqrt(places)
        level = share * budget.epsilon if pure else math.sqrt(share) * budget.mu
        noise = "laplace" if pure else "gaussian"
        scale = moved / level
        if precision == "lattice":
            scale = noisy_release.scale_for(moved, level, classes, noise)
            moved = noisy_release.widened(moved, scale, classes, noise)
        return cls(classes, moved, scale, noise, precision, words)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on one count."""
        return self.scale * (1.0 if self.noise == "gaussian" else math.sqrt(2.0))

    @property
    def release(self) -> Release:
        """What they cost."""
        pure = self.noise == "laplace"
        curve = Laplace(self.moved / self.scale) if pure else Gaussian(self.moved / self.scale)
        words = "Laplace, scale" if pure else "Gaussian, standard deviation"
        return Release(self.words, curve, self.moved, f"{words} {self.scale:.6g}")

    def seen(self, numbers: Any, weights: Any, source: Source) -> FloatArray:
        """The counts with noise: all that is drawn; the rest is computed from it.

        Parameters
        ----------
        numbers : array of int
            The class of each record.
        weights : array or None
            How much each record counts, from `reticent.estimators.bounds.counted`. None: 1 each.
        source : Source
            Where the noise comes from. The release must have been charged.
        """
        counts = np.bincount(numbers, weights, self.classes).astype(np.float64)
        return noisy_release.noisy(
            counts, self.scale, source, noise=self.noise, precision=self.precision
        )

    def factors(self, seen: FloatArray) -> FloatArray:
        """A weight for each class in (0, 1], from noisy counts: the smallest over its own."""
        # below its own noise a count says nothing
        known = np.maximum(seen, self.scale)
        return np.asarray(known.min() / known)

    @property
    def doubt(self) -> float:
        """Standard deviation of the noise in the number of records of a class; of two, both counts tell of both."""
        return self.deviation * (math.sqrt(0.5) if self.classes == 2 else 1.0)

    def rates(self, seen: FloatArray, count: int) -> FloatArray:
        """The share of each class of so many records or persons, no closer to 0 and 1 than the noise can tell."""
        if self.classes == 2:  # both counts tell of both rates
            second = 0.5 * (count + seen[1] - seen[0])
            seen = np.array([count - second, second])
        return np.asarray(np.clip(seen, self.scale, count - self.scale) / count)
