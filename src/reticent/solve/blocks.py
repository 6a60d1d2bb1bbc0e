"""Records in blocks: what every pass over a table reads, whether it is in memory, in files or elsewhere.

A *pass* is a function of one block of records that returns a small array; the arrays of all blocks are added in
pairs, in the order of the blocks. Block boundaries depend only on the size of the table, so a result is the same to
the last bit whichever thread, process or machine computed a block.

Rows stay as they are (single precision, a memory map, a sparse matrix). A :class:`Form` says how a row becomes the
features of a loss; it is applied when a pass reads the row, in memory owned by the library. The same holds for the
meaning of a label.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import scipy.sparse as sp
from threadpoolctl import ThreadpoolController

from reticent.checks import FloatArray, check_whole
from reticent.noise import door

UNLIMITED = 1e150
"""Length limit that stands for none, for rows that nobody else can change."""
UNITS = 160.0
"""Bound on the rounding error of a sum of rows, in units of 2^-53 times the sum of their lengths."""
MOST_BLOCKS = 2**24
"""Number of blocks that can be added in pairs within the bound on rounding errors."""
_ROWS = 128  # the number of rows of a block is a multiple of this
_NUMBERS = 2**21  # approximate count of numbers in a block
_MOST_ROWS = 2**16
_APART = 1021


@dataclass(frozen=True)
class Form:
    """How a row becomes the features of a loss.

    Parameters
    ----------
    unit : float
        The row is divided by this.
    length : float
        If the row is then longer than this (Euclidean norm), it is scaled down to it.
    constant : float
        A constant feature after the others, for an intercept; 0 for none.

    Examples
    --------
    >>> form = Form(unit=2.0, length=1.0, constant=0.5)
    >>> form.applied(np.array([[3.0, 4.0], [1.0, 0.0]])).round(9).tolist()
    [[0.6, 0.8, 0.5], [0.5, 0.0, 0.5]]
    """

    unit: float = 1.0
    length: float = UNLIMITED
    constant: float = 0.0

    def dim(self, columns: int) -> int:
        """Number of features of a row with this number of columns."""
        return columns + (self.constant != 0.0)

    def limit(self, columns: int) -> float:
        """The measured length up to which a row is not scaled down.

        Half the margin of :meth:`norm` lets rows pass that were scaled to exactly this length, whatever their rounding.
        The error of a measurement is at most a quarter of it, so :meth:`norm` is still a bound.
        """
        return min(UNLIMITED, self.length * (1.0 + 0.5 * door.margin(columns)))

    def norm(self, dim: int) -> float:
        """A bound on the true length of every row in this form."""
        return math.hypot(self.length * (1.0 + door.margin(dim)), self.constant)

    def applied(self, rows: Any) -> Any:
        """All rows in this form, in new memory: a float64 array, or a CSR array if they are sparse."""
        if sp.issparse(rows):
            made = sp.csr_array(rows, dtype=np.float64, copy=True)
            data = np.array(made.data)
            limit = self.limit(rows.shape[1])
            door.bounded_sparse_rows(made.indptr, data, 1.0 / self.unit, limit, made.data)
            if not self.constant:
                return made
            column = np.full((made.shape[0], 1), self.constant)
            return sp.csr_array(sp.hstack([made, column], format="csr"))
        out = np.empty((rows.shape[0], self.dim(rows.shape[1])))
        out[:, rows.shape[1] :] = self.constant
        limit = self.limit(rows.shape[1])
        door.bounded_rows(rows, 1.0 / self.unit, limit, out[:, : rows.shape[1]])
        return out


AS_IT_IS = Form()


@dataclass(frozen=True)
class AsGiven:
    """Labels that are already numbers."""

    def read(self, labels: Any) -> FloatArray:
        return np.asarray(labels, dtype=np.float64)


@dataclass(frozen=True)
class IsClass:
    """1 for one class and -1 for all others.

    Parameters
    ----------
    name : object
        The label of that class.

    Examples
    --------
    >>> IsClass("yes").read(np.array(["no", "yes"])).tolist()
    [-1.0, 1.0]
    """

    name: Any

    def read(self, labels: Any) -> FloatArray:
        return np.where(np.asarray(labels) == self.name, 1.0, -1.0)


@dataclass(frozen=True)
class Within:
    """Numbers clipped to bounds, which are mapped to -1 and 1.

    Parameters
    ----------
    low : float
        Smaller labels count as this.
    high : float
        Larger labels count as this.

    Examples
    --------
    >>> Within(0.0, 10.0).read(np.array([2.5, 99.0])).tolist()
    [-0.5, 1.0]
    """

    low: float
    high: float

    def read(self, labels: Any) -> FloatArray:
        y = np.clip(np.asarray(labels, dtype=np.float64), self.low, self.high)
        return np.clip((y - self.low) / (self.high - self.low) * 2.0 - 1.0, -1.0, 1.0)


@dataclass(frozen=True)
class AsFound:
    """Labels as they are, numbers or not, for inspection."""

    def read(self, labels: Any) -> Any:
        return labels


Meaning = AsGiven | AsFound | IsClass | Within
"""The meaning of labels."""


class Block(NamedTuple):
    """Consecutive records.

    Attributes
    ----------
    start : int
        Number of the first record.
    rows : array or CSR matrix
        The rows as they are; ``form`` says what becomes of them.
    labels : array
        One number per record; empty if there are none.
    weights : array
        One per record; empty if all are 1.
    form : Form
        How a row becomes the features of a loss.
    """

    start: int
    rows: Any
    labels: FloatArray
    weights: FloatArray
    form: Form


Pass = Callable[[Block], FloatArray]
"""A function of one block. If it can be pickled, it may run in another process."""


@runtime_checkable
class Records(Protocol):
    """Records in blocks.

    Attributes
    ----------
    shape : (int, int)
        Number of records, and number of features of each, a constant one included.
    form : Form
        How a row becomes the features of a loss.
    clipped : int or None
        Number of rows that are longer than their form allows, if it is known; then all rows are known to be finite,
        too.
    units : float
        Bound on the rounding error of sums of rows, in units of rounding: `UNITS` for the kernels of
        :mod:`reticent.erm.rounded_sums`; more for a device that adds in another order.
    """

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def form(self) -> Form: ...

    @property
    def clipped(self) -> int | None: ...

    @property
    def units(self) -> float: ...

    def map(self, work: Pass) -> Iterator[FloatArray]:
        """The result for every block, in the order of the blocks."""

    def thinned(self, every: int) -> Records:
        """Every ``every``-th record, or about as many, in memory; to start a run with, never to finish it."""

    def meaning(self, labels: Meaning) -> Self:
        """The same records with another meaning of their labels."""

    def matrix(self) -> Any:
        """All rows in their form, in memory; refused if the rows are not in memory."""


class LabelCheck(Protocol):
    """Checks labels where they are: ``check(labels, number of the first)``. It can be pickled.

    It raises for labels that cannot be used. Its results are added up.
    """

    by_value: ClassVar[bool]
    """Whether it is enough to check each distinct value once."""

    def __call__(self, y: Any, start: int) -> float: ...


@runtime_checkable
class Lazy(Protocol):
    """The features of a table that an estimator can fit even if they are not in memory.

    Attributes
    ----------
    shape : (int, int)
        Numbers of records and of features.
    names : tuple of str or None
        Names of the features.
    """

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def names(self) -> tuple[str, ...] | None: ...

    def blocks(self) -> Iterator[Any]:
        """The rows, a few at a time."""

    def records(self, labels: Any, form: Form, check: LabelCheck) -> Records:
        """Records for a solver, after one pass that reads and checks all of them.

        The results of the checks are added up in an attribute ``beyond``.
        """


_NONE = np.empty(0)


@dataclass(frozen=True, eq=False)
class InMemory:
    """Records in arrays or memory maps, read as they are.

    Parameters
    ----------
    rows : array or CSR matrix
        One row for each record.
    labels : array, optional
        One for each record.
    weights : array, optional
        One for each record.
    form : Form
        How a row becomes the features of a loss.
    labels_are : AsGiven, IsClass or Within
        The meaning of the labels.
    fits : bool
        Whether all rows are known to be in their form already.
    clipped : int, optional
        Number of rows that are longer than their form allows, if it is known.

    Examples
    --------
    >>> table = InMemory(np.ones((3, 2), np.float32), np.array([0, 1, 1]), labels_are=IsClass(1))
    >>> [block.labels.tolist() for block in table.blocks()]
    [[-1.0, 1.0, 1.0]]
    """

    rows: Any
    labels: Any = None
    weights: FloatArray | None = None
    form: Form = AS_IT_IS
    labels_are: Meaning = AsGiven()
    fits: bool = False
    clipped: int | None = None
    units: ClassVar[float] = UNITS

    @cached_property
    def shape(self) -> tuple[int, int]:
        return int(self.rows.shape[0]), self.form.dim(int(self.rows.shape[1]))

    def blocks(self) -> Iterator[Block]:
        return (self._block(*ends) for ends in self._ends)

    def map(self, work: Pass) -> Iterator[FloatArray]:
        check_whole(self.rows)
        return in_order(self._ends, lambda ends: work(self._block(*ends)))

    def thinned(self, every: int) -> InMemory:
        rows = self.rows[::every]
        return replace(
            self,
            rows=rows if sp.issparse(rows) else np.ascontiguousarray(rows),
            labels=None if self.labels is None else np.array(self.labels[::every]),
            weights=None if self.weights is None else self.weights[::every].copy(),
        )

    def meaning(self, labels: Meaning) -> InMemory:
        return replace(self, labels_are=labels)

    def matrix(self) -> Any:
        return self._matrix

    @cached_property
    def _matrix(self) -> Any:
        return self.rows if self.fits or self.form == AS_IT_IS else self.form.applied(self.rows)

    def vector(self) -> FloatArray:
        """All labels, converted by their meaning."""
        return _NONE if self.labels is None else self.labels_are.read(self.labels)

    @cached_property
    def _ends(self) -> list[tuple[int, int]]:
        return ends(*block_size(self.rows))

    def _block(self, start: int, stop: int) -> Block:
        rows = self.rows[start:stop]
        if not sp.issparse(rows) and not rows.flags.c_contiguous:
            rows = np.ascontiguousarray(rows)
        labels = _NONE if self.labels is None else self.labels_are.read(self.labels[start:stop])
        weights = _NONE if self.weights is None else self.weights[start:stop]
        return Block(start, rows, np.ascontiguousarray(labels), weights, self.form)


@dataclass(frozen=True)
class CutEntries:
    """A pass over rows each of whose *entries* is clipped to [-bound, bound] and divided by the bound.

    Parameters
    ----------
    work : Pass
        The pass over the clipped rows.
    bound : float
        Bound on the size of an entry.
    constant : float
        A constant feature after the others; 0 for none.
    form : Form
        What is done with the rows afterwards.
    """

    work: Pass
    bound: float
    constant: float
    form: Form

    def __call__(self, block: Block) -> FloatArray:
        rows = cut_entries(block.rows, self.bound, self.constant)
        return self.work(block._replace(rows=rows, form=self.form))


def cut_entries(rows: Any, bound: float, constant: float) -> FloatArray:
    """Rows in new memory, with every entry clipped to the bound and divided by it, and a constant feature."""
    columns = rows.shape[1]
    out = np.empty((rows.shape[0], columns + (constant != 0.0)))
    out[:, columns:] = constant
    np.multiply(np.clip(rows, -bound, bound), 1.0 / bound, out=out[:, :columns])
    # rounding may make a product larger than 1
    return np.clip(out, -1.0, 1.0, out=out)


@dataclass(frozen=True)
class CountBeyond:
    """Count the rows that have an entry beyond the bound."""

    bound: float

    def __call__(self, block: Block) -> FloatArray:
        return np.array([float((np.abs(block.rows) > self.bound).any(axis=1).sum())])


@dataclass(frozen=True, eq=False)
class ByEntries:
    """Records that are not in memory, whose entries are clipped instead of their rows, which is enough for an l1 ball.

    Parameters
    ----------
    inner : Records
        The records as they are.
    bound : float
        Every feature is clipped to this, and divided by it.
    constant : float
        A constant feature after the others, of at most 1; 0 for none.
    clipped : int
        Number of records with an entry beyond the bound.
    form : Form
        What is done with a row afterwards.

    Examples
    --------
    >>> inner = InMemory(np.array([[3.0, -1.0]]), np.array([1.0]))
    >>> cut = ByEntries(inner, 2.0, 1.0)
    >>> cut.shape, summed(cut.map(lambda block: block.rows.sum(axis=0))).tolist()
    ((1, 3), [1.0, -0.5, 1.0])
    """

    inner: Records
    bound: float
    constant: float
    clipped: int = 0
    form: Form = AS_IT_IS

    @property
    def shape(self) -> tuple[int, int]:
        count, columns = self.inner.shape
        return count, columns + (self.constant != 0.0)

    @property
    def units(self) -> float:
        return self.inner.units

    @property
    def beyond(self) -> float:
        """The sum of the results of the label checks."""
        return float(self.inner.beyond)  # type: ignore[attr-defined]

    @property
    def identity(self) -> Any:
        """Which records these are, if it is known."""
        return getattr(self.inner, "identity", None)

    def confirm(self) -> None:
        """Refuse records that have changed since they were first read."""
        confirm(self.inner)

    def map(self, work: Pass) -> Iterator[FloatArray]:
        return self.inner.map(CutEntries(work, self.bound, self.constant, self.form))

    def thinned(self, every: int) -> InMemory:
        part = self.inner.thinned(every)
        assert isinstance(part, InMemory)
        rows = cut_entries(part.rows, self.bound, self.constant)
        return replace(part, rows=rows, form=self.form)

    def meaning(self, labels: Meaning) -> ByEntries:
        return replace(self, inner=self.inner.meaning(labels))

    def matrix(self) -> Any:
        return self.inner.matrix()


def confirm(records: Any) -> None:
    """Before a release, check records once more for changes that passes may not have noticed.

    Parameters
    ----------
    records : Records or array
        The records over which passes were made.
    """
    look = getattr(records, "confirm", None)
    if look is not None:
        look()


def rows_per_block(columns: int) -> int:
    """Number of rows in a block if rows have this number of columns."""
    rows = min(_MOST_ROWS, _NUMBERS // max(1, columns))
    return _ROWS * max(1, rows // _ROWS)


def block_size(rows: Any) -> tuple[int, int]:
    """The number of records, and the number of records in a block."""
    count, columns = int(rows.shape[0]), int(rows.shape[1])
    if not sp.issparse(rows):
        return count, rows_per_block(columns)
    # A block's sum has an entry for every column, so a block should contain several times as many numbers.
    wanted = max(_NUMBERS, 4 * columns)
    each = max(1.0, rows.nnz / max(1, count))
    return count, _ROWS * max(1, math.ceil(wanted / each / _ROWS))


def ends(count: int, size: int) -> list[tuple[int, int]]:
    """First and last record of each block of a given size."""
    if math.ceil(count / size) > MOST_BLOCKS:
        raise ValueError(
            f"{count} records in blocks of {size} make more than the {MOST_BLOCKS} blocks that are supported"
        )
    return [(start, min(count, start + size)) for start in range(0, count, size)]


def threads() -> int:
    """Number of threads for passes: RETICENT_THREADS, by default the number of cores that this process may use."""
    given = os.environ.get("RETICENT_THREADS")
    if given is None:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    if not given.isdigit() or int(given) < 1:
        raise ValueError(f"RETICENT_THREADS must be a whole number of at least 1, got {given!r}")
    return int(given)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> Any:
    """A context in which BLAS uses one thread, because more would compete with passes for the same cores.

    The libraries are looked up only once, because that takes milliseconds.
    """
    return _blas().limit(limits=1, user_api="blas")


def checksum(array: Any) -> int:
    """A number that almost surely changes if the array does, and is the same in every process.

    Parameters
    ----------
    array : array
        A contiguous array of numbers or of objects.

    Examples
    --------
    >>> checksum(np.arange(5.0)) == checksum(np.arange(5.0)) != checksum(
    ...     np.arange(5.0)[::-1].copy()
    ... )
    True
    """
    if array.dtype.kind == "O":
        # not Python's own hash, which differs from process to process
        text = repr(array.tolist()).encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    bytes_ = array.view(np.uint8).ravel()
    whole = len(bytes_) // 8 * 8
    words = bytes_[:whole].view(np.uint64)
    # sums of words at a fixed distance, so that moved records are noticed too; as fast as reading them once
    even = len(words) // _APART * _APART
    sums = words[:even].reshape(-1, _APART).sum(axis=0, dtype=np.uint64)
    sums[: len(words) - even] += words[even:]
    text = sums.tobytes() + bytes_[whole:].tobytes() + len(bytes_).to_bytes(8, "little")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def in_order(items: Iterable[Any], work: Callable[[Any], Any]) -> Iterator[Any]:
    """``work(item)`` for all items, several at a time but in their order, with one thread for BLAS."""
    listed = list(items)
    if len(listed) == 1:
        yield work(listed[0])
        return
    with one_blas_thread():
        many = min(threads(), len(listed))
        if many == 1:
            yield from map(work, listed)
            return
        with ThreadPoolExecutor(many) as pool:
            yield from pool.map(work, listed)


def summed(parts: Iterable[FloatArray]) -> FloatArray:
    """The sum of the blocks' results, added in pairs in their order.

    Each result takes part in at most ``log2(number of blocks) + 1`` additions.

    Examples
    --------
    >>> summed(np.array([float(k)]) for k in range(5)).tolist()
    [10.0]
    """
    waiting: list[tuple[int, FloatArray]] = []
    for part in parts:
        level, total = 0, part
        while waiting and waiting[-1][0] == level:
            total = waiting.pop()[1] + total
            level += 1
        waiting.append((level, total))
    if not waiting:
        raise ValueError("there are no blocks to add")
    total = waiting.pop()[1]
    while waiting:
        total = waiting.pop()[1] + total
    return total
