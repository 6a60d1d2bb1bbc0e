"""The compiled loop of perturbed iterates: an exact iterate moves, and a noisy copy of it is played.

[online], Algorithms 2 and 3. The noise does not depend on the data, so it is drawn before the loop.

The loss is that of the noisy decision, but the gradient is computed at the exact iterate, which never leaves the loop.

Letters: a record, x exact iterate, p the point that the regularisers alone would give, t the slope.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.compiling import compiled, specialised
from reticent.losses.kernels import dphi, implicit_scalar, phi
from reticent.noise.door import bounded_row
from reticent.online.kernels import dot, project

IMPLICIT = 0  # the minimum over the set
PROJECTED_IMPLICIT = 1  # the minimum over the space, then a projection
GRADIENT = 2

# Rows of ``memory``.
DECISION = 0
ITERATE = 1
CENTER = 2
PRIOR = 3
WORK = 4  # and the two rows after it; these and the following rows are not part of a saved state
RECORD = 7  # the record, measured
MEMORY_ROWS = 8

# Places in ``knobs``.
T = 0
STRENGTH = 1  # A_t: all the strong convexity so far, with that of the first loss counted twice
RIDGE = 2
ADDED = 3  # the added regulariser of the t-th loss is (ADDED/sqrt(t)) ||x - center||^2
SLOPE = 4  # the largest |phi'|: slopes are clipped to it, which keeps them monotone
SMOOTHNESS = 5  # of the part that depends on the record
KNOBS = 6

# Places in ``bounds``: what a record is clipped to, whatever the caller's memory contains.
LENGTH = 0
LOW = 1
HIGH = 2

_ROUNDS = 200


@compiled
def added_weight(added, t):
    """Strong convexity that the added regulariser gives the t-th loss."""
    return 2.0 * added / math.sqrt(t) if added > 0.0 else 0.0


@compiled
def _clip(value, bound):
    """A slope clipped to its bound; NaN becomes 0."""
    return min(bound, max(-bound, value)) if value == value else 0.0


@compiled
def _take(rows, r, label, bounds, memory):
    """Measure a record: copy its clipped features into the memory, and return its clipped label.

    The stability of the iterates depends on the length of every record, not only on that of a gradient, so the record
    itself is measured and clipped. A record that is not finite becomes the null record.
    """
    bounded_row(rows, r, 1.0, bounds[LENGTH], memory, RECORD)
    if label != label:
        memory[RECORD] = 0.0
        return bounds[LOW]
    return min(bounds[HIGH], max(bounds[LOW], label))


@specialised
def _shift(set_kind):
    """A kernel for the projection of p - (t / weight) a."""

    @compiled
    def shift(p, t, a, weight, set_params, out, work):
        share = t / weight
        for i in range(p.size):
            out[i] = p[i] - share * a[i]
        project(set_kind)(set_params, out, work)

    return shift


@specialised
def _implicit_on_set(loss_kind, set_kind):
    """A kernel for the t with t = phi'(<a, project(p - (t/weight) a)>), whose right side decreases in t."""

    @compiled
    def solve(loss_params, bound, a, label, p, weight, set_params, out, work):
        low = 0.0
        _shift(set_kind)(p, 0.0, a, weight, set_params, out, work)
        below = _clip(dphi(loss_kind)(loss_params, dot(a, out), label), bound)
        high = below
        if high == 0.0:
            return
        _shift(set_kind)(p, high, a, weight, set_params, out, work)
        above = _clip(dphi(loss_kind)(loss_params, dot(a, out), label), bound) - high
        for round in range(_ROUNDS):
            if above == 0.0 or abs(high - low) <= 4e-16 * abs(high):
                break
            # a secant step in which the value at the old end is halved, and a bisection every third time
            t = 0.5 * (low + high)
            if round % 3 != 2 and below != above:
                guess = high - above * (high - low) / (above - below)
                if min(low, high) < guess < max(low, high):
                    t = guess
            _shift(set_kind)(p, t, a, weight, set_params, out, work)
            excess = _clip(dphi(loss_kind)(loss_params, dot(a, out), label), bound) - t
            if (excess > 0.0) == (above > 0.0):
                below *= 0.5
            else:
                low, below = high, above
            high, above = t, excess
        _shift(set_kind)(p, high, a, weight, set_params, out, work)

    return solve


@specialised
def advance(inner, loss_kind, set_kind):
    """A kernel for one step of the exact iterate.

    A gap keeps the regularisers' step, as the sensitivity requires.
    """

    @compiled
    def advance_one(loss_params, a, label, gap, knobs, memory, set_params, work):
        t = knobs[T] + 1.0
        x, center, prior = memory[ITERATE], memory[CENTER], memory[PRIOR]
        out = memory[WORK]
        added = added_weight(knobs[ADDED], t)
        alpha = knobs[RIDGE] + added
        bound = knobs[SLOPE]
        if inner == GRADIENT:
            step = min(1.0 / knobs[STRENGTH], 2.0 / (2.0 * alpha + knobs[SMOOTHNESS]))
            slope = 0.0
            if not gap:
                slope = _clip(dphi(loss_kind)(loss_params, dot(a, x), label), bound)
            for i in range(x.size):
                x[i] -= step * (slope * a[i] + knobs[RIDGE] * x[i] + added * (x[i] - center[i]))
            project(set_kind)(set_params, x, work)
        else:
            before = knobs[STRENGTH]
            weight = before + alpha
            for i in range(x.size):
                prior[i] = (before * x[i] + added * center[i]) / weight
            if gap:
                for i in range(x.size):
                    x[i] = prior[i]
                project(set_kind)(set_params, x, work)
            else:
                slope = _clip(
                    implicit_scalar(loss_kind)(
                        loss_params, dot(a, prior), label, dot(a, a) / weight
                    ),
                    bound,
                )
                share = slope / weight
                for i in range(x.size):
                    x[i] = prior[i] - share * a[i]
                    out[i] = x[i]
                project(set_kind)(set_params, x, work)
                if inner == IMPLICIT:
                    outside = False
                    for i in range(x.size):
                        if x[i] != out[i]:
                            outside = True
                    if outside:
                        _implicit_on_set(loss_kind, set_kind)(
                            loss_params, bound, a, label, prior, weight, set_params, out, work
                        )
                        for i in range(x.size):
                            x[i] = out[i]
        knobs[T] = t
        knobs[STRENGTH] = next_strength(inner, knobs[STRENGTH], knobs[RIDGE], knobs[ADDED], t)

    return advance_one


