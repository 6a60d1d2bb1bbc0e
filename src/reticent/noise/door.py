"""The door: the one place where a record's contribution is measured, on its way into a release.

A vector ``v`` times a number ``scale`` is written into memory of the library's own and measured
there, and what was measured is what is used; whatever was checked before, elsewhere or in the
caller's memory is trusted for nothing. Running totals, learners and bandits add it to a total in
whole lattice steps (:func:`admit`, :func:`admit_measured`); solvers that add up in floating point
use it as it is (:func:`bounded`).

The square of the length is computed from the very numbers that are passed on, and they pass only
if it is at most the square of the limit. Infinity and NaN fail that comparison. What fails it is
scaled by powers of two, so that nothing overflows and nothing that matters vanishes, cut to the
limit, and measured again; what still fails contributes nothing. Why a measured length bounds the
true one, to the last bit, is proved in docs/lattice.md.
"""

from __future__ import annotations

import math

from numba import njit

WHOLE = 0  # passed as it came
CLIPPED = 1  # was longer than the limit and has been scaled down
REFUSED = -1  # was not finite and contributes nothing

_LARGEST = 1.7976931348623157e308
# A measured square is off by rounding, and by what vanished of squares below the smallest double;
# at this size or more only rounding counts.
_FAINT = 1e-290


@njit(cache=True, nogil=True)
def margin(dim):  # type: ignore[no-untyped-def]
    """A measured length is off from the true one by at most this, relatively; with room to spare."""
    return (dim + 16) * 2.0**-52


@njit(cache=True, nogil=True)
def _fill(v, scale, out):  # type: ignore[no-untyped-def]
    """Write v * scale, and return the sum of the squares of what was written.

    Eight sums at a time: one alone would wait for each addition to finish. The order is written out
    rather than left to the compiler, which could then square v and the scale apart.
    """
    n = out.size
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
    whole = n - n % 8
    for i in range(0, whole, 8):
        w0 = v[i] * scale
        w1 = v[i + 1] * scale
        w2 = v[i + 2] * scale
        w3 = v[i + 3] * scale
        w4 = v[i + 4] * scale
        w5 = v[i + 5] * scale
        w6 = v[i + 6] * scale
        w7 = v[i + 7] * scale
        out[i] = w0
        out[i + 1] = w1
        out[i + 2] = w2
        out[i + 3] = w3
        out[i + 4] = w4
        out[i + 5] = w5
        out[i + 6] = w6
        out[i + 7] = w7
        a0 += w0 * w0
        a1 += w1 * w1
        a2 += w2 * w2
        a3 += w3 * w3
        a4 += w4 * w4
        a5 += w5 * w5
        a6 += w6 * w6
        a7 += w7 * w7
    if n - whole >= 4:
        w0 = v[whole] * scale
        w1 = v[whole + 1] * scale
        w2 = v[whole + 2] * scale
        w3 = v[whole + 3] * scale
        out[whole] = w0
        out[whole + 1] = w1
        out[whole + 2] = w2
        out[whole + 3] = w3
        a0 += w0 * w0
        a1 += w1 * w1
        a2 += w2 * w2
        a3 += w3 * w3
        whole += 4
    for i in range(whole, n):
        w = v[i] * scale
        out[i] = w
        a4 += w * w
    return ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))


@njit(cache=True, nogil=True)
def dot_and_copy(v, x, out):  # type: ignore[no-untyped-def]
    """<v, x>, the squared length of v, and v itself in memory of one's own, all of one reading.

    The order of summation is that of `reticent.online.kernels.dot`.
    """
    n = x.size
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
    b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = 0.0
    whole = n - n % 8
    for i in range(0, whole, 8):
        w0 = v[i]
        w1 = v[i + 1]
        w2 = v[i + 2]
        w3 = v[i + 3]
        w4 = v[i + 4]
        w5 = v[i + 5]
        w6 = v[i + 6]
        w7 = v[i + 7]
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
        b0 += w0 * w0
        b1 += w1 * w1
        b2 += w2 * w2
        b3 += w3 * w3
        b4 += w4 * w4
        b5 += w5 * w5
        b6 += w6 * w6
        b7 += w7 * w7
    if n - whole >= 4:
        w0 = v[whole]
        w1 = v[whole + 1]
        w2 = v[whole + 2]
        w3 = v[whole + 3]
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
        w = v[i]
        out[i] = w
        a4 += w * x[i]
        b4 += w * w
    square = ((b0 + b1) + (b2 + b3)) + ((b4 + b5) + (b6 + b7))
    return ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7)), square


