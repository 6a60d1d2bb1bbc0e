"""The units in which a model learns: columns clipped, centred and scaled, and rows clipped to a norm.

A stated ``feature_norm`` only clips rows; private bounds clip every column to its interval first. Coefficients are
mapped back to the units of the given features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from reticent.checks import FloatArray
from reticent.estimators.bounds import Columns
from reticent.losses.records import clip_rows

# Appending the intercept may round the norm of a row to just above the stated one.
ROOM = 1.0 + 2.0**-30
NARROW = 1e-300
"""A column within so little is taken to be constant: its coefficient, and numbers on the way there, could overflow."""


@dataclass(frozen=True, eq=False)
class Units:
    """The map from features to rows of norm at most ``norm``.

    Parameters
    ----------
    norm : float
        Norm to which rows are clipped after centring and scaling.
    low, high : arrays, optional
        Interval to which each column is clipped first.
    center, scale : arrays, optional
        What is then subtracted from each column, and by what it is divided.
    first : float, optional
        Norm to which rows are clipped before anything else.
    weighed : bool
        Whether rows beyond the norm were scaled down with constant and label instead of clipped; predictions then
        need no clipping to ``norm``.


    Examples
    --------
    >>> import numpy as np
    >>> units = Units(1.0, np.array([0.0]), np.array([10.0]), np.array([5.0]), np.array([5.0]))
    >>> units.scaled(np.array([[10.0], [99.0], [5.0]])).ravel().tolist()
    [1.0, 1.0, 0.0]
    """

    norm: float
    low: FloatArray | None = None
    high: FloatArray | None = None
    center: FloatArray | None = None
    scale: FloatArray | None = None
    first: float | None = None
    weighed: bool = False

    @classmethod
    def of(cls, columns: Columns, norm: float, sparse: bool) -> Units:
        """Map each column's interval to [-1, 1]; around 0 for sparse features, so that zeros stay zeros."""
        low, high = columns.low, columns.high
        if sparse:
            high = np.maximum(np.abs(low), np.abs(high))
            low = -high
        half = 0.5 * high - 0.5 * low
        center = 0.5 * low + 0.5 * high
        # a column in which nothing was found is always at its centre, which is 0, or next to it
        return cls(norm, low, high, center, np.where(half > NARROW, half, 1.0))

    def scaled(self, X: Any) -> Any:
        """Columns clipped, centred and scaled; rows are not clipped to ``norm`` yet."""
        if self.scale is None or self.center is None:
            return X
        if sp.issparse(X) and self.low is None:
            X = X.toarray()  # a block of rows, which centring would fill
        if sp.issparse(X):
            made = sp.csr_array(X, copy=True)
            made.data = np.clip(made.data, *self._ends(made)) / self.scale[made.indices]
            return made
        if self.first is not None:
            if X.ndim == 1:
                return self.scaled(X[None, :])[0]
            X = clip_rows(X, self.first)[0]
        # halved, because the difference of two doubles may exceed the largest one
        inside = 0.5 * (X if self.low is None else np.clip(X, self.low, self.high))
        return np.asarray((inside - 0.5 * self.center) / (0.5 * self.scale))

    def clipped(self, X: Any) -> Any:
        """Features in their own units, clipped to the bounds as in training."""
        if self.weighed and self.first is not None:
            return clip_rows(X.toarray() if sp.issparse(X) else X, self.first)[0]
        return self.unscaled(clip_rows(self.scaled(X), self.norm)[0])

    def unscaled(self, X: Any) -> Any:
        """The inverse of :meth:`scaled`."""
        if self.scale is None or self.center is None:
            return X
        if sp.issparse(X):
            X.data = X.data * self.scale[X.indices]
            return X
        return X * self.scale + self.center

    def _ends(self, X: Any) -> tuple[FloatArray, FloatArray]:
        assert self.low is not None
        assert self.high is not None
        return self.low[X.indices], self.high[X.indices]

    def back(self, weights: FloatArray, intercepts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients and intercepts for the given features, from those for rows of norm 1."""
        weights = weights / self.norm
        if self.scale is None or self.center is None:
            return weights, intercepts
        weights = weights / self.scale
        if self.low is not None and self.high is not None:
            # in a column that is always at its centre, or next to it, only noise was learnt
            weights = np.where(0.5 * self.high - 0.5 * self.low > NARROW, weights, 0.0)
        return weights, intercepts - weights @ self.center


def clip_entries(X: Any, bound: float) -> Any:
    """A copy with every entry clipped to [-bound, bound]."""
    if not sp.issparse(X):
        return np.clip(X, -bound, bound)
    clipped = sp.csr_array(X, copy=True)
    clipped.data = np.clip(clipped.data, -bound, bound)
    return clipped


def to_unit(y: Any, low: float, high: float) -> Any:
    """Labels within the bounds mapped to [-1, 1]; to 0 if the bounds are equal."""
    # halved, because found bounds may be farther apart than the largest double
    half = 0.5 * high - 0.5 * low
    if not half > 0.0:
        return 0.0 * y
    return np.clip((0.5 * y - 0.5 * low) / half * 2.0 - 1.0, -1.0, 1.0)


def from_unit(z: Any, low: float, high: float) -> Any:
    """Predictions for labels within the bounds, from those for labels mapped to [-1, 1]."""
    half = 0.5 * high - 0.5 * low
    return low + half + half * z


def in_labels(
    coefficients: FloatArray, intercept: float, low: float, high: float
) -> tuple[FloatArray, float]:
    """A linear predictor of labels within bounds, from one of labels mapped to [-1, 1]."""
    return (0.5 * high - 0.5 * low) * coefficients, float(from_unit(intercept, low, high))
