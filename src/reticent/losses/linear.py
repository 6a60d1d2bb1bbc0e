"""Linear losses <a, x>, which occur in lower bounds and in online linear optimisation.

They are generalised linear losses with phi(z, y) = z + y, so that every compiled loop can run them.

There is no label. In its place the kernels have an offset, which ``prepare`` sets; any y given by the caller is
ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from reticent.losses import kernels
from reticent.losses.base import FloatArray
from reticent.losses.generalized_linear import GeneralizedLinear


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
