"""A party's columns, and what it computes from them: predictions, slopes, scores.

The user node's arithmetic in Algorithm 2 of Lou and Cheung, corrected; see docs/algorithms/vertical.md. A slope may
depend on its own record and on public numbers only: anything that mixes records before the clip, such as a mean or a
standardisation, would invalidate the sensitivity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from reticent.checks import FloatArray
from reticent.erm.rounded_sums import weighted_rows
from reticent.losses import records


class Columns:
    """Columns with entries clipped to a bound; dense, or sparse by rows and by columns."""

    def __init__(self, features: Any, bound: float) -> None:
        A = records.features(features, "features")
        if sp.issparse(A):
            A = A.copy()
            A.data = np.clip(A.data, -bound, bound)
        else:
            A = np.clip(A, -bound, bound)
        self.A = A
        self._by_columns = sp.csc_array(A) if sp.issparse(A) else None

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.A.shape[0]), int(self.A.shape[1])

    def column(self, i: int) -> FloatArray:
        if self._by_columns is None:
            return np.ascontiguousarray(self.A[:, i])
        return self._by_columns[:, [i]].toarray().ravel()

    def predictions(self, places: Any, weights: FloatArray) -> FloatArray:
        """Predictions of a model that is 0 except at some columns."""
        if not len(places):
            return np.zeros(self.A.shape[0])
        source = self.A if self._by_columns is None else self._by_columns
        return np.asarray(source[:, np.asarray(places, np.int64)] @ weights)

    def scores(self, slopes: FloatArray) -> FloatArray:
        """The gradient of the summed loss, within the bound of :mod:`reticent.erm.rounded_sums`."""
        return weighted_rows(self.A, slopes)


def slopes(
    loss: str, own: FloatArray, others: FloatArray, target: FloatArray, *, faint: bool
) -> FloatArray:
    """Each record's slope, before it is clipped.

    Parameters
    ----------
    loss
        "squared" or "logistic".
    own
        Predictions of the party's own columns.
    others
        Estimated predictions of all other columns.
    target
        Labels, or estimates of them.
    faint
        Whether these estimates are almost exact for each record.
    """
    if loss == "squared":
        return own + others - target
    if faint:
        return 0.5 * (np.tanh(0.5 * (own + others)) - target)
    # An estimate for a single record is mostly noise, which a curved function would not average out, so other
    # parties' predictions enter to first order.
    level = np.tanh(0.5 * own)
    return 0.5 * (level - target) + 0.25 * (1.0 - level**2) * others
