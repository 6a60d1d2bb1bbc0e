"""The scalar losses phi(z, y), compiled, with their derivatives and the scalar equation of the implicit step.

Every built-in loss of a record (a, y) is phi(<a, x>, y) + (ridge/2) ||x||^2, so a learner's compiled loop needs only
the number z = <a, x>: the gradient is phi'(z, y) a + ridge x. The implicit step (Kulis and Bartlett 2010, "Implicit
online learning") reduces to one number as well: argmin_u phi(<a, u>, y) + ||u - x||^2 / (2 step) is u = x - step t a,
where t = phi'(z - c t, y) and c = step ||a||^2. A number selects the loss when a kernel is compiled:
``phi(LOGISTIC)`` is the logistic loss (see `reticent.compiling.specialised`), because kernels that take other kernels
as arguments are not cached between processes.

A ridge changes the scalar equation. With w = 1 / (1 + step ridge), call ``implicit_scalar(kind)`` with w z and w c;
then u = w (x - step t a).
"""

from __future__ import annotations

import math

import numpy as np

from reticent.checks import FloatArray
from reticent.compiling import compiled, specialised

LOGISTIC = 0  # y in {-1, 1}; no parameter
SQUARED = 1  # no parameter
HINGE = 2  # y in {-1, 1}; no parameter
SMOOTH_HINGE = 3  # y in {-1, 1}; params[0] is the width of the smooth part
HUBER = 4  # params[0] is the residual where the loss turns linear
QUANTILE = 5  # params[0] is the level
POISSON = 6  # params[0] is the largest linear predictor; beyond it the tangent
LINEAR = 7  # params[0] is the slope; the "label" is an offset
CAPPED_LOGISTIC = 8  # y in {-1, 1}; params[0] is the largest slope, at margins below -params[1]
# These are not functions of one predictor, so only some loops support them.
QUADRATIC = 9  # (scale / 2) ||x - a||^2
SOFTMAX = 10  # several classes, one linear predictor each

MARGIN = (LOGISTIC, HINGE, SMOOTH_HINGE, CAPPED_LOGISTIC)  # decreasing functions of y z alone

_NEWTON_STEPS = 100


@compiled
def _sigmoid(u: float) -> float:
    if u >= 0.0:
        return 1.0 / (1.0 + math.exp(-u))
    e = math.exp(u)
    return e / (1.0 + e)


@compiled
def _softplus(m: float) -> float:
    """log(1 + exp(-m))."""
    if m > 0.0:
        return math.log1p(math.exp(-m))
    return math.log1p(math.exp(m)) - m


@specialised
def phi(kind):
    """A kernel ``(params, z, y)``: the loss of predicting z when the label is y."""

    @compiled(patience=0.3)
    def loss(params: FloatArray, z: float, y: float) -> float:
        if kind == LOGISTIC:
            return _softplus(y * z)
        if kind == CAPPED_LOGISTIC:
            m = y * z
            kept = max(m, -params[1])
            return _softplus(kept) + params[0] * (kept - m)
        if kind == SQUARED:
            return 0.5 * (z - y) * (z - y)
        if kind == HINGE:
            return max(0.0, 1.0 - y * z)
        if kind == SMOOTH_HINGE:
            s = 1.0 - y * z
            if s <= 0.0:
                return 0.0
            if s < params[0]:
                return 0.5 * s * s / params[0]
            return s - 0.5 * params[0]
        if kind == HUBER:
            r = abs(z - y)
            if r <= params[0]:
                return 0.5 * r * r
            return params[0] * (r - 0.5 * params[0])
        if kind == QUANTILE:
            r = y - z
            return max(params[0] * r, (params[0] - 1.0) * r)
        if kind == POISSON:
            top = params[0]
            mean = math.exp(min(z, top))
            if z > top:
                mean *= 1.0 + (z - top)
            value = mean - y * z
            if y > 0.0:
                value += y * math.log(y) - y
            return value
        return params[0] * z + y

    return loss


@specialised
def dphi(kind):
    """A kernel ``(params, z, y)``: the derivative in z; at a kink, a subgradient."""

    @compiled(patience=0.3)
    def slope(params: FloatArray, z: float, y: float) -> float:
        if kind == LOGISTIC:
            return -y * _sigmoid(-y * z)
        if kind == CAPPED_LOGISTIC:
            return -y * min(params[0], _sigmoid(-y * z))
        if kind == SQUARED:
            return z - y
        if kind == HINGE:
            return -y if y * z < 1.0 else 0.0
        if kind == SMOOTH_HINGE:
            return -y * min(1.0, max(0.0, (1.0 - y * z) / params[0]))
        if kind == HUBER:
            return min(params[0], max(-params[0], z - y))
        if kind == QUANTILE:
            if z < y:
                return -params[0]
            return 1.0 - params[0] if z > y else 0.0
        if kind == POISSON:
            return math.exp(min(z, params[0])) - y
        return params[0]

    return slope


@specialised
def d2phi(kind):
    """A kernel ``(params, z, y)``: the second derivative in z; at a kink, that of one side."""

    @compiled(patience=0.3)
    def curvature(params: FloatArray, z: float, y: float) -> float:
        if kind == LOGISTIC:
            s = _sigmoid(-abs(z))
            return s * (1.0 - s)
        if kind == CAPPED_LOGISTIC:
            s = _sigmoid(-y * z)
            return s * (1.0 - s) if s <= params[0] else 0.0
        if kind == SQUARED:
            return 1.0
        if kind == SMOOTH_HINGE:
            s = 1.0 - y * z
            return 1.0 / params[0] if 0.0 < s < params[0] else 0.0
        if kind == HUBER:
            return 1.0 if abs(z - y) <= params[0] else 0.0
        if kind == POISSON:
            return math.exp(z) if z <= params[0] else 0.0
        return 0.0

    return curvature


