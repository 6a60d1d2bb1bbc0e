"""Compiled loops that all running totals share: clip a contribution, add it to the exact total, and add the noise.

A total is an array of whole lattice steps (int64) or, for simulations, of float64. The kernels work on either,
because converting to the array's own type truncates toward zero on the lattice and does nothing in floating point.
Truncation, unlike rounding to nearest, makes no contribution longer, so the sensitivity is never exceeded, not even
by rounding.
"""

from __future__ import annotations

from reticent.compiling import compiled
from reticent.noise.door import REFUSED, WHOLE, admit, cut, fill, largest_square


@compiled(patience=0.5)
def add(v, total, block, row, limit, per_step, step, base, out):
    """Add one contribution and compute the noisy total; return a code of `reticent.noise.door`.

    If the contribution is refused, nothing changes.
    """
    code = admit(v, per_step, limit * per_step, total, out)
    if code != REFUSED:
        for i in range(out.size):
            out[i] = base[i] + step * (total[i] + block[row, i])
    return code


@compiled(patience=0.5)
def run(rows, limit, per_step, total, noise, step, base, out):
    """Add many contributions and compute all noisy totals.

    Return how many were clipped, or refused and so added nothing.
    """
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
