"""Sums over all records in floating point, with a proved bound on their rounding errors.

A sum of n vectors in double precision is off by a little, and by a different little for
neighbouring data; what a record can move includes that. Blocks of 128 rows are added by BLAS, in
any order, and the blocks' sums by Neumaier's compensated summation (Higham, *Accuracy and stability
of numerical algorithms*, sections 3.1 and 4.3), so that with u = 2^-53

    || computed - exact ||  <=  UNITS u  sum_i |w_i| ||a_i||,

coordinate by coordinate and hence in the Euclidean norm: 128 units for a block (products
included, fused or not), the rest for the compensated sum, and room to spare.

The one thing a reader would get wrong: the bound grows with the number of records through the sum
of norms on the right, so it is not a constant number of units in the last place of the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from reticent._checks import FloatArray
from reticent._compile import compiled, specialised
from reticent.losses import kernels

UNITS = 160.0
UNIT = 2.0**-53

_BLOCK = 128
_NONE = np.empty(0)
_CHUNK = 2**22  # numbers of partial sums held at a time


@compiled
def _add(total, lost, value):  # type: ignore[no-untyped-def]
    """Neumaier: what an addition loses is kept apart."""
    for j in range(total.size):
        old = total[j]
        new = old + value[j]
        if abs(old) >= abs(value[j]):
            lost[j] += (old - new) + value[j]
        else:
            lost[j] += (value[j] - new) + old
        total[j] = new


@compiled
def _add_rows(total, lost, rows):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        _add(total, lost, rows[i])


@compiled(fastmath={"reassoc", "contract"})
def _product(row, x):  # type: ignore[no-untyped-def]
    # The bounds hold for any order of the additions, fused or not.
    total = 0.0
    for j in range(x.size):
        total += row[j] * x[j]
    return total


@specialised
def _slopes(kind):  # type: ignore[no-untyped-def]
    """Fill z with the predictors and ``work[0]`` with the sum; ``work`` begins with zeros."""

    @compiled
    def sum_slopes(A, y, weights, x, params, bound, z, work, slopes):  # type: ignore[no-untyped-def]
        dim = A.shape[1]
        total, lost, part = work[0], work[1], work[2]
        for start in range(0, z.size, _BLOCK):
            stop = min(z.size, start + _BLOCK)
            for i in range(start, stop):
                z[i] = _product(A[i], x)
            for i in range(start, stop):
                slope = min(bound, max(-bound, kernels.dphi(kind)(params, z[i], y[i])))
                slopes[i - start] = slope * weights[i] if weights.size else slope
            for j in range(dim):
                part[j] = 0.0
            for i in range(start, stop):
                slope = slopes[i - start]
                for j in range(dim):
                    part[j] += slope * A[i, j]
            _add(total, lost, part)
        for j in range(dim):
            total[j] += lost[j]

    return sum_slopes


def summed_slopes(
    A: FloatArray,
    y: FloatArray,
    weights: FloatArray | None,
    x: FloatArray,
    kind: int,
    params: FloatArray,
    bound: float,
) -> tuple[FloatArray, FloatArray]:
    """``A x``, and the sum of the rows by their slopes, clipped to the bound and weighted.

    A block of rows is read once and stays in the cache for both.
    """
    z, work, slopes = np.empty(len(y)), np.zeros((3, A.shape[1])), np.empty(_BLOCK)
    weights = _NONE if weights is None else weights
    _slopes(kind)(A, y, weights, x, params, bound, z, work, slopes)
    return z, work[0]


@compiled
def _sparse(indptr, indices, data, weights, total, lost):  # type: ignore[no-untyped-def]
    for i in range(weights.size):
        w = weights[i]
        if w == 0.0:
            continue
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            value = w * data[k]
            old = total[j]
            new = old + value
            if abs(old) >= abs(value):
                lost[j] += (old - new) + value
            else:
                lost[j] += (value - new) + old
            total[j] = new


def weighted_rows(A: Any, weights: FloatArray) -> FloatArray:
    """``sum_i weights[i] A[i]`` of a dense or CSR matrix, within the module's bound."""
    count, dim = A.shape
    total, lost = np.zeros(dim), np.zeros(dim)
    if sp.issparse(A):
        _sparse(A.indptr, A.indices, A.data, weights, total, lost)
        return total + lost
    whole = count - count % _BLOCK
    blocks = A[:whole].reshape(-1, _BLOCK, dim)
    parts = weights[:whole].reshape(-1, 1, _BLOCK)
    stride = max(1, _CHUNK // dim)
    for start in range(0, len(blocks), stride):
        sums = np.matmul(parts[start : start + stride], blocks[start : start + stride])
        _add_rows(total, lost, sums[:, 0, :])
    if whole < count:
        _add(total, lost, weights[whole:] @ A[whole:])
    return total + lost


def gram(A: Any, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``A'A`` and ``A'y``, each entry within ``UNITS`` u times the sum of absolute values."""
    count, dim = A.shape
    if sp.issparse(A):
        return _sparse_gram(A), weighted_rows(A, y)
    total, lost = np.zeros(dim * dim), np.zeros(dim * dim)
    for start in range(0, count, _BLOCK):
        block = A[start : start + _BLOCK]
        _add(total, lost, (block.T @ block).ravel())
    return (total + lost).reshape(dim, dim), weighted_rows(A, y)


def _sparse_gram(A: Any) -> FloatArray:
    dim = A.shape[1]
    total, lost = np.zeros(dim * dim), np.zeros(dim * dim)
    for start in range(0, A.shape[0], _BLOCK):
        block = A[start : start + _BLOCK]
        product = sp.coo_array(block.T @ block)
        product.sum_duplicates()
        places = product.row.astype(np.int64) * dim + product.col
        _add_at(total, lost, places, product.data)
    return (total + lost).reshape(dim, dim)


@compiled
def _add_at(total, lost, places, values):  # type: ignore[no-untyped-def]
    for k in range(places.size):
        j = places[k]
        old = total[j]
        new = old + values[k]
        if abs(old) >= abs(values[k]):
            lost[j] += (old - new) + values[k]
        else:
            lost[j] += (values[k] - new) + old
        total[j] = new
