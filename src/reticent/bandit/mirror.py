"""Mirror maps: what keeps a decision near its starting point, and how to respond to a running total.

NOISYOCO of [bandit] (Algorithm 2) plays argmin omega(x) + <slope, x> for a strongly convex omega, where the slope is
the step size times the noisy total. The analysis in the paper requires nothing else of omega, so it is a parameter
here: half the squared distance, for which the conditional gradient finds the response with a linear minimiser alone,
or the entropy on a simplex, for which the response has a closed form.

The step size depends on the map, through its range over the set and the size of the gradients in the dual norm, so
two maps must not share a step size.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from reticent.bandit.geometry import Geometry
from reticent.checks import FloatArray
from reticent.sets import ConvexSet, Simplex


class Mirror(ABC):
    """Base class of mirror maps. Define its gradient, for the conditional gradient, or a closed form.

    It must be strongly convex on the set, with constant 1 in some norm, and smallest at the geometry's centre, at
    which learners start.
    """

    name: ClassVar[str] = ""

    def check(self, convex: ConvexSet) -> None:
        """Refuse a set on which the map is not defined.

        Parameters
        ----------
        convex : ConvexSet
            The set of decisions.
        """
        return

    @abstractmethod
    def range(self, geometry: Geometry) -> float:
        """The largest value of the map on the set minus its smallest.

        Parameters
        ----------
        geometry : Geometry
            Centre and size of the set.
        """

    def dual_square(self, geometry: Geometry) -> float:
        """Mean squared dual norm of a random unit direction of the set's affine hull; 1 in the Euclidean norm.

        Parameters
        ----------
        geometry : Geometry
            Affine hull of the set.
        """
        return 1.0

    def gradient(self, x: FloatArray, center: FloatArray) -> FloatArray:
        """Gradient of the map, for the conditional gradient.

        Parameters
        ----------
        x : array
            Where the gradient is taken.
        center : array
            The geometry's centre.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define gradient(x, center), or solve(slope, center)"
        )

    def solve(self, slope: FloatArray, center: FloatArray) -> FloatArray | None:
        """The minimiser of the map plus <slope, x> over the set, if it has a closed form.

        Parameters
        ----------
        slope : array
            The step size times the noisy total.
        center : array
            The geometry's centre.

        Returns
        -------
        array or None
            The minimiser; None (the default) if there is no closed form.
        """
        return None


class Euclidean(Mirror):
    """Half the squared distance from the centre of the set, the map of the paper."""

    name = "euclidean"

    def range(self, geometry: Geometry) -> float:
        return 0.5 * geometry.reach**2

    def gradient(self, x: FloatArray, center: FloatArray) -> FloatArray:
        return x - center


class Entropy(Mirror):
    """The entropy on a simplex, sum x_i ln x_i, whose response is a softmax and needs no linear minimiser.

    It is strongly convex in the 1-norm, so only the largest entry of a gradient matters, which is far below its
    length in high dimension.
    """

    name = "entropy"

    def check(self, convex: ConvexSet) -> None:
        if not isinstance(convex, Simplex):
            raise ValueError(
                f"mirror='entropy' needs a sets.Simplex, got {convex!r}; use mirror='euclidean'"
            )

    def range(self, geometry: Geometry) -> float:
        # mass * (entropy of the unit simplex), which is 1-strongly convex in the 1-norm
        mass = float(geometry.center.sum())
        return mass * mass * math.log(geometry.center.size)

    def dual_square(self, geometry: Geometry) -> float:
        rng = np.random.default_rng(
            0
        )  # a fixed seed: this is an integral over a public distribution
        u = rng.standard_normal((2048, geometry.dim))
        u /= np.linalg.norm(u, axis=1)[:, None]
        return float(np.mean(np.max(np.abs(geometry.lift(u)), axis=1) ** 2))

    def solve(self, slope: FloatArray, center: FloatArray) -> FloatArray:
        mass = float(center.sum())
        scores = -slope / mass
        weights = np.exp(scores - scores.max())
        return np.asarray(mass * weights / weights.sum(), np.float64)


KNOWN: dict[str, type[Mirror]] = {"euclidean": Euclidean, "entropy": Entropy}