@compiled
def next_strength(inner, strength, ridge, added, t):
    """From A_{t-1} to A_t (implicit), or from A_t to A_{t+1} (gradient)."""
    return strength + ridge + added_weight(added, t if inner != GRADIENT else t + 1.0)


@specialised
def release(set_kind):
    """A kernel that plays the iterate with noise: in whole lattice steps, or in floating point if the step is 0."""

    @compiled
    def release_one(memory, noise, step, set_params, work):
        x, decision = memory[ITERATE], memory[DECISION]
        if step > 0.0:
            per_step = 1.0 / step  # exact: the step is a power of two
            for i in range(x.size):
                decision[i] = step * (np.rint(x[i] * per_step) + noise[i])
        else:
            for i in range(x.size):
                decision[i] = x[i] + noise[i]
        project(set_kind)(set_params, decision, work)

    return release_one


@specialised
def play(inner, loss_kind, set_kind):
    """A kernel that plays one record after another, and writes down the decision every so many records."""

    @compiled(patience=1.0)
    def play_records(
        A, labels, gaps, bounds, loss_params, knobs, set_params, noise, steps, memory, wait, every,
        decisions, losses,
    ):  # fmt: skip
        decision, a = memory[DECISION], memory[RECORD]
        work = memory[WORK + 1 : RECORD].reshape(-1)
        written = 0
        for r in range(A.shape[0]):
            if wait == 0:
                for i in range(decision.size):
                    decisions[written, i] = decision[i]
                written += 1
                wait = every
            wait -= 1
            gap = gaps.size > 0 and gaps[r] != 0
            label = 0.0 if gap else _take(A, r, labels[r], bounds, memory)
            if losses.size:
                losses[r] = 0.0
                if not gap:
                    losses[r] = phi(loss_kind)(loss_params, dot(a, decision), label)
                    losses[r] += 0.5 * knobs[RIDGE] * dot(decision, decision)
            advance(inner, loss_kind, set_kind)(
                loss_params, a, label, gap, knobs, memory, set_params, work
            )
            release(set_kind)(memory, noise[r], steps[r], set_params, work)

    return play_records


@compiled
def reaches(inner, start, strength, ridge, added, moved, drift, out):
    """How far one record moves the iterates start+1, start+2, ..., rounding included; returns the next A."""
    for r in range(out.size):
        t = start + r + 1.0
        if inner == GRADIENT:
            out[r] = moved / strength + drift * t
            strength = next_strength(inner, strength, ridge, added, t)
        else:
            strength = next_strength(inner, strength, ridge, added, t)
            out[r] = moved / strength + drift * t
    return strength


@compiled
def power_sums(inner, horizon, ridge, added, moved, drift, first, second):
    """The sums over all steps of two powers of the reaches, in constant memory."""
    one = np.empty(1)
    strength = ridge + added_weight(added, 1.0)
    sums = np.zeros(2)
    part = np.zeros(2)
    for t in range(horizon):
        strength = reaches(inner, float(t), strength, ridge, added, moved, drift, one)
        part[0] += one[0] ** first
        part[1] += one[0] ** second
        if t % 1024 == 1023 or t == horizon - 1:
            sums += part
            part[:] = 0.0
    return sums


@compiled
def weighted_sum(inner, horizon, ridge, added, moved, drift, beta, grain):
    """The sum of (reach_t t/beta + grain)^2, which is mu^2 for noise beta/t."""
    one = np.empty(1)
    strength = ridge + added_weight(added, 1.0)
    total = 0.0
    part = 0.0
    for t in range(horizon):
        strength = reaches(inner, float(t), strength, ridge, added, moved, drift, one)
        part += (one[0] * (t + 1.0) / beta + grain) ** 2
        if t % 1024 == 1023 or t == horizon - 1:
            total += part
            part = 0.0
    return total


@specialised
def observe(inner, loss_kind, set_kind):
    """A kernel for one record that is already in its final form.

    Returns False, and changes nothing, if it is not.
    """

    @compiled(patience=1.0)
    def observe_one(
        v, label, longest, bounds, loss_params, knobs, set_params, noise, steps, row, memory,
    ):  # fmt: skip
        if not dot(v, v) <= longest:
            return False
        a = memory[RECORD]
        label = _take(v[np.newaxis, :], 0, label, bounds, memory)
        work = memory[WORK + 1 : RECORD].reshape(-1)
        advance(inner, loss_kind, set_kind)(
            loss_params, a, label, False, knobs, memory, set_params, work
        )
        release(set_kind)(memory, noise[row], steps[row], set_params, work)
        return True

    return observe_one
