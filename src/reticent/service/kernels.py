"""What is done to every cell that comes: columns become rows, and numbers are brought to [-1, 1]."""

from __future__ import annotations

import numpy as np

from reticent.compiling import compiled


@compiled
def gather(doubles, starts, out):
    """Fill the columns of ``out`` from where each starts in ``doubles``."""
    rows, columns = out.shape
    for row in range(rows):  # the columns keep their place in the cache
        for column in range(columns):
            out[row, column] = doubles[starts[column] + row]


@compiled(error_model="numpy")
def scale(cells, low, span):
    """In place: what lies in [low, low + span] to [-1, 1], what lies beyond to its ends, NaN to 0.

    The arithmetic is that of `reticent.tables.Encoder`, in its order.
    """
    rows, columns = cells.shape
    for row in range(rows):
        for column in range(columns):
            x = (cells[row, column] - low[column]) / span[column] * 2.0 - 1.0
            cells[row, column] = 0.0 if x != x else min(max(x, -1.0), 1.0)


def warm() -> None:
    """Compile them as they are called."""
    cells = np.empty((1, 1))
    gather(np.frombuffer(bytes(8), np.float64), np.zeros(1, np.int64), cells)
    scale(cells, np.zeros(1), np.ones(1))
