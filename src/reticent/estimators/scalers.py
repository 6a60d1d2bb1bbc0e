"""Scaling of features that does not leak: by declared bounds, or by noisy moments.

`DomainScaler` uses declared bounds only. `PrivateScaler` releases the sums of the features and of their squares in one
release with a joint sensitivity, and standardises by them. Standardising by the mean and standard deviation of the data
would be an unprotected release and would void every guarantee that follows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from reticent import checks
from reticent.erm.problem import Groups
from reticent.erm.rounded_sums import UNIT, UNITS, weighted
from reticent.estimators import parameters
from reticent.estimators.bounds import Search
from reticent.estimators.counts import counted
from reticent.estimators.mixins import (
    Charged,
    FittedEstimator,
    FloatArray,
    Unlabelled,
    lazily,
    set_features,
    validated,
)
from reticent.estimators.scaling import NARROW
from reticent.noise import Source, release
from reticent.privacy import Budget, Guarantee, charge
from reticent.privacy.guarantee import with_details
from reticent.solve.blocks import AS_IT_IS, Block, Form, InMemory, Lazy, summed

_LEAST = 2.0**-10
"""Smallest standard deviation, relative to half a feature's range."""
_SHARE = 0.25
"""Share of this scaler's budget for finding unknown bounds: of mu squared, or of epsilon if delta = 0."""


def _limits(bounds: Any, columns: int) -> tuple[FloatArray, FloatArray]:
    """Declared bounds of every feature."""
    try:
        low, high = bounds
        lows, highs = (
            np.broadcast_to(checks.real_array(end, "bounds"), (columns,)) for end in (low, high)
        )
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds must be (low, high), two numbers or two vectors of length {columns} that are "
            f"known without looking at the data; got {bounds!r}"
        ) from None
    if not (np.isfinite(lows).all() and np.isfinite(highs).all() and (lows < highs).all()):
        raise ValueError(
            f"bounds must be finite, with low < high for every feature, got {bounds!r}"
        )
    with np.errstate(over="ignore"):
        halves = 0.5 * (highs - lows)
    # otherwise scaled values could be infinite or nan, depending on the record
    if not (np.isfinite(halves).all() and (halves > np.finfo(float).tiny).all()):
        raise ValueError(
            f"bounds must have differences that a float can hold, neither infinite nor 0, got {bounds!r}"
        )
    return lows.astype(np.float64), highs.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Moments:
    """Block-wise sums of the features and of their squares, each feature scaled from its bounds to [-1, 1]."""

    low: FloatArray
    high: FloatArray
    center: FloatArray
    half: FloatArray

    def __call__(self, block: Block) -> FloatArray:
        weights = block.weights if block.weights.size else np.ones(len(block.rows))
        inside = 0.5 * np.clip(np.asarray(block.rows, np.float64), self.low, self.high)
        V = np.clip((inside - 0.5 * self.center) / (0.5 * self.half), -1.0, 1.0)
        own = [block._replace(rows=rows, form=AS_IT_IS) for rows in (V, np.square(V))]
        return np.concatenate([weighted(one, weights) for one in own])


