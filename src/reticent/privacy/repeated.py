"""The best of a random number of runs: the cost of fitting several models and releasing only the best.

Papernot and Steinke, *Hyperparameter tuning with Rényi differential privacy*, Theorem 2, for divergences; Koskela,
Redberg and Wang, *Privacy profiles for private selection*, for profiles, which give much tighter bounds. Proofs:
docs/algorithms/private-search.md.

The number of runs, the losing runs and the running time must stay secret, and the number must not be truncated: a
guarantee for a random number of runs does not hold for a fixed number.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from reticent.checks import number
from reticent.privacy.curves import Curve, from_dict

_ROUND_UP = 1.0 + 2.0**-40
_HALVINGS = 12


@dataclass(frozen=True)
class BestOf(Curve):
    """The best of K independent runs of one mechanism, by a score that is part of each run's output.

    K is random with a truncated negative binomial distribution: the geometric one for ``shape=1``, the logarithmic
    one for ``shape=0``.

    Parameters
    ----------
    base : Curve
        The cost of one run, its score included.
    mean : float
        The expected number of runs, above 1.
    shape : float
        The parameter eta of the distribution, above -1.

    Examples
    --------
    >>> from reticent.privacy import Budget, Gaussian
    >>> once = Gaussian(Budget(1.0, 1e-6).mu)
    >>> round(BestOf(once, mean=10).epsilon(1e-6), 2)
    1.54
    """

    base: Curve
    mean: float
    shape: float = 1.0
    kind: ClassVar[str] = "best-of"

    def __post_init__(self) -> None:
        if not isinstance(self.base, Curve):
            raise TypeError(f"base must be a privacy curve such as Gaussian(mu), got {self.base!r}")
        object.__setattr__(self, "mean", number(self.mean, "mean", low=1.0, open_low=True))
        object.__setattr__(self, "shape", number(self.shape, "shape", low=-1.0, open_low=True))

    @functools.cached_property
    def stopping(self) -> float:
        """The parameter gamma of K's distribution; if it is geometric, the probability of stopping after a run."""
        if self.shape == 1.0:
            return 1.0 / self.mean

        def excess(logarithm: float) -> float:
            g = math.exp(logarithm)
            if self.shape == 0.0:
                return math.log((1.0 - g) / (g * -logarithm)) - math.log(self.mean)
            value = self.shape * (1.0 - g) / (g * -math.expm1(self.shape * logarithm))
            return math.log(value) - math.log(self.mean)

        return math.exp(float(brentq(excess, -600.0, -1e-9)))

    @functools.cached_property
    def _shift(self) -> float:
        """What choosing adds to epsilon: ``(1 + shape) log R``, with R the smallest value over the base's profile.

        If u is the probability of an output better than y on one side, it is at most ``e^e u + d(e)`` on the other,
        so the weights of the densities differ by a factor of at most ``max(1 + (1-g) d/g, g + (1-g)(e^e + d))`` to
        the power of 1 + shape, for every e.
        """
        g = self.stopping

        def parts(e: float) -> tuple[float, float]:
            d = self.base.delta(e)
            odds = math.exp(e) if e < 700.0 else math.inf
            return 1.0 + (1.0 - g) * d / g, g + (1.0 - g) * (odds + d)

        low, high = 0.0, 1.0 if self.base.pure is None else self.base.pure
        while parts(high)[0] > parts(high)[1]:
            low, high = high, 2.0 * high
            if high > 600.0:
                return math.inf
        least = max(parts(high))
        # the first decreases and the second increases, so their maximum is smallest where they meet; any e is valid
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            first, second = parts(middle)
            least = min(least, max(first, second))
            low, high = (middle, high) if first > second else (low, middle)
        return (1.0 + self.shape) * math.log(least) * _ROUND_UP

    @property
    def pure(self) -> float | None:
        if self.base.pure is None:
            return None
        g = self.stopping
        extra = float(np.logaddexp(math.log(g), math.log1p(-g) + self.base.pure))
        return self.base.pure + (1.0 + self.shape) * extra * _ROUND_UP

    @functools.cached_property
    def _constant(self) -> float:
        """The part of the divergence that does not depend on its order."""
        gap = math.log(1.0 / self.stopping)

        def at(logarithm: float) -> float:
            order = 1.0 + math.exp(logarithm)
            return (1.0 - 1.0 / order) * self.base.rdp(order) + gap / order

        grid = np.linspace(-12.0, 14.0, 105)
        values = [at(float(point)) for point in grid]
        k = int(np.argmin(values))
        ends = (grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)])
        found = minimize_scalar(lambda point: min(at(point), 1e300), bounds=ends, method="bounded")
        return (1.0 + self.shape) * min(values[k], float(found.fun), gap)

    def _rdp(self, alpha: float) -> float:
        return self.base.rdp(alpha) + self._constant + math.log(self.mean) / (alpha - 1.0)

    def _delta(self, epsilon: float) -> float:
        bounds = [super()._delta(epsilon)]
        if epsilon > self._shift:
            bounds.append(self.mean * self.base.delta(epsilon - self._shift) * _ROUND_UP)
        return min(bounds)

    def _epsilon(self, delta: float) -> float:
        bounds = [super()._epsilon(delta)]
        if math.isfinite(self._shift):
            bounds.append(self._shift + self.base.epsilon(delta / (self.mean * _ROUND_UP)))
        return min(bounds)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "base": self.base.to_dict(),
            "mean": self.mean,
            "shape": self.shape,
        }

    @classmethod
    def _from_dict(cls, data: dict[str, Any]) -> Curve:
        return cls(**{**data, "base": from_dict(data["base"])})