@compiled
def _implicit_logistic(z: float, y: float, c: float) -> float:
    # The unknown is the margin after the step, u = m + c sigmoid(-u), so that s = sigmoid(-u) has full
    # relative accuracy even if it is as small as exp(-700).
    m = y * z
    s = _sigmoid(-m)
    low = m
    high = m + c * s
    # For small c, Newton's first step from m is almost exact; for large c the root is near 0.
    u = m + c * s / (1.0 + c * s * (1.0 - s)) if c <= 4.0 else min(high, max(low, 0.0))
    for _ in range(_NEWTON_STEPS):
        s = _sigmoid(-u)
        excess = u - m - c * s
        if excess > 0.0:
            high = u
        else:
            low = u
        new = u - excess / (1.0 + c * s * (1.0 - s))
        if not low <= new <= high:
            new = 0.5 * (low + high)
        step = abs(new - u)
        u = new
        # After a Newton step d the error is about d^2/2, since the second derivative is below the first.
        if step <= 1e-8 or step <= 4e-16 * abs(u):
            break
    return -y * _sigmoid(-u)


@compiled
def _implicit_poisson(top: float, z: float, y: float, c: float) -> float:
    ceiling = math.exp(top)
    if z - c * (ceiling - y) >= top:
        return ceiling - y
    # Below the ceiling the predictor after the step, v, solves v + c exp(v) = z + c y.
    target = z + c * y
    high = min(target, top)
    low = target - c * math.exp(high)
    v = high
    for _ in range(_NEWTON_STEPS):
        e = c * math.exp(v)
        excess = v + e - target
        if excess > 0.0:
            high = v
        else:
            low = v
        new = v - excess / (1.0 + e)
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - v) <= 4e-16 * max(1.0, abs(new)) or new in (low, high):
            v = new
            break
        v = new
    return math.exp(v) - y


@specialised
def implicit_scalar(kind):
    """A kernel ``(params, z, y, c)``: the t with t = phi'(z - c t, y) for c >= 0.

    It is in closed form, or found by Newton's method in a bracket.
    """

    @compiled
    def solve(params: FloatArray, z: float, y: float, c: float) -> float:
        if c <= 0.0:
            return dphi(kind)(params, z, y)
        if kind == LOGISTIC:
            return _implicit_logistic(z, y, c)
        if kind == CAPPED_LOGISTIC:
            # After the step the margin is on the linear part, or else the cap plays no role.
            if y * z + c * params[0] <= -params[1]:
                return -y * params[0]
            return _implicit_logistic(z, y, c)
        if kind == SQUARED:
            return (z - y) / (1.0 + c)
        if kind == HINGE:
            return -y * min(1.0, max(0.0, (1.0 - y * z) / c))
        if kind == SMOOTH_HINGE:
            return -y * min(1.0, max(0.0, (1.0 - y * z) / (params[0] + c)))
        if kind == HUBER:
            return min(params[0], max(-params[0], (z - y) / (1.0 + c)))
        if kind == QUANTILE:
            return min(1.0 - params[0], max(-params[0], (z - y) / c))
        if kind == POISSON:
            return _implicit_poisson(params[0], z, y, c)
        return params[0]

    return solve


@specialised
def phi_all(kind):
    """A kernel ``(params, z, y)``: phi of every pair."""

    @compiled(patience=0.3)
    def values(params: FloatArray, z: FloatArray, y: FloatArray) -> FloatArray:
        out = np.empty(z.shape[0])
        for i in range(z.shape[0]):
            out[i] = phi(kind)(params, z[i], y[i])
        return out

    return values


@specialised
def dphi_all(kind):
    """A kernel ``(params, z, y)``: phi' of every pair."""

    @compiled(patience=0.3)
    def slopes(params: FloatArray, z: FloatArray, y: FloatArray) -> FloatArray:
        out = np.empty(z.shape[0])
        for i in range(z.shape[0]):
            out[i] = dphi(kind)(params, z[i], y[i])
        return out

    return slopes


@specialised
def d2phi_all(kind):
    """A kernel ``(params, z, y)``: phi'' of every pair."""

    @compiled(patience=0.3)
    def curvatures(params: FloatArray, z: FloatArray, y: FloatArray) -> FloatArray:
        out = np.empty(z.shape[0])
        for i in range(z.shape[0]):
            out[i] = d2phi(kind)(params, z[i], y[i])
        return out

    return curvatures


@specialised
def phi_mean(kind):
    """A kernel ``(params, z, y)``: the mean of phi.

    It is summed in blocks, so that half a million terms lose no digits.
    """

    @compiled(patience=0.3)
    def mean(params: FloatArray, z: FloatArray, y: FloatArray) -> float:
        n = z.shape[0]
        total = 0.0
        start = 0
        while start < n:
            stop = min(n, start + 1024)
            part = 0.0
            for i in range(start, stop):
                part += phi(kind)(params, z[i], y[i])
            total += part
            start = stop
        return total / n

    return mean
