"""The compiled part that all running totals share: a contribution comes in by the door, noise goes on.

A total is an array of whole lattice steps (int64) or, for simulations, of float64; the kernels work
on either, since converting to the array's own type truncates toward zero on the lattice and does
nothing in floating point. Truncation, and not rounding to nearest, makes no contribution longer, so
the sensitivity that was promised holds to the last bit.
"""

from __future__ import annotations

from reticent.compiling import compiled
from reticent.noise.door import REFUSED, WHOLE, admit, cut, fill, largest_square


@compiled
def add(v, total, block, row, limit, per_step, step, base, out):
    """One contribution; what became of it is returned, and nothing is changed if it was refused."""
    code = admit(v, per_step, limit * per_step, total, out)
    if code != REFUSED:
        for i in range(out.size):
            out[i] = base[i] + step * (total[i] + block[row, i])
    return code


@compiled
def run(rows, limit, per_step, total, noise, step, base, out):
    """Many contributions; how many were clipped, or refused and so added nothing."""
    clipped = 0
    most = largest_square(limit * per_step)
    for t in range(rows.shape[0]):
        if not fill(rows, t, per_step, out, t) <= most:
            code = cut(rows, t, per_step, limit * per_step, out, t)
            clipped += 1 if code != WHOLE else 0
        for i in range(total.size):
            total[i] += total.dtype.type(out[t, i])
            out[t, i] = base[i] + step * (total[i] + noise[t, i])
    return clipped
