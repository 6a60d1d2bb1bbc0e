"""Passes over records: each is a description that can be pickled, and a function of one block.

What they return for the blocks is added by :func:`reticent.solve.blocks.summed`. Sums that are released or
certified keep the bound of :mod:`reticent.erm.rounded_sums`; second derivatives and values only steer a search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from reticent.checks import FloatArray
from reticent.erm import rounded_sums
from reticent.losses import kernels
from reticent.solve.blocks import Block, Records
from reticent.solve.objective import weighted_gram

_CURVATURE_ROWS = 4096


@dataclass(frozen=True)
class Scalar:
    """A loss of a linear predictor.

    Parameters
    ----------
    kind : int
        Which one, as in `reticent.losses.kernels`.
    params : array
        Its parameters.
    bound : float
        Slopes are clipped to this.
    """

    kind: int
    params: FloatArray
    bound: float


@dataclass(frozen=True)
class SlopeSum:
    """The sum of the rows by their slopes at x: the gradient of the summed loss."""

    loss: Scalar
    x: FloatArray

    def __call__(self, block: Block) -> FloatArray:
        loss = self.loss
        return rounded_sums.summed_slopes(block, self.x, loss.kind, loss.params, loss.bound)


@dataclass(frozen=True)
class Values:
    """The summed loss at x."""

    loss: Scalar
    x: FloatArray
    weighted: bool = True

    def __call__(self, block: Block) -> FloatArray:
        z = rounded_sums.predictors(block, self.x)
        found = kernels.phi_all(self.loss.kind)(self.loss.params, z, block.labels)
        weighted = self.weighted and block.weights.size
        return np.array([np.sum(found * block.weights if weighted else found)])


@dataclass(frozen=True)
class SlopeSquares:
    """The sum of the squared slopes at x, clipped first; each is counted with its record's weight."""

    loss: Scalar
    x: FloatArray

    def __call__(self, block: Block) -> FloatArray:
        z, bound = rounded_sums.predictors(block, self.x), self.loss.bound
        found = np.clip(
            kernels.dphi_all(self.loss.kind)(self.loss.params, z, block.labels), -bound, bound
        )
        squares = np.nan_to_num(found) ** 2
        return np.array([np.sum(squares * block.weights if block.weights.size else squares)])


@dataclass(frozen=True)
class Along:
    """The derivative of the summed loss at x in the direction d."""

    loss: Scalar
    x: FloatArray
    d: FloatArray

    def __call__(self, block: Block) -> FloatArray:
        z, dz = rounded_sums.predictors(block, self.x), rounded_sums.predictors(block, self.d)
        bound = self.loss.bound
        found = np.clip(
            kernels.dphi_all(self.loss.kind)(self.loss.params, z, block.labels), -bound, bound
        )
        if block.weights.size:
            found *= block.weights
        return np.array([np.nan_to_num(found) @ dz])


def _bends(loss: Scalar, block: Block, x: FloatArray) -> FloatArray:
    z = rounded_sums.predictors(block, x)
    found = kernels.d2phi_all(loss.kind)(loss.params, z, block.labels)
    return found * block.weights if block.weights.size else found


@dataclass(frozen=True)
class Curvature:
    """Second derivatives of the summed loss at x; products in single precision take half the time."""

    loss: Scalar
    x: FloatArray
    single: bool = False

    def __call__(self, block: Block) -> FloatArray:
        bends, dim = _bends(self.loss, block, self.x), self.x.size
        if sp.issparse(block.rows):
            return weighted_gram(block.form.applied(block.rows), bends)
        total, kind = np.zeros((dim, dim)), np.float32 if self.single else np.float64
        roots = np.sqrt(bends)
        for _, rows in rounded_sums.formed(block, dim, roots, kind, _CURVATURE_ROWS):
            total += rows.T @ rows
        return total


@dataclass(frozen=True)
class CurvatureTimes:
    """Second derivatives of the summed loss at x, times v."""

    loss: Scalar
    x: FloatArray
    v: FloatArray

    def __call__(self, block: Block) -> FloatArray:
        factors = _bends(self.loss, block, self.x) * rounded_sums.predictors(block, self.v)
        return rounded_sums.weighted(block, factors)


@dataclass(frozen=True)
class Sandwich:
    """Second derivatives at x, and then the products of the scores: each ``sum_i w_i a_i a_i'``.

    Within the bound of :mod:`reticent.erm.rounded_sums`, so that both may be released. Weights of records are left out.

    Parameters
    ----------
    loss : Scalar
        Slopes are clipped to its bound.
    bend : float
        Second derivatives are clipped to this.
    x : array
        Where both are taken.
    """

    loss: Scalar
    bend: float
    x: FloatArray

    def __call__(self, block: Block) -> FloatArray:
        kind, params, bound = self.loss.kind, self.loss.params, self.loss.bound
        z = rounded_sums.predictors(block, self.x)
        bends = kernels.d2phi_all(kind)(params, z, block.labels)
        slopes = kernels.dphi_all(kind)(params, z, block.labels)
        roots = np.sqrt(np.nan_to_num(np.clip(bends, 0.0, self.bend)))
        slopes = np.nan_to_num(np.clip(slopes, -bound, bound))
        return np.stack(
            [
                rounded_sums.scaled_products(block, roots),
                rounded_sums.scaled_products(block, slopes),
            ]
        )


@dataclass(frozen=True)
class Products:
    """``A'A`` and then ``A'y``, each entry within the records' units times the sum of absolute values."""

    def __call__(self, block: Block) -> FloatArray:
        return rounded_sums.products(block)


@dataclass(frozen=True)
class Survey:
    """How many rows are beyond their length, how many are not finite, and which is the first of these."""

    def __call__(self, block: Block) -> FloatArray:
        clipped, refused, first = rounded_sums.survey(block)
        return np.array([clipped, refused, block.start + first])


def surveyed(records: Records, name: str = "X") -> int:
    """How many rows are beyond their length; refuses rows that are not finite."""
    clipped = 0
    for part, refused, first in records.map(Survey()):
        if refused:
            raise ValueError(f"{name} must be finite; row {int(first)} is not")
        clipped += int(part)
    return clipped


def taken(rows: Any, which: Any) -> Any:
    """Some of the rows of a matrix or vector, or None of none."""
    return None if rows is None else rows[which]
