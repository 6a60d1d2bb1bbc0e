"""Compiled projections and linear minimisers of the simple sets, for the learners' loops.

A set is identified by ``set.kernel == (kind, params)``. The kind selects a kernel when a learner's own loop is
compiled (see `reticent.compiling.specialised`), and the params are passed to it. The local linear minimisers are
those of docs/algorithms/local-linear-oracle.md. Considered: passing kernels as arguments, which Numba cannot cache
across processes.

The ``params`` of a box are all lower bounds, then all upper bounds. Those of a product are ``[blocks, (kind, dim,
number of params, params...)...]``; a product has no compiled local linear minimiser (see `LOCAL_KINDS`).
"""

from __future__ import annotations

import math

import numpy as np

from reticent.checks import FloatArray
from reticent.compiling import compiled, specialised
from reticent.sets.thresholds import simplex_threshold

UNCONSTRAINED = 0
L2BALL = 1
BOX = 2
L1BALL = 3
SIMPLEX = 4
PRODUCT = 5

LOCAL_KINDS = (UNCONSTRAINED, L2BALL, BOX, L1BALL, SIMPLEX)


# -------------------------------------------------------------------- norms


@compiled
def _norm(x: FloatArray) -> float:
    total = 0.0
    for i in range(x.size):
        total += x[i] * x[i]
    if 1e-280 < total < 1e280:
        return math.sqrt(total)
    largest = 0.0
    for i in range(x.size):
        largest = max(largest, abs(x[i]))
    if largest == 0.0:
        return 0.0
    total = 0.0
    for i in range(x.size):
        scaled = x[i] / largest
        total += scaled * scaled
    return largest * math.sqrt(total)


# -------------------------------------------------------------------- projections


@compiled(patience=0.3)
def project_l2_ball(radius: float, x: FloatArray) -> None:
    norm = _norm(x)
    if norm > radius:
        for i in range(x.size):
            x[i] = x[i] / norm * radius


@compiled(patience=0.3)
def project_box(params: FloatArray, x: FloatArray) -> None:
    for i in range(x.size):
        x[i] = min(max(x[i], params[i]), params[x.size + i])


@compiled(patience=0.3)
def project_simplex(mass: float, x: FloatArray, work: FloatArray) -> None:
    shift, threshold = simplex_threshold(x, mass, work)
    for i in range(x.size):
        x[i] = max((x[i] - shift) - threshold, 0.0)


@compiled(patience=0.3)
def project_l1_ball(radius: float, x: FloatArray, work: FloatArray) -> None:
    total = 0.0
    for i in range(x.size):
        total += abs(x[i])
    if total <= radius:
        return
    for i in range(x.size):
        work[x.size + i] = abs(x[i])
    shift, threshold = simplex_threshold(work[x.size : 2 * x.size], radius, work[: x.size])
    for i in range(x.size):
        x[i] = math.copysign(max((abs(x[i]) - shift) - threshold, 0.0), x[i])


@specialised
def project_inplace(kind):
    """A kernel ``(params, x, work)`` that replaces x by its projection; ``work`` has at least ``2 * dim`` places."""

    @compiled(patience=0.3)
    def project(params: FloatArray, x: FloatArray, work: FloatArray) -> None:
        if kind == L2BALL:
            project_l2_ball(params[0], x)
        elif kind == BOX:
            project_box(params, x)
        elif kind == L1BALL:
            project_l1_ball(params[0], x, work)
        elif kind == SIMPLEX:
            project_simplex(params[0], x, work)
        elif kind == PRODUCT:
            at = 1
            start = 0
            for _ in range(int(params[0])):
                size = int(params[at + 1])
                stop = at + 3 + int(params[at + 2])
                _project_block(SIMPLEX)(
                    int(params[at]), params[at + 3 : stop], x[start : start + size], work
                )
                at = stop
                start += size

    return project


@specialised
def _project_block(last):
    """A kernel that projects onto a set whose kind, at most ``last``, is known only at run time."""
    before = last - 1

    @compiled(patience=0.3)
    def project(kind: int, params: FloatArray, x: FloatArray, work: FloatArray) -> None:
        if kind == last:
            project_inplace(last)(params, x, work)
        elif before >= 0:
            _project_block(before)(kind, params, x, work)

    return project


