"""The best fixed decision of a loss with kinks: a central path, certified by duality.

The hinge is max over u in [0, 1] of u (1 - y z), the pinball loss max of (u - level) (z - y). With
mu (log u + log(1 - u)) added inside the maximum they become smooth and self-concordant, and Newton's
method follows mu down in a number of steps that hardly depends on the data (Nesterov and
Nemirovskii 1994, chapter 3). The maximisers u are feasible for the dual of the loss with kinks: its
mean is at least mean u_i (1 - y_i <a_i, x>), a linear function of x which the linear minimiser bounds
from below over the set.

The one thing a reader would get wrong: the gap reported is that of the loss with kinks, not of its
smoothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from reticent._compile import compiled
from reticent.losses import kernels
from reticent.losses._newton import Search
from reticent.losses._objective import Objective
from reticent.losses._region import Region
from reticent.losses.base import FloatArray

_FALL = 0.1


@compiled
def _share(r: float, mu: float) -> float:
    """The u in (0, 1) where u r + mu (log u + log(1 - u)) is largest."""
    size = abs(r) + math.sqrt(r * r + 4.0 * mu * mu)
    return size / (size + 2.0 * mu) if r > 0.0 else 2.0 * mu / (size + 2.0 * mu)


@compiled
def _mean_maximum(r: FloatArray, mu: float) -> float:
    total = 0.0
    for i in range(r.shape[0]):
        u = _share(abs(r[i]), mu)
        # log(1 - u) from the far side: 1 - u(r) = u(-r) keeps its digits.
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


class BarrierObjective(Objective):
    """A hinge or pinball objective with its kinks rounded off by a barrier of weight mu."""

    def __init__(self, kinked: Objective, mu: float) -> None:
        super().__init__(kinked.kind, kinked.params, kinked.A, kinked.y, kinked.R)
        self.mu = mu

    @property
    def thins(self) -> bool:
        # Further down the path its own last point is the better start.
        return self.mu == 1.0

    def _residuals(self, z: FloatArray) -> FloatArray:
        return 1.0 - self.y * z if self.kind == kernels.HINGE else z - self.y

    def _mean(self, z: FloatArray) -> float:
        r = self._residuals(z)
        mean = _mean_maximum(r, self.mu)
        return mean if self.kind == kernels.HINGE else mean - self.params[0] * float(np.mean(r))

    def slopes(self, z: FloatArray) -> FloatArray:
        u = _shares(self._residuals(z), self.mu)
        return -self.y * u if self.kind == kernels.HINGE else u - self.params[0]

    def bends(self, z: FloatArray) -> FloatArray:
        return _share_slopes(self._residuals(z), self.mu)


def central_path(
    objective: Objective,
    region: Region,
    search: Search,
    start: FloatArray,
    ridge: float,
    solver: Callable[..., FloatArray],
) -> FloatArray:
    """Minimise until the search is satisfied or its limits are spent; the best point."""
    x = start
    mu = 1.0
    while mu > 1e-14:
        smooth = BarrierObjective(objective, mu)

        def enough(
            x: FloatArray, z: FloatArray, g: FloatArray, smooth: BarrierObjective = smooth
        ) -> bool:
            value = objective.value(x, z)
            lower, central = dual_bounds(smooth, region, x, z, g, ridge)
            search.record(x, value, lower)
            # On the path itself value - central is left; near it, going on is worth more.
            return search.reached or central - lower <= value - central

        inner = search.part(0.1 * search.gap)
        x = solver(smooth, region, inner, x, ridge, enough)
        search.iterations += inner.iterations
        if search.reached or search.spent:
            break
        # Each record's share of the gap is at most mu, so there is no need to go far beyond it.
        mu = max(_FALL * mu, min(0.5 * mu, 0.5 * search.gap * abs(search.value)))
    assert search.point is not None
    return search.point


def dual_bounds(
    smooth: BarrierObjective,
    region: Region,
    x: FloatArray,
    z: FloatArray,
    g: FloatArray,
    ridge: float,
) -> tuple[float, float]:
    """A lower bound of the loss with kinks over the region, and the dual's linear function at x.

    z and g are the predictors and the gradient of the smoothed loss at x.
    """
    slopes = smooth.slopes(z)
    offset = -float(slopes @ smooth.y) / smooth.count
    half = 0.5 * ridge * float(x @ x)
    central = offset + float(slopes @ z) / smooth.count + half
    bounds = [-math.inf]
    if region.bounded:
        # The ridge lies above its tangent at x.
        bounds.append(offset + float(g @ region.minimize(g)) - half)
    if ridge > 0.0:
        data = g - ridge * x
        if not region.bounded:
            bounds.append(offset - float(data @ data) / (2.0 * ridge))
        elif region.project is not None:
            s = region.project(-data / ridge)
            bounds.append(offset + float(data @ s) + 0.5 * ridge * float(s @ s))
    return max(bounds), central
