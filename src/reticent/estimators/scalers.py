"""Scaling of features that does not leak: by declared bounds, or by moments with noise.

`DomainScaler` reads nothing off the data. `PrivateScaler` releases the sums of features and of their
squares once, with one joint sensitivity, and standardises by them.

The one thing a reader would get wrong: standardising by the mean and the standard deviation of the
data, out of habit, is a release that nothing protects, and every promise made after it is void.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from reticent import _checks
from reticent.erm._sums import UNIT, UNITS, weighted_rows
from reticent.estimators import parameters
from reticent.estimators.charged import Charged
from reticent.estimators.face import Face, FloatArray, with_details
from reticent.noise import Source, release
from reticent.privacy import Budget, Gaussian, Guarantee, Pure, Release, charge

_LEAST = 2.0**-10
"""The least standard deviation, as a share of half a feature's range."""


def _limits(bounds: Any, columns: int) -> tuple[FloatArray, FloatArray]:
    """Declared bounds of every feature."""
    try:
        low, high = bounds
        lows, highs = (
            np.broadcast_to(_checks.real_array(end, "bounds"), (columns,)) for end in (low, high)
        )
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds must be (low, high), two numbers or two vectors of length {columns} that are "
            f"known without looking at the data; got {bounds!r}"
        ) from None
    if not (np.isfinite(lows).all() and np.isfinite(highs).all() and (lows < highs).all()):
        raise ValueError(f"bounds must be finite and rise in every feature, got {bounds!r}")
    with np.errstate(over="ignore"):
        halves = 0.5 * (highs - lows)
    # else a feature's place between its bounds is not a number, which would depend on the record
    if not (np.isfinite(halves).all() and (halves > np.finfo(float).tiny).all()):
        raise ValueError(
            f"bounds must be neither farther apart nor closer than a float can hold, got {bounds!r}"
        )
    return lows.astype(np.float64), highs.astype(np.float64)


class _Scaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Features moved by ``center_`` and divided by ``scale_``, beyond the bounds clipped."""

    center_: FloatArray
    scale_: FloatArray

    def transform(self, X: Any) -> FloatArray:
        """Features clipped to the declared bounds, moved and scaled."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(
            (np.clip(X, self.data_low_, self.data_high_) - self.center_) / self.scale_
        )  # type: ignore[attr-defined]

    def inverse_transform(self, X: Any) -> FloatArray:
        """Back to the features' own units."""
        check_is_fitted(self)
        return np.asarray(X, dtype=np.float64) * self.scale_ + self.center_

    def _declare(self, X: Any) -> FloatArray:
        X = validate_data(self, X, reset=True, dtype=np.float64)
        self.data_low_, self.data_high_ = _limits(self.bounds, X.shape[1])  # type: ignore[attr-defined]
        return np.asarray(X)


class DomainScaler(_Scaler):
    """Scale every feature from declared, public bounds to a ball. Reads nothing off the data.

    Parameters
    ----------
    bounds : (low, high)
        Two numbers, or two vectors with one entry for each feature. Values beyond are clipped.
    norm : float, optional
        Rows come out with a Euclidean norm of at most this, which is what ``feature_norm`` of the
        estimators wants. None leaves every feature in [-1, 1].

    Attributes
    ----------
    center_, scale_ : arrays

    Examples
    --------
    >>> from reticent.estimators import DomainScaler
    >>> DomainScaler(([0, 0], [120, 1e5]), norm=None).fit_transform([[60, 1e5], [200, 0]]).tolist()
    [[0.0, 1.0], [1.0, -1.0]]
    """

    def __init__(self, bounds: Any = (-1.0, 1.0), *, norm: float | None = 1.0) -> None:
        self.bounds = bounds
        self.norm = norm

    def fit(self, X: Any, y: Any = None) -> Self:
        """Note the number and the names of the features."""
        X = self._declare(X)
        half = 0.5 * (self.data_high_ - self.data_low_)
        self.center_ = self.data_low_ + half
        size = 1.0
        if self.norm is not None:
            norm = parameters.CHECKS["norm"](self.norm, "norm")
            # a hair less, so that rounding cannot leave a row above the norm
            size = norm / math.sqrt(X.shape[1]) * (1.0 - 2.0**-40)
        self.scale_ = half / size
        return self


