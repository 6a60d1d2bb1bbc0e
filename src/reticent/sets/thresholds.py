"""The scalar thresholds of the projections onto simplices, l1 balls and their capped versions.

Projecting onto ``{p >= 0, sum p = total}`` subtracts one number from every coordinate and cuts at zero; with a cap,
at the cap as well. Without a cap the number is found by discarding coordinates that cannot survive (Michelot 1986),
with a cap by Newton's method on a piecewise linear function with a bracket. Neither sorts, unless the input is built
to make discarding slow. Considered: no maintained library offers these as compiled functions; scikit-learn and SciPy
do not.

Both return a pair ``(shift, t)``, and the result is ``(values - shift) - t``, in this order: a single threshold near
1e17 would absorb a total of 1.
"""

from __future__ import annotations

import numpy as np

from reticent.checks import FloatArray
from reticent.compiling import compiled

MOST_PASSES = 64


@compiled
def simplex_threshold(values: FloatArray, total: float, work: FloatArray) -> tuple[float, float]:
    """Shift and t with ``sum(max(values - shift - t, 0)) == total``, for total > 0.

    ``work`` must be at least as long as ``values`` and is overwritten.
    """
    largest = values[0]
    for i in range(values.size):
        if values[i] > largest:
            largest = values[i]
    # Survivors are above t, and t >= largest - total, because the largest alone must not exceed the total.
    count = 0
    above = 0.0
    for i in range(values.size):
        below_largest = values[i] - largest
        if below_largest > -total:
            work[count] = below_largest
            above += below_largest
            count += 1
    for _ in range(MOST_PASSES):
        t = (above - total) / count
        kept = 0
        above = 0.0
        for i in range(count):
            if work[i] > t:
                work[kept] = work[i]
                above += work[i]
                kept += 1
        if kept == count:
            return largest, t
        count = kept
    descending = -np.sort(-work[:count])
    above = 0.0
    t = descending[0] - total
    for i in range(count):
        above += descending[i]
        candidate = (above - total) / (i + 1)
        if descending[i] <= candidate:
            break
        t = candidate
    return largest, t


@compiled
def capped_threshold(values: FloatArray, cap: float, total: float) -> tuple[float, float]:
    """Shift and t with ``sum(clip(values - shift - t, 0, cap)) == total``, for 0 < total < cap * n."""
    largest = values[0]
    smallest = values[0]
    for i in range(values.size):
        largest = max(largest, values[i])
        smallest = min(smallest, values[i])
    # At `low` every coordinate is at the cap, at `high` every one is at zero. Newton's step is exact once t is on
    # the linear piece that contains the root; every third round halves the bracket instead.
    low = (smallest - largest) - cap
    high = 0.0
    t = -total / values.size
    for turn in range(4000):
        free = 0
        amount = 0.0
        for i in range(values.size):
            rest = (values[i] - largest) - t
            if rest >= cap:
                amount += cap
            elif rest > 0.0:
                free += 1
                amount += rest
        if amount == total:
            return largest, t
        if amount > total:
            low = t
        else:
            high = t
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            return largest, middle
        following = middle
        if free > 0:
            following = t + (amount - total) / free
            if abs(following - t) <= 2e-16 * (abs(t) + cap):
                return largest, following
            if turn % 3 == 2 or following <= low or following >= high:
                following = middle
        t = following
    return largest, t
