"""Records made fit for use: checked, features scaled down to a norm, labels brought within bounds.

Clipping is what makes the sensitivity of a gradient true rather than hoped for (Abadi et al. 2016,
section 3.1, clip gradients; here, as for every generalised linear loss, it is enough to clip records).

The one thing a reader would get wrong: the counts of what was clipped are read off private data. They
are a diagnostic for whoever holds the data, never something to publish.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from reticent import _checks
from reticent.losses.base import ClipCounts, FloatArray

# A row scaled to the bound must not exceed it by a rounding, nor be counted again when it comes back.
_SHRINK = 1.0 - 2.0**-40


def features(A: Any, name: str = "A") -> Any:
    """A finite matrix of records as contiguous float64, or a canonical CSR array if sparse."""
    if sp.issparse(A):
        if A.dtype.kind not in "iuf":
            raise TypeError(
                f"{name} must hold real numbers, got a sparse matrix of dtype {A.dtype}; "
                "convert it with .astype(float) if that is what is meant"
            )
        rows = sp.csr_array(A, dtype=np.float64)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        if not np.isfinite(rows.data).all():
            where = int(np.flatnonzero(~np.isfinite(rows.data))[0])
            row = int(np.searchsorted(rows.indptr, where, side="right")) - 1
            raise ValueError(f"{name} must be finite; row {row} is not")
    else:
        rows = _checks.real_array(A, name)
        if rows.ndim != 2:
            raise ValueError(
                f"{name} must have one row for each record, shape (n, dim); got shape {rows.shape}"
            )
        # The sum is finite unless an entry is not (or all but overflow): one pass, no mask in memory.
        with np.errstate(over="ignore", invalid="ignore"):
            suspicious = not np.isfinite(rows.sum())
        if suspicious and not np.isfinite(rows).all():
            row = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise ValueError(f"{name} must be finite; row {row} is not")
    if rows.shape[0] == 0 or rows.shape[1] == 0:
        raise ValueError(
            f"{name} must have at least one row and one column, got shape {rows.shape}"
        )
    return rows


def row_norms(A: Any) -> FloatArray:
    """The Euclidean norm of every row, safe against overflow."""
    if sp.issparse(A):
        with np.errstate(over="ignore"):
            sums = np.asarray(A.multiply(A).sum(axis=1)).ravel()
    else:
        with np.errstate(over="ignore"):
            sums = np.einsum("ij,ij->i", A, A)
    norms: FloatArray = np.sqrt(sums)
    for i in np.flatnonzero(~np.isfinite(norms)):
        row = A[[i]].toarray().ravel() if sp.issparse(A) else A[i]
        largest = np.abs(row).max()
        norms[i] = min(np.finfo(float).max, largest * float(np.linalg.norm(row / largest)))
    return norms


def clip_factors(A: Any, bound: float) -> tuple[FloatArray, int]:
    """What to multiply each row with so that none is longer than the bound, and how many are."""
    norms = row_norms(A)
    beyond = norms > bound
    factors = np.ones(len(norms))
    factors[beyond] = bound / norms[beyond] * _SHRINK
    return factors, int(np.count_nonzero(beyond))


def clip_rows(A: Any, bound: float) -> tuple[Any, int]:
    """Rows longer than the bound scaled down to it, and how many; A itself if there are none."""
    factors, count = clip_factors(A, bound)
    return scale_rows(A, factors), count


def scale_rows(A: Any, factors: FloatArray) -> Any:
    """Every row multiplied by its factor; A itself if all of them are 1."""
    if (factors == 1.0).all():
        return A
    if sp.issparse(A):
        A = A.copy()
        A.data *= np.repeat(factors, np.diff(A.indptr))
        return A
    return A * factors[:, None]


def labels(y: Any, count: int, name: str = "y") -> FloatArray:
    """One finite label for each record, as float64."""
    if y is None:
        raise ValueError(
            f"{name} is missing: this loss needs one label for each of the {count} rows"
        )
    array = np.asarray(y)
    if array.dtype == bool:
        raise TypeError(
            f"{name} must hold numbers, got booleans; two classes are -1 and 1: 2 * y - 1"
        )
    return _checks.vector(array, name, count)


def signs(y: FloatArray, name: str = "y") -> FloatArray:
    """Labels of two classes; anything but -1 and 1 is refused."""
    wrong = np.abs(y) != 1.0
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        remedy = "; labels 0 and 1 become -1 and 1 by 2 * y - 1" if np.isin(y, (0, 1)).all() else ""
        raise ValueError(
            f"{name} must be -1 or 1 for this loss, but entry {row} is {y[row]:g}{remedy}"
        )
    return y


def clip_labels(y: FloatArray, low: float, high: float) -> tuple[FloatArray, int]:
    """Labels brought within bounds, and how many were outside."""
    count = int(np.count_nonzero((y < low) | (y > high)))
    return (np.clip(y, low, high), count) if count else (y, 0)


__all__ = [
    "ClipCounts",
    "clip_factors",
    "clip_labels",
    "clip_rows",
    "features",
    "labels",
    "row_norms",
    "scale_rows",
    "signs",
]
