"""Records on a Dask cluster: workers compute sums of blocks; noise and accounting stay with the client.

A pass (`reticent.erm`) is sent to the chunks of rows; the sums of their blocks come back, and the client adds them in
pairs, in the order of the records. If chunks begin where the blocks of a table in memory begin, results are equal to
the bit. A pass draws nothing and charges nothing, so a task that is lost, repeated or run twice has no effect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from reticent.checks import FloatArray
from reticent.erm.passes import SlopeSum, Survey
from reticent.solve.blocks import (
    UNITS,
    AsFound,
    AsGiven,
    Block,
    Form,
    InMemory,
    LabelCheck,
    Meaning,
    Pass,
    checksum,
    one_blas_thread,
)

MODULE = "dask"
_APART = 32
"""Fingerprints cover this fraction of the rows in the passes of a search, and all rows before a release."""


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or data frame; never imports Dask.

    Examples
    --------
    >>> is_dask(np.ones(3))
    False
    """
    return type(X).__module__.split(".")[0] in (MODULE, "dask_expr") and hasattr(X, "dask")


@dataclass(frozen=True, eq=False)
class ClusterLabels:
    """Labels in the chunks of a Dask array.

    Parameters
    ----------
    array : dask.array.Array
        One label per record.
    """

    array: Any

    def distinct(self) -> Any:
        """Sorted distinct values; workers read the labels and send what they found."""
        import dask

        parts = dask.compute(*(dask.delayed(np.unique)(p) for p in self.array.to_delayed().ravel()))
        return np.unique(np.concatenate(parts))

    def in_memory(self) -> Any:
        """All labels, in this process."""
        return np.asarray(self.array)


@dataclass(frozen=True, eq=False)
class ClusterRows:
    """Features in the chunks of a Dask array.

    Parameters
    ----------
    array : dask.array.Array
        One row per record; a chunk holds whole rows.
    names : tuple of str, optional
        Names of the features.
    """

    array: Any
    names: tuple[str, ...] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.array.shape[0]), int(self.array.shape[1])

    def blocks(self) -> Iterator[Any]:
        """The rows, a chunk at a time."""
        return (np.ascontiguousarray(part.compute()) for part in self.array.to_delayed().ravel())

    def mapped(self, work: Any, columns: int) -> Any:
        """``work`` of every chunk, as a Dask array."""
        if self.shape[1] != columns:
            raise ValueError(f"X has {self.shape[1]} features, and {columns} are expected")
        return self.array.map_blocks(work, dtype=np.float64)

    def records(self, labels: Any, form: Form, check: LabelCheck) -> ClusterRecords:
        """Records for a solver; workers read and check all of them, and store a fingerprint of every chunk."""
        if labels is None:
            labels = ClusterLabels(self.array[:, 0])  # any numbers: the labels are not used
        table = ClusterRecords(self, labels, form)
        found = list(table.map(_Look(check)))
        for _, refused, first, _ in found:
            if refused:
                raise ValueError(
                    f"X must be finite; row {int(first)} is not; replace missing values first. Nothing was learnt"
                )
        clipped, beyond = sum(int(one[0]) for one in found), sum(float(one[3]) for one in found)
        return replace(table, clipped=clipped, beyond=beyond)


@dataclass(frozen=True, eq=False)
class _Look:
    """A survey of rows, and a check of their labels."""

    check: LabelCheck

    def __call__(self, block: Block) -> FloatArray:
        return np.array([*Survey()(block), self.check(block.labels, block.start)])


@dataclass(frozen=True, eq=False)
class _Nothing:
    """A pass that only computes fingerprints."""

    def __call__(self, block: Block) -> FloatArray:
        return np.empty(0)


