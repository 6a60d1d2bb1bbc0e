"""Sums over all records in floating point, with a proved bound on their rounding errors.

The computed sum of n vectors differs slightly from the exact one, and differently for neighbouring data; sensitivities
include that. Within a block of :mod:`reticent.solve.blocks`, 128 rows at a time are added in any order and these parts
by Neumaier's compensated summation (Higham, *Accuracy and stability of numerical algorithms*, sections 3.1 and 4.3);
the sums of blocks are added in pairs. With u = 2^-53,

    || computed - exact ||  <=  UNITS u  sum_i |w_i| ||a_i||,

coordinate by coordinate and hence in the Euclidean norm: 128 units for a part (products included, fused or not), 3 for
the compensated sum, 25 for at most 2^24 blocks in pairs, and a safety margin. The bound grows with the number of
records through the sum of norms on the right; it is not a constant number of units in the last place of the result.

These sums are the offline counterpart of a running total: rows enter through :mod:`reticent.noise.door`, which reads
them once and measures what is then added.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from reticent.checks import FloatArray
from reticent.compiling import compiled, specialised
from reticent.losses import kernels
from reticent.noise import door
from reticent.solve.blocks import AS_IT_IS, UNLIMITED, Block, Form, InMemory, summed
from reticent.solve.blocks import UNITS as UNITS

UNIT = 2.0**-53

_BLOCK = 128
_NONE = np.empty(0)
_SMALL = 2**16  # blocks of at most so many numbers may be summed without compiling
_CHUNK = 2**17  # numbers that are copied and measured at a time, so that they stay in the cache


@compiled
def add_one(total, lost, j, value):
    """Neumaier's summation: the rounding error of an addition is accumulated in ``lost``."""
    old = total[j]
    new = old + value
    if abs(old) >= abs(value):
        lost[j] += (old - new) + value
    else:
        lost[j] += (value - new) + old
    total[j] = new


@compiled(patience=0.5)
def _add(total, lost, value):
    for j in range(total.size):
        add_one(total, lost, j, value[j])


@compiled(patience=0.5)
def _add_rows(total, lost, rows):
    for i in range(rows.shape[0]):
        _add(total, lost, rows[i])


@specialised
def _slopes(kind, in_any_order):
    """Compile the sum of a block's rows times their slopes, into ``work[0]``; ``work`` is three rows of zeros.

    Inner products are added in any order, which is faster, or from left to right, which can be interpreted.
    """

    @compiled(patience=0.0 if in_any_order else 0.5)
    def sum_slopes(A, y, weights, x, params, bound, form, work):
        columns, dim = A.shape[1], x.size
        scale, length, constant = form
        most = door.largest_square(length)
        total, lost, part = work[0], work[1], work[2]
        row = np.full(dim, constant)
        room, first = np.empty((1, columns)), np.int64(0)
        for start in range(0, A.shape[0], _BLOCK):
            for j in range(dim):
                part[j] = 0.0
            for i in range(start, min(A.shape[0], start + _BLOCK)):
                # scale first and multiply later: the compiler must not form the square from row and scale separately
                for j in range(columns):
                    row[j] = A[i, j] * scale
                if in_any_order:
                    z, square = door.dot_and_square_in_any_order(row, x, columns)
                else:
                    z, square = door.dot_and_square(row, x, columns)
                if not square <= most:
                    door.cut(A, i, scale, length, room, first)
                    for j in range(columns):
                        row[j] = room[0, j]
                    z = door.dot_and_square(row, x, columns)[0]
                if dim > columns:
                    z += constant * x[columns]
                slope = kernels.dphi(kind)(params, z, y[i])
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
    block: Block,
    x: FloatArray,
    kind: int,
    params: FloatArray,
    bound: float,
    in_turn: bool = False,
) -> FloatArray:
    """The sum of a block's rows times their slopes at x, clipped to the bound and weighted.

    Each row is read once and measured. ``in_turn`` computes each row's slope in the same way in blocks of every size.
    """
    if sp.issparse(block.rows):
        z = predictors(block, x)
        found = kernels.dphi_all(kind)(params, z, block.labels)
        np.nan_to_num(np.clip(found, -bound, bound, out=found), copy=False, nan=0.0)
        return weighted(block, found * block.weights if block.weights.size else found)
    work = np.zeros((3, x.size))
    add = _slopes(kind, int(block.rows.size > _SMALL and not in_turn))
    add(block.rows, block.labels, block.weights, x, params, bound, _numbers(block), work)
    return work[0]


def _numbers(block: Block) -> tuple[float, float, float]:
    """A form in the format of the kernels."""
    form = block.form
    return 1.0 / form.unit, form.limit(block.rows.shape[1]), form.constant


