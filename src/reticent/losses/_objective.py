"""The mean of a generalised linear loss over all records, as a function of the decision alone.

f(x) = mean phi(<a_i, x>, y_i) + (1/2) x'Rx. The predictors z = Ax are kept by the solvers, so that a
line search costs a pass over n numbers rather than over the data.

The one thing a reader would get wrong: where f is a quadratic (squared, linear and distance losses)
it is reduced once to its Gram matrix, and the data is read again for the certificate only.
"""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp

from reticent._compile import compiled
from reticent.losses import kernels
from reticent.losses.base import FloatArray

_BLOCK = 4096


class Objective:
    """Mean loss of prepared records with a quadratic regulariser R (a number or a matrix)."""

    def __init__(
        self, kind: int, params: FloatArray, A: Any, y: FloatArray, R: float | FloatArray
    ) -> None:
        self.kind = kind
        self.params = params
        self.A = A
        self.y = y
        self.R = R
        self.count, self.dim = A.shape
        self._constant: FloatArray | None = None

    @property
    def is_quadratic(self) -> bool:
        return self.kind in (kernels.SQUARED, kernels.LINEAR)

    @property
    def thins(self) -> bool:
        """Whether a part of the records is a good start: not where one solve is all it takes."""
        return not self.is_quadratic

    def predictors(self, x: FloatArray) -> FloatArray:
        return np.ascontiguousarray(self.A @ x)

    def _ridge_times(self, x: FloatArray) -> FloatArray:
        return self.R * x if np.ndim(self.R) == 0 else self.R @ x  # type: ignore[operator,return-value]

    def value(self, x: FloatArray, z: FloatArray) -> float:
        return self._mean(z) + 0.5 * float(x @ self._ridge_times(x))

    def _mean(self, z: FloatArray) -> float:
        return kernels.phi_mean(self.kind)(self.params, z, self.y)

    def slopes(self, z: FloatArray) -> FloatArray:
        return kernels.dphi_all(self.kind)(self.params, z, self.y)

    def bends(self, z: FloatArray) -> FloatArray:
        return kernels.d2phi_all(self.kind)(self.params, z, self.y)

    def gradient(self, x: FloatArray, z: FloatArray) -> FloatArray:
        return self.A.T @ (self.slopes(z) / self.count) + self._ridge_times(x)

    def hessian(self, z: FloatArray) -> FloatArray:
        if self._constant is not None:
            return self._constant.copy()
        H = weighted_gram(self.A, self.bends(z) / self.count)
        if np.ndim(self.R) == 0:
            H[np.diag_indices_from(H)] += self.R
        else:
            H += self.R
        if self.is_quadratic:
            self._constant = H.copy()
        return H

    def thinned(self, every: int) -> Objective:
        """The same objective on every so many records."""
        part = copy(self)
        rows = self.A[::every]
        part.A = rows if sp.issparse(rows) else np.ascontiguousarray(rows)
        part.y = self.y[::every].copy()
        part.count = len(part.y)
        return part

    def in_terms_of(self, columns: FloatArray, R: FloatArray) -> Objective:
        """The same losses of other decisions: predictors by columns, regulariser R."""
        part = copy(self)
        part.A, part.R, part.dim = columns, R, columns.shape[1]
        part._constant = None
        return part


def weighted_gram(A: Any, weights: FloatArray, kind: Any = np.float64) -> FloatArray:
    """A' diag(weights) A for non-negative weights; products in single precision take half the time."""
    dim = A.shape[1]
    live = weights > 0.0
    share = np.count_nonzero(live)
    if share == 0:
        return np.zeros((dim, dim))
    if share < 0.5 * len(weights):
        A, weights = A[np.flatnonzero(live)], weights[live]
    if sp.issparse(A):
        return np.asarray((A.T @ sp.diags_array(weights) @ A).toarray())
    total = np.zeros((dim, dim))
    # Blocks stay in the cache; scaling the whole matrix at once would copy it through memory.
    block = np.empty((min(_BLOCK, len(weights)), dim), dtype=kind)
    for start in range(0, len(weights), _BLOCK):
        part = block[: len(weights) - start]
        _scale(A, weights, start, part)
        total += part.T @ part
    return total


@compiled
def _scale(A, weights, start, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        root = math.sqrt(weights[start + i])
        for j in range(out.shape[1]):
            out[i, j] = root * A[start + i, j]
