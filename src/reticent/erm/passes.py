"""Passes over records: picklable descriptions that map one block of records to its part of a sum.

The parts are added by :func:`reticent.solve.blocks.summed`. Sums that are released or certified satisfy the bound of
:mod:`reticent.erm.rounded_sums`; second derivatives and values only guide a search.
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
        Kind of the loss, from `reticent.losses.kernels`.
    params : array
        Parameters of the loss.
    bound : float
        Bound to which slopes are clipped.
    """

    kind: int
    params: FloatArray
    bound: float


@dataclass(frozen=True)
class SlopeSum:
    """The sum of the rows times their slopes at x: the gradient of the summed loss.

    ``in_turn`` if a record's slope must not depend on the number of records.
    """

    loss: Scalar
    x: FloatArray
    in_turn: bool = False

    def __call__(self, block: Block) -> FloatArray:
        loss = self.loss
        return rounded_sums.summed_slopes(
            block, self.x, loss.kind, loss.params, loss.bound, self.in_turn
        )


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
    """The sum of the squared clipped slopes at x, weighted by the records' weights.

    ``in_turn`` if a record's slope must not depend on the number of records.
    """

    loss: Scalar
    x: FloatArray
    in_turn: bool = False

    def __call__(self, block: Block) -> FloatArray:
        z, bound = rounded_sums.predictors(block, self.x, self.in_turn), self.loss.bound
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
class Hessian:
    """The Hessian of the summed loss at x; in single precision products take half the time."""

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
class HessianTimes:
    """The Hessian of the summed loss at x, times v."""

    loss: Scalar
    x: FloatArray
    v: FloatArray

    def __call__(self, block: Block) -> FloatArray:
        factors = _bends(self.loss, block, self.x) * rounded_sums.predictors(block, self.v)
        return rounded_sums.weighted(block, factors)


@dataclass(frozen=True)
class Sandwich:
    """The Hessian at x and the products of the scores, each of the form ``sum_i w_i a_i a_i'``.

    Both satisfy the bound of :mod:`reticent.erm.rounded_sums`, so they may be released. Weights of records are ignored.

    Parameters
    ----------
    loss : Scalar
        The loss; slopes are clipped to its bound.
    bend : float
        Bound to which second derivatives are clipped.
    x : array
        Point at which both are computed.
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
    """The number of rows beyond their length, the number of rows that are not finite, and the first of the latter."""

    def __call__(self, block: Block) -> FloatArray:
        clipped, refused, first = rounded_sums.survey(block)
        return np.array([clipped, refused, block.start + first])


def surveyed(records: Records, name: str = "X") -> int:
    """The number of rows beyond their length; refuses rows that are not finite."""
    clipped = 0
    for part, refused, first in records.map(Survey()):
        if refused:
            raise ValueError(f"{name} must be finite; row {int(first)} is not")
        clipped += int(part)
    return clipped


def taken(rows: Any, which: Any) -> Any:
    """The chosen rows of a matrix or vector; None for None."""
    return None if rows is None else rows[which]
