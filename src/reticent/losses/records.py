"""Check records, scale features down to a norm, and clip labels to bounds.

Clipping makes the stated sensitivity of a gradient true (Abadi et al. 2016, section 3.1, clip gradients; for a
generalised linear loss it is enough to clip records).

The counts of what was clipped are computed from private data. They are a diagnostic for the holder of the data and
must not be published.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from reticent import checks
from reticent.losses.base import ClipCounts, FloatArray
from reticent.noise import door


def features(A: Any, name: str = "A") -> Any:
    """Check a matrix of records: finite, as contiguous float64, or as a canonical CSR array if it is sparse."""
    if sp.issparse(A):
        if A.dtype.kind not in "iuf":
            raise TypeError(
                f"{name} must hold real numbers, got a sparse matrix of dtype {A.dtype}; "
                "convert it with .astype(float) if that is what you mean"
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
        rows = checks.real_array(A, name)
        if rows.ndim != 2:
            raise ValueError(
                f"{name} must have one row for each record, shape (n, dim); got shape {rows.shape}"
            )
        # The sum is finite unless an entry is not (or the sum overflows): one pass, and no mask in memory.
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


def as_it_is(A: Any, name: str = "A") -> Any:
    """A matrix of records without a copy if possible: single or double precision, or canonical CSR.

    Finiteness is not checked here, but by whoever reads the rows.
    """
    checks.refuse_masked(A, name)
    rows: Any = sp.csr_array(A) if sp.issparse(A) else np.asarray(A)
    if rows.dtype.kind not in "iuf":
        raise TypeError(
            f"{name} must hold real numbers, got an array of dtype {rows.dtype}; "
            "convert it with .astype(float) if that is what you mean"
        )
    if rows.ndim != 2:
        raise ValueError(
            f"{name} must have one row for each record, shape (n, dim); got shape {rows.shape}"
        )
    if rows.shape[0] == 0 or rows.shape[1] == 0:
        raise ValueError(
            f"{name} must have at least one row and one column, got shape {rows.shape}"
        )
    if rows.dtype not in (np.float32, np.float64) or not rows.dtype.isnative:
        rows = rows.astype(np.float64)
    if sp.issparse(rows):
        # built anew, because the flags of the matrix may have been set by hand
        rows = sp.csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
    return rows


def row_norms(A: Any) -> FloatArray:
    """The Euclidean norm of every row; infinite if it overflows."""
    with np.errstate(over="ignore", under="ignore"):
        squares = A.multiply(A).sum(axis=1) if sp.issparse(A) else np.einsum("ij,ij->i", A, A)
        sums = np.asarray(squares).ravel()
        norms: FloatArray = np.sqrt(sums)
        # sums in which squares overflowed, or underflowed by too much
        for i in np.flatnonzero(~((sums >= 1e-290) & (sums < np.inf))):
            row = A[[i]].toarray().ravel() if sp.issparse(A) else A[i]
            largest = np.abs(row).max()
            norms[i] = largest * float(np.linalg.norm(row / largest)) if largest else 0.0
    return norms


def clip_rows(A: Any, bound: float) -> tuple[Any, int]:
    """Scale rows longer than the bound down to it, and count them; returns A itself if there are none.

    This refers to measured lengths: the true length of a row exceeds the bound by less than the share `door.margin`.
    """
    if not sp.issparse(A) and not door.count_beyond(A, bound):
        return A, 0
    made, clipped = unit_rows(A, 1.0, bound)
    if sp.issparse(A) and np.array_equal(made.data, A.data):
        return A, 0
    return made, clipped


def unit_rows(A: Any, unit: float, bound: float = 1.0, out: Any = None) -> tuple[Any, int]:
    """Divide rows by a unit, clip them to the bound in new memory, and count how many were longer.

    ``out`` is where dense rows are written, if given.
    """
    if sp.issparse(A):
        made = A.copy()
        clipped, refused = door.bounded_sparse_rows(A.indptr, A.data, 1.0 / unit, bound, made.data)
    else:
        made = np.empty(A.shape) if out is None else out
        clipped, refused = door.bounded_rows(A, 1.0 / unit, bound, made)
    if refused:
        raise ValueError(
            f"{refused} rows are not finite, so they were changed while they were read; "
            "do not modify the records during a fit"
        )
    return made, clipped


def labels(y: Any, count: int, name: str = "y") -> FloatArray:
    """Check that there is one finite label for each record, and return them as float64."""
    if y is None:
        raise ValueError(
            f"{name} is missing: this loss needs one label for each of the {count} rows"
        )
    checks.refuse_masked(y, name)
    array = np.asarray(y)
    if array.dtype == bool:
        raise TypeError(
            f"{name} must hold numbers, got booleans; convert two classes to -1 and 1 by 2 * y - 1"
        )
    return checks.vector(array, name, count)


def signs(y: FloatArray, name: str = "y") -> FloatArray:
    """Check labels of two classes; anything but -1 and 1 is refused."""
    wrong = np.abs(y) != 1.0
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        remedy = "; labels 0 and 1 become -1 and 1 by 2 * y - 1" if np.isin(y, (0, 1)).all() else ""
        raise ValueError(f"{name} must be -1 or 1 for this loss, but entry {row} is not{remedy}")
    return y


def clip_labels(y: FloatArray, low: float, high: float) -> tuple[FloatArray, int]:
    """Clip labels to bounds, and count those outside."""
    count = int(np.count_nonzero((y < low) | (y > high)))
    return (np.clip(y, low, high), count) if count else (y, 0)


__all__ = [
    "ClipCounts",
    "as_it_is",
    "clip_labels",
    "clip_rows",
    "features",
    "labels",
    "row_norms",
    "signs",
    "unit_rows",
]