@dataclass(frozen=True, eq=False)
class ClusterRecords:
    """Records on a cluster, in blocks: see `reticent.solve.blocks.Records`."""

    rows: ClusterRows
    labels: ClusterLabels
    form: Form
    clipped: int | None = None
    beyond: float = 0.0  # result of the check of the labels
    labels_are: Meaning = AsGiven()  # noqa: RUF009 (frozen)
    marks: dict[int, tuple[int, int | None]] = field(default_factory=dict, repr=False)
    units: ClassVar[float] = UNITS

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.shape[0], self.form.dim(self.rows.shape[1])

    @property
    def identity(self) -> list[int | None]:
        """The fingerprints of the chunks, once a pass has read them."""
        return [self.marks[number][1] for number in sorted(self.marks)]

    def confirm(self) -> None:
        """Refuse the records if any of them has changed since they were first read."""
        for _ in self.map(_Nothing()):
            pass

    def map(self, work: Pass) -> Iterator[FloatArray]:
        """The result for every block, in the order of the blocks."""
        import dask

        array = self.rows.array
        # values common to all chunks are bound to the function, since Dask would serialise arguments for each task
        run = dask.delayed(partial(_run, work, self.form, self.labels_are), pure=False)
        starts = np.cumsum([0, *array.chunks[0]]).tolist()
        parts = zip(
            array.to_delayed().ravel(),
            self.labels.array.to_delayed().ravel(),
            starts[:-1],
            strict=True,
        )
        tasks = [
            run(a, y, start, (count, array.shape[1]))
            for (a, y, start), count in zip(parts, array.chunks[0], strict=True)
        ]
        for number, (some, every, results) in enumerate(dask.compute(*tasks)):
            known = self.marks.setdefault(number, (some, every))
            if some != known[0] or every not in (None, known[1]):
                raise ValueError(
                    f"chunk {number} of X or y has changed since it was first read, so passes saw different records; "
                    "nothing is released. Call X.persist() and y.persist(), or do not modify their source during a fit"
                )
            yield from results

    def thinned(self, every: int) -> InMemory:
        import dask

        # Part by part: a whole array would be assembled on one of the workers first, and sent twice.
        parts = dask.compute(
            *self.rows.array[::every].to_delayed().ravel(),
            *self.labels.array[::every].to_delayed().ravel(),
        )
        half = len(parts) // 2
        rows, labels = np.concatenate(parts[:half]), np.concatenate(parts[half:])
        return InMemory(rows, labels, None, self.form, self.labels_are)

    def meaning(self, labels: Meaning) -> ClusterRecords:
        return replace(self, labels_are=labels)

    def matrix(self) -> Any:
        raise TypeError(
            "this solver needs all records in memory, and these are on a cluster; use one that works by passes: "
            "objective "
            "perturbation, output perturbation, gradient descent without sampling, or sufficient statistics"
        )


def _run(
    work: Pass,
    form: Form,
    labels_are: Meaning,
    rows: Any,
    labels: Any,
    start: int,
    shape: tuple[int, int],
) -> tuple[int, int | None, list[FloatArray]]:
    """On a worker: fingerprints of some rows and of all, and the results for the blocks of a chunk."""
    rows, labels = np.ascontiguousarray(rows), np.ascontiguousarray(labels)
    if rows.shape != shape or len(labels) != len(rows):
        raise ValueError(
            f"the chunk of X at record {start} has shape {rows.shape} and {len(labels)} labels, but the array says "
            f"{shape}; correct the code that makes the chunks. Nothing is released"
        )
    whole = InMemory(rows, labels, None, form, labels_are)
    if isinstance(work, _Look):  # labels are looked at as they came
        whole = replace(whole, labels_are=AsFound())
    with one_blas_thread():
        found = [work(block._replace(start=start + block.start)) for block in whole.blocks()]
    marks = checksum(labels), checksum(np.ascontiguousarray(rows[::_APART]))
    # a search reads all records many times, and fingerprints of all would take a third of that time
    every = None if isinstance(work, SlopeSum) else marks[0] ^ checksum(rows)
    return marks[0] ^ marks[1], every, found


def on_cluster(X: Any, y: Any = None) -> tuple[ClusterRows, ClusterLabels | None]:
    """Dask arrays or data frames as a table; chunks become whole rows, and the labels get the same chunks.

    Parameters
    ----------
    X : dask array or data frame
        One row per record.
    y : dask array or series, or array, optional
        One label per record.
    """
    names = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
    rows = _checked_rows(X)
    labels = None if y is None else ClusterLabels(_checked_labels(y, rows))
    return ClusterRows(rows, names), labels


def _checked_rows(X: Any) -> Any:
    """Records as an array whose chunks are whole rows."""
    rows = _as_array(X, "X")
    if rows.ndim != 2:
        raise ValueError(
            f"X must have one row for each record, shape (n, dim); got shape {rows.shape}"
        )
    if rows.dtype.kind not in "iufb":
        raise TypeError(
            f"X must hold real numbers, got dtype {rows.dtype}; convert it with X.astype(float)"
        )
    if rows.shape[0] == 0 or rows.shape[1] == 0:
        raise ValueError(f"X must have at least one row and one column, got shape {rows.shape}")
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    chunks = tuple(c for c in rows.chunks[0] if c)
    if len(rows.chunks[1]) > 1 or chunks != rows.chunks[0]:
        rows = rows.rechunk({0: chunks, 1: -1})
    return rows


def _checked_labels(y: Any, rows: Any) -> Any:
    """Labels in the same chunks as the rows."""
    import dask.array as da

    chunks = rows.chunks[:1]
    labels = _as_array(y, "y") if is_dask(y) else da.from_array(np.asarray(y), chunks=chunks)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (rows.shape[0],):
        raise ValueError(
            f"y must have one label for each of the {rows.shape[0]} rows, got shape {labels.shape}"
        )
    return labels.rechunk(chunks)


def _as_array(X: Any, name: str) -> Any:
    array = X.to_dask_array(lengths=True) if hasattr(X, "to_dask_array") else X
    if any(math.isnan(c) for chunks in array.chunks for c in chunks):
        raise ValueError(
            f"the chunks of {name} have unknown sizes; call {name}.compute_chunk_sizes() first, which reads them once"
        )
    return array