# -------------------------------------------------------------------- linear minimisers


@specialised
def linear_minimizer_inplace(kind):
    """A kernel ``(params, g, out)`` that writes into ``out`` a point of the set that minimises ``<g, point>``."""

    @compiled(patience=0.3)
    def minimize(params: FloatArray, g: FloatArray, out: FloatArray) -> None:
        dim = g.size
        if kind == L2BALL:
            norm = _norm(g)
            for i in range(dim):
                out[i] = -params[0] * (g[i] / norm) if norm > 0.0 else 0.0
        elif kind == BOX:
            for i in range(dim):
                out[i] = params[i] if g[i] >= 0.0 else params[dim + i]
        elif kind == L1BALL:
            best = 0
            for i in range(dim):
                out[i] = 0.0
                if abs(g[i]) > abs(g[best]):
                    best = i
            out[best] = -math.copysign(params[0], g[best])
        elif kind == SIMPLEX:
            best = 0
            for i in range(dim):
                out[i] = 0.0
                if g[i] < g[best]:
                    best = i
            out[best] = params[0]
        elif kind == PRODUCT:
            at = 1
            start = 0
            for _ in range(int(params[0])):
                size = int(params[at + 1])
                stop = at + 3 + int(params[at + 2])
                _minimize_block(SIMPLEX)(
                    int(params[at]),
                    params[at + 3 : stop],
                    g[start : start + size],
                    out[start : start + size],
                )
                at = stop
                start += size
        else:
            for i in range(dim):
                out[i] = math.nan  # the whole space has no minimiser; its set refuses before this

    return minimize


@specialised
def _minimize_block(last):
    """A kernel that minimises over a set whose kind, at most ``last``, is known only at run time."""
    before = last - 1

    @compiled(patience=0.3)
    def minimize(kind: int, params: FloatArray, g: FloatArray, out: FloatArray) -> None:
        if kind == last:
            linear_minimizer_inplace(last)(params, g, out)
        elif before >= 0:
            _minimize_block(before)(kind, params, g, out)

    return minimize


# -------------------------------------------------------------------- local linear minimisers


@compiled(patience=0.3)
def local_whole_space(x: FloatArray, radius: float, g: FloatArray, out: FloatArray) -> None:
    norm = _norm(g)
    for i in range(x.size):
        out[i] = x[i] - radius * (g[i] / norm) if norm > 0.0 else x[i]


@compiled(patience=0.3)
def local_l2_ball(
    bound: float, x: FloatArray, radius: float, g: FloatArray, out: FloatArray
) -> None:
    """The exact minimiser over the intersection of ``||p|| <= bound`` and the ball around x."""
    norm = _norm(g)
    local_whole_space(x, radius, g, out)
    if norm == 0.0 or _norm(out) <= bound:
        return
    distance = 0.0
    for i in range(x.size):
        away = -bound * (g[i] / norm) - x[i]
        distance += away * away
    size = _norm(x)
    if distance <= radius * radius or size == 0.0:
        for i in range(x.size):
            out[i] = -bound * (g[i] / norm)
        return
    # The minimiser is on both spheres. It is written as a step from x, so that a tiny radius loses no digits: the
    # part of the step along x follows from the two radii, and the rest points against g, orthogonally to x.
    along = ((bound - size) * (bound + size) - radius * radius) / (2.0 * size)
    along = min(max(along, -radius), radius)
    inner = 0.0
    for i in range(x.size):
        inner += (g[i] / norm) * (x[i] / size)
    for i in range(x.size):
        out[i] = g[i] / norm - inner * (x[i] / size)
    across = _norm(out)
    height = math.sqrt((radius - along) * (radius + along))
    for i in range(x.size):
        side = out[i] / across if across > 0.0 else 0.0
        out[i] = x[i] + along * (x[i] / size) - height * side