class _Scaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Base of the scalers: clips to the bounds, subtracts ``center_`` and divides by ``scale_``."""

    center_: FloatArray
    scale_: FloatArray

    def transform(self, X: Any) -> Any:
        """Clip features to the bounds, centre and scale them.

        Parameters
        ----------
        X : array, Dask array or table of `reticent.tables.open`
            Features.

        Returns
        -------
        array
            Scaled features; lazy if X is.
        """
        check_is_fitted(self)
        found = lazily(X)[0]
        if hasattr(found, "mapped"):
            return found.mapped(self._moved, self.n_features_in_)
        X = validated(self, X, reset=False, dtype=np.float64)
        return self._moved(X)

    def _moved(self, rows: Any) -> FloatArray:
        rows = np.asarray(rows, np.float64)
        return np.asarray(
            (np.clip(rows, self.data_low_, self.data_high_) - self.center_) / self.scale_
        )

    def inverse_transform(self, X: Any) -> FloatArray:
        """Map scaled features back to the features' own units.

        Parameters
        ----------
        X : array
            Scaled features.

        Returns
        -------
        array
            Features; what was clipped to the bounds stays at them.
        """
        check_is_fitted(self)
        return np.asarray(X, dtype=np.float64) * self.scale_ + self.center_

    def _declare_lazy(self, X: Lazy) -> None:
        set_features(self, X)
        self.data_low_, self.data_high_ = _limits(self.bounds, X.shape[1])

    def _declare(self, X: Any) -> FloatArray:
        X = validated(self, X, reset=True, dtype=np.float64)
        self.data_low_, self.data_high_ = _limits(self.bounds, X.shape[1])
        return np.asarray(X)


class DomainScaler(_Scaler):
    """Scale every feature from declared, public bounds to a ball. Reads nothing from the data.

    Parameters
    ----------
    bounds : (low, high)
        Two numbers, or two vectors with one entry per feature. Values beyond are clipped. Default: (-1, 1).
    norm : float, optional
        Largest Euclidean norm of the scaled rows, for ``feature_norm`` of the estimators. None scales every feature to
        [-1, 1]. Default: 1.

    Attributes
    ----------
    center_ : array
        Middle of the bounds of each feature.
    scale_ : array
        Divisor of each feature.

    See Also
    --------
    PrivateScaler : Scales by means and standard deviations of the data, released with noise.

    --------
    >>> from reticent.estimators import DomainScaler
    >>> DomainScaler(([0, 0], [120, 1e5]), norm=None).fit_transform([[60, 1e5], [200, 0]]).tolist()
    [[0.0, 1.0], [1.0, -1.0]]
    """

    def __init__(self, bounds: Any = parameters.SCALER_BOUNDS, *, norm: float | None = 1.0) -> None:
        self.bounds = bounds
        self.norm = norm

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the number and the names of the features.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Features; only their number and names are used.
        y : ignored

        Returns
        -------
        self
            The fitted scaler.
        """
        parameters.warn_of_defaults({"bounds": self.bounds})
        X = self._declare(X)
        half = 0.5 * (self.data_high_ - self.data_low_)
        self.center_ = self.data_low_ + half
        size = 1.0
        if self.norm is not None:
            norm = parameters.CHECKS["norm"](self.norm, "norm")
            # slightly less, so that rounding cannot lift a row above the norm
            size = norm / math.sqrt(X.shape[1]) * (1.0 - 2.0**-40)
        self.scale_ = half / size
        return self


