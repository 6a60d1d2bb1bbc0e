"""Compiled gradients of one record for the online estimators, with features clipped in the same pass.

The losses are those of `reticent.losses` (logistic; Huber with threshold 1) and the softmax loss described in
:mod:`reticent.estimators.stream`. Features are divided by the norm that they are clipped to, and the intercept is a
constant feature ``scaling``, so noise is calibrated to the norm sqrt(1 + scaling^2) whatever the units of the features.

Letters: v features as given, u features clipped and divided by the norm, w weights (one output after the other), z
linear predictor, g gradient.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.compiling import compiled, specialised
from reticent.estimators.dictionaries import murmur_places
from reticent.losses.kernels import LOGISTIC, SOFTMAX
from reticent.noise.door import REFUSED, bounded
from reticent.online import sparse_kernels as sparse
from reticent.online.array_addresses import float_rows, floats, integer_rows, integers, no_bytes
from reticent.online.kernels import DECISION, update
from reticent.sums import on_demand_kernels as demand

# Indices into ``settings``.
NORM = 0
SCALING = 1
OUTPUTS = 2
SETTINGS = 3


@compiled
def unit(v, norm, out):
    """Divide features by ``norm`` and clip them to norm 1; return 1 if clipped, 0 if not, -1 if not finite."""
    return bounded(v, 1.0 / norm, 1.0, out)


@compiled
def sigmoid(z):
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    e = math.exp(z)
    return e / (1.0 + e)


@compiled
def predictor(u, w, settings):
    """Linear predictor of one output, including the intercept; ``u`` comes from `unit`."""
    z = 0.0
    for i in range(u.size):
        z += w[i] * u[i]
    return z + w[u.size] * settings[SCALING] if w.size > u.size else z


@compiled
def predictors(v, w, settings, out):
    """Write the linear predictors of one record into ``out``; return -1 if the record is not finite."""
    u = np.empty(v.size)
    if unit(v, settings[NORM], u) == REFUSED:
        return REFUSED
    columns = w.size // out.size
    for k in range(out.size):
        out[k] = predictor(u, w[k * columns : (k + 1) * columns], settings)
    return 0


@compiled
def predict_one(v, w, settings):
    """The linear predictor of one record for one output; nan if the record is not finite."""
    u = np.empty(v.size)
    if unit(v, settings[NORM], u) == REFUSED:
        return math.nan
    return predictor(u, w, settings)


@compiled
def softmax(z):
    """Turn predictors into probabilities, in place."""
    largest = z.max()
    mass = 0.0
    for k in range(z.size):
        z[k] = math.exp(z[k] - largest)
        mass += z[k]
    for k in range(z.size):
        z[k] /= mass


@specialised
def see(kind):
    """Compile ``(v, label, w, settings, g)``, which writes one record's gradient into g.

    It returns 1 if features were clipped, 0 if not, and -1 if the record was refused.
    """

    @compiled
    def see_one(v, label, w, settings, g):
        # the features share memory with the first output, which is therefore written last
        u = g[: v.size]
        clipped = unit(v, settings[NORM], u)
        if clipped == REFUSED:
            return REFUSED
        outputs = int(settings[OUTPUTS])
        columns = w.size // outputs
        if kind == SOFTMAX:
            p = np.empty(outputs)
            for k in range(outputs):
                p[k] = predictor(u, w[k * columns : (k + 1) * columns], settings)
            softmax(p)
        for k in range(outputs - 1, -1, -1):
            start = k * columns
            if kind == SOFTMAX:
                slope = p[k] - (1.0 if k == label else 0.0)
            elif kind == LOGISTIC:
                slope = -label * sigmoid(-label * predictor(u, w, settings))
            else:
                slope = min(1.0, max(-1.0, predictor(u, w, settings) - label))
            for i in range(u.size):
                g[start + i] = slope * u[i]
            if columns > u.size:
                g[start + u.size] = slope * settings[SCALING]
        return clipped

    return see_one


@specialised
def learn(kind, rule, set_kind):
    """Compile a step: the gradient of one record at the learner's decision, then `reticent.online.kernels.update`.

    The step returns bit flags, 1 if the gradient was clipped and 2 if the features were, or -1 if the record was
    refused; then nothing has changed.
    """

    @compiled
    def learn_one(v, label, settings, g, knobs, total, noise, row, memory):
        clipped = see(kind)(v, label, memory[DECISION], settings, g)
        if clipped < 0:
            return REFUSED
        short = update(rule, set_kind)(g, knobs, total, noise, row, memory)
        return 2 * clipped + short if short >= 0 else REFUSED

    return learn_one


@specialised
def named(kind, learning, buffers):
    """Compile ``(text, values, label, furthest, addresses)``: predict or learn from a sparse record of named features.

    It returns the linear predictor of the first output. If that is nan nothing was done: the horizon is reached, there
    is no room, the record is not valid, or the stream was continued elsewhere (its moves are not ``furthest``). Calling
    the loop over rows (`reticent.online.sparse_kernels.go`) directly tells which.
    """

    @compiled
    def one(text, values, label, furthest, addresses):
        knobs = floats(addresses, sparse.KNOBS_AT)
        counters = integers(addresses, sparse.COUNTERS_AT)
        work = float_rows(addresses, sparse.WORK_AT)
        lists = integer_rows(addresses, sparse.LISTS_AT)
        n = values.size
        if (
            counters[demand.MOVES] != furthest
            or n > lists.shape[1]
            or (learning and counters[demand.STEPS] >= knobs[sparse.LAST])
        ):
            return math.nan
        columns = int(knobs[sparse.WIDTH]) - (1 if knobs[sparse.CONSTANT] != 0.0 else 0)
        indices, data, ends, single = lists[sparse.INDICES], work[3], lists[sparse.ENDS], work[4]
        murmur_places(text, columns, values, indices, data)
        ends[0], ends[1] = 0, n
        single[0] = label
        z = float_rows(addresses, sparse.PREDICTORS_AT)
        done = sparse.go(kind, learning, buffers)(
            0, ends, indices, data, single, no_bytes(addresses), floats(addresses, sparse.LOSS_AT), knobs,
            float_rows(addresses, sparse.FILTERS_AT), float_rows(addresses, sparse.JUMPS_AT),
            integers(addresses, sparse.PLACES_AT), float_rows(addresses, sparse.ROWS_AT), counters,
            floats(addresses, sparse.NORMALS_AT), work, lists, z, single[1:],
        )  # fmt: skip
        return z[0, 0] if done == 1 else math.nan

    return one