@compiled(patience=0.5)
def _formed(A, start, form, factors, out):
    """Write rows in their form times their factors, without rows of factor 0; returns how many were written."""
    columns, dim = A.shape[1], out.shape[1]
    scale, length, constant = form
    most = door.largest_square(length)
    room, first = np.empty((1, columns)), np.int64(0)
    count = 0
    for i in range(start, min(A.shape[0], start + out.shape[0])):
        factor = factors[i] if factors.size else 1.0
        if factor == 0.0:
            continue
        if not door.fill(A, i, scale, room, first) <= most:
            door.cut(A, i, scale, length, room, first)
        for j in range(columns):
            out[count, j] = factor * room[0, j]
        for j in range(columns, dim):
            out[count, j] = factor * constant
        count += 1
    return count


@compiled(patience=0.5)
def _survey(A, form):
    scale, length, _ = form
    most = door.largest_square(length)
    room, row = np.empty((1, A.shape[1])), np.int64(0)
    clipped, refused, first = 0, 0, 0
    for i in range(A.shape[0] - 1, -1, -1):
        if not door.fill(A, i, scale, room, row) <= most:
            code = door.cut(A, i, scale, length, room, row)
            if code == door.REFUSED:
                refused, first = refused + 1, i
            else:
                clipped += code
    return clipped, refused, first


@compiled(patience=0.5)
def _sparse_survey(indptr, data, form):
    scale, length, _ = form
    clipped, refused, first = 0, 0, 0
    room = np.empty(np.max(np.diff(indptr)) if indptr.size > 1 else 0)
    for i in range(indptr.size - 2, -1, -1):
        start, stop = indptr[i], indptr[i + 1]
        code = door.bounded(data[start:stop], scale, length, room[: stop - start])
        if code == door.REFUSED:
            refused, first = refused + 1, i
        else:
            clipped += code
    return clipped, refused, first


def survey(block: Block) -> tuple[int, int, int]:
    """How many rows of a block exceed their length, how many are not finite, and the first of the latter."""
    if sp.issparse(block.rows):
        indptr, _, data = _sparse_parts(block.rows)
        return _sparse_survey(indptr, data, _numbers(block))
    return _survey(block.rows, _numbers(block))


@compiled(patience=0.5)
def _structure(indptr, indices, columns):
    """Whether the indices of every row increase and are below the number of columns."""
    for i in range(indptr.size - 1):
        last = -1
        if not 0 <= indptr[i] <= indptr[i + 1] <= indices.size:
            return False
        for k in range(indptr[i], indptr[i + 1]):
            if not last < indices[k] < columns:
                return False
            last = indices[k]
    return True


@compiled(patience=0.5)
def _sparse_predictors(indptr, indices, data, x, form, columns, out):
    scale, length, constant = form
    room = np.empty(np.max(np.diff(indptr)) if out.size else 0)
    for i in range(out.size):
        start, stop = indptr[i], indptr[i + 1]
        row = room[: stop - start]
        door.bounded(data[start:stop], scale, length, row)
        z = constant * x[columns] if x.size > columns else 0.0
        for k in range(row.size):
            z += row[k] * x[indices[start + k]]
        out[i] = z


def _sparse_parts(rows: Any) -> tuple[Any, Any, Any]:
    """Private copies of the index arrays, and the entries."""
    indptr, indices = np.array(rows.indptr), np.array(rows.indices)
    if not _structure(indptr, indices, rows.shape[1]):
        raise ValueError(
            "the column indices of a row must increase and be below the number of columns; the CSR matrix was changed "
            "while it was read. Call X.sum_duplicates() and do not modify X during a fit"
        )
    return indptr, indices, rows.data


@compiled(patience=0.5)
def _predictors(A, x, form, out):
    columns = A.shape[1]
    scale, length, constant = form
    most = door.largest_square(length)
    room, first = np.empty((1, columns)), np.int64(0)
    for i in range(out.size):
        if not door.fill(A, i, scale, room, first) <= most:
            door.cut(A, i, scale, length, room, first)
        z = constant * x[columns] if x.size > columns else 0.0
        for j in range(columns):
            z += room[0, j] * x[j]
        out[i] = z


def predictors(block: Block, x: FloatArray, in_turn: bool = False) -> FloatArray:
    """<row, x> for every record of a block; ``in_turn``, whatever the size of the block and the row's place in it."""
    rows = block.rows
    out = np.empty(rows.shape[0])
    if sp.issparse(rows):
        indptr, indices, data = _sparse_parts(rows)
        _sparse_predictors(indptr, indices, data, x, _numbers(block), rows.shape[1], out)
        return out
    if in_turn:
        _predictors(rows, x, _numbers(block), out)
        return out
    for start, part in formed(block, x.size):
        out[start : start + len(part)] = part @ x
    return out


