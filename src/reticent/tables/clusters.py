"""Records on a Dask cluster: workers compute the sums of blocks, and noise and accounting stay with the client.

A pass (`reticent.erm`) is sent to wherever a chunk of rows lies; what comes back are the sums of the chunk's blocks,
which the client adds in pairs, in the order of the records. Blocks begin where those of a table in memory begin if
chunks do, and then results are the same to the bit. A pass draws nothing and charges nothing, so that a task which is
lost, repeated or run twice changes nothing either.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from reticent._checks import FloatArray
from reticent.solve.blocks import AS_IT_IS, AsGiven, Form, InMemory, Meaning, Pass

MODULE = "dask"


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or data frame; never imports Dask.

    Examples
    --------
    >>> is_dask(np.ones(3))
    False
    """
    return type(X).__module__.split(".")[0] in (MODULE, "dask_expr") and hasattr(X, "dask")


@dataclass(frozen=True, eq=False)
class OnCluster:
    """Records in the chunks of Dask arrays.

    Parameters
    ----------
    rows : dask.array.Array
        One row for each record; a chunk holds whole rows.
    labels : dask.array.Array, optional
        One for each record, in chunks of as many records.
    weights : array, optional
        One for each record, in the client's memory.
    form : Form
        How a row becomes the features of a loss.
    labels_are : AsGiven, IsClass or Within
        What the labels stand for.
    """

    rows: Any
    labels: Any = None
    weights: FloatArray | None = None
    form: Form = AS_IT_IS
    labels_are: Meaning = AsGiven()  # noqa: RUF009 (frozen)
    _seen: dict[int, int] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.rows.shape[0]), self.form.dim(int(self.rows.shape[1]))

    def map(self, work: Pass) -> Iterator[FloatArray]:
        """The result for every block, in the order of the blocks."""
        import dask

        tasks, start = [], 0
        parts = self.rows.to_delayed().ravel()
        labels = [None] * len(parts) if self.labels is None else self.labels.to_delayed().ravel()
        run = dask.delayed(_run, pure=False)
        for number, (part, label) in enumerate(zip(parts, labels, strict=True)):
            count = int(self.rows.chunks[0][number])
            mine = None if self.weights is None else self.weights[start : start + count]
            tasks.append(run(work, part, label, mine, self.form, self.labels_are, start))
            start += count
        for number, (mark, results) in enumerate(dask.compute(*tasks)):
            if self._seen.setdefault(number, mark) != mark:
                raise ValueError(
                    f"chunk {number} of X or y has changed since it was first read; call X.persist() and y.persist(), "
                    "or keep whatever they are read from as it is. The budget was charged"
                )
            yield from results

    def thinned(self, every: int) -> InMemory:
        import dask

        rows, labels = dask.compute(
            self.rows[::every], None if self.labels is None else self.labels[::every]
        )
        weights = None if self.weights is None else self.weights[::every].copy()
        return InMemory(np.ascontiguousarray(rows), labels, weights, self.form, self.labels_are)

    def meaning(self, labels: Meaning) -> OnCluster:
        return replace(self, labels_are=labels)

    def matrix(self) -> Any:
        raise TypeError(
            "this solver reads all records at once, in memory: call fit with X.compute(), or choose a solver that goes "
            "by passes (objective-perturbation, sufficient-statistics, gradient-descent)"
        )


def _run(
    work: Pass,
    rows: Any,
    labels: Any,
    weights: FloatArray | None,
    form: Form,
    labels_are: Meaning,
    start: int,
) -> tuple[int, list[FloatArray]]:
    """On a worker: the sums of a chunk's blocks, and a mark by which a change of the chunk shows."""
    rows = np.ascontiguousarray(rows)
    labels = None if labels is None else np.ascontiguousarray(labels)
    table = InMemory(rows, labels, weights, form, labels_are)
    moved = [work(block._replace(start=start + block.start)) for block in table.blocks()]
    return _mark(rows) ^ (0 if labels is None else _mark(labels)), moved


def _mark(array: Any) -> int:
    """A number that changes, all but surely, when the array does."""
    if array.dtype.kind == "O":
        return hash(tuple(array.tolist())) & (2**64 - 1)
    bytes_ = array.view(np.uint8).ravel()
    whole = len(bytes_) // 8 * 8
    words = bytes_[:whole].view(np.uint64)
    rest = int.from_bytes(bytes_[whole:].tobytes(), "little")
    # sums of every stride of a few columns apart, so that moved numbers show too
    parts = [int(words[k::7].sum(dtype=np.uint64)) for k in range(7)]
    mixed = rest + len(bytes_)
    for part in parts:
        mixed = (mixed * 0x9E3779B97F4A7C15 + part) % 2**64
    return mixed


def on_cluster(X: Any, y: Any = None) -> OnCluster:
    """Dask arrays or data frames as records; chunks become whole rows, the labels' chunks follow.

    Parameters
    ----------
    X : dask array or data frame
        One row for each record.
    y : dask array or series, or array, optional
        One label for each record.

    Returns
    -------
    OnCluster
    """
    rows = _as_array(X, "X")
    if rows.ndim != 2:
        raise ValueError(f"X must have one row for each record, shape (n, dim); got shape {rows.shape}")
    if rows.dtype.kind not in "iufb":
        raise TypeError(f"X must hold real numbers, got dtype {rows.dtype}; convert it with X.astype(float)")
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    if len(rows.chunks[1]) > 1:
        rows = rows.rechunk({1: -1})
    if 0 in rows.chunks[0]:
        rows = rows.rechunk({0: tuple(c for c in rows.chunks[0] if c)})
    if rows.shape[0] == 0 or rows.shape[1] == 0:
        raise ValueError(f"X must have at least one row and one column, got shape {rows.shape}")
    if y is None:
        return OnCluster(rows)
    import dask.array as da

    labels = _as_array(y, "y") if is_dask(y) else da.from_array(np.asarray(y), chunks=(rows.chunks[0],))
    if labels.shape != (rows.shape[0],):
        raise ValueError(f"y must have one label for each of the {rows.shape[0]} rows, got shape {labels.shape}")
    return OnCluster(rows, labels.rechunk((rows.chunks[0],)))


def _as_array(X: Any, name: str) -> Any:
    array = X.to_dask_array(lengths=True) if hasattr(X, "to_dask_array") else X
    if any(math.isnan(c) for chunks in array.chunks for c in chunks):
        raise ValueError(
            f"the chunks of {name} have unknown sizes; call {name}.compute_chunk_sizes() first, which reads them once"
        )
    return array
