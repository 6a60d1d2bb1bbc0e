"""Linear losses <a, x>, which occur in lower bounds, in online linear optimisation and as the costs of experts.

They are generalised linear losses with phi(z, y) = z + y, so that every compiled loop can run them.

There is no label. In its place the kernels have an offset, which ``prepare`` sets; any y given by the caller is
ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from reticent.losses import kernels, records
from reticent.losses.base import ClipCounts, FloatArray, dense_rows
from reticent.losses.glm import GeneralizedLinear


@dataclass(frozen=True)
class Linear(GeneralizedLinear):
    """<a, x> for a cost vector a in place of the features; labels are ignored.

    Parameters
    ----------
    feature_norm : float
        Cost vectors longer than this (Euclidean norm) are scaled down to it.
    ridge : float
        Weight of ``(1/2) ||x||^2`` in every record's loss.

    Examples
    --------
    >>> Linear(ridge=2.0).gradient(np.ones(2), np.array([0.5, -0.5])).tolist()
    [2.5, 1.5]
    """

    kind: ClassVar[int] = kernels.LINEAR

    def _parameters(self) -> tuple[float, ...]:
        return (1.0,)

    def _slope_bound(self, reach: float) -> float:
        return 1.0

    def _bend_bound(self, reach: float) -> float:
        return 0.0

    def _prepare_labels(self, y: Any, A: Any) -> tuple[FloatArray, int]:
        return self._labels(y, A), 0

    def _labels(self, y: Any, A: Any) -> FloatArray:
        return np.zeros(A.shape[0])

    def _label(self, y: float | None, a: FloatArray) -> float:
        return 0.0

    def _sample_labels(self, rng: np.random.Generator, A: FloatArray) -> FloatArray:
        return self._labels(None, A)


@dataclass(frozen=True)
class Costs(Linear):
    """<costs, x> with every cost within [0, 1].

    Parameters
    ----------
    feature_norm : float
        Rows longer than this (Euclidean norm) are scaled down to it by `prepare`. With sqrt(dim), no
        row of costs of dim experts is.
    ridge : float
        Weight of (1/2) ||x||^2, which makes the loss strongly convex if it is above 0.

    Examples
    --------
    >>> from reticent.losses import Costs
    >>> A, _, counts = Costs(feature_norm=2.0).prepare(
    ...     [[0.0, 0.25, 1.0, 7.0], [0.5, 0.5, 0.5, 0.5]]
    ... )
    >>> A.tolist(), counts.features
    ([[0.0, 0.25, 1.0, 1.0], [0.5, 0.5, 0.5, 0.5]], 1)
    """

    def prepare(self, A: Any, y: Any = None) -> tuple[Any, FloatArray, ClipCounts]:
        """Check costs and clip them to [0, 1].

        Parameters
        ----------
        A : array or sparse matrix of shape (n, dim)
            One row of costs for each record.
        y : None
            Ignored, because costs have no labels.

        Returns
        -------
        A, y, counts
            Float64 rows, zeros in place of labels, and how many records exceeded the bounds: a diagnostic that is not
            private.
        """
        rows = records.features(dense_rows(A))
        within = np.clip(rows, 0.0, 1.0)
        beyond = int(np.count_nonzero((within != rows).any(axis=1)))
        A, y, counts = super().prepare(within, y)
        return A, y, ClipCounts(max(beyond, counts.features), 0, counts.records)

    def sample_records(
        self, rng: np.random.Generator, count: int, dim: int
    ) -> tuple[FloatArray, FloatArray]:
        """Draw rows of costs, uniform on [0, 1] and rounded to tenths.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of the records.
        count : int
            Number of records.
        dim : int
            Number of costs in each record.

        Returns
        -------
        A, y
            The costs, one row for each record, and zeros in place of labels.
        """
        A, _, _ = self.prepare(rng.random((count, dim)).round(1))
        return A, self._labels(None, A)