class PrivateScaler(_Scaler, Charged):
    """Standardise features by means and standard deviations released with noise.

    Parameters
    ----------
    bounds : (low, high) or "private"
        Public bounds, two numbers or two vectors with one entry per feature; values beyond are clipped, and noise is
        calibrated to the bounds. "private" finds an interval of each column with a share of this scaler's budget: a
        quarter if there are many records, more if there are few. A column in which nothing but zeros is found is scaled
        to 0. Default: (-1, 1).
    epsilon : float
        Privacy parameter epsilon of the budget. Default: 0.2.
    delta : float
        Privacy parameter delta of the budget; 0 gives pure differential privacy. Default: 1e-6.
    neighbours : {"zero-out", "replace"}
        Whether one record is blanked or replaced by another. Default: "zero-out".
    noise_precision : {"lattice", "float"}
        "lattice" rounds noisy values to a lattice, so that floating-point rounding reveals nothing; "float" is for
        simulations, and ``guarantee_`` says so. Default: "lattice".
    random_state : int or RandomState, optional
        None uses a cryptographic generator. Anything else is for experiments, and ``guarantee_`` says so.

    Attributes
    ----------
    center_ : array
        Noisy means.
    scale_ : array
        Noisy standard deviations.
    guarantee_ : reticent.Guarantee
        Guarantee for ``center_`` and ``scale_``, and for the bounds if these were found.

    See Also
    --------
    DomainScaler : Scales by declared bounds and spends nothing.


    Examples
    --------
    >>> import numpy as np
    >>> from reticent.estimators import PrivateScaler
    >>> X = np.random.default_rng(0).normal(3.0, 0.5, size=(5_000, 2))
    >>> scaler = PrivateScaler((0, 10), epsilon=0.5, random_state=0).fit(X)
    >>> scaler.center_.round(1).tolist(), scaler.guarantee_.epsilon(1e-6) <= 0.5
    ([3.0, 3.0], True)
    >>> scaler = PrivateScaler("private", epsilon=0.5, random_state=0).fit(1e9 * X)
    >>> (scaler.center_ / 1e9).round(1).tolist(), scaler.guarantee_.epsilon(1e-6) <= 0.5
    ([3.0, 3.0], True)
    """

    def __init__(
        self,
        bounds: Any = parameters.SCALER_BOUNDS,
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

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release the moments. Each call spends the budget.

        Parameters
        ----------
        X : array, Dask array or table of `reticent.tables.open`
            Records.
        y : ignored
        groups : array, optional
            Id of the person of each record. All records of one person are then protected together; each of a person's m
            records has weight 1/m, and the moments are means over persons, whose number is public.

        Returns
        -------
        self
            The fitted scaler.
        """
        with self._all_or_nothing(), self._paying():
            return self._fit(X, groups)

    def _fit(self, X: Any, groups: Any) -> Self:
        budget = Budget(self.epsilon, self.delta, self.neighbours)
        checks.choice(self.noise_precision, "noise_precision", ("lattice", "float"))
        private = isinstance(self.bounds, str) and self.bounds == parameters.PRIVATE
        if isinstance(self.bounds, str) and not private:
            raise ValueError(
                "bounds must be (low, high) that are known without looking at the data, or "
                f"{parameters.PRIVATE!r} to find them with a share of the budget; got {self.bounds!r}"
            )
        records, persons = self._read(lazily(X)[0], groups, private)
        columns = records.shape[1]
        count = records.shape[0] if persons is None else persons.count
        source = Source(FittedEstimator._seed(self))
        search = None
        if private:
            search = Search.of(budget, count, columns, share=_SHARE, precision=self.noise_precision)
        made = self._sums(budget, search, count, columns)
        beside = () if search is None else search.releases
        lattice = self.noise_precision == "lattice"
        unit = "record" if persons is None else "person"
        guarantee = Guarantee.of(
            budget, [*beside, made.release], seeded=source.seeded, lattice=lattice, unit=unit
        )
        charge(guarantee, "private scaler")
        if search is not None:
            found = search.intervals(records.rows, counted(None, persons), source)
            self.data_low_, self.data_high_ = found.low, found.high
        # halved, because found bounds may be farther apart than the largest double
        half = 0.5 * self.data_high_ - 0.5 * self.data_low_
        center = 0.5 * self.data_low_ + 0.5 * self.data_high_
        empty = half <= NARROW
        half = np.where(empty, 1.0, half)
        sums = summed(records.map(Moments(self.data_low_, self.data_high_, center, half)))
        seen = made.draw(sums, source)
        mean = np.clip(seen[:columns] / count, -1.0, 1.0)
        variance = seen[columns:] / count - mean * mean
        # A variance below its noise carries no information, and dividing by it would blow features up.
        doubt = made.deviation / count
        self.center_ = center + half * mean
        self.scale_ = half * np.sqrt(np.clip(variance, max(doubt, _LEAST**2), 1.0))
        self.center_[empty], self.scale_[empty] = center[empty], 1.0
        which = "declared" if search is None else "found"
        lines: tuple[str, ...] = (
            f"features clipped to bounds that were {which}, then scaled to [-1, 1]",
        )
        lines += () if persons is None else (persons.words,)
        self.guarantee_ = with_details(guarantee, lines)
        return self

    def _sums(
        self, budget: Budget, search: Search | None, count: int, columns: int
    ) -> release.NoisyVector:
        """The sums to release, with the noise that a search for bounds leaves room for."""
        # A record adds (v, v^2) per feature, with v in [-1, 1]: at most (1, 1). The difference of two such pairs has
        # norm at most 2, attained at 1 and -1 (docs/estimators.md). A person's average lies in the convex hull of such
        # vectors, whose norm and width are no larger.
        each = math.sqrt(2.0) if budget.neighbours == "zero-out" else 2.0
        moved = each * math.sqrt(columns)
        moved *= 1.0 + 4.0 * UNITS * UNIT * count
        noise = "gaussian" if budget.delta > 0.0 else "gamma"
        size, level = 2 * columns, budget.mu if noise == "gaussian" else budget.epsilon
        if search is not None:
            spent = search.level
            level = math.sqrt(level**2 - spent**2) if noise == "gaussian" else level - spent
            level *= 1.0 - 2.0**-40
        scale = moved / level
        if self.noise_precision == "lattice":
            scale = max(release.scale_for(moved, level, size, noise), 2.0 * count * 2.0**-30)
        return release.NoisyVector(
            "sums of features and of their squares", moved, size, scale, noise, self.noise_precision
        )

    def _read(self, X: Any, groups: Any, private: bool) -> tuple[Any, Groups | None]:
        """The records and the persons they belong to; the bounds of columns are known then, unless private."""
        if not private:
            parameters.warn_of_defaults({"bounds": self.bounds})
        if isinstance(X, Lazy):
            if private or groups is not None:
                raise ValueError(
                    "PrivateScaler needs stated bounds and no groups for a table that is not in memory; state bounds "
                    "and leave out groups, or read the table into memory"
                )
            self._declare_lazy(X)
            records = X.records(None, Form(), Unlabelled())
            if records.units != UNITS:
                raise TypeError(
                    "PrivateScaler does not read arrays on a device; copy the table to the host"
                )
            return records, None
        X = np.asarray(validated(self, X, reset=True, dtype=np.float64))
        if not private:
            self.data_low_, self.data_high_ = _limits(self.bounds, X.shape[1])
        persons = Groups.of(groups, X.shape[0], None)
        return InMemory(X, weights=None if persons is None else persons.factors), persons

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        return tags


__all__ = ["DomainScaler", "PrivateScaler"]
