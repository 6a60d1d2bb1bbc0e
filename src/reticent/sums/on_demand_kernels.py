"""Compiled parts of a running total whose noise is drawn on demand: who has been touched, and what they have missed.

A coordinate that was touched has a row of memory: its clean total, the noise that was drawn for it last, the step for
which its buffers hold, a mark, and the buffers, in units of the innovations. Law and proof: docs/algorithms/on-demand.md.

Letters: s buffers, g skipped steps, q = 1 - decay^g, Q covariance of what the skipped steps add to the buffers.
"""

from __future__ import annotations

import math

import numpy as np

from reticent._compile import compiled

# Columns of ``rows``; the buffers come after them.
TOTAL = 0
NOISE = 1
NEXT = 2  # the step for which the buffers hold; the noise is that of the step before
MARK = 3  # number of the last record that named this coordinate
BUFFERS = 4

# Places in ``counters``.
STEPS = 0
MOVES = 1  # steps, and readings that drew noise
USED = 2  # normals of the block
TOUCHED = 3
RECORDS = 4  # that were learnt from or read
CLIPPED = 5
SHORTENED = 6
COUNTERS = 7

# Parts of a pivot below this share are rounding: what is left of the covariance is smaller than it.
_NOTHING = 2.0**-48
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@compiled
def place(coordinate, places):  # type: ignore[no-untyped-def]
    """Where a coordinate is looked for first."""
    mixed = (np.uint64(coordinate) + np.uint64(1)) * _SPREAD
    return np.int64((mixed >> np.uint64(32)) & np.uint64(places.size - 1))


@compiled
def find(coordinate, places, coordinates, rows, counters):  # type: ignore[no-untyped-def]
    """The row of a coordinate, which is made where there is none; there must be room for it."""
    at = place(coordinate, places)
    while places[at] != 0:
        row = places[at] - 1
        if coordinates[row] == coordinate:
            return row
        at = (at + 1) & (places.size - 1)
    row = counters[TOUCHED]
    counters[TOUCHED] += 1
    places[at] = row + 1
    coordinates[row] = coordinate
    rows[row, :] = 0.0
    rows[row, NEXT] = 1.0
    rows[row, MARK] = -1.0
    return row


@compiled
def enter(places, coordinates, count):  # type: ignore[no-untyped-def]
    """Write the rows' numbers into an empty table of places."""
    for row in range(count):
        at = place(coordinates[row], places)
        while places[at] != 0:
            at = (at + 1) & (places.size - 1)
        places[at] = row + 1


@compiled
def skip(s, g, gap, rate, bend, normals, used, room):  # type: ignore[no-untyped-def]
    """Bring buffers over g steps that nobody read; how many normals are used up then.

    Few steps are gone one by one. Many add a Gaussian vector to the decayed buffers, whose covariance
    Q[i, j] = (1 - (decay_i decay_j)^g) / (1 - decay_i decay_j) is factorised with pivots: no digits are lost where it
    is nearly singular, as it is for slow buffers after few steps.
    """
    k = s.size
    if g <= k:
        for _ in range(g):
            z = normals[used]
            used += 1
            for j in range(k):
                s[j] += z - gap[j] * s[j]
        return used
    q, size, A = room[0], room[1], room[2:]
    for j in range(k):
        q[j] = -math.expm1(g * rate[j])
        s[j] -= q[j] * s[j]
        # where both do not decay, the covariance grows by 1 a step
        size[j] = math.sqrt((q[j] * (2.0 - q[j])) * bend[j, j]) if gap[j] > 0.0 else math.sqrt(g)
    for i in range(k):
        for j in range(i):
            both = q[i] + q[j] - q[i] * q[j]
            A[i, j] = both * bend[i, j] / (size[i] * size[j])
            A[j, i] = A[i, j]
        A[i, i] = 1.0
    for _ in range(k):
        p = 0
        for i in range(1, k):
            if A[i, i] > A[p, p]:
                p = i
        if A[p, p] <= _NOTHING:
            break
        z = normals[used]
        used += 1
        scale = 1.0 / math.sqrt(A[p, p])
        for i in range(k):
            q[i] = A[i, p] * scale
            s[i] += size[i] * q[i] * z
        for i in range(k):
            for j in range(k):
                A[i, j] -= q[i] * q[j]
        A[p, p] = 0.0  # exactly, where rounding leaves something
        for i in range(k):
            A[i, p] = 0.0
            A[p, i] = 0.0
    return used


@compiled
def noise_at(row, step, filters, normals, used, room):  # type: ignore[no-untyped-def]
    """Bring one coordinate to a step and draw its noise there; how many normals are used up then.

    ``filters`` are the gaps, their rates of decay and the weights, and below them the matrix of 1 / (1 - decay decay).
    """
    if row[NEXT] == step + 1.0:
        return used
    k = row.size - BUFFERS
    gap, rate, weight, bend = filters[0], filters[1], filters[2], filters[3:]
    s = row[BUFFERS:]
    used = skip(s, int(step - row[NEXT]), gap, rate, bend, normals, used, room)
    z = normals[used]
    known = 0.0
    for j in range(k):
        known += weight[j] * s[j]
        s[j] += z - gap[j] * s[j]
    row[NOISE] = z + known
    row[NEXT] = step + 1.0
    return used + 1


@compiled
def read(asked, scale, filters, places, coordinates, rows, counters, normals, room, out):  # type: ignore[no-untyped-def]
    """Noisy totals of some coordinates after the steps that were taken; none may be named twice."""
    step = float(counters[STEPS])
    before = counters[USED]
    for i in range(asked.size):
        row = rows[find(asked[i], places, coordinates, rows, counters)]
        if step > 0.0:
            counters[USED] = noise_at(row, step, filters, normals, counters[USED], room)
        out[i] = row[TOTAL] + scale * row[NOISE] if step > 0.0 else 0.0
    if counters[USED] != before:
        counters[MOVES] += 1
