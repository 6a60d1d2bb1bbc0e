"""The mean loss of records that are not in memory, computed in passes over their blocks.

What is kept of a point is the point itself, because the predictors of all records might not fit in memory. Rows and
labels are clipped when a pass reads them. Nothing here is released: it serves the best fixed decision in hindsight, a
diagnostic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from reticent.losses import kernels
from reticent.losses.base import ClipCounts, FloatArray, Loss
from reticent.losses.glm import GeneralizedLinear
from reticent.solve.blocks import Block, Form, Lazy, Records, summed
from reticent.solve.objective import weighted_gram


@dataclass(frozen=True)
class _Labels:
    """A check that can be sent to where the labels are; it counts those outside the loss's bounds."""

    loss: GeneralizedLinear
    by_value: ClassVar[bool] = False

    def __call__(self, y: Any, start: int) -> float:
        try:
            return float(_clipped(self.loss, y)[1])
        except ValueError as error:
            raise ValueError(f"{error} (of the records from number {start} on)") from None


def _clipped(loss: GeneralizedLinear, y: Any) -> tuple[FloatArray, int]:
    return loss._prepare_labels(y, np.empty((len(y), 1)))


@dataclass(frozen=True)
class _Sum:
    """A pass that sums one quantity over a block."""

    loss: GeneralizedLinear
    what: str
    x: FloatArray
    v: FloatArray | None = None

    def __call__(self, block: Block) -> FloatArray:
        A, (kind, params) = block.form.applied(block.rows), self.loss.kernel
        y = _clipped(self.loss, block.labels)[0]
        z = A @ self.x
        if self.what == "value":
            return np.array([kernels.phi_all(kind)(params, z, y).sum()])
        if self.what == "slopes":
            return np.asarray(A.T @ kernels.dphi_all(kind)(params, z, y))
        bends = kernels.d2phi_all(kind)(params, z, y)
        if self.what == "gram":
            return weighted_gram(A, bends)
        return np.asarray(A.T @ (bends * (A @ self.v)))


@dataclass(frozen=True, eq=False)
class MeanInBlocks:
    """The mean loss, in the form of `reticent.solve.objective.PredictorLosses`.

    Parameters
    ----------
    loss : GeneralizedLinear
        A loss of one linear predictor.
    records : Records
        The records with their labels.
    """

    loss: GeneralizedLinear
    records: Records

    @property
    def shape(self) -> tuple[int, int]:
        return self.records.shape

    @property
    def A(self) -> Any:
        return self.records.matrix()

    def bends(self, z: FloatArray) -> FloatArray:
        raise TypeError(
            "second derivatives of single records are not available here; read the records into memory"
        )

    def _mean(self, what: str, x: FloatArray, v: FloatArray | None = None) -> FloatArray:
        return summed(self.records.map(_Sum(self.loss, what, x, v))) / self.shape[0]

    def mean_loss(self, x: FloatArray) -> float:
        """The mean loss, with the ridge."""
        return self.total_value(x) + 0.5 * self.loss.ridge * float(x @ x)

    def predictors(self, x: FloatArray) -> FloatArray:
        return x

    def total_value(self, z: FloatArray) -> float:
        return float(self._mean("value", z)[0])

    def slope_along(self, z: FloatArray, dz: FloatArray) -> float:
        return float(self._mean("slopes", z) @ dz)

    def gram(self, z: FloatArray, kind: Any = np.float64) -> FloatArray:
        return self._mean("gram", z)

    def gram_times(self, z: FloatArray, v: FloatArray) -> FloatArray:
        return self._mean("gram times", z, v)

    def predictors_and_sum(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return x, self._mean("slopes", x)

    def thinned(self, every: int) -> MeanInBlocks:
        return replace(self, records=self.records.thinned(every))


def in_blocks(loss: Loss, X: Lazy, y: Any) -> tuple[MeanInBlocks, ClipCounts]:
    """Prepare records that are not in memory, in one pass that checks them."""
    if not isinstance(loss, GeneralizedLinear):
        raise TypeError(
            f"records that are not in memory need a loss of one linear predictor, got {loss!r}; read them into "
            "memory"
        )
    if y is None:
        raise TypeError("y must be given along with A")
    found = X.records(y, Form(length=loss.feature_norm), _Labels(loss))
    assert found.clipped is not None
    counts = ClipCounts(found.clipped, int(found.beyond), found.shape[0])  # type: ignore[attr-defined]
    return MeanInBlocks(loss, found), counts


__all__ = ["MeanInBlocks", "in_blocks"]
