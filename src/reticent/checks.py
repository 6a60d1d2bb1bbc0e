"""Checks of arguments, shared by every package: an error names the argument, the value and the remedy.

These run before any budget is spent or any state is changed, so call them first, never half way
through an update.
"""

from __future__ import annotations

import math
import operator
import sys
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def number(value: Any, name: str, *, low: float = -math.inf, high: float = math.inf,
           open_low: bool = False, open_high: bool = False) -> float:  # fmt: skip
    """A finite real number within bounds, as a float."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        raise TypeError(
            f"{name} must be a real number, got {value!r} of type {type(value).__name__}"
        )
    result = float(value)
    below = result <= low if open_low else result < low
    above = result >= high if open_high else result > high
    if not math.isfinite(result) or below or above:
        left = "(" if open_low or low == -math.inf else "["
        right = ")" if open_high or high == math.inf else "]"
        raise ValueError(
            f"{name} must be a finite number in {left}{low:g}, {high:g}{right}, got {value!r}"
        )
    return result


def integer(value: Any, name: str, *, low: int | None = None, high: int | None = None) -> int:
    """A whole number within bounds, as an int (NumPy integers are welcome, 3.0 is not)."""
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    try:
        result = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name} must be a whole number, got {value!r} of type {type(value).__name__}"
        ) from None
    if (low is not None and result < low) or (high is not None and result > high):
        bounds = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{name} must be {bounds}, got {result}")
    return result


def choice(value: Any, name: str, allowed: tuple[str, ...]) -> str:
    """One of a few words."""
    if value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise ValueError(f"{name} must be one of {words}; got {value!r}")
    return str(value)


def refuse_masked(value: Any, name: str) -> None:
    """Refuse a masked array in which anything is masked: NumPy would show what lies beneath."""
    if np.ma.is_masked(value):
        raise ValueError(
            f"{name} holds masked entries, and what lies beneath a mask would be used; say what they "
            f"count as: {name}.filled(0)"
        )


def real_array(value: Any, name: str) -> FloatArray:
    """Any real numbers as float64; booleans, complex numbers, strings and objects are refused."""
    refuse_masked(value, name)
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise TypeError(
            f"{name} must hold real numbers, got an array of dtype {array.dtype}; "
            "convert it with .astype(float) if that is what is meant"
        )
    return np.ascontiguousarray(array, dtype=np.float64)


def vector(value: Any, name: str, dim: int) -> FloatArray:
    """A finite vector of length dim, as contiguous float64."""
    array = real_array(value, name)
    if array.shape != (dim,):
        raise ValueError(f"{name} must be a vector of length {dim}, got shape {array.shape}")
    if not np.isfinite(array).all():
        where = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite; entry {where} is {array[where]}")
    return array


def matrix(value: Any, name: str, columns: int) -> FloatArray:
    """A finite matrix with a given number of columns, as contiguous float64."""
    array = real_array(value, name)
    if array.ndim != 2 or array.shape[1] != columns:
        raise ValueError(f"{name} must have shape (n, {columns}), got {array.shape}")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise ValueError(f"{name} must be finite; row {row} is not")
    return array


def to_the_user() -> int:
    """The ``stacklevel``, seen from the caller, of a warning that shows the user's own line of code.

    Frames of this package are passed over, and those of the libraries that call it for a user.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _package(frame) in _BETWEEN:
        level, frame = level + 1, frame.f_back
    return level


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).split(".")[0]


_BETWEEN = ("reticent", "sklearn", "joblib")
