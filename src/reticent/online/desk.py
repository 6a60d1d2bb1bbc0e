"""Arrays that a kernel finds by their addresses: taking a dozen of them as arguments can cost more than its work.

The desk keeps the arrays alive, so an address is good for as long as the desk is; whoever replaces an array lays a new
desk. Meant for kernels that see one record, which is a microsecond or two of work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent.compiling import carray, compiled, pointer

_SLOTS = 3  # of an array: its address, and how many rows and columns it has


class Desk:
    """Arrays in double precision or whole numbers of 64 bits, of one or two dimensions, each at its place.

    Parameters
    ----------
    *arrays : array
        Contiguous, and theirs to be written to.
    """

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        self.addresses = np.array(
            [(found.ctypes.data, *found.shape, 0)[:_SLOTS] for found in arrays], np.int64
        ).ravel()
        assert all(found.flags.c_contiguous for found in arrays)


@compiled
def floats(desk, place):
    """A vector."""
    at = _SLOTS * place
    return carray(pointer(desk[at]), (desk[at + 1],), np.float64)


@compiled
def float_rows(desk, place):
    """A matrix."""
    at = _SLOTS * place
    return carray(pointer(desk[at]), (desk[at + 1], desk[at + 2]), np.float64)


@compiled
def integers(desk, place):
    """A vector of whole numbers."""
    at = _SLOTS * place
    return carray(pointer(desk[at]), (desk[at + 1],), np.int64)


@compiled
def integer_rows(desk, place):
    """A matrix of whole numbers."""
    at = _SLOTS * place
    return carray(pointer(desk[at]), (desk[at + 1], desk[at + 2]), np.int64)


@compiled
def no_bytes(desk):
    """An empty vector of bytes."""
    return carray(pointer(desk[0]), (0,), np.uint8)
