"""Clipping: the one place where a record's contribution is measured on its way into a release.

A vector ``v`` times a number ``scale`` is written into memory owned by the library and measured there, and what was
measured is what is used; no earlier check, and none on the caller's memory, is relied on. Running totals, learners
and bandits add the result to a total in whole lattice steps (:func:`admit`); solvers that sum in floating point use
it as it is (:func:`bounded_row`). A loop in which one function call per row is too slow calls the parts itself:
:func:`fill` writes and measures, and rows beyond the :func:`largest_square` go to :func:`cut`.

The squared length is computed from exactly the numbers that are passed on, and they pass only if it is at most the
square of the limit. Infinity and NaN fail that comparison. What fails is scaled by powers of two, so that nothing
overflows and nothing that matters underflows, cut to the limit, and measured again; what still fails contributes
nothing. docs/lattice.md proves that a measured length bounds the true one, rounding included.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.compiling import compiled

WHOLE = 0  # passed unchanged
CLIPPED = 1  # was longer than the limit and has been scaled down
REFUSED = -1  # was not finite and contributes nothing

_LARGEST = 1.7976931348623157e308
# A measured square has errors from rounding and from squares that underflowed; at this size or more only
# rounding matters.
_FAINT = 1e-290
# For limits between these, their squares, and all squares compared with them, are at least that large and finite.
_LOW, _HIGH = 1e-140, 1e150


@compiled(patience=0.5)
def margin(dim):
    """A bound, with room to spare, on the relative error of a measured length."""
    return (dim + 16) * 2.0**-52


@compiled
def shortening(dim):
    """The share by which what is cut is made shorter than the limit, so that a second measurement finds no excess."""
    return max(2.0**-40, 2.0 * margin(dim))


@compiled
def largest_square(limit):
    """The largest measured square that passes.

    -1, so that none passes, for limits whose squares are not reliable.
    """
    return limit * limit if _LOW <= limit <= _HIGH else -1.0


@compiled
def fill(rows, r, scale, out, q):
    """Write row r times the scale into row q, and return the sum of the squares of what was written.

    There are four partial sums, because a single one would wait for each addition to finish. Their order is written
    out rather than left to the compiler, which could then square the row and the scale separately. Rows are given by
    their numbers, because passing views of them would cost more than reading them.
    """
    n = out.shape[1]
    a0 = a1 = a2 = a3 = 0.0
    whole = n - n % 4
    for i in range(0, whole, 4):
        w0 = rows[r, i] * scale
        w1 = rows[r, i + 1] * scale
        w2 = rows[r, i + 2] * scale
        w3 = rows[r, i + 3] * scale
        out[q, i] = w0
        out[q, i + 1] = w1
        out[q, i + 2] = w2
        out[q, i + 3] = w3
        a0 += w0 * w0
        a1 += w1 * w1
        a2 += w2 * w2
        a3 += w3 * w3
    for i in range(whole, n):
        w = rows[r, i] * scale
        out[q, i] = w
        a0 += w * w
    return (a0 + a1) + (a2 + a3)


@compiled
def dot_and_copy(rows, r, x, out):
    """Compute <row r, x> and the row's squared length, and copy the row into memory of our own, in a single pass.

    The products are added in the same order as in `reticent.online.kernels.dot`.
    """
    n = x.size
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
    b0 = b1 = b2 = b3 = 0.0
    whole = n - n % 8
    for i in range(0, whole, 8):
        w0 = rows[r, i]
        w1 = rows[r, i + 1]
        w2 = rows[r, i + 2]
        w3 = rows[r, i + 3]
        w4 = rows[r, i + 4]
        w5 = rows[r, i + 5]
        w6 = rows[r, i + 6]
        w7 = rows[r, i + 7]
        out[i] = w0
        out[i + 1] = w1
        out[i + 2] = w2
        out[i + 3] = w3
        out[i + 4] = w4
        out[i + 5] = w5
        out[i + 6] = w6
        out[i + 7] = w7
        a0 += w0 * x[i]
        a1 += w1 * x[i + 1]
        a2 += w2 * x[i + 2]
        a3 += w3 * x[i + 3]
        a4 += w4 * x[i + 4]
        a5 += w5 * x[i + 5]
        a6 += w6 * x[i + 6]
        a7 += w7 * x[i + 7]
        b0 += w0 * w0 + w4 * w4
        b1 += w1 * w1 + w5 * w5
        b2 += w2 * w2 + w6 * w6
        b3 += w3 * w3 + w7 * w7
    if n - whole >= 4:
        w0 = rows[r, whole]
        w1 = rows[r, whole + 1]
        w2 = rows[r, whole + 2]
        w3 = rows[r, whole + 3]
        out[whole] = w0
        out[whole + 1] = w1
        out[whole + 2] = w2
        out[whole + 3] = w3
        a0 += w0 * x[whole]
        a1 += w1 * x[whole + 1]
        a2 += w2 * x[whole + 2]
        a3 += w3 * x[whole + 3]
        b0 += w0 * w0
        b1 += w1 * w1
        b2 += w2 * w2
        b3 += w3 * w3
        whole += 4
    for i in range(whole, n):
        w = rows[r, i]
        out[i] = w
        a4 += w * x[i]
        b0 += w * w
    product = ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))
    return product, (b0 + b1) + (b2 + b3)


@compiled
def dot_and_square(row, x, columns):
    """<row, x> over the first columns and their sum of squares, added from left to right."""
    product = 0.0
    square = 0.0
    for i in range(columns):
        w = row[i]
        product += w * x[i]
        square += w * w
    return product, square


@compiled(fastmath={"reassoc", "contract"})
def dot_and_square_in_any_order(row, x, columns):
    """`dot_and_square` for bounds that hold for any order of summation; up to three times faster."""
    product = 0.0
    square = 0.0
    for i in range(columns):
        w = row[i]
        product += w * x[i]
        square += w * w
    return product, square


@compiled
def cut(rows, r, scale, limit, out, q):
    """Cut to the limit a row that `fill` cannot pass.

    It is too long, not finite, or overflows or underflows on the way.
    """
    n = out.shape[1]
    largest = 0.0
    finite = abs(scale) <= _LARGEST
    for i in range(n):
        size = abs(rows[r, i])
        if not size <= _LARGEST:
            finite = False
        largest = max(largest, size)
    if not finite or largest == 0.0 or scale == 0.0:
        for i in range(n):
            out[q, i] = 0.0
        return WHOLE if finite else REFUSED
    # Scaled by a power of two, the entries and their length have squares that neither overflow nor underflow.
    exponent = min(1000, max(-1000, math.frexp(largest)[1]))
    length = math.sqrt(fill(rows, r, math.ldexp(1.0, -exponent), out, q))
    mantissa, shift = math.frexp(scale)
    shift += exponent
    size = math.ldexp(abs(mantissa) * length, shift)  # infinite if it overflows
    slack = 2.0 * margin(n)
    code = WHOLE
    if size <= limit * (1.0 - slack):
        for i in range(n):
            out[q, i] = math.ldexp(out[q, i] * mantissa, shift)
    else:
        if size * (1.0 - slack) > limit:
            code = CLIPPED
        # multiply by the limit last, because its quotient by the length may overflow or underflow
        share = math.copysign((1.0 - shortening(n)) / length, scale)
        for i in range(n):
            out[q, i] = out[q, i] * share * limit
    if not _measure(out, q, limit):
        for i in range(n):
            out[q, i] = 0.0
        code = REFUSED
    return code


@compiled
def _measure(out, q, limit):
    """Whether a row is within the limit, including limits whose squares overflow or underflow."""
    if _LOW <= limit <= _HIGH:
        return fill(out, q, 1.0, out, q) <= limit * limit
    unit = math.ldexp(1.0, min(1000, max(-1000, -math.frexp(limit)[1])))
    square = 0.0
    for i in range(out.shape[1]):
        square += (out[q, i] * unit) * (out[q, i] * unit)
    return square <= (limit * unit) * (limit * unit)


@compiled
def bounded_row(rows, r, scale, limit, out, q):
    """Write row ``r`` times the scale, cut to the limit, into row ``q``.

    Parameters
    ----------
    rows : array
        Read exactly once, because another thread may be writing to it. Must not share memory with ``out``.
    r : int
        Number of the row.
    scale : float
        Any double.
    limit : float
        The length that the result is cut to. Its true length exceeds the limit by less than the share :func:`margin`.
    out : array
        Where the result is written; its number of columns is the length of the vector. Zeros if the result is
        ``REFUSED``.
    q : int
        Number of the row of ``out``.

    Returns
    -------
    int
        ``WHOLE``, ``CLIPPED`` or ``REFUSED``.
    """
    code = WHOLE
    if not fill(rows, r, scale, out, q) <= largest_square(limit):
        code = cut(rows, r, scale, limit, out, q)
    return code


@compiled
def bounded(v, scale, limit, out):
    """`bounded_row` for vectors."""
    first = np.int64(
        0
    )  # a plain 0 is a type of its own, for which everything would be compiled again
    return bounded_row(v[np.newaxis, :], first, scale, limit, out[np.newaxis, :], first)


@compiled
def admit(v, scale, limit, total, work):
    """Add ``v * scale``, cut to the limit, to an exact total; return ``WHOLE``, ``CLIPPED`` or ``REFUSED``.

    Everything is in lattice steps. Truncation toward zero makes no entry longer, so the limit holds for what is added.
    """
    rows, room, first = v[np.newaxis, :], work[np.newaxis, :], np.int64(0)
    code = WHOLE
    if not fill(rows, first, scale, room, first) <= largest_square(limit):
        code = cut(rows, first, scale, limit, room, first)
    for i in range(total.size):
        total[i] += total.dtype.type(work[i])
    return code


@compiled
def passes(square, scale, most):
    """Whether a row that `dot_and_copy` has measured, times the scale, is within a limit.

    ``most`` is the :func:`largest_square` of that limit, minus a few times the :func:`margin`. A row that does not
    pass goes through :func:`admit_product`, as does a gradient that was computed elsewhere.
    """
    return max(square, _FAINT) * scale * scale <= most


@compiled
def admit_product(row, slope, per_step, limit, total, work):
    """`admit` of ``slope * row``, with the same result as for the product itself."""
    for i in range(total.size):
        row[i] *= slope
    return admit(row, per_step, limit, total, work)


@compiled(fastmath={"reassoc"})
def finite(values):
    """Whether all entries are finite; only for early errors, since nothing relies on it for privacy."""
    total = 0.0
    for i in range(values.size):
        total += values[i] * 0.0
    return total == 0.0


@compiled(patience=1.0)
def bounded_rows(rows, scale, limit, out):
    """`bounded_row` for all rows; return how many were clipped, and how many were refused and are now zero."""
    clipped = 0
    refused = 0
    most = largest_square(limit)
    for r in range(rows.shape[0]):
        if not fill(rows, r, scale, out, r) <= most:
            code = cut(rows, r, scale, limit, out, r)
            if code == REFUSED:
                refused += 1
            else:
                clipped += code
    return clipped, refused


@compiled(patience=0.5)
def count_beyond(rows, limit):
    """The number of rows beyond the limit, without keeping copies of them.

    For limits outside the range in which squares are reliable, all rows are counted.
    """
    work, first = np.empty((1, rows.shape[1])), np.int64(0)
    beyond = 0
    for r in range(rows.shape[0]):
        if not fill(rows, r, 1.0, work, first) <= largest_square(limit):
            beyond += 1
    return beyond


@compiled(patience=0.5)
def bounded_sparse_rows(indptr, data, scale, limit, out):
    """`bounded_rows` for the entries of a CSR matrix without duplicates."""
    clipped = 0
    refused = 0
    for r in range(indptr.size - 1):
        start, stop = indptr[r], indptr[r + 1]
        code = bounded(data[start:stop], scale, limit, out[start:stop])
        if code == REFUSED:
            refused += 1
        else:
            clipped += code
    return clipped, refused


def limit_for(norm: float, dim: int) -> float:
    """The limit for measured lengths that keeps true lengths at most ``norm``."""
    return float(norm * (1.0 - margin(dim)))


__all__ = [
    "CLIPPED",
    "REFUSED",
    "WHOLE",
    "admit",
    "admit_product",
    "bounded",
    "bounded_row",
    "bounded_rows",
    "bounded_sparse_rows",
    "count_beyond",
    "cut",
    "dot_and_copy",
    "dot_and_square",
    "dot_and_square_in_any_order",
    "fill",
    "finite",
    "largest_square",
    "limit_for",
    "margin",
    "passes",
    "shortening",
]
