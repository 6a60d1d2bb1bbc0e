"""Compiled parts of the bandits: directions, single records, the conditional gradient, and batches.

The letters are those of [bandit], Algorithm 1: y is the iterate of the conditional gradient, g its gradient, u a
direction, ``force`` the scaled value F_t of one record.

Each record is clipped and truncated to whole lattice steps before it is added to its batch. So the sensitivity of the
batch is exactly that of one record; truncating the sum of the batch instead could move it by one more step.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.compiling import compiled, specialised
from reticent.losses.kernels import LINEAR
from reticent.noise.door import cut, fill, largest_square
from reticent.sets.kernels import linear_minimizer_inplace, project_inplace


@compiled(patience=0.5)
def normalise(rows):
    """Scale each row to length one."""
    for r in range(rows.shape[0]):
        square = 0.0
        for i in range(rows.shape[1]):
            square += rows[r, i] * rows[r, i]
        if square > 0.0:
            norm = math.sqrt(square)
            for i in range(rows.shape[1]):
                rows[r, i] /= norm
        else:
            rows[r, 0] = 1.0


@compiled(patience=0.5)
def take(u, w, factor, watch, pending, limit, per_step):
    """Add one record, clipped as a vector and truncated to the lattice; w is its deviation in [-1, 1].

    If the batch has two more entries, the deviation and its square are added to them. A record that is not finite
    adds nothing.
    """
    take_row(
        u[np.newaxis, :], 0, w, factor, watch, pending, limit, per_step, np.empty((2, pending.size))
    )


@compiled
def take_row(U, t, w, factor, watch, pending, limit, per_step, room):
    """`take` for the direction in row t; ``room`` is working memory of two rows as long as the batch."""
    n = U.shape[1]
    for i in range(n):
        room[0, i] = factor * w * U[t, i]
    if pending.size > n:
        room[0, n] = watch * w
        room[0, n + 1] = watch * (w * w)
    steps, first, second = limit * per_step, np.int64(0), np.int64(1)
    if not fill(room, first, per_step, room, second) <= largest_square(steps):
        cut(room, first, per_step, steps, room, second)
    for i in range(pending.size):
        pending[i] += pending.dtype.type(room[1, i])


@compiled
def deviation(value, baseline, clip):
    """The difference of a value from the baseline in units of the clip, clipped to [-1, 1], and whether it was clipped.

    NaN, such as a difference of infinities, becomes 0, that is, the baseline.
    """
    w = (value - baseline) / clip
    if abs(w) <= 1.0:
        return w, 0
    return (math.copysign(1.0, w) if w == w else 0.0), 1


@compiled
def place(base, radius, direction, out):
    for i in range(out.size):
        out[i] = base[i] + radius * direction[i]


@specialised
def conditional_gradient(kind):
    """A kernel for the steps first, first + 1, ...

    Of min 1/2 ||y - center||^2 + <slope, y>, with step sizes 2 / (i + 2).
    """

    @compiled(patience=0.5)
    def take_steps(params, center, slope, y, first, count, g, vertex):
        for i in range(first, first + count):
            for j in range(y.size):
                g[j] = (y[j] - center[j]) + slope[j]
            linear_minimizer_inplace(kind)(params, g, vertex)
            move(y, vertex, 2.0 / (i + 2.0))

    return take_steps


@compiled
def move(y, vertex, gamma):
    """Take a step towards a vertex; return False, and change nothing, if the vertex is not finite."""
    total = 0.0
    for j in range(y.size):
        total += vertex[j]
    if not abs(total) < math.inf:
        return False
    for j in range(y.size):
        y[j] += gamma * (vertex[j] - y[j])
    return True


@compiled
def gradient(y, center, slope, g):
    for j in range(y.size):
        g[j] = (y[j] - center[j]) + slope[j]


@compiled
def move_and_place(y, vertex, gamma, center, slope, g, base, radius, directions, row, out):
    """Take a step towards a vertex, and compute the gradient of the next step and the point to play."""
    place(base, radius, directions[row], out)
    if not move(y, vertex, gamma):
        return False
    gradient(y, center, slope, g)
    return True


@compiled(patience=0.5)
def place_one(base, radius, directions, row, out):
    place(base, radius, directions[row], out)


@specialised
def ask(kind):
    """A kernel for one step of the conditional gradient, unless i is negative, and for the point to play."""

    @compiled(patience=0.5)
    def ask_one(params, center, slope, y, i, g, vertex, base, radius, directions, row, out):
        if i >= 0:
            conditional_gradient(kind)(params, center, slope, y, i, 1, g, vertex)
        place(base, radius, directions[row], out)

    return ask_one


@specialised
def _value(form):
    @compiled
    def value(scale, a, x):
        total = 0.0
        if form == LINEAR:
            for i in range(x.size):
                total += a[i] * x[i]
            return scale * total
        for i in range(x.size):
            total += (x[i] - a[i]) * (x[i] - a[i])
        return 0.5 * scale * total

    return value


@specialised
def batch(form):
    """A kernel that plays consecutive records of one batch and returns how many values were clipped.

    ``counts`` says which of them count; if it is empty, all do.
    """

    @compiled(patience=0.5)
    def play_batch(
        scale, A, base, radius, directions, U, baseline, clip, factor, watch, counts, pending,
        limit, per_step, losses,
    ):  # fmt: skip
        clipped = 0
        x = np.empty(base.size)
        room = np.empty((2, pending.size))
        for t in range(A.shape[0]):
            place(base, radius, directions[t], x)
            losses[t] = _value(form)(scale, A[t], x)
            w, beyond = deviation(losses[t], baseline, clip)
            if counts.size == 0 or counts[t]:
                clipped += beyond
                take_row(U, t, w, factor, watch, pending, limit, per_step, room)
        return clipped

    return play_batch


@specialised
def projected(form, kind):
    """A kernel for the rounds first, first + 1, ... of one play and one projection each.

    Returns how many values were clipped.

    ``schedule`` is (range, fixed, each): the step after R sums is sqrt(range / (fixed + each R)), or the constant
    -range if that is negative. ``x`` is the decision, before and after, and ``released`` becomes the last total.
    ``counts`` says which records count; if it is empty, all do.
    """

    @compiled(patience=0.5)
    def play_rounds(
        scale, A, params, center, shrink, basis, radius, directions, U, baseline, clip, factor, before, base,
        schedule, first, counts, pending, limit, per_step, total, noise, step, x, released, wait, every, pages, losses,
    ):  # fmt: skip
        clipped = 0
        written = 0
        point = np.empty(x.size)
        work = np.empty(2 * x.size)
        room = np.empty((2, pending.size))
        for t in range(A.shape[0]):
            for i in range(x.size):
                point[i] = center[i] + shrink * (x[i] - center[i])
            place(point, radius, directions[t], point)
            if wait == 0:
                for i in range(point.size):
                    pages[written, i] = point[i]
                written += 1
                wait = every
            wait -= 1
            losses[t] = _value(form)(scale, A[t], point)
            w, beyond = deviation(losses[t], baseline, clip)
            if counts.size == 0 or counts[t]:
                clipped += beyond
                take_row(U, t, w, factor, 0.0, pending, limit, per_step, room)
            for i in range(pending.size):
                total[i] += pending[i]
                pending[i] = 0
                released[i] = before[i] + (base[i] + step * (total[i] + noise[t, i]))
            eta = -schedule[0]
            if schedule[0] > 0.0:
                eta = math.sqrt(schedule[0] / (schedule[1] + schedule[2] * (first + t)))
            for j in range(x.size):
                slope = 0.0
                if basis.size:
                    for i in range(released.size):
                        slope += basis[j, i] * released[i]
                else:
                    slope = released[j]
                x[j] = center[j] - eta * slope
            project_inplace(kind)(params, x, work)
        return clipped

    return play_rounds