@compiled(patience=0.3)
def local_box(
    params: FloatArray, x: FloatArray, radius: float, g: FloatArray, out: FloatArray
) -> None:
    """The exact minimiser: move along -g, stopping each coordinate at its bound, until the step has length ``radius``.

    Coordinates that reach their bound with a step that is too small also do so with the right one, so the step only
    grows from round to round; each round but the last settles at least one coordinate.
    """
    dim = x.size
    norm = _norm(g)
    for i in range(dim):
        out[i] = x[i]
    if norm == 0.0 or radius == 0.0:
        return
    step = 0.0
    settled = -1
    while True:
        blocked = 0
        used = 0.0
        free = 0.0
        for i in range(dim):
            speed = abs(g[i]) / norm
            room = max(x[i] - params[i] if g[i] > 0.0 else params[dim + i] - x[i], 0.0)
            if speed > 0.0 and step * speed >= room:
                blocked += 1
                used += room * room
            else:
                free += speed * speed
        left = radius * radius - used
        if blocked == settled or free == 0.0 or left <= 0.0:
            break
        settled = blocked
        step = max(step, math.sqrt(left / free))
    for i in range(dim):
        moved = x[i] - step * (g[i] / norm)
        if g[i] > 0.0:
            out[i] = max(moved, min(params[i], x[i]))
        elif g[i] < 0.0:
            out[i] = min(moved, max(params[dim + i], x[i]))


@compiled(patience=0.3)
def local_l1_ball(
    bound: float, x: FloatArray, radius: float, g: FloatArray, out: FloatArray
) -> None:
    """The exact minimiser over ``||p||_1 <= bound`` and ``||p - x||_1 <= sqrt(dim) * radius``."""
    dim = x.size
    reach = math.sqrt(dim) * radius
    size = 0.0
    best = 0
    for i in range(dim):
        out[i] = x[i]
        size += abs(x[i])
        if abs(g[i]) > abs(g[best]):
            best = i
    spare = max(bound - size, 0.0)
    shrink = min(max((reach - spare) / 2.0, 0.0), size)
    grow = min(reach - shrink, spare + shrink)
    if shrink > 0.0:
        count = 0
        support = np.empty(dim, np.int64)
        worth = np.empty(dim)
        for i in range(dim):
            if x[i] != 0.0:
                support[count] = i
                worth[count] = -math.copysign(1.0, x[i]) * g[i]
                count += 1
        order = np.argsort(worth[:count], kind="mergesort")  # equal ones in order
        left = shrink
        for k in range(count):
            i = support[order[k]]
            cut = min(abs(x[i]), left)
            out[i] = math.copysign(abs(x[i]) - cut, x[i])
            left -= cut
            if left <= 0.0:
                break
    out[best] -= math.copysign(grow, g[best])


@compiled(patience=0.3)
def local_simplex(
    mass: float, x: FloatArray, radius: float, g: FloatArray, out: FloatArray
) -> None:
    """Move ``radius * sqrt(k (n - k) / n)`` of the mass from the worst coordinates to the best."""
    dim = x.size
    best = 0
    count = 0
    total = 0.0
    for i in range(dim):
        out[i] = x[i]
        if g[i] < g[best]:
            best = i
        if x[i] > 0.0:
            count += 1
            total += x[i]
    k = min(count, dim // 2)
    move = min(radius * math.sqrt(k * (dim - k) / dim), total)
    if move <= 0.0:
        return
    support = np.empty(count, np.int64)
    worth = np.empty(count)
    at = 0
    for i in range(dim):
        if x[i] > 0.0:
            support[at] = i
            worth[at] = -g[i]
            at += 1
    order = np.argsort(worth, kind="mergesort")  # equal ones in order
    left = move
    for k in range(count):
        i = support[order[k]]
        cut = min(x[i], left)
        out[i] -= cut
        left -= cut
        if left <= 0.0:
            break
    out[best] += move - left


@specialised
def local_linear_minimizer_inplace(kind):
    """A kernel ``(params, x, radius, g, out)`` that writes the local linear minimiser at x into ``out``.

    The kind must be one of `LOCAL_KINDS`.
    """

    @compiled(patience=0.3)
    def minimize(
        params: FloatArray, x: FloatArray, radius: float, g: FloatArray, out: FloatArray
    ) -> None:
        if kind == L2BALL:
            local_l2_ball(params[0], x, radius, g, out)
        elif kind == BOX:
            local_box(params, x, radius, g, out)
        elif kind == L1BALL:
            local_l1_ball(params[0], x, radius, g, out)
        elif kind == SIMPLEX:
            local_simplex(params[0], x, radius, g, out)
        else:
            local_whole_space(x, radius, g, out)

    return minimize
