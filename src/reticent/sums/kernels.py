"""The compiled part that all running totals share: clip, quantise, add, and put the noise on.

A total is an array of whole lattice steps (int64) or, for simulations, of float64; every kernel
here works on either, since converting to the array's own type truncates toward zero on the lattice
and does nothing in floating point.

The one thing a reader would get wrong: truncation, not rounding to nearest. A truncated vector is
never longer than the clipped one, so the sensitivity that was promised holds to the last bit.
"""

from __future__ import annotations

import math

from reticent._compile import compiled


@compiled(fastmath={"reassoc"})
def _square(v):  # type: ignore[no-untyped-def]
    # any order of summation will do: the clipping limit allows for it
    square = 0.0
    for i in range(v.size):
        square += v[i] * v[i]
    return square


@compiled
def multiplier(v, limit, per_step):  # type: ignore[no-untyped-def]
    """What to multiply a contribution by: clipping and the change of unit in one; negative if it is not finite.

    The limit in steps is divided by the norm, never the limit itself: that quotient may be too
    small for a double to hold it with all its bits, and a rounded one would clip too little.
    """
    square = _square(v)
    if square <= limit * limit:
        return per_step
    if square < 1e300:  # and above the square of a limit, which is no smaller than 1e-200
        return per_step * limit / math.sqrt(square)
    largest = 0.0
    for i in range(v.size):
        size = abs(v[i])
        if not size <= 1.7976931348623157e308:  # NaN and infinity fail the comparison
            return -1.0
        largest = max(largest, size)
    # the norm itself may be beyond the largest double
    square = 0.0
    for i in range(v.size):
        square += (v[i] / largest) * (v[i] / largest)
    return per_step * limit / largest / math.sqrt(square)


@compiled
def _squares(rows, out):  # type: ignore[no-untyped-def]
    """Squared norms. Short rows go four at a time: one alone is a chain of additions, each waiting for the last."""
    count, dim = rows.shape
    together = count - count % 4 if dim < 32 else 0
    for t in range(0, together, 4):
        first = 0.0
        second = 0.0
        third = 0.0
        fourth = 0.0
        for i in range(dim):
            first += rows[t, i] * rows[t, i]
            second += rows[t + 1, i] * rows[t + 1, i]
            third += rows[t + 2, i] * rows[t + 2, i]
            fourth += rows[t + 3, i] * rows[t + 3, i]
        out[t] = first
        out[t + 1] = second
        out[t + 2] = third
        out[t + 3] = fourth
    for t in range(together, count):
        out[t] = _square(rows[t])


@compiled
def multipliers(rows, limit, per_step, out):  # type: ignore[no-untyped-def]
    """The multiplier of each row; the number clipped, or -1 if a row is not finite."""
    clipped = 0
    long = shortening(rows.shape[1], per_step)
    _squares(rows, out)
    for t in range(rows.shape[0]):
        if out[t] <= limit * limit:  # NaN fails the comparison
            out[t] = per_step
            continue
        out[t] = multiplier(rows[t], limit, per_step)
        if out[t] < long:
            if out[t] < 0.0:
                return -1
            clipped += 1
    return clipped


@compiled
def shortening(dim, per_step):  # type: ignore[no-untyped-def]
    """A multiplier below this is that of a contribution longer than the norm, and not just as long."""
    return per_step * (1.0 - (dim + 16) * 2.0**-51)


@compiled
def absorb(total, v, factor):  # type: ignore[no-untyped-def]
    for i in range(total.size):
        total[i] += total.dtype.type(v[i] * factor)


@compiled
def add(v, total, block, row, limit, per_step, step, base, out):  # type: ignore[no-untyped-def]
    """One contribution; its multiplier is returned, and nothing is changed if that is negative."""
    factor = multiplier(v, limit, per_step)
    if factor >= 0.0:
        absorb(total, v, factor)
        for i in range(out.size):
            out[i] = base[i] + step * (total[i] + block[row, i])
    return factor


@compiled
def run(rows, factors, total, noise, step, base, out):  # type: ignore[no-untyped-def]
    """Many contributions whose multipliers are known."""
    for t in range(rows.shape[0]):
        factor = factors[t]
        for i in range(total.size):
            total[i] += total.dtype.type(rows[t, i] * factor)
            out[t, i] = base[i] + step * (total[i] + noise[t, i])