class PrivateScaler(_Scaler, Charged):
    """Standardise features by means and standard deviations that were released with noise.

    Parameters
    ----------
    bounds : (low, high)
        As in `DomainScaler`: declared and public. The noise is calibrated to them.
    epsilon, delta, neighbours
        What this scaler spends, beside whatever follows it in a pipeline; a `reticent.Ledger` adds
        them up.
    noise_precision, random_state
        As in `PrivateLogisticRegression`.

    Attributes
    ----------
    center_, scale_ : arrays
        Means and standard deviations, with noise.
    guarantee_ : reticent.Guarantee

    Examples
    --------
    >>> import numpy as np
    >>> from reticent.estimators import PrivateScaler
    >>> X = np.random.default_rng(0).normal(3.0, 0.5, size=(5_000, 2))
    >>> scaler = PrivateScaler((0, 10), epsilon=0.5, random_state=0).fit(X)
    >>> scaler.center_.round(1).tolist(), scaler.guarantee_.epsilon(1e-6) <= 0.5
    ([3.0, 3.0], True)
    """

    def __init__(
        self,
        bounds: Any = (-1.0, 1.0),
        *,
        epsilon: float = 0.2,
        delta: float = 1e-6,
        neighbours: str = "zero-out",
        noise_precision: str = "lattice",
        random_state: Any = None,
    ) -> None:
        self.bounds = bounds
        self.epsilon = epsilon
        self.delta = delta
        self.neighbours = neighbours
        self.noise_precision = noise_precision
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the moments. Each call spends the budget."""
        with self._all_or_nothing():
            return self._fit(X)

    def _fit(self, X: Any) -> Self:
        names = ("epsilon", "delta", "neighbours")
        values = parameters.checked({name: getattr(self, name) for name in names})
        budget = Budget(values["epsilon"], values["delta"], values["neighbours"])
        _checks.choice(self.noise_precision, "noise_precision", ("lattice", "float"))
        X = self._declare(X)
        count, columns = X.shape
        half = 0.5 * (self.data_high_ - self.data_low_)
        center = self.data_low_ + half
        V = np.clip((X - center) / half, -1.0, 1.0)
        source = Source(Face._seed(self))  # type: ignore[arg-type]
        noise = "gaussian" if budget.delta > 0.0 else "gamma"
        # A record adds v and v^2, each of norm at most sqrt(p); of two that replace each other the
        # squares differ by sqrt(p) at most, for they are all in [0, 1].
        first, second = budget.sensitivity(1.0), 1.0
        moved = math.sqrt(columns) * math.hypot(first, second)
        moved *= 1.0 + 4.0 * UNITS * UNIT * count
        size, level = 2 * columns, budget.mu if noise == "gaussian" else budget.epsilon
        lattice = self.noise_precision == "lattice"
        scale = moved / level
        if lattice:
            scale = max(release.scale_for(moved, level, size, noise), 2.0 * count * 2.0**-30)
            moved = release.widened(moved, scale, size, noise)
        cost = moved / scale
        words = "Gaussian, standard deviation" if noise == "gaussian" else "Gamma, scale"
        curve = Gaussian(cost) if noise == "gaussian" else Pure(cost)
        item = Release(
            "sums of features and of their squares", curve, moved, f"{words} {scale:.6g}"
        )
        guarantee = Guarantee.of(budget, [item], seeded=source.seeded, lattice=lattice)
        charge(guarantee, "private scaler")
        ones = np.ones(count)
        sums = np.concatenate([weighted_rows(V, ones), weighted_rows(np.square(V), ones)])
        seen = release.noisy(sums, scale, source, noise=noise, precision=self.noise_precision)
        mean = np.clip(seen[:columns] / count, -1.0, 1.0)
        variance = seen[columns:] / count - mean * mean
        # Below the noise a variance says nothing, and dividing by it would blow features up.
        doubt = scale * (1.0 if noise == "gaussian" else math.sqrt(size + 1.0)) / count
        self.center_ = center + half * mean
        self.scale_ = half * np.sqrt(np.clip(variance, max(doubt, _LEAST**2), 1.0))
        lines = ("features clipped to their declared bounds, then scaled to [-1, 1]",)
        self.guarantee_ = with_details(guarantee, lines)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        return tags


__all__ = ["DomainScaler", "PrivateScaler"]
