"""The compiled part that all running totals share: clip, quantise, add, and put the noise on.

A total is an array of whole lattice steps (int64) or, for simulations, of float64; every kernel here works on either,
since converting to the array's own type truncates toward zero on the lattice and does nothing in floating point.

The one thing a reader would get wrong: truncation, not rounding to nearest. A truncated vector is never longer than
the clipped one, so the sensitivity that was promised holds to the last bit.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def length(v):  # type: ignore[no-untyped-def]
    """Euclidean norm; infinite only if an entry is, NaN only if an entry is."""
    square = 0.0
    for i in range(v.size):
        square += v[i] * v[i]
    if square < 1e300 and square > 1e-290:
        return math.sqrt(square)
    largest = 0.0
    for i in range(v.size):
        size = abs(v[i])
        if not size <= 1.7976931348623157e308:  # NaN and infinity fail the comparison
            return size
        largest = max(largest, size)
    if largest == 0.0:
        return 0.0
    square = 0.0
    for i in range(v.size):
        square += (v[i] / largest) * (v[i] / largest)
    return largest * math.sqrt(square)


@njit(cache=True, nogil=True)
def lengths(rows, out):  # type: ignore[no-untyped-def]
    """Norm of each row; the index of the first row that is not finite, or -1."""
    for i in range(rows.shape[0]):
        out[i] = length(rows[i])
        if not out[i] <= 1.7976931348623157e308:
            return i
    return -1


@njit(cache=True, nogil=True)
def factor(size, limit, per_step):  # type: ignore[no-untyped-def]
    """What to multiply a vector of a given norm by: clipping and the change of unit in one."""
    return per_step if size <= limit else per_step * (limit / size)


@njit(cache=True, nogil=True)
def absorb(total, v, multiplier):  # type: ignore[no-untyped-def]
    for i in range(total.size):
        total[i] += total.dtype.type(v[i] * multiplier)


@njit(cache=True, nogil=True)
def add(v, total, block, row, limit, per_step, step, base, out):  # type: ignore[no-untyped-def]
    """One contribution; its norm is returned, and nothing is changed if that is not finite."""
    size = length(v)
    if size <= 1.7976931348623157e308:
        absorb(total, v, factor(size, limit, per_step))
        for i in range(out.size):
            out[i] = base[i] + step * (total[i] + block[row, i])
    return size


@njit(cache=True, nogil=True)
def run(rows, sizes, total, noise, limit, per_step, step, base, out):  # type: ignore[no-untyped-def]
    """Many contributions of known, finite norms; the number that were clipped is returned."""
    clipped = 0
    for t in range(rows.shape[0]):
        if sizes[t] > limit:
            clipped += 1
        multiplier = factor(sizes[t], limit, per_step)
        for i in range(total.size):
            total[i] += total.dtype.type(rows[t, i] * multiplier)
            out[t, i] = base[i] + step * (total[i] + noise[t, i])
    return clipped
