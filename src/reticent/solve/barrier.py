"""Losses with kinks, by a central path and certified by duality.

The hinge is the maximum over u in [0, 1] of u (1 - y z), the pinball loss that of (u - level) (z - y). With mu (log u
+ log(1 - u)) added inside the maximum they become smooth and self-concordant, and Newton's method follows decreasing
mu in a number of steps that hardly depends on the data (Nesterov and Nemirovskii 1994, chapter 3). The maximisers u
are feasible for the dual of the loss with kinks: its mean is at least mean (u_i - level) r_i(x), a linear function of
x, whose minimum over the set is a bound. The reported gap is that of the loss with kinks, not of the smoothed loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from reticent.checks import FloatArray
from reticent.compiling import compiled
from reticent.solve.certificate import least_of_tangent
from reticent.solve.objective import MeanTerms, Objective, Region
from reticent.solve.search import Search

_FALL = 0.1
"""Factor by which mu is reduced in each round."""


@compiled
def _share(r: float, mu: float) -> float:
    """The u in (0, 1) at which u r + mu (log u + log(1 - u)) is largest."""
    size = abs(r) + math.sqrt(r * r + 4.0 * mu * mu)
    return size / (size + 2.0 * mu) if r > 0.0 else 2.0 * mu / (size + 2.0 * mu)


@compiled
def _mean_maximum(r: FloatArray, mu: float) -> float:
    total = 0.0
    for i in range(r.shape[0]):
        u = _share(abs(r[i]), mu)
        # log(1 - u) by 1 - u(r) = u(-r), which keeps its digits.
        other = _share(-abs(r[i]), mu)
        total += max(0.0, r[i]) - other * abs(r[i]) + mu * (math.log(u) + math.log(other))
    return total / r.shape[0]


@compiled
def _shares(r: FloatArray, mu: float) -> FloatArray:
    out = np.empty(r.shape[0])
    for i in range(r.shape[0]):
        out[i] = _share(r[i], mu)
    return out


@compiled
def _share_slopes(r: FloatArray, mu: float) -> FloatArray:
    out = np.empty(r.shape[0])
    for i in range(r.shape[0]):
        u, other = _share(r[i], mu), _share(-r[i], mu)
        out[i] = u * u * other * other / (mu * (u * u + other * other))
    return out


@dataclass
class Kinked(MeanTerms):
    """The mean of max(0, r) - level r over the records, where r = offset + sign z; smooth if mu is above 0.

    Parameters
    ----------
    A : array or CSR matrix
        The records.
    sign : array
        Slope of each record's residual in its predictor.
    offset : array
        Residual of each record at 0.
    level : float
        In [0, 1].
    mu : float
        Weight of the barrier that smooths the kinks.
    """

    sign: FloatArray
    offset: FloatArray
    level: float
    mu: float = 0.0
    per_record: ClassVar[tuple[str, ...]] = ("sign", "offset")

    def residuals(self, z: FloatArray) -> FloatArray:
        return self.offset + self.sign * z

    def total_value(self, z: FloatArray) -> float:
        r = self.residuals(z)
        mean = _mean_maximum(r, self.mu) if self.mu else float(np.mean(np.maximum(r, 0.0)))
        return mean - self.level * float(np.mean(r)) if self.level else mean

    def tilts(self, z: FloatArray) -> FloatArray:
        """The dual point: u - level for each record."""
        return _shares(self.residuals(z), self.mu) - self.level

    def slopes(self, z: FloatArray) -> FloatArray:
        return self.sign * self.tilts(z) / len(z)

    def bends(self, z: FloatArray) -> FloatArray:
        return self.sign**2 * _share_slopes(self.residuals(z), self.mu) / len(z)


def central_path(
    kinked: Kinked,
    region: Region,
    search: Search,
    start: FloatArray,
    ridge: float,
    solver: Callable[..., FloatArray],
) -> None:
    """Minimise until the search is satisfied or its limits are reached."""
    objective = Objective(kinked, ridge, is_mean=True)
    x = start
    mu = 1.0
    while mu > 1e-14:
        # Later on the path, its own last point is a better start than a part of the records.
        smooth = Objective(replace(kinked, mu=mu), ridge, is_mean=True, thins=mu == 1.0)

        def enough(x: FloatArray, z: FloatArray, g: FloatArray, smooth: Objective = smooth) -> bool:
            value = objective.value(x, z)
            lower, central = dual_bounds(smooth, region, x, z, g)
            search.record(x, value, lower)
            # On the path itself the gap is value - central; once close to it, reducing mu gains more.
            return search.reached or central - lower <= value - central

        inner = search.part(0.1 * search.gap)
        x = solver(smooth, region, inner, x, ridge, enough)
        search.iterations += inner.iterations
        if search.reached or search.spent:
            break
        # Each record's share of the gap is at most mu, so mu need not be much smaller than the gap.
        mu = max(_FALL * mu, min(0.5 * mu, 0.5 * search.gap * abs(search.value)))


def dual_bounds(
    smooth: Objective, region: Region, x: FloatArray, z: FloatArray, g: FloatArray
) -> tuple[float, float]:
    """A lower bound on the loss with kinks over the region, and the dual's linear function at x.

    z and g are the predictors and the gradient of the smoothed loss at x.
    """
    terms, ridge = smooth.terms, smooth.least_curvature
    assert isinstance(terms, Kinked)
    central = float(terms.tilts(z) @ terms.residuals(z)) / len(z) + 0.5 * ridge * float(x @ x)
    return central + least_of_tangent(region, x, g, ridge), central
