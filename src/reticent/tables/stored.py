"""Records of tables that stay in their files, read in blocks by every pass; formats are in `reticent.tables.formats`.

Nothing is read until a solver makes a pass, and then only as much at a time as fits into a block of
:mod:`reticent.solve.blocks`. Files are opened anew for every stretch of records. If a file differs from what it was
when the table was opened (in size, modification time or place on the disk), the run ends with an error message.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from reticent.checks import FloatArray
from reticent.erm.rounded_sums import survey
from reticent.solve.blocks import (
    UNITS,
    AsGiven,
    Block,
    Form,
    InMemory,
    LabelCheck,
    Meaning,
    Pass,
    in_order,
    rows_per_block,
)
from reticent.tables.schema import TableError

_SAMPLE_BYTES = 2**26
"""How much of a table is kept in memory, to start a run with."""
_NONE = np.empty(0)

Piece = tuple[Any, Any]
"""Rows of one stretch of records, and their labels as stored."""
Watch = Callable[[int], None]
"""Called with the number of bytes that have been read."""


@dataclass(frozen=True)
class Stamp:
    """Size, modification time and place of a file, by which a change is detected."""

    path: str
    identity: tuple[int, int, int, int]

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Stamp:
        try:
            found = os.stat(path)
        except OSError as error:
            raise TableError(f"{os.fspath(path)} cannot be read: {error.strerror}") from None
        identity = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        return cls(os.fspath(path), identity)

    def check(self) -> None:
        """Refuse a file that was changed, replaced or removed."""
        if not os.path.exists(self.path) or Stamp.of(self.path) != self:
            raise TableError(
                f"{self.path} was changed while it was being read, so its passes saw different records; "
                "nothing is released. Restore the file and run again"
            )


class Stretch(Protocol):
    """Consecutive records of one file.

    Attributes
    ----------
    count : int
        Number of records.
    size : int
        Approximate number of bytes in the file.
    """

    @property
    def count(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def stamp(self) -> Stamp | None: ...

    def pieces(self, rows: int) -> Iterator[Piece]:
        """The records, at most ``rows`` at a time."""


@dataclass(frozen=True, eq=False)
class Stored:
    """A table in files.

    Parameters
    ----------
    stretches : sequence of Stretch
        All records, in order.
    names : tuple of str
        Names of the features.
    target : str
        Name of the labels.
    dtype : numpy.dtype
        Type of the features.
    beside : tuple of Stamp
        Stamps of files that contain labels only.
    """

    stretches: Sequence[Stretch]
    names: tuple[str, ...]
    target: str
    dtype: np.dtype[Any]
    beside: tuple[Stamp, ...] = ()

    @property
    def count(self) -> int:
        return sum(stretch.count for stretch in self.stretches)

    @property
    def size(self) -> int:
        """Bytes that a pass reads."""
        return sum(stretch.size for stretch in self.stretches)

    @property
    def stamps(self) -> list[Stamp]:
        """Stamps of the files, each once."""
        found = (s.stamp for s in self.stretches if s.stamp is not None)
        return list(dict.fromkeys((*found, *self.beside)))

    def each(
        self, work: Callable[[int, Any, Any], Any], watch: Watch | None = None
    ) -> Iterator[Any]:
        """``work(index of the first record, rows, labels)`` for all blocks, in order.

        Stretches are read in parallel, and the blocks of a stretch one after another.
        """
        rows = rows_per_block(len(self.names))
        starts = np.cumsum([0, *(stretch.count for stretch in self.stretches)])

        def read(k: int) -> list[Any]:
            stretch, at, found = self.stretches[k], int(starts[k]), []
            if stretch.stamp is not None:
                stretch.stamp.check()
            for some, labels in stretch.pieces(rows):
                found.append(work(at, some, labels))
                at += len(some)
            if at != starts[k + 1]:
                raise TableError(
                    f"{self.place(k)} holds {at - int(starts[k])} records instead of {stretch.count}: it is damaged, "
                    "or was "
                    "changed while it was being read. Nothing is released; restore the file and run again"
                )
            return found

        for k, found in enumerate(in_order(range(len(self.stretches)), read)):
            if watch is not None:
                watch(self.stretches[k].size)
            yield from found
        for stamp in self.stamps:
            stamp.check()

    def place(self, k: int) -> str:
        stamp = self.stretches[k].stamp
        return "the table" if stamp is None else stamp.path


@dataclass(frozen=True, eq=False)
class StoredRows:
    """The features of a table in files, for ``fit`` and ``predict``.

    Parameters
    ----------
    table : Stored
        The table.
    watch : callable, optional
        Called with the number of bytes that have been read.

    Attributes
    ----------
    shape : (int, int)
        Numbers of records and of features.
    names : tuple of str
        Names of the features.

    See Also
    --------
    open : Makes these objects.
    """

    table: Stored
    watch: Watch | None = field(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        return self.table.count, len(self.table.names)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.table.dtype

    @property
    def names(self) -> tuple[str, ...]:
        return self.table.names

    def __len__(self) -> int:
        return self.table.count

    def watched(self, watch: Watch) -> StoredRows:
        """The same rows, which report how much has been read.

        Parameters
        ----------
        watch : callable
            Called with the number of bytes that have been read.
        """
        return replace(self, watch=watch)

    def blocks(self) -> Iterator[Any]:
        """The rows, some at a time."""
        return self.table.each(lambda start, rows, labels: rows, self.watch)

    def records(self, labels: Any, form: Form, check: LabelCheck) -> StoredRecords:
        """Records for a solver: one pass reads and checks all of them, and keeps a sample.

        Parameters
        ----------
        labels : StoredLabels or None
            Labels of the same table; None if they are not needed.
        form : Form
            How a row becomes the features of a loss.
        check : LabelCheck
            Check of the labels.
        """
        if labels is not None and getattr(labels, "table", None) is not self.table:
            raise TypeError("y must come from the same tables.open(...) as X")
        return surveyed(self, form, check)


@dataclass(frozen=True, eq=False)
class StoredLabels:
    """The labels of a table in files, for ``fit``.

    Parameters
    ----------
    table : Stored
        The table.
    """

    table: Stored

    @property
    def shape(self) -> tuple[int]:
        return (self.table.count,)

    def __len__(self) -> int:
        return self.table.count

    def blocks(self) -> Iterator[Any]:
        """The labels, some at a time."""
        return self.table.each(lambda start, rows, labels: labels)

    def distinct(self) -> Any:
        """Sorted distinct values. Reads the table once."""
        return np.unique(np.concatenate([np.unique(some) for some in self.blocks()]))

    def in_memory(self) -> Any:
        """All labels. Reads the table once."""
        return np.concatenate(list(self.blocks()))


@dataclass(frozen=True, eq=False)
class StoredRecords:
    """Records in files, in blocks: see `reticent.solve.blocks.Records`."""

    rows: StoredRows
    form: Form
    sample: InMemory  # a regular sample of the records
    every: int
    clipped: int
    beyond: float  # result of the check of the labels
    labels_are: Meaning = AsGiven()  # noqa: RUF009 (frozen)
    units: ClassVar[float] = UNITS

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.shape[0], self.form.dim(self.rows.shape[1])

    def map(self, work: Pass) -> Iterator[FloatArray]:
        def block(start: int, rows: Any, labels: Any) -> FloatArray:
            return work(Block(start, rows, self.labels_are.read(labels), _NONE, self.form))

        return self.rows.table.each(block, self.rows.watch)

    @property
    def identity(self) -> list[list[Any]]:
        """Identifies the records, for a run that another process continues."""
        return [[stamp.path, *stamp.identity[1:]] for stamp in self.rows.table.stamps]

    def thinned(self, every: int) -> InMemory:
        return self.sample.thinned(max(1, every // self.every))

    def meaning(self, labels: Meaning) -> StoredRecords:
        return replace(self, labels_are=labels, sample=self.sample.meaning(labels))

    def matrix(self) -> Any:
        raise TypeError(
            "this solver needs all records in memory, and these are in files; use one that works by "
            "passes: objective perturbation, output perturbation, gradient descent without sampling, or "
            "sufficient statistics"
        )


def surveyed(rows: StoredRows, form: Form, check: LabelCheck) -> StoredRecords:
    """Read all records once: refuse values that are not finite, count rows that are too long, keep a sample."""
    count, columns = rows.shape
    wanted = max(1, _SAMPLE_BYTES // (columns * rows.dtype.itemsize))
    every = max(1, math.ceil(count / wanted))

    def look(start: int, some: Any, labels: Any) -> tuple[int, float, Any, Any]:
        clipped, refused, first = survey(Block(start, some, _NONE, _NONE, form))
        if refused:
            raise TableError(
                f"record {start + first} has a feature that is missing or not finite; correct the table. Nothing was "
                "learnt"
            )
        beyond = check(labels, start)
        part = slice(-start % every, None, every)
        return clipped, beyond, np.array(some[part]), np.array(labels[part])

    found = list(rows.table.each(look, rows.watch))
    sample = InMemory(
        np.concatenate([one[2] for one in found]),
        np.concatenate([one[3] for one in found]),
        form=form,
    )
    clipped, beyond = sum(one[0] for one in found), sum(one[1] for one in found)
    return StoredRecords(rows, form, sample, every, clipped, beyond)
