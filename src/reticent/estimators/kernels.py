"""What an estimator sees of one record: the gradient of its loss, with features clipped on the way.

The losses are those of `reticent.losses` (logistic; Huber with threshold 1), and the stack of logistic
losses that :mod:`reticent.estimators.stream` describes. Clipping and gradient are one pass, so that a
record costs one call.

The one thing a reader would get wrong: features are divided by the norm that they are clipped to, and
the intercept is a constant feature ``scaling`` beside them, so the norm that noise is calibrated to is
sqrt(1 + scaling^2), whatever units the features came in.

Letters: v features as they came, w weights (one output after the other), z linear predictor, g gradient.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from reticent.noise.door import REFUSED, bounded
from reticent.online.kernels import DECISION, update

LOGISTIC = 0  # one output, label -1 or 1
STACKED = 1  # several outputs, label a class number
HUBER = 2  # one output, label in [-1, 1]

# Places in ``settings``.
KIND = 0
NORM = 1
SCALING = 2
OFFSET = 3
OUTPUTS = 4
SETTINGS = 5


@njit(cache=True, nogil=True)
def unit(v, norm, out):  # type: ignore[no-untyped-def]
    """Features divided by the norm and no longer than 1: 1 if they were, 0 if not, -1 if not finite."""
    return bounded(v, 1.0 / norm, 1.0, out)


@njit(cache=True, nogil=True)
def sigmoid(z):  # type: ignore[no-untyped-def]
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    e = math.exp(z)
    return e / (1.0 + e)


@njit(cache=True, nogil=True)
def predictor(u, w, settings):  # type: ignore[no-untyped-def]
    """<w, features> for one output, the intercept included; the features have been through `unit`."""
    z = 0.0
    for i in range(u.size):
        z += w[i] * u[i]
    z += settings[OFFSET]
    return z + w[u.size] * settings[SCALING] if w.size > u.size else z


@njit(cache=True, nogil=True)
def predictors(v, w, settings, out):  # type: ignore[no-untyped-def]
    """The linear predictors of one record; -1 if it is not finite."""
    u = np.empty(v.size)
    if unit(v, settings[NORM], u) == REFUSED:
        return REFUSED
    columns = w.size // out.size
    for k in range(out.size):
        out[k] = predictor(u, w[k * columns : (k + 1) * columns], settings)
    return 0


@njit(cache=True, nogil=True)
def predict_one(v, w, settings):  # type: ignore[no-untyped-def]
    """The linear predictor of one record for one output; nan if it is not finite."""
    u = np.empty(v.size)
    if unit(v, settings[NORM], u) == REFUSED:
        return math.nan
    return predictor(u, w, settings)


@njit(cache=True, nogil=True)
def see(v, label, w, settings, g):  # type: ignore[no-untyped-def]
    """Write one record's gradient into g; 1 if features were clipped, 0 if not, -1 if refused."""
    u = g[
        : v.size
    ]  # the features stay here until the first output, whose turn is last, replaces them
    clipped = unit(v, settings[NORM], u)
    if clipped == REFUSED:
        return REFUSED
    kind = settings[KIND]
    outputs = int(settings[OUTPUTS])
    columns = w.size // outputs
    for k in range(outputs - 1, -1, -1):
        start = k * columns
        z = predictor(u, w[start : start + columns], settings)
        if kind == LOGISTIC:
            slope = -label * sigmoid(-label * z)
        elif kind == STACKED:
            slope = sigmoid(z) - (1.0 if k == label else 0.0)
        else:
            slope = min(1.0, max(-1.0, z - label))
        for i in range(u.size):
            g[start + i] = slope * u[i]
        if columns > u.size:
            g[start + u.size] = slope * settings[SCALING]
    return clipped


@njit(cache=True, nogil=True)
def learn(v, label, settings, g, knobs, total, noise, row, memory):  # type: ignore[no-untyped-def]
    """See one record at the learner's own decision, and learn from it (`reticent.online.kernels.update`).

    Returns whether the gradient was clipped in its lowest bit and whether the features were in the
    next, or -1 if the record was refused, and then nothing is changed.
    """
    clipped = see(v, label, memory[DECISION], settings, g)
    if clipped < 0:
        return REFUSED
    short = update(g, knobs, total, noise, row, memory)
    return 2 * clipped + short if short >= 0 else REFUSED
