"""Prepare records for a learner: check them, clip them to the loss's bounds, and divide them into chunks.

Everything is checked before anything is learnt from it, so an invalid record changes nothing. Clipping is the loss's
own (`reticent.losses`); what is already within its bounds is passed on without a copy.

A stream of chunks is checked chunk by chunk. If a chunk is invalid, the chunks before it have been learnt from; it
and those after it have not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reticent import checks
from reticent.checks import FloatArray
from reticent.compiling import compiled
from reticent.losses import BestFixed, GeneralizedLinear, Loss, best_fixed
from reticent.losses.kernels import LINEAR
from reticent.noise import door

NO_GAPS = np.zeros(0, np.uint8)


@compiled(patience=0.3)
def longest(A):
    """The largest squared norm of a row; nan if an entry is not finite."""
    most = 0.0
    for r in range(A.shape[0]):
        a = A[r]
        first = 0.0
        second = 0.0
        third = 0.0
        fourth = 0.0
        whole = a.size - a.size % 4
        for i in range(0, whole, 4):
            first += a[i] * a[i]
            second += a[i + 1] * a[i + 1]
            third += a[i + 2] * a[i + 2]
            fourth += a[i + 3] * a[i + 3]
        for i in range(whole, a.size):
            first += a[i] * a[i]
        square = (first + second) + (third + fourth)
        if not square <= 1.7976931348623157e308:
            return np.nan
        most = max(most, square)
    return most


@dataclass
class Chunk:
    """Records that are ready to be played: dense or CSR rows, a label for each, and which of them are gaps."""

    A: Any
    labels: Any
    gaps: NDArray[np.uint8]
    clipped: int = 0
    person: Any = None  # ids of persons, as they were passed

    def __len__(self) -> int:
        return int(self.A.shape[0])

    def rows(self, start: int, stop: int) -> Chunk:
        A = self.A[start:stop]
        if sp.issparse(A):
            A = np.ascontiguousarray(A.toarray())
        elif not A.flags.writeable:
            A = A.copy()  # the loop would be compiled again for read-only arrays
        labels = None if self.labels is None else self.labels[start:stop]
        return Chunk(A, labels, self.gaps[start:stop] if self.gaps.size else self.gaps)


def bounds(loss: GeneralizedLinear, dim: int) -> tuple[float, float, float]:
    """The bounds to which a loop clips the records themselves: length, and lowest and highest label.

    A row that is as long as the loss allows passes, however its square was rounded.
    """
    low, high = getattr(loss, "label_bounds", (-1.0, 1.0))
    if loss.kernel[0] == LINEAR:  # its slope does not depend on what takes the place of a label
        low, high = -math.inf, math.inf
    return loss.feature_norm * (1.0 + door.margin(dim)), float(low), float(high)


def one(a: FloatArray, label: float | None) -> Chunk:
    """A chunk of a single record."""
    return Chunk(a.reshape(1, -1), np.array([label]), NO_GAPS)


def gap(dim: int) -> Chunk:
    """A chunk of a single null record."""
    return Chunk(np.zeros((1, dim)), np.zeros(1), np.ones(1, np.uint8))


def is_stream(X: Any) -> bool:
    """Whether records come as an iterator of chunks rather than as one array."""
    return isinstance(X, Iterator)


def prepare(loss: Loss, dim: int, X: Any, y: Any = None, present: Any = None) -> Chunk:
    """Check and clip records; rows for which ``present`` is false become null records."""
    if not sp.issparse(X):
        X = checks.real_array(X, "X")
    if X.ndim != 2 or X.shape[1] != dim:
        raise ValueError(
            f"X must have one row for each record and {dim} columns, got shape {X.shape}"
        )
    count = X.shape[0]
    gaps = NO_GAPS
    if present is not None:
        X, y, gaps = _without_gaps(X, y, present)
    if count == 0:
        return Chunk(np.zeros((0, dim)), np.zeros(0), NO_GAPS)
    if (
        isinstance(loss, GeneralizedLinear)
        and type(loss).prepare is GeneralizedLinear.prepare
        and not sp.issparse(X)
        and longest(X) <= loss.feature_norm**2
    ):
        labels, beyond = loss._prepare_labels(y, X)
        return Chunk(X, labels, gaps, beyond)
    A, labels, counts = loss.prepare(X, y)
    if not sp.issparse(A):
        A = checks.matrix(A, "X", dim)
    return Chunk(A, labels, gaps, counts.features + counts.labels)


def _without_gaps(X: Any, y: Any, present: Any) -> tuple[Any, Any, NDArray[np.uint8]]:
    mask = np.asarray(present)
    if mask.dtype != bool or mask.shape != (X.shape[0],):
        raise ValueError(
            f"present must hold one boolean for each of the {X.shape[0]} rows, got an array of "
            f"dtype {mask.dtype} and shape {mask.shape}"
        )
    there = mask.astype(float)
    X = sp.diags_array(there) @ X if sp.issparse(X) else np.where(mask[:, None], X, 0.0)
    if y is not None:
        y = np.asarray(y)
        if y.shape != mask.shape:
            raise ValueError(f"y must have one label for each row, got shape {y.shape}")
        # A gap may have any label, which is replaced by one that passes the checks.
        y = np.where(mask, y, y[mask][0] if mask.any() else 1.0)
    return X, y, (~mask).astype(np.uint8)


def chunks(loss: Loss, dim: int, stream: Iterator[Any]) -> Iterator[Chunk]:
    """The chunks of a stream, each checked when it is its turn."""
    for number, item in enumerate(stream):
        parts = item if isinstance(item, tuple) else (item,)
        if not 1 <= len(parts) <= 4:
            raise ValueError(
                f"chunk {number} of the stream must be X, (X, y), (X, y, present) or "
                f"(X, y, present, person), got {len(parts)} parts"
            )
        chunk = prepare(loss, dim, *parts[:3])
        chunk.person = parts[3] if len(parts) == 4 else None
        yield chunk


@dataclass
class RecordsInHindsight:
    """The best fixed decision on the records that were kept, computed on demand. Reads private data."""

    set: Any
    loss: Loss
    kept: list[Chunk]
    _best: BestFixed | None = None

    def best(self) -> BestFixed:
        if self._best is None:
            A = [chunk.A[_there(chunk)] for chunk in self.kept]
            stack: Any = sp.vstack(A) if any(sp.issparse(part) for part in A) else np.concatenate(A)
            labels = None
            if self.kept[0].labels is not None:
                labels = np.concatenate([chunk.labels[_there(chunk)] for chunk in self.kept])
            self._best = best_fixed(self.set, self.loss, stack, labels)
        return self._best

    def losses(self) -> FloatArray:
        """The loss of every record under the best decision; that of a gap is 0."""
        there = np.concatenate([_there(chunk) for chunk in self.kept])
        out = np.zeros(len(there))
        out[there] = self.best().losses
        return out


def _there(chunk: Chunk) -> NDArray[np.bool_]:
    return chunk.gaps == 0 if chunk.gaps.size else np.ones(len(chunk), bool)
