"""Kernels that process every incoming cell: columns become rows, and numbers are scaled to [-1, 1]."""

from __future__ import annotations

import numpy as np

from reticent.compiling import compiled


@compiled
def gather(doubles, starts, out):
    """Copy each column from its start in ``doubles`` to ``out``."""
    rows, columns = out.shape
    for row in range(rows):  # row by row, so that all columns stay in the cache
        for column in range(columns):
            out[row, column] = doubles[starts[column] + row]


@compiled(error_model="numpy")
def scale(cells, low, span):
    """Scale cells in place from [low, low + span] to [-1, 1], clip them to that, and replace NaN by 0.

    The arithmetic is that of `reticent.tables.Encoder`, in the same order.
    """
    rows, columns = cells.shape
    for row in range(rows):
        for column in range(columns):
            x = (cells[row, column] - low[column]) / span[column] * 2.0 - 1.0
            cells[row, column] = 0.0 if x != x else min(max(x, -1.0), 1.0)


def warm() -> None:
    """Compile the kernels for the types with which they are called."""
    cells = np.empty((1, 1))
    gather(np.frombuffer(bytes(8), np.float64), np.zeros(1, np.int64), cells)
    scale(cells, np.zeros(1), np.ones(1))
