"""Pass arrays to a kernel by their addresses, because taking a dozen of them as arguments can cost more than its work.

`ArrayAddresses` keeps its arrays alive, so an address is valid as long as the object; if an array is replaced, a new
object must be made. It is meant for kernels that process one record, which takes a microsecond or two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent.compiling import carray, compiled, pointer

_SLOTS = 3  # numbers for each array: its address, and its numbers of rows and columns


class ArrayAddresses:
    """The addresses of a fixed list of arrays of doubles or of 64-bit integers, with one or two dimensions.

    Parameters
    ----------
    *arrays : array
        C-contiguous arrays, which kernels may write to.
    """

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        self.addresses = np.array(
            [(found.ctypes.data, *found.shape, 0)[:_SLOTS] for found in arrays], np.int64
        ).ravel()
        assert all(found.flags.c_contiguous for found in arrays)


@compiled
def floats(addresses, place):
    """The array at a place, as a vector of doubles."""
    at = _SLOTS * place
    return carray(pointer(addresses[at]), (addresses[at + 1],), np.float64)


@compiled
def float_rows(addresses, place):
    """The array at a place, as a matrix of doubles."""
    at = _SLOTS * place
    return carray(pointer(addresses[at]), (addresses[at + 1], addresses[at + 2]), np.float64)


@compiled
def integers(addresses, place):
    """The array at a place, as a vector of integers."""
    at = _SLOTS * place
    return carray(pointer(addresses[at]), (addresses[at + 1],), np.int64)


@compiled
def integer_rows(addresses, place):
    """The array at a place, as a matrix of integers."""
    at = _SLOTS * place
    return carray(pointer(addresses[at]), (addresses[at + 1], addresses[at + 2]), np.int64)


@compiled
def no_bytes(addresses):
    """An empty vector of bytes."""
    return carray(pointer(addresses[0]), (0,), np.uint8)