def formed(
    block: Block, dim: int, factors: FloatArray = _NONE, kind: Any = np.float64, rows: int = 0
) -> Iterator[tuple[int, FloatArray]]:
    """Dense rows in their form times their factors, in small groups; rows with factor 0 are left out.

    Small groups stay in the cache; scaling a whole matrix at once would copy it through main memory.
    """
    rows = rows or _BLOCK * max(1, _CHUNK // (_BLOCK * dim))
    # kernels with arrays in single precision are not interpreted
    written = np.float64 if block.rows.size <= _SMALL else kind
    room = np.empty((min(rows, block.rows.shape[0]), dim), dtype=written)
    for start in range(0, block.rows.shape[0], rows):
        count = _formed(block.rows, start, _numbers(block), factors, room)
        yield start, room[:count].astype(kind, copy=False)


@compiled(patience=0.5)
def _sparse(indptr, indices, data, weights, form, total, lost):
    scale, length, constant = form
    room = np.empty(np.max(np.diff(indptr)) if weights.size else 0)
    last = total.size - 1
    for i in range(weights.size):
        w = weights[i]
        if w == 0.0:
            continue
        start, stop = indptr[i], indptr[i + 1]
        row = room[: stop - start]
        door.bounded(data[start:stop], scale, length, row)
        for k in range(row.size):
            add_one(total, lost, indices[start + k], w * row[k])
        if constant != 0.0:
            add_one(total, lost, last, w * constant)


def weighted(block: Block, weights: FloatArray) -> FloatArray:
    """The sum of a block's rows in their form, weighted, within the module's bound."""
    dim = block.form.dim(block.rows.shape[1])
    total, lost = np.zeros(dim), np.zeros(dim)
    if sp.issparse(block.rows):
        indptr, indices, data = _sparse_parts(block.rows)
        _sparse(indptr, indices, data, weights, _numbers(block), total, lost)
        return total + lost
    for start, rows in formed(block, dim):
        whole = len(rows) - len(rows) % _BLOCK
        parts = weights[start : start + whole].reshape(-1, 1, _BLOCK)
        _add_rows(total, lost, np.matmul(parts, rows[:whole].reshape(-1, _BLOCK, dim))[:, 0, :])
        if whole < len(rows):
            _add(total, lost, weights[start + whole : start + len(rows)] @ rows[whole:])
    return total + lost


def weighted_rows(A: Any, weights: FloatArray, limit: float = UNLIMITED) -> FloatArray:
    """``sum_i weights[i] A[i]`` of a dense or CSR matrix, within the module's bound.

    Rows beyond ``limit`` are clipped to it. Without a limit, the matrix must be private to the caller and measured
    already.
    """
    table = InMemory(A, form=Form(length=limit))
    return summed(table.map(lambda b: weighted(b, weights[b.start : b.start + b.rows.shape[0]])))


def products(block: Block) -> FloatArray:
    """``A'A`` and then ``A'y`` of a block, from the same reading of each row."""
    dim = block.form.dim(block.rows.shape[1])
    total, lost = np.zeros(dim * (dim + 1)), np.zeros(dim * (dim + 1))
    if sp.issparse(block.rows):
        A = block.form.applied(block.rows)
        total[: dim * dim] = _sparse_gram(A).ravel()
        total[dim * dim :] = weighted(Block(0, A, _NONE, _NONE, AS_IT_IS), block.labels)
        return total
    both = np.empty(dim * (dim + 1))
    for start, rows in formed(block, dim, rows=_BLOCK):
        both[: dim * dim] = (rows.T @ rows).ravel()
        both[dim * dim :] = block.labels[start : start + len(rows)] @ rows
        _add(total, lost, both)
    return total + lost


def scaled_products(block: Block, factors: FloatArray) -> FloatArray:
    """``sum_i factors[i]^2 a_i a_i'`` of a block, flat, within the bound of :func:`products`."""
    dim = block.form.dim(block.rows.shape[1])
    if sp.issparse(block.rows):
        A = sp.csr_array(sp.diags_array(factors) @ block.form.applied(block.rows))
        return _sparse_gram(A).ravel()
    total, lost = np.zeros(dim * dim), np.zeros(dim * dim)
    for _, rows in formed(block, dim, factors, rows=_BLOCK):
        _add(total, lost, (rows.T @ rows).ravel())
    return total + lost


def gram(A: Any, y: FloatArray, limit: float = UNLIMITED) -> tuple[FloatArray, FloatArray]:
    """``A'A`` and ``A'y``; rows beyond the limit are clipped to it."""
    return unfolded(summed(InMemory(A, y, form=Form(length=limit)).map(products)))


def unfolded(both: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The matrix and the vector of :func:`products`."""
    dim = math.isqrt(both.size)
    return both[: dim * dim].reshape(dim, dim), both[dim * dim :]


def as_vector(V: FloatArray) -> FloatArray:
    """The upper triangle with off-diagonal entries times sqrt(2), so that Euclidean norm equals Frobenius norm."""
    rows, columns = np.triu_indices(len(V))
    return V[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2.0))


def as_matrix(values: FloatArray, dim: int) -> FloatArray:
    """The inverse of :func:`as_vector`."""
    rows, columns = np.triu_indices(dim)
    V = np.zeros((dim, dim))
    V[rows, columns] = values / np.where(rows == columns, 1.0, math.sqrt(2.0))
    V[columns, rows] = V[rows, columns]
    return V


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
def _add_at(total, lost, places, values):
    for k in range(places.size):
        add_one(total, lost, places[k], values[k])
