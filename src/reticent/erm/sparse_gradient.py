"""The gradient of a squared loss on sparse records, updated incrementally as vertices are mixed in.

After t vertices s_1, ..., s_t with steps 2/(k+1), the Frank-Wolfe iterate is ``x = 2/(t(t+1)) sum_k k s_k``, so the
gradient of the summed loss is

    A'A x - A'y = c_t H - A'y,     H = sum_k k A'A s_k,     c_t = 2/(t(t+1)),

and a new vertex e_j changes H by a multiple of one column of A'A, which involves only the rows with a nonzero entry j.
The idea is that of Guyon's sparse perceptrons and of Raff et al., *Scaling up differentially private LASSO regularized
logistic regression via faster Frank-Wolfe iterations*.

H is a long sum in floating point. :func:`rounding` bounds its rounding error, which is part of the sensitivity of a
score.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from reticent.checks import FloatArray
from reticent.compiling import compiled
from reticent.erm.rounded_sums import UNIT, UNITS, weighted_rows

_KEPT = 2**22
"""Largest number of cached entries of columns of A'A."""


@compiled
def _add_column(starts, rows, values, indptr, indices, data, j, weight, out):
    """``out += weight * A'A e_j``, computed from the rows of column j."""
    for k in range(starts[j], starts[j + 1]):
        i = rows[k]
        w = weight * values[k]
        for m in range(indptr[i], indptr[i + 1]):
            out[indices[m]] += w * data[m]


@compiled(fastmath=False)
def _scores(H, b, c, factor, out):
    for j in range(H.size):
        out[j] = factor * (c * H[j] - b[j])


@compiled
def _axpy(weight, column, out):
    for j in range(out.size):
        out[j] += weight * column[j]


def rounding(count: int, steps: int, feature: float, label: float, radius: float) -> float:
    """A bound on the rounding error of one coordinate of the gradient, at any step.

    At most ``count * steps`` products are added to a coordinate of H one after another (a cached column is itself a sum
    of ``count``); the sum of their sizes is at most ``count F^2 radius / c_t``.
    """
    long = (count * (steps + 1.0) + 16.0) * UNIT * count * feature**2 * radius
    # times two, because the point is rounded too: its norm may exceed the radius by a few units
    return 2.0 * long + 2.0 * UNITS * UNIT * count * feature * label


class SquaredGradient:
    """The gradient of ``(1/2) sum (y - <a, x>)^2 + (ridge n/2) ||x||^2`` along Frank-Wolfe."""

    def __init__(self, A: Any, y: FloatArray, radius: float, ridge: float) -> None:
        self.A = A
        self.columns = sp.csc_array(A)
        self.count, self.dim = A.shape
        self.radius = radius
        self.ridge = ridge * self.count
        # Columns ordered by size, so that the blocks of the selection hold similar scores.
        b = weighted_rows(A, y)
        self.order = np.argsort(-np.abs(b), kind="stable").astype(np.int64)
        self.place = np.empty(self.dim, np.int64)
        self.place[self.order] = np.arange(self.dim)
        self.b = b[self.order]
        self.indices = self.place[A.indices].astype(np.int32)
        self.H = np.zeros(self.dim)
        self.weights = np.zeros(self.dim)
        self.steps = 0
        self._out = np.empty(self.dim)
        self._kept: dict[int, FloatArray] = {}
        self._seen: set[int] = set()

    @property
    def _scale(self) -> float:
        t = self.steps
        return 2.0 / (t * (t + 1.0)) if t else 0.0

    def scaled(self) -> FloatArray:
        """``radius`` times the gradient, in this object's order of the coordinates."""
        _scores(self.H, self.b, self._scale, self.radius, self._out)
        return self._out

    def add(self, place: int, sign: float) -> None:
        """Mix in the vertex ``sign * radius * e_place``."""
        self.steps += 1
        weight = self.steps * sign * self.radius
        self.weights[place] += weight
        if place in self._kept:
            _axpy(weight, self._kept[place], self.H)
        elif place in self._seen and len(self._kept) * self.dim < _KEPT:
            column = np.zeros(self.dim)
            self._add(place, 1.0, column)
            self._kept[place] = column
            _axpy(weight, column, self.H)
        else:
            self._seen.add(place)
            self._add(place, weight, self.H)
        self.H[place] += self.ridge * weight

    def _add(self, place: int, weight: float, out: FloatArray) -> None:
        A, C = self.A, self.columns
        _add_column(C.indptr, C.indices, C.data, A.indptr, self.indices, A.data,
                    self.order[place], weight, out)  # fmt: skip

    def point(self) -> FloatArray:
        x = np.empty(self.dim)
        x[self.order] = self._scale * self.weights
        return x
