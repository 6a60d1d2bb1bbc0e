"""Compiled parts of a running total whose noise is drawn on demand: who has been touched, and what they have missed.

A coordinate that was touched has a row of memory: its clean total, the noise that was drawn for it last, the step for
which its buffers hold, a mark, its number, and the buffers, in units of the innovations. Law and proof:
docs/algorithms/on-demand.md.

Letters: s buffers, g skipped steps, q = 1 - decay^g, Q covariance of what the skipped steps add to the buffers.
"""

from __future__ import annotations

import math

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
USED = 2  # normals of the block
TOUCHED = 3
RECORDS = 4  # that were learnt from or read
CLIPPED = 5
SHORTENED = 6
COUNTERS = 7

# Rows of ``filters``.
GAP = 0
WEIGHT = 1
FLAT = 2  # 1 for a buffer that does not decay, whose variance grows by 1 a step
BEND = 3  # and below: 1 / (1 - decay decay), 0 where that is infinite

_DIGITS = 6  # of 8 bits: gaps of less than 2^48 steps
# A pivot below this share of the variance is rounding, and what is left of the covariance is as small.
_NOTHING = 2.0**-48
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@compiled
def place(coordinate, places):
    """Where a coordinate is looked for first."""
    mixed = (np.uint64(coordinate) + np.uint64(1)) * _SPREAD
    return np.int64((mixed >> np.uint64(32)) & np.uint64(places.size - 1))


@compiled
def find(coordinate, places, rows, counters):
    """The row of a coordinate, which is made where there is none; there must be room for it."""
    at = place(coordinate, places)
    while places[at] != 0:
        row = places[at] - 1
        if rows[row, COORDINATE] == coordinate:
            return row
        at = (at + 1) & (places.size - 1)
    row = counters[TOUCHED]
    counters[TOUCHED] += 1
    places[at] = row + 1
    for i in range(rows.shape[1]):
        rows[row, i] = 0.0
    rows[row, COORDINATE] = coordinate
    rows[row, NEXT] = 1.0
    rows[row, MARK] = -1.0
    return row


@compiled
def enter(places, rows, count):
    """Write the rows' numbers into an empty table of places."""
    for row in range(count):
        at = place(np.int64(rows[row, COORDINATE]), places)
        while places[at] != 0:
            at = (at + 1) & (places.size - 1)
        places[at] = row + 1


@specialised
def skip(k):
    """``(row, rows, g, ...)``: bring k buffers over g steps that nobody read; how many normals are used up then.

    Few steps are gone one by one. Many add a Gaussian vector to the decayed buffers, whose covariance
    Q[i, j] = (1 - (decay_i decay_j)^g) / (1 - decay_i decay_j) is factorised from the swiftest buffer to the slowest.
    Slow ones are nearly the same after few steps, so their pivots vanish in rounding; these are left out.
    """

    @compiled
    def skip_steps(r, rows, g, filters, lost, normals, used, room):
        if g <= k:
            for _ in range(g):
                z = normals[used]
                used += 1
                for j in range(k):
                    rows[r, BUFFERS + j] += z - filters[GAP, j] * rows[r, BUFFERS + j]
            return used
        # what decays in g steps, digit by digit
        for j in range(k):
            room[k, j] = 0.0
        digits, base = g, 0
        while digits:
            digit = digits & 255
            if digit:
                for j in range(k):
                    q, p = room[k, j], lost[base + digit, j]
                    room[k, j] = q + p - q * p
            digits >>= 8
            base += 256
        for j in range(k):
            rows[r, BUFFERS + j] -= room[k, j] * rows[r, BUFFERS + j]
            for i in range(j + 1):
                both = room[k, i] + room[k, j] - room[k, i] * room[k, j]
                room[j, i] = both * filters[BEND + j, i]
            room[j, j] += filters[FLAT, j] * g
            room[k + 1, j] = room[j, j]
        for c in range(k - 1, -1, -1):
            pivot = room[c, c]
            if pivot <= _NOTHING * room[k + 1, c]:
                continue
            z = normals[used] * math.sqrt(pivot)
            used += 1
            rows[r, BUFFERS + c] += z
            inverse = 1.0 / pivot
            for i in range(c):
                share = room[c, i] * inverse
                rows[r, BUFFERS + i] += share * z
                for j in range(i + 1):
                    room[i, j] -= share * room[c, j]
        return used

    return skip_steps


@specialised
def noise_at(k):
    """``(row, rows, step, ...)``: bring a coordinate to a step and draw its noise; how many normals are used."""

    @compiled
    def draw(r, rows, step, filters, lost, normals, used, room):
        if rows[r, NEXT] == step + 1.0:
            return used
        g = int(step - rows[r, NEXT])
        if g > 0:
            used = skip(k)(r, rows, g, filters, lost, normals, used, room)
        z = normals[used]
        known = 0.0
        for j in range(k):
            s = rows[r, BUFFERS + j]
            known += filters[WEIGHT, j] * s
            rows[r, BUFFERS + j] = s + (z - filters[GAP, j] * s)
        rows[r, NOISE] = z + known
        rows[r, NEXT] = step + 1.0
        return used + 1

    return draw


@specialised
def read(k):
    """``(asked, ...)``: noisy totals of some coordinates after the steps that were taken; none is named twice."""

    @compiled
    def read_totals(asked, scale, filters, lost, places, rows, counters, normals, room, out):
        step = float(counters[STEPS])
        used = counters[USED]
        for i in range(asked.size):
            r = find(asked[i], places, rows, counters)
            out[i] = 0.0
            if step > 0.0:
                used = noise_at(k)(r, rows, step, filters, lost, normals, used, room)
                out[i] = rows[r, TOTAL] + scale * rows[r, NOISE]
        if used != counters[USED]:
            counters[MOVES] += 1
        counters[USED] = used

    return read_totals


def tables(gap: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The filter as the kernels want it, and what each buffer loses in d 256^b steps (row 256 b + d)."""
    both = gap[:, None] + gap - np.outer(gap, gap)
    bend = np.zeros_like(both)
    np.divide(1.0, both, out=bend, where=both > 0.0)
    steps = np.concatenate([np.arange(256.0) * 256.0**b for b in range(_DIGITS)])
    with np.errstate(divide="ignore", invalid="ignore"):
        lost = -np.expm1(steps[:, None] * np.log1p(-gap))
    lost[np.isnan(lost)] = 0.0  # no step, of a buffer that keeps nothing
    return np.vstack([gap, weight, gap == 0.0, bend]), np.ascontiguousarray(lost)
