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
_LEAST_LOG = -600.0
"""Least logarithm of the parameter gamma, whose inverse must not overflow."""


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
        if self.shape != 1.0 and self._excess(_LEAST_LOG) < 0.0:
            raise ValueError(
                f"mean must not be so large for shape={self.shape:g}, got {self.mean:g}: the parameter of the "
                "distribution would be too small for a number; use a smaller mean, or a larger shape"
            )

    @functools.cached_property
    def _log_stopping(self) -> float:
        found = brentq(self._excess, _LEAST_LOG, -1e-30, xtol=1e-320, rtol=1e-15, maxiter=500)
        return float(found)

    @functools.cached_property
    def stopping(self) -> float:
        """The parameter gamma of K's distribution; if it is geometric, the probability of stopping after a run."""
        return 1.0 / self.mean if self.shape == 1.0 else math.exp(self._log_stopping)

    @functools.cached_property
    def _rest(self) -> float:
        """``1 - gamma``, accurate also where that is tiny because a second run is rare."""
        if self.shape == 1.0:
            return (self.mean - 1.0) / self.mean
        return -math.expm1(self._log_stopping)

    def _excess(self, logarithm: float) -> float:
        """How far the logarithm of the expected number of runs for ``log(gamma)`` is above that of ``mean``."""
        if self.shape == 0.0:
            ratio = math.expm1(logarithm) / logarithm
        else:
            ratio = self.shape * math.expm1(logarithm) / math.expm1(self.shape * logarithm)
        return math.log(ratio) - logarithm - math.log(self.mean)

    @functools.cached_property
    def _shift(self) -> float:
        """What choosing adds to epsilon: ``(1 + shape) log R``, with R the smallest value over the base's profile.

        If u is the probability of an output better than y on one side, it is at most ``e^e u + d(e)`` on the other,
        so the weights of the densities differ by a factor of at most ``max(1 + (1-g) d/g, g + (1-g)(e^e + d))`` to
        the power of 1 + shape, for every e.
        """

        def parts(e: float) -> tuple[float, float]:
            """Both numbers minus 1, which may be far below the last digit of 1."""
            d = self.base.delta(e)
            odds = math.expm1(e) if e < 700.0 else math.inf
            return self._rest * d / self.stopping, self._rest * (odds + d)

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
        return (1.0 + self.shape) * math.log1p(least) * _ROUND_UP

    @property
    def pure(self) -> float | None:
        if self.base.pure is None:
            return None
        if self.base.pure < 1.0:
            extra = math.log1p(self._rest * math.expm1(self.base.pure))
        else:
            logs = math.log(self.stopping), math.log(self._rest) + self.base.pure
            extra = float(np.logaddexp(*logs))
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
