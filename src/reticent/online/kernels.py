"""The compiled loop of the learners: one record after another.

Each iteration follows [bandit], section 3 (NOISYOCO): see the loss, add what was seen to a private running total,
turn the noisy total into the next decision. The noise does not depend on the data, so it is drawn before the loop and
passed in as an array. The loop is compiled for a given rule, set and loss, which are identified by integers.
Considered: passing them as compiled functions, which Numba cannot cache between processes.

A decision is computed from the noisy total and earlier decisions only, so it needs no accounting; ``total`` itself
never leaves the loop.

Letters: a record, x decision, s noisy total, t records so far, p the local linear minimiser's answer.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.compiling import compiled, specialised
from reticent.losses.kernels import LINEAR, LOGISTIC, dphi, phi
from reticent.noise import door
from reticent.sets.kernels import L2BALL, local_linear_minimizer_inplace, project_inplace

# Rules: how a noisy total becomes a decision.
PROJECTION = 0
LOCAL_LINEAR = 1
LOCAL_LINEAR_FIXED = 2
EXPONENTIATED = 3  # for experts: costs are centred before they are added

# Rows of ``memory``.
DECISION = 0
PLAYED = 1  # sum of all decisions so far
CENTER = 2
BASE = 3  # what the running total has moved out of its exact part
NOISY = 4  # the last noisy total
PREVIOUS = 5  # the one before it
MEAN = 6  # the average of the noisy totals, if it is used
WORK = 7  # and the row after it; they contain a record and are not part of a saved state
MEMORY_ROWS = 9

# Places in ``knobs``: first what the loop changes, then what it only reads.
T = 0
CLIPPED = 1
CERTIFIED = 2  # bound on how far the last decision's value was from the leader's
LIMIT = 3
PER_STEP = 4
STEP = 5
RIDGE = 6
CURVATURE = 7
ANCHOR = 8
ANCHOR_GROWTH = 9
ANCHOR_POWER = 10
RHO = 11
RADIUS = (
    12  # this and the next are of the published constants; for experts, when the temperature begins
)
SHARE = 13
FEATURE_NORM = 14
FRESH = 15  # weight of the newest total in the average; 1 if there is no average
ONE = 16
KNOBS = 17  # the parameters of the set come after them

NO_GAPS = np.zeros(0, np.uint8)


@compiled
def dot(a, x):
    """The inner product, with eight partial sums, because a single one would wait for each addition to finish.

    The order of summation is written out, so that it is the same in every kernel that inlines this.
    """
    n = x.size
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
    whole = n - n % 8
    for i in range(0, whole, 8):
        a0 += a[i] * x[i]
        a1 += a[i + 1] * x[i + 1]
        a2 += a[i + 2] * x[i + 2]
        a3 += a[i + 3] * x[i + 3]
        a4 += a[i + 4] * x[i + 4]
        a5 += a[i + 5] * x[i + 5]
        a6 += a[i + 6] * x[i + 6]
        a7 += a[i + 7] * x[i + 7]
    if n - whole >= 4:
        a0 += a[whole] * x[whole]
        a1 += a[whole + 1] * x[whole + 1]
        a2 += a[whole + 2] * x[whole + 2]
        a3 += a[whole + 3] * x[whole + 3]
        whole += 4
    for i in range(whole, n):
        a4 += a[i] * x[i]
    return ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))


@compiled
def anchor_weight(knobs, t):
    """Weight of (1/2) ||x - center||^2 after t records."""
    growth, power = knobs[ANCHOR_GROWTH], knobs[ANCHOR_POWER]
    if growth == 0.0:
        return knobs[ANCHOR]
    # a square root is much faster than a power
    return knobs[ANCHOR] + growth * (math.sqrt(t) if power == 0.5 else math.pow(t, power))


@specialised
def see(loss_kind):
    """A kernel ``(loss_params, z, label)``: loss and slope; the logistic loss computes both from one exponential."""

    @compiled
    def see_both(loss_params, z, label):
        if loss_kind == LOGISTIC:
            m = label * z
            e = math.exp(-abs(m))
            if m > 0.0:
                return math.log1p(e), -label * (e / (1.0 + e))
            return math.log1p(e) - m, -label * (1.0 / (1.0 + e))
        return phi(loss_kind)(loss_params, z, label), dphi(loss_kind)(loss_params, z, label)

    return see_both


@compiled
def line_search(slope, square, strength):
    """The best step length in [0, 1] on a parabola, and the decrease that it gives."""
    if square <= 0.0:
        return 0.0, 0.0
    share = min(1.0, max(0.0, -slope / (strength * square)))
    return share, -share * slope - 0.5 * share * share * strength * square


@compiled
def centre(work):
    """Subtract 1/2 from costs within [0, 1], in place, and return the sum of their squares."""
    square = 0.0
    for i in range(work.size):
        work[i] -= 0.5
        square += work[i] * work[i]
    return square


@compiled
def exponentiate(noisy, temperature, x):
    """Weights proportional to exp(-noisy/temperature); at temperature 0 the smallest total gets all the weight."""
    best = 0
    for i in range(x.size):
        if noisy[i] < noisy[best]:
            best = i
    least = noisy[best]
    if temperature <= 0.0:
        for i in range(x.size):
            x[i] = 0.0
        x[best] = 1.0
        return
    mass = 0.0
    for i in range(x.size):
        x[i] = math.exp((least - noisy[i]) / temperature)
        mass += x[i]
    for i in range(x.size):
        x[i] /= mass


@specialised
def local_step(set_kind, fixed):
    """A kernel ``(memory, knobs, set_params)``: the step of `rules.LocalLinearLeader`, or with fixed constants."""

    @compiled
    def take_step(memory, knobs, set_params):
        t = knobs[T]
        m = knobs[CURVATURE]
        weight = anchor_weight(knobs, t)
        strength = m * t + weight
        x = memory[DECISION]
        gradient = memory[WORK]
        toward = memory[WORK + 1]
        spread = m - knobs[RIDGE]
        h = 0.0
        for i in range(x.size):
            gradient[i] = (
                memory[NOISY, i]
                + strength * x[i]
                - spread * memory[PLAYED, i]
                - weight * memory[CENTER, i]
            )
        if fixed:
            radius = knobs[RADIUS] / strength
        else:
            for i in range(x.size):
                toward[i] = memory[NOISY, i] - memory[PREVIOUS, i] + knobs[RIDGE] * x[i]
            moved = math.sqrt(dot(toward, toward))
            grown = weight - anchor_weight(knobs, t - 1.0)
            if grown != 0.0:
                for i in range(x.size):
                    toward[i] = x[i] - memory[CENTER, i]
                moved += grown * math.sqrt(dot(toward, toward))
            a = moved / math.sqrt(2.0 * strength)
            root = a + math.sqrt(knobs[CERTIFIED] + a * a)
            h = root * root  # a power of 2 is rounded otherwise when this is interpreted
            radius = math.sqrt(2.0 * h / strength)
        local_linear_minimizer_inplace(set_kind)(set_params, x, radius, gradient, toward)
        for i in range(x.size):
            toward[i] -= x[i]
        if fixed:
            share = knobs[SHARE]
        else:
            share, gain = line_search(dot(gradient, toward), dot(toward, toward), strength)
            rho = knobs[RHO]
            knobs[CERTIFIED] = max(0.0, min((1.0 - 0.25 / (rho * rho)) * h, h - gain))
        for i in range(x.size):
            x[i] += share * toward[i]

    return take_step


@specialised
def project(set_kind):
    """A kernel ``(set_params, x, room)``: the projection.

    In a ball the norm is computed by `dot`, which is faster.
    """

    @compiled
    def project_point(set_params, x, room):
        if set_kind == L2BALL:
            square, radius = dot(x, x), set_params[0]
            if square <= radius * radius * (1.0 - 1e-12):
                return
            if 1e-280 < square < 1e280:
                norm = math.sqrt(square)
                if norm > radius:
                    for i in range(x.size):
                        x[i] = x[i] / norm * radius
                return
        project_inplace(set_kind)(set_params, x, room)

    return project_point


@specialised
def play(rule, set_kind, loss_kind):
    """The loop: play one record after another, and write down the decision every so many records."""
    fixed = int(rule == LOCAL_LINEAR_FIXED)

    @compiled(patience=1.0)
    def play_records(
        A, labels, gaps, loss_params, knobs, set_params, total, noise, memory, wait, every, decisions, losses,
    ):  # fmt: skip
        x, played, center = memory[DECISION], memory[PLAYED], memory[CENTER]
        base, noisy, work, spare = memory[BASE], memory[NOISY], memory[WORK], memory[WORK + 1]
        room = memory[WORK:].reshape(-1)
        step, per_step = knobs[STEP], knobs[PER_STEP]
        limit = knobs[LIMIT] * per_step
        most = door.largest_square(limit) * (1.0 - 4.0 * door.margin(x.size))
        ridge, curvature = knobs[RIDGE], knobs[CURVATURE]
        spread = curvature - ridge
        mean, fresh = memory[MEAN], knobs[FRESH]
        written = 0
        for r in range(A.shape[0]):
            if wait == 0:
                for i in range(x.size):  # assigning a row costs two seconds to compile
                    decisions[written, i] = x[i]
                written += 1
                wait = every
            wait -= 1
            knobs[T] += 1.0

            # See the loss, and add what was seen to the exact total.
            loss = 0.0
            if gaps.size == 0 or gaps[r] == 0:
                z, square = door.dot_and_copy(A, r, x, work)
                if losses.size:
                    loss, slope = see(loss_kind)(loss_params, z, labels[r])
                    if ridge != 0.0:
                        loss += 0.5 * ridge * dot(x, x)
                else:
                    slope = dphi(loss_kind)(loss_params, z, labels[r])
                if rule == EXPONENTIATED:
                    square = centre(work)
                scale = slope * per_step
                if door.passes(square, scale, most):
                    for i in range(x.size):
                        total[i] += total.dtype.type(work[i] * scale)
                elif door.admit_product(work, slope, per_step, limit, total, spare) != door.WHOLE:
                    # too long, or not finite, which is possible for a decision far from the origin
                    knobs[CLIPPED] += 1.0
            if losses.size:
                losses[r] = loss

            # Turn the noisy total into a decision. (Short loops over few arrays, without function calls on
            # arrays, so that the compiler can vectorise them.)
            if rule == EXPONENTIATED:
                for i in range(x.size):
                    noisy[i] = base[i] + step * (total[i] + noise[r, i])
                warm = knobs[T] >= knobs[RADIUS]
                exponentiate(noisy, anchor_weight(knobs, knobs[T]) if warm else 0.0, x)
                continue
            if rule != PROJECTION:
                for i in range(x.size):
                    played[i] += x[i]
                    memory[PREVIOUS, i] = noisy[i]
                    noisy[i] = base[i] + step * (total[i] + noise[r, i])
                local_step(set_kind, fixed)(memory, knobs, set_params)
                continue
            weight = anchor_weight(knobs, knobs[T])
            share = 1.0 / (curvature * knobs[T] + weight)
            if fresh != 1.0:
                for i in range(x.size):
                    mean[i] += fresh * (base[i] + step * (total[i] + noise[r, i]) - mean[i])
                for i in range(x.size):
                    played[i] += x[i]
                    x[i] = (weight * center[i] + spread * played[i] - mean[i]) * share
            elif spread == 0.0:
                for i in range(x.size):
                    x[i] = (
                        weight * center[i] - (base[i] + step * (total[i] + noise[r, i]))
                    ) * share
            else:
                for i in range(x.size):
                    played[i] += x[i]
                    x[i] = weight * center[i] + spread * played[i]
                for i in range(x.size):
                    x[i] = (x[i] - (base[i] + step * (total[i] + noise[r, i]))) * share
            project(set_kind)(set_params, x, room)
        if rule == PROJECTION and A.shape[0] > 0:
            for i in range(x.size):
                noisy[i] = base[i] + step * (total[i] + noise[A.shape[0] - 1, i])

    return play_records


@specialised
def gradient(loss_kind):
    """A kernel ``(loss_params, a, label, x)``: the gradient of the part of the loss that depends on the record."""

    @compiled
    def see_gradient(loss_params, a, label, x):
        slope = dphi(loss_kind)(loss_params, dot(a, x), label)
        out = np.empty(a.size)
        for i in range(a.size):
            out[i] = slope * a[i]
        return out

    return see_gradient


@specialised
def _once(rule, set_kind, loss_kind):
    """A kernel that plays one record and returns how many were clipped."""

    @compiled
    def play_one(a, label, loss_params, knobs, total, noise, row, memory):
        memory[WORK + 1, 0] = label
        play(rule, set_kind, loss_kind)(
            a[np.newaxis, :], memory[WORK + 1, :1], NO_GAPS, loss_params, knobs, knobs[KNOBS:],
            total, noise[row : row + 1], memory, 1, 1, memory[:0], memory[0, :0],
        )  # fmt: skip
        clipped = int(knobs[CLIPPED])
        knobs[CLIPPED] = 0.0
        return clipped

    return play_one


@specialised
def update(rule, set_kind):
    """A kernel ``(gradient, ...)`` that plays one gradient and returns how many were clipped.

    It returns -1, and changes nothing, if the gradient is not finite.
    """

    @compiled(patience=1.0)
    def update_one(gradient, knobs, total, noise, row, memory):
        if not door.finite(gradient):
            return -1
        return _once(rule, set_kind, LINEAR)(
            gradient, 0.0, knobs[ONE:KNOBS], knobs, total, noise, row, memory
        )

    return update_one


@specialised
def observe(rule, set_kind, loss_kind):
    """A kernel ``(a, label, ...)`` that plays one record that is already in its final form.

    It returns -1, and changes nothing, if the record is not.
    """

    @compiled(patience=1.0)
    def observe_one(a, label, loss_params, knobs, total, noise, row, memory):
        if not dot(a, a) <= knobs[FEATURE_NORM] * knobs[FEATURE_NORM] * (1.0 - 1e-12):
            return -1
        return _once(rule, set_kind, loss_kind)(
            a, label, loss_params, knobs, total, noise, row, memory
        )

    return observe_one
