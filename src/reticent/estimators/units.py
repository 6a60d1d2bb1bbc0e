"""The units that a model learns in: columns moved, scaled and clipped, rows no longer than a norm.

A stated ``feature_norm`` clips rows alone; private bounds clip every column to its interval first. Coefficients are
carried back, so that a model speaks of the features as they came.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from reticent.checks import FloatArray
from reticent.estimators.bounds import Columns
from reticent.losses.records import clip_rows

# An appended intercept may round a row to just above the norm that was stated.
ROOM = 1.0 + 2.0**-30
NARROW = 1e-300
"""A column within so little is taken to be constant: its coefficient, and numbers on the way there, could overflow."""


@dataclass(frozen=True, eq=False)
class Units:
    """How features are brought to rows of norm at most ``norm``.

    Parameters
    ----------
    norm : float
        Of a row after moving and scaling.
    low, high : arrays, optional
        What each column is clipped to first.
    center, scale : arrays, optional
        What is subtracted from each column then, and what it is divided by.
    first : float, optional
        What rows are clipped to before any of that.
    weighed : bool
        Whether a row beyond the norm counted less, and was not bent: predictions then need no clipping to it.

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
        """Each column's interval to [-1, 1]; around 0 where features are sparse, so that zeros stay zeros."""
        low, high = columns.low, columns.high
        if sparse:
            high = np.maximum(np.abs(low), np.abs(high))
            low = -high
        half = 0.5 * high - 0.5 * low
        center = 0.5 * low + 0.5 * high
        # a column in which nothing was found is always at its center, which is 0 then, or next to it
        return cls(norm, low, high, center, np.where(half > NARROW, half, 1.0))

    def scaled(self, X: Any) -> Any:
        """Columns clipped, moved and scaled; rows are not clipped yet."""
        if self.scale is None or self.center is None:
            return X
        if sp.issparse(X) and self.low is None:
            X = X.toarray()  # a block of rows, which centering would fill
        if sp.issparse(X):
            made = sp.csr_array(X, copy=True)
            made.data = np.clip(made.data, *self._ends(made)) / self.scale[made.indices]
            return made
        if self.first is not None:
            if X.ndim == 1:
                return self.scaled(X[None, :])[0]
            X = clip_rows(X, self.first)[0]
        # halves, for the difference of two doubles may be beyond the largest one
        inside = 0.5 * (X if self.low is None else np.clip(X, self.low, self.high))
        return np.asarray((inside - 0.5 * self.center) / (0.5 * self.scale))

    def clipped(self, X: Any) -> Any:
        """Features as they came, but within the bounds: as they were learnt from."""
        if self.weighed and self.first is not None:
            return clip_rows(X.toarray() if sp.issparse(X) else X, self.first)[0]
        return self.unscaled(clip_rows(self.scaled(X), self.norm)[0])

    def unscaled(self, X: Any) -> Any:
        """What :meth:`scaled` made, in the features' own units again."""
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
        """Coefficients and intercepts for features as they came, from those for rows of norm 1."""
        weights = weights / self.norm
        if self.scale is None or self.center is None:
            return weights, intercepts
        weights = weights / self.scale
        if self.low is not None and self.high is not None:
            # of a column that is always at its center, or next to it, only noise was learnt
            weights = np.where(0.5 * self.high - 0.5 * self.low > NARROW, weights, 0.0)
        return weights, intercepts - weights @ self.center


def clip_entries(X: Any, bound: float) -> Any:
    """Every entry within a bound, in new memory."""
    if not sp.issparse(X):
        return np.clip(X, -bound, bound)
    clipped = sp.csr_array(X, copy=True)
    clipped.data = np.clip(clipped.data, -bound, bound)
    return clipped


def to_unit(y: Any, low: float, high: float) -> Any:
    """Labels within bounds moved and scaled to [-1, 1]; to 0 where the bounds are one point."""
    # halves, for bounds that were found may be farther apart than a double can say
    half = 0.5 * high - 0.5 * low
    if not half > 0.0:
        return 0.0 * y
    return np.clip((0.5 * y - 0.5 * low) / half * 2.0 - 1.0, -1.0, 1.0)


def in_labels(
    coefficients: FloatArray, intercept: float, low: float, high: float
) -> tuple[FloatArray, float]:
    """A line that predicts labels within bounds, from one that predicts them moved and scaled to [-1, 1]."""
    half = 0.5 * high - 0.5 * low
    return half * coefficients, float(low + half + half * intercept)
