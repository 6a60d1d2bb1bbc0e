"""The summed loss in interval arithmetic, for decisions that double precision cannot make.

This is a slow pass over all records in Python. It almost never runs: a sampler needs it only if a comparison lies
within its own rounding error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from mpmath import MPIntervalContext

from reticent.checks import FloatArray
from reticent.losses import kernels


def _both(context: Any, low: Any, high: Any) -> Any:
    """The smallest interval that contains two intervals."""
    return context.mpf([min(low.a, high.a), max(low.b, high.b)])


def _piecewise(context: Any, test: Any, below: Any, above: Any) -> Any:
    """``below()`` if test is negative, ``above()`` if it is positive, and their union if it may be either."""
    if test.b < 0:
        return below()
    if test.a > 0:
        return above()
    return _both(context, below(), above())


def phi(context: Any, kind: int, params: FloatArray, z: Any, y: float) -> Any:
    """An interval that contains the scalar loss at every point of the interval z."""
    label = context.mpf(y)
    if kind == kernels.LOGISTIC:
        return context.log(1 + context.exp(-label * z))
    if kind == kernels.CAPPED_LOGISTIC:
        # The border is rounded, which is harmless: both formulas hold near it.
        cap = context.mpf(float(params[0]))
        border = context.log(cap / (1 - cap))
        m = label * z
        tail = context.log(1 + context.exp(border)) - cap * (m + border)
        bent = context.log(1 + context.exp(-m))
        return _piecewise(context, m + border, lambda: tail, lambda: bent)
    if kind == kernels.SQUARED:
        return (z - label) ** 2 / 2
    if kind == kernels.LINEAR:
        return context.mpf(float(params[0])) * z + label
    if kind in (kernels.HINGE, kernels.SMOOTH_HINGE):
        s = 1 - label * z
        if kind == kernels.HINGE:
            return _piecewise(context, s, lambda: context.mpf(0), lambda: s)
        width = context.mpf(float(params[0]))
        return _piecewise(
            context,
            s,
            lambda: context.mpf(0),
            lambda: _piecewise(
                context, s - width, lambda: s * s / (2 * width), lambda: s - width / 2
            ),
        )
    if kind == kernels.HUBER:
        top = context.mpf(float(params[0]))
        r = abs(z - label)
        return _piecewise(context, r - top, lambda: r * r / 2, lambda: top * (r - top / 2))
    if kind == kernels.QUANTILE:
        level = context.mpf(float(params[0]))
        r = label - z
        return _piecewise(context, r, lambda: (level - 1) * r, lambda: level * r)
    if kind == kernels.POISSON:
        top = context.mpf(float(params[0]))
        base = label * context.log(label) - label if y > 0.0 else context.mpf(0)
        mean = _piecewise(
            context,
            z - top,
            lambda: context.exp(z),
            lambda: context.exp(top) * (1 + (z - top)),
        )
        return mean - label * z + base
    raise ValueError(f"there is no interval form of the loss of kind {kind}")


def summed(
    context: MPIntervalContext, kind: int, params: FloatArray, A: Any, y: FloatArray, x: list[Any]
) -> Any:
    """An interval that contains the summed loss at every point of the box x."""
    total = context.mpf(0)
    rows = A.toarray() if sp.issparse(A) else A
    for row, label in zip(rows, y, strict=True):
        z = context.mpf(0)
        for j in np.flatnonzero(row):
            z += context.mpf(float(row[j])) * x[j]
        total += phi(context, kind, params, z, float(label))
    return total
