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

from reticent._compile import compiled, specialised
from reticent.losses.kernels import LOGISTIC, STACKED_LOGISTIC
from reticent.online.kernels import DECISION, update

# Places in ``settings``.
NORM = 0
SCALING = 1
OFFSET = 2
OUTPUTS = 3
SETTINGS = 4

REFUSED = -1


@compiled
def shrink(v, norm):  # type: ignore[no-untyped-def]
    """What brings v within the norm: 1 where it is, below 1 where it is not, -1 if v is not finite."""
    square = 0.0
    for i in range(v.size):
        square += v[i] * v[i]
    if square <= norm * norm:
        return 1.0
    if square <= 1.7976931348623157e308:
        # a hair below, so that rounding cannot leave it above
        return min(1.0, norm / math.sqrt(square)) * (1.0 - 2.0**-40)
    largest = 0.0
    for i in range(v.size):
        if not abs(v[i]) <= 1.7976931348623157e308:
            return -1.0
        largest = max(largest, abs(v[i]))
    square = 0.0
    for i in range(v.size):
        square += (v[i] / largest) ** 2
    factor = norm / largest / math.sqrt(square) * (1.0 - 2.0**-40)
    # so small that it has lost its digits: nothing is within any norm
    return factor if factor >= 2.2250738585072014e-308 else 0.0


@compiled
def sigmoid(z):  # type: ignore[no-untyped-def]
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    e = math.exp(z)
    return e / (1.0 + e)


@compiled
def predictor(v, factor, w, settings):  # type: ignore[no-untyped-def]
    """<w, features> for one output, the intercept included."""
    z = 0.0
    for i in range(v.size):
        z += w[i] * (factor * v[i])  # in this order: v alone may be as large as a double can be
    z += settings[OFFSET]
    return z + w[v.size] * settings[SCALING] if w.size > v.size else z


@compiled
def predictors(v, w, settings, out):  # type: ignore[no-untyped-def]
    """The linear predictors of one record; -1 if it is not finite."""
    factor = shrink(v, settings[NORM])
    if factor < 0.0:
        return REFUSED
    factor /= settings[NORM]
    columns = w.size // out.size
    for k in range(out.size):
        out[k] = predictor(v, factor, w[k * columns : (k + 1) * columns], settings)
    return 0


@compiled
def predict_one(v, w, settings):  # type: ignore[no-untyped-def]
    """The linear predictor of one record for one output; nan if it is not finite."""
    factor = shrink(v, settings[NORM])
    if factor < 0.0:
        return math.nan
    return predictor(v, factor / settings[NORM], w, settings)


@specialised
def see(kind):  # type: ignore[no-untyped-def]
    """``(v, label, w, settings, g)``: write one record's gradient into g.

    Returns 1 if features were clipped, 0 if not, -1 if the record was refused.
    """

    @compiled
    def see_one(v, label, w, settings, g):  # type: ignore[no-untyped-def]
        factor = shrink(v, settings[NORM])
        if factor < 0.0:
            return REFUSED
        clipped = 1 if factor < 1.0 else 0
        factor /= settings[NORM]
        outputs = int(settings[OUTPUTS])
        columns = w.size // outputs
        for k in range(outputs):
            start = k * columns
            z = predictor(v, factor, w[start : start + columns], settings)
            if kind == LOGISTIC:
                slope = -label * sigmoid(-label * z)
            elif kind == STACKED_LOGISTIC:
                slope = sigmoid(z) - (1.0 if k == label else 0.0)
            else:
                slope = min(1.0, max(-1.0, z - label))
            for i in range(v.size):
                g[start + i] = slope * (factor * v[i])
            if columns > v.size:
                g[start + v.size] = slope * settings[SCALING]
        return clipped

    return see_one


@specialised
def learn(kind, rule, set_kind):  # type: ignore[no-untyped-def]
    """See one record at the learner's own decision, and learn from it (`reticent.online.kernels.update`).

    Returns whether the gradient was clipped in its lowest bit and whether the features were in the
    next, or -1 if the record was refused, and then nothing is changed.
    """

    @compiled
    def learn_one(v, label, settings, g, knobs, total, noise, row, memory):  # type: ignore[no-untyped-def]
        clipped = see(kind)(v, label, memory[DECISION], settings, g)
        if clipped < 0:
            return REFUSED
        short = update(rule, set_kind)(g, knobs, total, noise, row, memory)
        return 2 * clipped + short if short >= 0 else REFUSED

    return learn_one
