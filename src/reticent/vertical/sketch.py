"""The public sketch J that every party applies to its own columns before they are sent.

Lou and Cheung use a dense Gaussian J; here each record goes to ``spread`` places with random signs (Kane and Nelson,
*Sparser Johnson-Lindenstrauss transforms*, the block construction), so that every column of J has norm exactly 1 and no
realised norm needs to be measured. With at least as many places as records J is the identity: a column is sent
unsketched, with noise of the same size.

J is public, and all parties must use the same one; it shortens messages and protects nothing. Privacy comes from the
noise alone.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reticent import checks
from reticent.checks import FloatArray
from reticent.compiling import compiled
from reticent.erm.rounded_sums import UNIT, UNITS, add_one

SPREAD = 4
"""Default number of places to which a record goes."""


@compiled
def _add(places, signs, column, total, lost):
    """``S column`` by Neumaier's summation, which keeps the rounding errors of additions separately."""
    for i in range(column.size):
        value = column[i]
        if value == 0.0:
            continue
        for k in range(places.shape[1]):
            add_one(total, lost, places[i, k], value * signs[i, k])


@compiled
def _spread_out(places, signs, sketch, out):
    """``S' sketch``, one number a record."""
    for i in range(out.size):
        total = 0.0
        for k in range(places.shape[1]):
            total += signs[i, k] * sketch[places[i, k]]
        out[i] = total


class SignSketch:
    """The sparse sign matrix ``S`` with entries -1, 0 and 1, and ``J = S / sqrt(spread)``.

    Parameters
    ----------
    rows : int
        Number of records.
    size : int
        Length of a sketch; ``rows`` or more gives the identity.
    seed : int
        Public seed; the same for all parties.
    spread : int
        Number of places to which each record goes; the sketch is divided into as many blocks.


    Examples
    --------
    >>> sketch = SignSketch(1000, 64, seed=7)
    >>> a, b = np.ones(1000), np.linspace(0.0, 1.0, 1000)
    >>> estimate = sketch.apply(a) @ sketch.apply(b) / sketch.spread
    >>> bool(abs(estimate - a @ b) < 4 * np.linalg.norm(a) * np.linalg.norm(b) / 8)
    True
    """

    def __init__(self, rows: int, size: int, *, seed: int = 0, spread: int = SPREAD) -> None:
        self.rows = checks.integer(rows, "rows", low=1)
        size = checks.integer(size, "size", low=1)
        spread = checks.integer(spread, "spread", low=1, high=64)
        self.seed = checks.integer(seed, "seed", low=0, high=2**64 - 1)
        self.is_identity = size >= self.rows
        self.size = self.rows if self.is_identity else size
        self.spread = 1 if self.is_identity else min(spread, size)
        self.places, self.signs = _draw(self.rows, self.size, self.seed, self.spread)

    @property
    def column_norm(self) -> float:
        """The norm of every column of ``S``, rounded up."""
        return math.sqrt(self.spread) * (1.0 + 2.0**-50)

    def apply(self, column: Any) -> FloatArray:
        """``S column``, the sketch of a column without noise.

        Parameters
        ----------
        column : array or sparse column
            One number per record.

        Returns
        -------
        array of shape (size,)
            The sketch.
        """
        if sp.issparse(column):
            column = column.toarray().ravel()
        total, lost = np.zeros(self.size), np.zeros(self.size)
        _add(self.places, self.signs, np.ascontiguousarray(column), total, lost)
        return total + lost

    def rounding(self, bound: float) -> float:
        """An upper bound on the difference that rounding makes between the sketches of neighbouring columns.

        Parameters
        ----------
        bound : float
            Largest absolute value of an entry.
        """
        return 2.0 * UNITS * UNIT * self.rows * bound * self.column_norm

    def estimate(self, sketch: FloatArray) -> FloatArray:
        """``S' sketch / spread``: an unbiased estimate of the vector that was sketched.

        Parameters
        ----------
        sketch : array of shape (size,)
            A sketch.

        Returns
        -------
        array of shape (rows,)
            One number per record.
        """
        out = np.empty(self.rows)
        _spread_out(self.places, self.signs, np.ascontiguousarray(sketch), out)
        return out / self.spread


@lru_cache(maxsize=4)
def _draw(
    rows: int, size: int, seed: int, spread: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    if size >= rows:
        places = np.arange(rows, dtype=np.int32)[:, None]
        signs = np.ones((rows, 1))
    else:
        # NumPy keeps the raw stream of a bit generator the same for ever, unlike that of integers()
        words = np.random.PCG64(np.random.SeedSequence([seed, rows, size, spread])).random_raw(
            rows * spread
        )
        words = words.reshape(rows, spread)
        ends = np.arange(spread + 1, dtype=np.int64) * size // spread
        widths = np.diff(ends).astype(np.uint64)
        places = ((words >> np.uint64(1)) % widths).astype(np.int32) + ends[:-1].astype(np.int32)
        signs = 1.0 - 2.0 * (words & np.uint64(1)).astype(np.float64)
    places.setflags(write=False)
    signs.setflags(write=False)
    return places, signs
