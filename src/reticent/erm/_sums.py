"""Sums over all records in floating point, with a proved bound on their rounding errors.

A sum of n vectors in double precision is off by a little, and by a different little for
neighbouring data; what a record can move includes that. Blocks of 128 rows are added by BLAS, in
any order, and the blocks' sums by Neumaier's compensated summation (Higham, *Accuracy and stability
of numerical algorithms*, sections 3.1 and 4.3), so that with u = 2^-53

    || computed - exact ||  <=  UNITS u  sum_i |w_i| ||a_i||,

coordinate by coordinate and hence in the Euclidean norm: 128 units for a block (products
included, fused or not), the rest for the compensated sum, and room to spare.

The bound grows with the number of records through the sum of norms on the right, so it is not a
constant number of units in the last place of the result.

These sums are the offline twin of a running total: rows come in by :mod:`reticent.noise.door`, which
reads them once and measures what is then added.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from reticent._checks import FloatArray
from reticent._compile import compiled, specialised
from reticent.losses import kernels
from reticent.noise import door

UNITS = 160.0
UNIT = 2.0**-53
UNLIMITED = 1e150  # a row of numbers that no one else can change may be as long as it is

_BLOCK = 128
_NONE = np.empty(0)
_CHUNK = 2**17  # numbers copied and measured at a time: they stay in the cache


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


@specialised
def _slopes(kind):  # type: ignore[no-untyped-def]
    """Fill z with the predictors and ``work[0]`` with the sum; ``work`` is five rows and begins with zeros."""

    @compiled
    def sum_slopes(A, y, weights, x, params, bound, limit, z, work):  # type: ignore[no-untyped-def]
        dim = A.shape[1]
        total, lost, part = work[0], work[1], work[2]
        room = work[3:]
        row = room[1]
        for start in range(0, z.size, _BLOCK):
            for j in range(dim):
                part[j] = 0.0
            for i in range(start, min(z.size, start + _BLOCK)):
                z[i], square = door.dot_and_copy_in_any_order(A, i, x, row)
                if not square <= limit * limit:
                    door.bounded_row(A, i, 1.0, limit, room, 0)
                    z[i] = door.dot_and_copy(room, 0, x, row)[0]
                slope = kernels.dphi(kind)(params, z[i], y[i])
                slope = min(bound, max(-bound, slope)) if slope == slope else 0.0
                if weights.size:
                    slope *= weights[i]
                for j in range(dim):
                    part[j] += slope * row[j]
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
    limit: float = UNLIMITED,
) -> tuple[FloatArray, FloatArray]:
    """``A x``, and the sum of the rows by their slopes, clipped to the bound and weighted.

    A row is read once, and is measured: beyond the limit it is cut to it.
    """
    z, work = np.empty(len(y)), np.zeros((5, A.shape[1]))
    given = _NONE if weights is None else weights
    _slopes(kind)(A, y, given, x, params, bound, limit, z, work)
    return z, work[0]


@compiled
def _sparse(indptr, indices, data, weights, limit, total, lost):  # type: ignore[no-untyped-def]
    room = np.empty(np.max(np.diff(indptr)) if weights.size else 0)
    for i in range(weights.size):
        w = weights[i]
        if w == 0.0:
            continue
        start, stop = indptr[i], indptr[i + 1]
        row = room[: stop - start]
        door.bounded(data[start:stop], 1.0, limit, row)
        for k in range(row.size):
            j = indices[start + k]
            value = w * row[k]
            old = total[j]
            new = old + value
            if abs(old) >= abs(value):
                lost[j] += (old - new) + value
            else:
                lost[j] += (value - new) + old
            total[j] = new


def _measured(A: FloatArray, limit: float, rows: int) -> Iterator[tuple[int, FloatArray]]:
    """Rows, so many at a time, in memory of our own, none of them beyond the limit."""
    room = np.empty((min(rows, A.shape[0]), A.shape[1]))
    for start in range(0, A.shape[0], rows):
        some = A[start : start + rows]
        door.bounded_rows(some, 1.0, limit, room[: len(some)])
        yield start, room[: len(some)]


def weighted_rows(A: Any, weights: FloatArray, limit: float = UNLIMITED) -> FloatArray:
    """``sum_i weights[i] A[i]`` of a dense or CSR matrix, within the module's bound.

    Rows beyond the limit are cut to it. Without one, the matrix is the caller's own and has been
    measured.
    """
    dim = A.shape[1]
    total, lost = np.zeros(dim), np.zeros(dim)
    if sp.issparse(A):
        _sparse(A.indptr, A.indices, A.data, weights, limit, total, lost)
        return total + lost
    stride = _BLOCK * max(1, _CHUNK // (_BLOCK * dim))
    for start, rows in _measured(A, limit, stride):
        whole = len(rows) - len(rows) % _BLOCK
        blocks = rows[:whole].reshape(-1, _BLOCK, dim)
        parts = weights[start : start + whole].reshape(-1, 1, _BLOCK)
        _add_rows(total, lost, np.matmul(parts, blocks)[:, 0, :])
        if whole < len(rows):
            _add(total, lost, weights[start + whole : start + len(rows)] @ rows[whole:])
    return total + lost


def gram(A: Any, y: FloatArray, limit: float = UNLIMITED) -> tuple[FloatArray, FloatArray]:
    """``A'A`` and ``A'y``, each entry within ``UNITS`` u times the sum of absolute values.

    Rows beyond the limit are cut to it, and both are of the same reading of a row.
    """
    dim = A.shape[1]
    if sp.issparse(A):
        A = A.copy()
        door.bounded_sparse_rows(A.indptr, A.data.copy(), 1.0, limit, A.data)
        return _sparse_gram(A), weighted_rows(A, y)
    total, lost = np.zeros(dim * dim), np.zeros(dim * dim)
    vector, gone = np.zeros(dim), np.zeros(dim)
    for start, rows in _measured(A, limit, _BLOCK):
        _add(total, lost, (rows.T @ rows).ravel())
        _add(vector, gone, y[start : start + len(rows)] @ rows)
    return (total + lost).reshape(dim, dim), vector + gone


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
