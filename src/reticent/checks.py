"""Checks of arguments, shared by every package. An error names the argument, its value and what was allowed.

Call these before any budget is spent and before any state changes, never in the middle of an update.
"""

from __future__ import annotations

import contextlib
import math
import operator
import os
import sys
from collections.abc import Iterable, Mapping, Set
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def is_built_in(part: Any) -> bool:
    """Whether an object's class is the library's own: its claims are tested with the library and not at run time."""
    return type(part).__module__.partition(".")[0] == "reticent"


def number(value: Any, name: str, *, low: float = -math.inf, high: float = math.inf,
           open_low: bool = False, open_high: bool = False, secret: bool = False) -> float:  # fmt: skip
    """Check that a value is a finite real number within bounds, and return it as a float.

    Parameters
    ----------
    value : Any
        What the user passed; booleans are refused.
    name : str
        Name of the argument, for the error.
    low : float
        Smallest value allowed.
    high : float
        Largest value allowed.
    open_low : bool
        Whether ``low`` itself is refused.
    open_high : bool
        Whether ``high`` itself is refused.
    secret : bool
        Whether the value is part of a record. Errors then do not quote it.
    """
    real = isinstance(value, int | float | np.integer | np.floating)
    if not real or isinstance(value, bool | np.timedelta64):
        quoted = "a value" if secret else repr(value)
        raise TypeError(
            f"{name} must be a real number, got {quoted} of type {type(value).__name__}"
        )
    try:
        result = float(value)
    except OverflowError:  # an integer beyond the range of a double
        result = math.inf if value > 0 else -math.inf
    below = result <= low if open_low else result < low
    above = result >= high if open_high else result > high
    if not math.isfinite(result) or below or above:
        left = "(" if open_low or low == -math.inf else "["
        right = ")" if open_high or high == math.inf else "]"
        raise ValueError(
            f"{name} must be a finite number in {left}{low:g}, {high:g}{right}, "
            + ("but it is not" if secret else f"got {value!r}")
        )
    return result


def positive(value: Any, name: str) -> float:
    """Check that a value is a finite number above 0, and return it as a float."""
    return number(value, name, low=0.0, open_low=True)


def fraction(value: Any, name: str) -> float:
    """Check that a value is a number strictly between 0 and 1, and return it as a float."""
    return number(value, name, low=0.0, high=1.0, open_low=True, open_high=True)


def integer(value: Any, name: str, *, low: int | None = None, high: int | None = None) -> int:
    """Check that a value is a whole number within bounds, and return it as an int.

    NumPy integers are accepted; booleans and floats such as 3.0 are refused.

    Parameters
    ----------
    value : Any
        What the user passed.
    name : str
        Name of the argument, for the error.
    low : int, optional
        Smallest value allowed.
    high : int, optional
        Largest value allowed.
    """
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


def flag(value: Any, name: str) -> bool:
    """Check that a value is True or False; numbers and strings are refused, since any text would count as True.

    Parameters
    ----------
    value : Any
        What the user passed.
    name : str
        Name of the argument, for the error.
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def items(value: Any, name: str, what: str) -> tuple[Any, ...]:
    """Check that a value can be iterated over and is no text, and return its items.

    Parameters
    ----------
    value : Any
        What the user passed.
    name : str
        Name of the argument, for the error.
    what : str
        What the items are, in the plural, for the error.
    """
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | Set):
        with contextlib.suppress(TypeError):  # an array without dimensions
            return tuple(value)
    raise TypeError(f"{name} must be a sequence of {what}, got {value!r}")


def choice(value: Any, name: str, allowed: tuple[str, ...]) -> str:
    """Check that a value is one of the allowed words.

    Parameters
    ----------
    value : Any
        What the user passed.
    name : str
        Name of the argument, for the error.
    allowed : tuple of str
        The allowed words.
    """
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise ValueError(f"{name} must be one of {words}; got {value!r}")
    return str(value)


def refuse_masked(value: Any, name: str) -> None:
    """Refuse a masked array with masked entries, because NumPy would use the values beneath the mask.

    Parameters
    ----------
    value : Any
        What the user passed.
    name : str
        Name of the argument, for the error.
    """
    if np.ma.is_masked(value):
        raise ValueError(
            f"{name} holds masked entries, and the values beneath the mask would be used; replace them "
            f"first, for instance by {name}.filled(0)"
        )


def check_whole(rows: Any) -> None:
    """Refuse a memory map whose file has become too short, because reading it would end the process.

    Parameters
    ----------
    rows : array or sparse matrix
        The rows; anything else is not checked.
    """
    sparse = sys.modules.get("scipy.sparse")  # predicting must not import SciPy
    if sparse is not None and sparse.issparse(rows):
        for part in (rows.data, rows.indices, rows.indptr) if rows.format == "csr" else ():
            check_whole(part)
        return
    while isinstance(getattr(rows, "base", None), np.ndarray):
        rows = rows.base  # a slice of a map leads to the whole map
    if isinstance(rows, np.memmap) and rows.filename is not None:
        needed = int(rows.offset) + rows.nbytes
        there = os.path.getsize(rows.filename) if os.path.exists(rows.filename) else 0
        if there < needed:
            raise ValueError(
                f"{rows.filename} was truncated: its memory map needs {needed} bytes, but the file has {there}. "
                "Nothing was released; restore the file"
            )


def real_array(value: Any, name: str) -> FloatArray:
    """Convert an array of real numbers to contiguous float64.

    Booleans, complex numbers, strings and objects are refused.

    Parameters
    ----------
    value : Any
        What the user passed.
    name : str
        Name of the argument, for the error.
    """
    refuse_masked(value, name)
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise TypeError(
            f"{name} must hold real numbers, got an array of dtype {array.dtype}; "
            "convert it with .astype(float) if that is what you mean"
        )
    return np.ascontiguousarray(array, dtype=np.float64)


def vector(value: Any, name: str, dim: int) -> FloatArray:
    """Check that a value is a finite vector, and return it as contiguous float64.

    Parameters
    ----------
    value : Any
        What the user passed.
    name : str
        Name of the argument, for the error.
    dim : int
        The length that it must have.
    """
    array = real_array(value, name)
    if array.shape != (dim,):
        raise ValueError(f"{name} must be a vector of length {dim}, got shape {array.shape}")
    if not np.isfinite(array).all():
        where = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite; entry {where} is {array[where]}")
    return array


def matrix(value: Any, name: str, columns: int) -> FloatArray:
    """Check that a value is a finite matrix, and return it as contiguous float64.

    Parameters
    ----------
    value : Any
        What the user passed.
    name : str
        Name of the argument, for the error.
    columns : int
        The number of columns that it must have.
    """
    array = real_array(value, name)
    if array.ndim != 2 or array.shape[1] != columns:
        raise ValueError(f"{name} must have shape (n, {columns}), got {array.shape}")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise ValueError(f"{name} must be finite; row {row} is not")
    return array


def to_the_user() -> int:
    """The ``stacklevel`` with which the caller's warning points at the user's own line of code.

    Skips the frames of this package and of libraries that call it on a user's behalf.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _package(frame) in _BETWEEN:
        level, frame = level + 1, frame.f_back
    return level


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).split(".")[0]


_BETWEEN = ("reticent", "sklearn", "joblib")
