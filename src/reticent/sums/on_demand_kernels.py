"""Compiled parts of a running total whose noise is drawn on demand: touched coordinates and their skipped steps.

Each coordinate that was touched has a row of memory: its exact total, the noise that was drawn for it last, the step
for which its buffers hold, a mark, its number, and the buffers, in units of the innovations. Distribution and proof:
docs/algorithms/on-demand.md.

Letters: s buffers, g skipped steps, q = 1 - decay^g, Q covariance of what the skipped steps add to the buffers.
"""

from __future__ import annotations

import numpy as np

from reticent.checks import FloatArray
from reticent.compiling import compiled, specialised

# Columns of ``rows``; the buffers come after them.
TOTAL = 0
NOISE = 1
NEXT = 2  # the step for which the buffers hold; the noise is that of the step before
MARK = 3  # number of the last record that named this coordinate
COORDINATE = 4
BUFFERS = 5

# Places in ``counters``.
STEPS = 0
MOVES = 1  # steps, and readings that drew noise
USED = 2  # normals of the block that are used up
TOUCHED = 3  # coordinates that have a row
RECORDS = 4  # records that were learnt from or read
CLIPPED = 5
SHORTENED = 6
COUNTERS = 7

# Rows of ``filters``.
GAP = 0
WEIGHT = 1

_BITS = 8  # of a digit of a gap
_DIGITS = 6  # gaps of less than 2^48 steps
# A pivot below this share of the variance is rounding error, and the rest of the covariance is as small.
_NOTHING = 2.0**-48
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)


@compiled(inline="always")
def place(coordinate, places):
    """The first place at which a coordinate is looked for."""
    mixed = (np.uint64(coordinate) + _ONE) * _SPREAD
    return (mixed >> np.uint64(32)) & np.uint64(places.size - 1)


@compiled(inline="always")
def seek(coordinate, places, rows):
    """The row of a coordinate, or -1.

    It is inlined into its callers, because a call would cost more than the search.
    """
    at, wanted = place(coordinate, places), float(coordinate)
    while places[at] != 0:
        row = places[at] - 1
        if rows[np.uint64(row), COORDINATE] == wanted:
            return row
        at = (at + _ONE) & np.uint64(places.size - 1)
    return np.int64(-1)


@compiled
def make(coordinate, places, rows, counters):
    """Make a new row for a coordinate that has none; there must be room for it."""
    at = place(coordinate, places)
    while places[at] != 0:
        at = (at + _ONE) & np.uint64(places.size - 1)
    row = counters[TOUCHED]
    counters[TOUCHED] += 1
    places[at] = row + 1
    for i in range(rows.shape[1]):
        rows[row, i] = 0.0
    rows[row, COORDINATE] = coordinate
    rows[row, NEXT] = 1.0
    rows[row, MARK] = -1.0
    return row


@compiled(inline="always")
def find(coordinate, places, rows, counters):
    """The row of a coordinate, which is made if there is none; there must be room for it."""
    row = seek(coordinate, places, rows)
    return row if row >= 0 else make(coordinate, places, rows, counters)


@compiled
def enter(places, rows, count):
    """Write the numbers of the rows into an empty table of places."""
    for row in range(count):
        at = place(np.int64(rows[row, COORDINATE]), places)
        while places[at] != 0:
            at = (at + _ONE) & np.uint64(places.size - 1)
        places[at] = row + 1


@compiled
def most_normals(buffers, step):
    """The largest number of normals that the noise of a coordinate may need at a step.

    That is one, and one for each buffer and each digit of the number of skipped steps.
    """
    digits, left = 0, step
    while left:
        digits += 1
        left >>= _BITS
    return 1 + digits * buffers


