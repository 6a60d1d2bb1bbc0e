"""Linear losses <a, x>: the losses of the lower bounds, and of online linear optimisation.

They are the generalised linear family with phi(z, y) = z + y, so that every compiled loop runs them too.

There is no label. What stands in its place for the kernels is an offset, which ``prepare`` fills in and
which any y given by the caller is not.
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
    """<a, x>; a cost vector a takes the place of the features, and labels are ignored.

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
