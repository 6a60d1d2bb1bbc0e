"""The compiled loop of the sparse leader: see a record's nonzeros, bring these coordinates up to date, and learn.

The loop is that of :mod:`reticent.online.kernels`, for a rule that needs only the coordinates of the record. Nothing
here takes time proportional to the number of columns.

Letters: u features of a record within their norm, w weights, z linear predictors, g gradient.
"""

from __future__ import annotations

import math

from reticent.compiling import compiled, specialised
from reticent.losses.kernels import SOFTMAX, dphi, phi
from reticent.noise import door
from reticent.sums import on_demand_kernels as demand
from reticent.sums.on_demand_kernels import find, noise_at

# Places in ``knobs``.
UNIT = 0  # features are divided by it
FEATURES = 1  # and then clipped to this norm
CONSTANT = 2  # a further, constant feature; 0 for none
LIMIT = 3  # gradients are clipped to it
SCALE = 4  # standard deviation of the innovations
RIDGE = 5
ANCHOR = 6
GROWTH = 7
POWER = 8
RADIUS = 9
WIDTH = 10  # number of coordinates of one output
LAST = 11  # last step; may be infinite
KNOBS = 12

# Places among the addresses that a kernel takes.
KNOBS_AT = 0
LOSS_AT = 1
FILTERS_AT = 2
JUMPS_AT = 3
PLACES_AT = 4
ROWS_AT = 5
COUNTERS_AT = 6
NORMALS_AT = 7
WORK_AT = 8
LISTS_AT = 9
PREDICTORS_AT = 10

# Rows of ``lists``; further rows belong to the caller.
FOUND = 0  # rows of memory of a record's coordinates
LATE = 1  # those whose noise must be drawn
INDICES = 2
ENDS = 3
LISTS = 4


@compiled
def log_of_sum(z):
    """The logarithm of the sum of the exponentials."""
    largest = z.max()
    mass = 0.0
    for c in range(z.size):
        mass += math.exp(z[c] - largest)
    return largest + math.log(mass)


@compiled
def share(knobs, t):
    """The reciprocal of the weight of all quadratic terms after t records."""
    growth = knobs[GROWTH]
    weight = knobs[ANCHOR] + (growth * t ** knobs[POWER] if growth != 0.0 else 0.0)
    return 1.0 / (knobs[RIDGE] * t + weight)


@compiled(inline="always")
def weight_of(r, rows, knobs, part):
    """A coordinate of the leader in the cube, from its noisy total."""
    w = -(rows[r, demand.TOTAL] + knobs[SCALE] * rows[r, demand.NOISE]) * part
    return min(knobs[RADIUS], max(-knobs[RADIUS], w))


@specialised
def go(kind, learning, buffers):
    """A kernel that loops over the rows of a CSR matrix from ``start`` on.

    It returns the row at which it stopped for want of memory or normals. Linear predictors are written to ``z`` and,
    when learning, the loss of each record to ``losses``. A negative result is -1 minus the number of a row that was
    refused, of which nothing was used.
    """

    @compiled
    def go_on(
        start, indptr, indices, data, labels, gaps, loss_params, knobs, filters, jumps, places, rows,
        counters, normals, work, lists, z, losses,
    ):  # fmt: skip
        outputs = z.shape[1]
        width = int(knobs[WIDTH])
        extra = 1 if knobs[CONSTANT] != 0.0 else 0
        columns = width - extra
        u, g, cut = work[0], work[1], work[2]
        found, late = lists[FOUND], lists[LATE]
        for r in range(start, z.shape[0]):
            first, last = indptr[r], indptr[r + 1]
            most = outputs * (last - first + extra)
            if (
                counters[demand.TOUCHED] + most > rows.shape[0]
                or counters[demand.USED]
                + most * demand.most_normals(buffers, counters[demand.STEPS])
                > normals.size
                or most > found.size
            ):
                return r
            if learning and gaps.size and gaps[r]:
                counters[demand.STEPS] += 1
                counters[demand.MOVES] += 1
                losses[r] = 0.0
                continue
            counters[demand.RECORDS] += 1
            mark, t = float(counters[demand.RECORDS]), float(counters[demand.STEPS])
            # entries of the same column are one feature, so they are added before they are measured
            n, behind, ahead = 0, 0, 0.0
            end = rows.shape[1] - 1
            for i in range(first, last):
                column = indices[i]
                if not 0 <= column < columns:
                    return -1 - r
                row = find(column, places, rows, counters)
                due = rows[row, demand.NEXT] != t + 1.0
                if due:
                    ahead += rows[row, end]  # prefetch the row, which is needed soon
                if rows[row, demand.MARK] != mark:
                    rows[row, demand.MARK] = mark
                    found[n] = late[behind] = row
                    g[n] = data[i]
                    n += 1
                    behind += due
                else:
                    for j in range(n):
                        if found[j] == row:
                            g[j] += data[i]
            code = door.bounded(g[:n], 1.0 / knobs[UNIT], knobs[FEATURES], u[:n])
            if code == door.REFUSED or math.isnan(ahead):
                return -1 - r
            if extra:
                u[n] = knobs[CONSTANT]
                row = find(columns, places, rows, counters)
                found[n] = late[behind] = row
                behind += rows[row, demand.NEXT] != t + 1.0
            all_of_it = n + extra
            most = outputs * all_of_it
            part = share(knobs, t)
            used = counters[demand.USED]
            for c in range(outputs):
                at = c * all_of_it
                if c > 0:
                    behind = 0
                    for i in range(all_of_it):
                        column = int(rows[found[i], demand.COORDINATE])
                        row = find(c * width + column, places, rows, counters)
                        found[at + i] = late[behind] = row
                        behind += rows[row, demand.NEXT] != t + 1.0
                predictor = 0.0
                if t > 0.0:
                    for i in range(behind):
                        used = noise_at(buffers, late[i], rows, t, filters, jumps, normals, used)
                    for i in range(all_of_it):
                        predictor += weight_of(found[at + i], rows, knobs, part) * u[i]
                z[r, c] = predictor
            if learning:
                loss, mine = 0.0, 0.0
                if kind == SOFTMAX:
                    loss = log_of_sum(z[r])
                for c in range(outputs):
                    if kind == SOFTMAX:
                        slope = math.exp(z[r, c] - loss)
                        if labels[r] == c:
                            slope -= 1.0
                            mine = z[r, c]
                    else:
                        slope = dphi(kind)(loss_params, z[r, c], labels[r])
                    for i in range(all_of_it):
                        g[c * all_of_it + i] = slope * u[i]
                if kind == SOFTMAX:
                    loss -= mine
                else:
                    loss = phi(kind)(loss_params, z[r, 0], labels[r])
                short = door.bounded(g[:most], 1.0, knobs[LIMIT], cut[:most])
                if short != door.WHOLE:
                    counters[demand.SHORTENED] += 1
                for i in range(most):
                    rows[found[i], demand.TOTAL] += cut[i]
                counters[demand.CLIPPED] += code
                counters[demand.STEPS] += 1
                counters[demand.MOVES] += 1
                losses[r] = loss
            elif used != counters[demand.USED]:
                counters[demand.MOVES] += 1
            counters[demand.USED] = used
        return z.shape[0]

    return go_on


@compiled
def weights(t, knobs, rows, chosen, out):
    """The weights of rows that have been brought up to step t."""
    for i in range(chosen.size):
        out[i] = weight_of(chosen[i], rows, knobs, share(knobs, t)) if t > 0.0 else 0.0