@compiled(inline="always")
def skip(k, r, rows, g, jumps, normals, used):
    """Advance the k buffers of a row over g steps that nobody read; return the number of normals used so far.

    The table ``jumps`` contains what the buffers lose in a number of steps, and the factor of the covariance of what
    they gain, for one digit of g at a time. It is inlined into its callers, as `noise_at` is: counting the references
    to so many arrays in a call would take several times as long as the work.
    """
    at, first = np.uint64(r), 0
    while g:
        digit = g & (2**_BITS - 1)
        if digit:
            jump = np.uint64(first + digit)
            factor = np.uint64(k)
            for j in range(k):
                buffer = np.uint64(BUFFERS + j)
                s = rows[at, buffer]
                s -= jumps[jump, np.uint64(j)] * s
                for c in range(j, k):
                    s += jumps[jump, factor] * normals[np.uint64(used + c)]
                    factor += _ONE
                rows[at, buffer] = s
            used += k
        g >>= _BITS
        first += 2**_BITS
    return used


@compiled(inline="always")
def noise_at(k, r, rows, step, filters, jumps, normals, used):
    """Advance a row with k buffers to a step that it has not reached, and draw its noise.

    Return the number of normals used so far.
    """
    at = np.uint64(r)
    used = skip(k, r, rows, int(step - rows[at, NEXT]), jumps, normals, used)
    z = normals[np.uint64(used)]
    known = 0.0
    for j in range(k):
        buffer = np.uint64(BUFFERS + j)
        s = rows[at, buffer]
        known += filters[WEIGHT, j] * s
        rows[at, buffer] = s + (z - filters[GAP, j] * s)
    rows[at, NOISE] = z + known
    rows[at, NEXT] = step + 1.0
    return used + 1


@specialised
def read(k):
    """A kernel ``(asked, ...)`` that computes the noisy totals of distinct coordinates after the steps so far."""

    @compiled
    def read_totals(asked, scale, filters, jumps, places, rows, counters, normals, out):
        step = float(counters[STEPS])
        used = counters[USED]
        for i in range(asked.size):
            r = find(asked[i], places, rows, counters)
            out[i] = 0.0
            if step > 0.0:
                if rows[r, NEXT] != step + 1.0:
                    used = noise_at(k, r, rows, step, filters, jumps, normals, used)
                out[i] = rows[r, TOTAL] + scale * rows[r, NOISE]
        if used != counters[USED]:
            counters[MOVES] += 1
        counters[USED] = used

    return read_totals


def tables(gap: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The filter in the kernels' layout, and the jumps: row 256 b + d is for d 256^b steps.

    A jump consists of the share that each buffer loses, and the factor L of the covariance of what they gain, Q[i, j]
    = (1 - (decay_i decay_j)^g) / (1 - decay_i decay_j) over g steps: for each buffer its row of L, from the diagonal
    to the fastest buffer. Q is factorised from the fastest buffer to the slowest. Slow buffers are nearly equal after
    a few steps, so their pivots vanish in rounding; these are left out.
    """
    k = len(gap)
    steps = np.concatenate([np.arange(2.0**_BITS) * 2.0 ** (_BITS * b) for b in range(_DIGITS)])
    with np.errstate(divide="ignore", invalid="ignore"):
        lost = -np.expm1(steps[:, None] * np.log1p(-gap))
    lost[np.isnan(lost)] = 0.0  # zero steps of a buffer that keeps nothing
    both = gap[:, None] + gap - np.outer(gap, gap)
    pair = lost[:, :, None] + lost[:, None] - lost[:, :, None] * lost[:, None]
    # the variance of a buffer that does not decay grows by 1 per step
    left = np.where(both > 0.0, pair / np.where(both > 0.0, both, 1.0), steps[:, None, None])
    variance, L = np.diagonal(left, axis1=1, axis2=2).copy(), np.zeros_like(left)
    for c in range(k - 1, -1, -1):
        pivot = left[:, c, c]
        root = np.sqrt(np.where(pivot > _NOTHING * variance[:, c], pivot, np.inf))
        L[:, : c + 1, c] = left[:, : c + 1, c] / root[:, None]
        left = left - L[:, :, None, c] * L[:, None, :, c]
    rows, columns = np.triu_indices(k)
    return np.vstack([gap, weight]), np.ascontiguousarray(np.hstack([lost, L[:, rows, columns]]))