@njit(cache=True, nogil=True)
def _carefully(v, scale, limit, out):  # type: ignore[no-untyped-def]
    """`bounded` for what the plain way cannot pass: too long, not finite, or beyond a double on the way."""
    n = out.size
    largest = 0.0
    finite = abs(scale) <= _LARGEST
    for i in range(n):
        w = v[i]
        out[i] = w
        size = abs(w)
        if not size <= _LARGEST:
            finite = False
        largest = max(largest, size)
    code = WHOLE if finite else REFUSED
    if not finite or largest == 0.0 or scale == 0.0:
        out[:] = 0.0
        return code
    # Divided by a power of two the entries are below 1, and the length is between 1/2 and sqrt(n).
    exponent = math.frexp(largest)[1]
    square = 0.0
    for i in range(n):
        w = math.ldexp(out[i], -exponent)
        out[i] = w
        square += w * w
    length = math.sqrt(square)
    mantissa, shift = math.frexp(scale)
    shift += exponent
    size = math.ldexp(abs(mantissa) * length, shift)  # infinite if it is beyond a double
    slack = 2.0 * margin(n)
    if size <= limit * (1.0 - slack):
        for i in range(n):
            out[i] = math.ldexp(out[i] * mantissa, shift)
    else:
        if size * (1.0 - slack) > limit:
            code = CLIPPED
        # a hair below the limit, so that the measurement that follows cannot find it above
        factor = math.copysign(limit * (1.0 - max(2.0**-40, slack)) / length, scale)
        for i in range(n):
            out[i] *= factor
    if not _fill(out, 1.0, out) <= limit * limit:
        out[:] = 0.0
        code = REFUSED
    return code


@njit(cache=True, nogil=True)
def bounded(v, scale, limit, out):  # type: ignore[no-untyped-def]
    """Write ``v * scale``, cut to the limit, into ``out``; what became of it is returned.

    Parameters
    ----------
    v : array
        Read here and nowhere else: another thread may be writing to it. Not the memory of ``out``.
    scale : float
        Any double.
    limit : float
        The length that ``out`` is cut to, between 1e-140 and 1e150. The true length of ``out`` exceeds it
        by less than the share :func:`margin`.
    out : array
        Zeros if the answer is ``REFUSED``.
    """
    if _fill(v, scale, out) <= limit * limit:
        return WHOLE
    return _carefully(v, scale, limit, out)


@njit(cache=True, nogil=True)
def add_truncated(total, steps):  # type: ignore[no-untyped-def]
    """Add what has been measured: toward zero to whole steps, or as it is to a total in floating point."""
    for i in range(total.size):
        total[i] += total.dtype.type(steps[i])


@njit(cache=True, nogil=True)
def admit(v, scale, limit, total, work):  # type: ignore[no-untyped-def]
    """Add ``v * scale``, cut to the limit, to an exact total; what became of it is returned.

    Everything is in lattice steps. Truncation toward zero makes no entry longer, so the limit holds
    for what is added.
    """
    code = bounded(v, scale, limit, work)
    add_truncated(total, work)
    return code


@njit(cache=True, nogil=True)
def admit_measured(row, square, scale, limit, total):  # type: ignore[no-untyped-def]
    """`admit` for a copy of the caller's own whose squared length is known: `dot_and_copy` made both.

    The product of the squared length and the squared scale is what is compared with the limit.
    """
    if max(square, _FAINT) * scale * scale <= limit * limit:
        for i in range(total.size):
            total[i] += total.dtype.type(row[i] * scale)
        return WHOLE
    code = _carefully(row, scale, limit, row)
    add_truncated(total, row)
    return code


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def finite(values):  # type: ignore[no-untyped-def]
    """Whether all entries are finite: a convenience for errors that come before anything is done."""
    total = 0.0
    for i in range(values.size):
        total += values[i] * 0.0
    return total == 0.0


@njit(cache=True, nogil=True)
def bounded_rows(rows, scale, limit, out):  # type: ignore[no-untyped-def]
    """`bounded` row by row; how many were clipped, or -1 - r if row r is the first that is not finite."""
    clipped = 0
    for r in range(rows.shape[0]):
        code = bounded(rows[r], scale, limit, out[r])
        if code == REFUSED:
            return -1 - r
        clipped += code
    return clipped


def limit_for(norm: float, dim: int) -> float:
    """The limit under which the true length, and not only the measured one, is at most ``norm``."""
    return float(norm * (1.0 - margin(dim)))


__all__ = [
    "CLIPPED",
    "REFUSED",
    "WHOLE",
    "add_truncated",
    "admit",
    "admit_measured",
    "bounded",
    "bounded_rows",
    "dot_and_copy",
    "finite",
    "limit_for",
    "margin",
]

