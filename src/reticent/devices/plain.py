"""Passes over records with operations that every array library has, in double precision, block by block.

array-api-compat finds the namespace of an array, so PyTorch, CuPy and any library of the array API work. A block is
converted to double precision, clipped and multiplied where the array is stored; only sums leave the device.
"""

from __future__ import annotations

from typing import Any

from reticent.losses import kernels
from reticent.solve.blocks import Form

ROWS = 2**10
"""Number of rows that a library adds at a time, in any order."""
PARTS = 64
"""Number of these sums that are added next in the same way; the rest is added in pairs on the host."""
UNITS = float(ROWS + PARTS + 192)
"""Bound on the rounding of a sum, products included, in units of 2^-53, with a safety margin.

It enters the sensitivity and the certificate of a minimiser, so smaller is better.
"""
LARGEST = 1.7976931348623157e308


def _sigmoid(xp: Any, u: Any) -> Any:
    e = xp.exp(-xp.abs(u))
    return xp.where(u >= 0.0, xp.ones_like(e), e) / (1.0 + e)


def _softplus(xp: Any, m: Any) -> Any:
    return xp.log1p(xp.exp(-xp.abs(m))) + xp.clip(-m, min=0.0)


def slopes(xp: Any, kind: int, params: Any, z: Any, y: Any) -> Any:
    """The derivative of each record's loss in its predictor."""
    if kind == kernels.LOGISTIC:
        return -y * _sigmoid(xp, -y * z)
    if kind == kernels.CAPPED_LOGISTIC:
        return -y * xp.clip(_sigmoid(xp, -y * z), max=float(params[0]))
    if kind == kernels.SQUARED:
        return z - y
    if kind == kernels.SMOOTH_HINGE:
        return -y * xp.clip((1.0 - y * z) / float(params[0]), min=0.0, max=1.0)
    if kind == kernels.HUBER:
        return xp.clip(z - y, min=-float(params[0]), max=float(params[0]))
    if kind == kernels.POISSON:
        return xp.exp(xp.clip(z, max=float(params[0]))) - y
    raise _no_code(kind)


def bends(xp: Any, kind: int, params: Any, z: Any, y: Any) -> Any:
    """The second derivative of each record's loss; at a kink, that of one side."""
    if kind in (kernels.LOGISTIC, kernels.CAPPED_LOGISTIC):
        s = _sigmoid(xp, -y * z)
        b = s * (1.0 - s)
        return b if kind == kernels.LOGISTIC else xp.where(s <= float(params[0]), b, 0.0 * b)
    if kind == kernels.SQUARED:
        return xp.ones_like(z)
    if kind == kernels.SMOOTH_HINGE:
        s, width = 1.0 - y * z, float(params[0])
        return xp.where((s > 0.0) & (s < width), xp.ones_like(z) / width, xp.zeros_like(z))
    if kind == kernels.HUBER:
        return xp.where(xp.abs(z - y) <= float(params[0]), xp.ones_like(z), xp.zeros_like(z))
    if kind == kernels.POISSON:
        top = float(params[0])
        return xp.where(z <= top, xp.exp(xp.clip(z, max=top)), xp.zeros_like(z))
    raise _no_code(kind)


def values(xp: Any, kind: int, params: Any, z: Any, y: Any) -> Any:
    """The loss of each record."""
    if kind == kernels.LOGISTIC:
        return _softplus(xp, y * z)
    if kind == kernels.CAPPED_LOGISTIC:
        m = y * z
        kept = xp.clip(m, min=-float(params[1]))
        return _softplus(xp, kept) + float(params[0]) * (kept - m)
    if kind == kernels.SQUARED:
        return 0.5 * (z - y) ** 2
    if kind == kernels.SMOOTH_HINGE:
        s, width = 1.0 - y * z, float(params[0])
        inside = xp.clip(s, min=0.0, max=width)
        return 0.5 * inside**2 / width + xp.clip(s - width, min=0.0)
    if kind == kernels.HUBER:
        r, width = xp.abs(z - y), float(params[0])
        inside = xp.clip(r, max=width)
        return 0.5 * inside**2 + width * (r - inside)
    if kind == kernels.POISSON:
        top = float(params[0])
        mean = xp.exp(xp.clip(z, max=top)) * (1.0 + xp.clip(z - top, min=0.0))
        positive = xp.where(y > 0.0, y, xp.ones_like(y))
        return mean - y * z + xp.where(y > 0.0, y * xp.log(positive) - y, xp.zeros_like(y))
    raise _no_code(kind)


def _no_code(kind: int) -> ValueError:
    return ValueError(
        f"loss number {kind} has no device code; move the records to the host, or use a logistic, squared, smooth "
        "hinge, Huber or Poisson loss"
    )


def rows_in_form(xp: Any, rows: Any, form: Form) -> tuple[Any, Any, Any]:
    """Rows in double precision, divided by the unit and clipped; and which rows were clipped or are not finite.

    The constant is not appended. A row that is not finite, or whose squared norm is not, becomes zero.
    """
    wide = xp.astype(rows, xp.float64)
    square = xp.sum(wide * wide, axis=1)
    finite = square <= LARGEST  # False for NaN
    size = xp.sqrt(xp.where(finite, square, xp.ones_like(square)))
    limit = form.unit * form.length
    beyond = finite & (size > limit)
    ones = xp.ones_like(size)
    factor = xp.where(beyond, form.length / xp.where(beyond, size, ones), ones / form.unit)
    cut = xp.where(finite[:, None], wide * factor[:, None], xp.zeros_like(wide))
    return cut, beyond, finite
