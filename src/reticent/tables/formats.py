"""Tables that stay in their files: Parquet, Arrow and NumPy arrays of any size.

``open`` returns what an estimator's ``fit`` takes and reads only the files' metadata. Arrays are not memory-mapped,
because truncating a mapped file would kill the process. Considered: pyarrow.dataset's own scanner, which reads ahead
without a bound that holds for wide row groups.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from reticent import checks
from reticent.solve.blocks import ends, rows_per_block
from reticent.tables.encoder import Encoder
from reticent.tables.schema import TableError
from reticent.tables.sources import (
    COMPRESSED,
    _Text,
    cells,
    count_records,
    open_records,
    open_source,
    read_span,
    spans,
)
from reticent.tables.stored import Piece, Stamp, Stored, StoredLabels, StoredRows

_RECORDS = 2**14
"""Number of records of a text file that are read together."""
_ENDINGS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".npy": "npy",
}


def open(
    data: Any, target: str | int | os.PathLike[str], *, features: Sequence[str] | None = None
) -> tuple[StoredRows, StoredLabels]:
    """Open a table of any size, for an estimator's ``fit``.

    Parameters
    ----------
    data : path, sequence of paths or pyarrow.dataset.Dataset
        Parquet (``.parquet``), Arrow IPC (``.arrow``, ``.feather``) or NumPy (``.npy``) files, or a folder of such
        files, which are read in the order of their names. All must have the same columns.
    target : str, int or path
        Column of the labels: its name; for a NumPy array its index, or the ``.npy`` file that holds the labels.
    features : sequence of str, optional
        Columns of the features. Default: all others, which must be numbers.

    Returns
    -------
    X : StoredRows
        The features.
    y : StoredLabels
        The labels.

    Raises
    ------
    TableError
        If there is nothing to read, files differ in their columns, or a column does not hold numbers.

    Notes
    -----
    A fit reads the files several times: once to check everything, before any budget is spent, then once per step of a
    solver. docs/scale.md has measurements.


    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, reticent
    >>> from reticent import tables
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(20_000, 3)).astype(np.float32)
    >>> np.save(folder / "rows.npy", X)
    >>> np.save(folder / "labels.npy", X @ [1.0, -2.0, 0.5] > 0)
    >>> X, y = tables.open(folder / "rows.npy", target=folder / "labels.npy")
    >>> X.shape
    (20000, 3)
    >>> model = reticent.PrivateLogisticRegression(classes=[False, True], random_state=0).fit(X, y)
    >>> model.guarantee_.epsilon(1e-6) <= 1.0
    True
    """
    files = _files(data)
    kinds = {_ENDINGS.get(path.suffix, path.suffix) for path in files}
    if len(kinds) > 1:
        raise TableError(
            f"the files have several formats: {', '.join(sorted(kinds))}; open files of one format at a time"
        )
    kind = kinds.pop()
    if kind == "npy":
        table = _arrays(files, target, features)
    elif kind in ("parquet", "arrow"):
        table = _columns(files, kind, target, features)
    else:
        raise TableError(
            f"the format of {files[0]} cannot be determined from its name; known endings are {', '.join(_ENDINGS)}"
        )
    if table.count == 0:
        raise TableError(f"{files[0]} holds no records")
    return StoredRows(table), StoredLabels(table)


def _files(data: Any) -> list[Path]:
    if hasattr(data, "files") and hasattr(data, "to_batches"):  # a pyarrow dataset
        paths = [Path(name) for name in data.files]
    elif isinstance(data, str | os.PathLike):
        path = Path(data)
        if not path.is_dir():
            return [path]
        paths = sorted(p for p in path.iterdir() if p.is_file() and p.suffix in _ENDINGS)
    else:
        paths = [Path(one) for one in data]
    if not paths:
        raise TableError(f"{data} holds no Parquet, Arrow or NumPy files")
    return paths


@dataclass(frozen=True)
class _NumpyFile:
    """Records of a NumPy file, from one on."""

    stamp: Stamp
    dtype: np.dtype[Any]
    offset: int
    columns: int
    keep: tuple[int, ...] | None  # of the columns; None for all
    label: int | None  # the column of the labels
    start: int
    count: int
    labels: _NumpyFile | None = None  # or the file that they are in

    @property
    def size(self) -> int:
        return self.count * self.columns * self.dtype.itemsize

    def part(self, start: int, stop: int) -> _NumpyFile:
        labels = self.labels
        if labels is not None:
            labels = replace(labels, start=labels.start + start)
        return replace(self, start=self.start + start, count=stop - start, labels=labels)

    def pieces(self, rows: int) -> Iterator[Piece]:
        with builtins.open(self.stamp.path, "rb", buffering=0) as file:
            for start, stop in ends(self.count, rows):
                some = self._read(file, self.start + start, stop - start)
                labels: Any = np.empty(0)
                if self.labels is not None:
                    part = replace(self.labels, start=self.labels.start + start, count=stop - start)
                    labels = next(part.pieces(stop - start))[0][:, 0]
                elif self.label is not None:
                    labels = some[:, self.label].copy()
                yield (some if self.keep is None else some[:, self.keep]), labels

    def _read(self, file: Any, start: int, count: int) -> Any:
        out = np.empty((count, self.columns), dtype=self.dtype)
        view, width = out.reshape(-1).view(np.uint8).data, self.columns * self.dtype.itemsize
        file.seek(self.offset + start * width)
        got = 0
        while got < len(view):
            more = file.readinto(view[got:])
            if not more:
                raise TableError(
                    f"{self.stamp.path} ends after {start + got // width} of its records: it was truncated. Nothing is "
                    "released; restore the file and run again"
                )
            got += more
        return out


def _array(path: Path) -> _NumpyFile:
    stamp = Stamp.of(path)
    try:
        with builtins.open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, by_columns, dtype = read(file)
            offset = file.tell()
    except (ValueError, OSError) as error:
        raise TableError(f"{path} is not a readable NumPy file ({error})") from None
    if by_columns and len(shape) == 2 and min(shape) > 1:
        raise TableError(
            f"{path} is stored in column-major order; save np.ascontiguousarray of the array"
        )
    if len(shape) not in (1, 2) or dtype.kind not in "iufb":
        raise TableError(
            f"{path} must hold numbers, with one row per record; got {dtype} of shape {shape}"
        )
    columns = shape[1] if len(shape) == 2 else 1
    needed = offset + shape[0] * columns * dtype.itemsize
    if stamp.identity[2] < needed:
        raise TableError(
            f"{path} was cut short: it says {shape[0]} records, which take {needed} bytes, and has "
            f"{stamp.identity[2]}"
        )
    return _NumpyFile(stamp, dtype, offset, columns, None, None, 0, shape[0])


def _alike(files: list[Path]) -> list[_NumpyFile]:
    """The arrays of several files, which must have the same columns."""
    arrays = [_array(path) for path in files]
    first = arrays[0]
    if any((one.columns, one.dtype) != (first.columns, first.dtype) for one in arrays):
        raise TableError(
            "the files differ in their columns or types; open files with the same ones"
        )
    return arrays


def _label_file(target: Any, count: int) -> _NumpyFile:
    """The labels of so many records, in a file of their own."""
    labels = _array(Path(target))
    if labels.columns != 1 or labels.count != count:
        raise TableError(
            f"{target} must hold one label for each of the {count} records, got {labels.count} "
            f"records of {labels.columns}"
        )
    return labels


def _arrays(files: list[Path], target: Any, features: Sequence[str] | None) -> Stored:
    if features is not None:
        raise TableError("columns of a NumPy array have no names; leave features out")
    arrays = _alike(files)
    first = arrays[0]
    if isinstance(target, str | os.PathLike):
        if len(files) > 1:
            raise TableError("labels in a separate file need exactly one file of features")
        first = replace(first, labels=_label_file(target, first.count))
        whole, keep, label, name = [first], None, None, os.fspath(target)
    else:
        label = checks.integer(target, "target", low=-first.columns, high=first.columns - 1)
        label %= first.columns
        keep = tuple(j for j in range(first.columns) if j != label)
        whole, name = arrays, str(label)
    columns = first.columns if keep is None else len(keep)
    rows = 8 * rows_per_block(columns)
    kept = [replace(one, keep=keep, label=label) for one in whole]
    stretches = [one.part(*limits) for one in kept for limits in ends(one.count, rows)]
    dtype = first.dtype if first.dtype.kind == "f" else np.dtype(np.float64)
    return Stored(
        [_Numbers(one, dtype) for one in stretches],
        tuple(str(j) for j in range(columns)),
        name,
        dtype,
        () if first.labels is None else (first.labels.stamp,),
    )


@dataclass(frozen=True)
class _Around:
    """A stretch that returns the records of another one in another form."""

    inner: Any

    @property
    def count(self) -> int:
        return int(self.inner.count)

    @property
    def size(self) -> int:
        return int(self.inner.size)

    @property
    def stamp(self) -> Stamp:
        stamp: Stamp = self.inner.stamp
        return stamp


@dataclass(frozen=True)
class _Numbers(_Around):
    """Rows are floating-point numbers, whatever is in the file."""

    dtype: np.dtype[Any]

    def pieces(self, rows: int) -> Iterator[Piece]:
        for some, labels in self.inner.pieces(rows):
            yield np.ascontiguousarray(some, dtype=self.dtype), labels


@dataclass(frozen=True)
class _Group:
    """A row group of a Parquet file, or a batch of an Arrow file; the last of its columns are the labels."""

    stamp: Stamp
    kind: str
    number: int
    count: int
    size: int
    names: tuple[str, ...]
    dtype: np.dtype[Any]

    def pieces(self, rows: int) -> Iterator[Piece]:
        *features, target = self.names
        for batch in self._batches(rows):
            out = np.empty((batch.num_rows, len(features)), dtype=self.dtype)
            for j, name in enumerate(features):
                out[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
            yield out, _labels(batch.column(target), self.stamp.path)

    def _batches(self, rows: int) -> Iterator[Any]:
        wanted = list(self.names)
        if self.kind == "parquet":
            from pyarrow import parquet

            with parquet.ParquetFile(self.stamp.path, memory_map=True, pre_buffer=False) as file:
                yield from file.iter_batches(
                    rows, row_groups=[self.number], columns=wanted, use_threads=False
                )
            return
        import pyarrow

        with pyarrow.memory_map(self.stamp.path) as source:
            batch = pyarrow.ipc.open_file(source).get_batch(self.number).select(wanted)
            for start, stop in ends(batch.num_rows, rows):
                yield batch.slice(start, stop - start)


@dataclass(frozen=True)
class _Encoded(_Around):
    """A row group whose records are encoded by a schema as they are read."""

    encoder: Encoder
    first: int  # the number of its first record

    def pieces(self, rows: int) -> Iterator[Piece]:
        import pyarrow

        at = self.first
        for batch in self.inner._batches(rows):
            table = pyarrow.Table.from_batches([batch])
            columns = {name: cells(table.column(name)) for name in table.column_names}
            yield _encoded(self.encoder, columns, batch.num_rows, at)
            at += batch.num_rows


@dataclass(frozen=True)
class _Lines:
    """Some records of a CSV or JSON lines file, parsed and encoded by a schema as they are read."""

    stamp: Stamp
    kind: str
    start: int
    stop: int
    count: int
    encoder: Encoder
    first: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def pieces(self, rows: int) -> Iterator[Piece]:
        source = read_span(Path(self.stamp.path), self.kind, self.start, self.stop)
        at = self.first
        while not source.ended:
            columns, got = source.read(rows)
            if got:
                yield _encoded(self.encoder, columns, got, at)
                at += got


@dataclass(frozen=True)
class _Packed:
    """A compressed CSV or JSON lines file, unpacked, parsed and encoded some records at a time."""

    stamp: Stamp
    kind: str
    count: int
    encoder: Encoder
    first: int

    @property
    def size(self) -> int:
        return self.stamp.identity[2]

    def pieces(self, rows: int) -> Iterator[Piece]:
        source = open_source(self.stamp.path, self.kind)
        at = self.first
        while not source.ended:
            # no more at a time than of plain text: parsed records need many times the memory of their numbers
            columns, got = source.read(min(rows, _RECORDS))
            if got:
                yield _encoded(self.encoder, columns, got, at)
                at += got


def _encoded(encoder: Encoder, columns: Any, count: int, first: int) -> Piece:
    """Records by column as numbers; an invalid label ends the run."""
    found = encoder.encode(columns, count)
    if found.bad:
        row = min(found.bad)
        raise TableError(f"record {first + row + 1}: {found.bad[row]}; nothing was learnt")
    return found.X, found.y


def _text(files: Sequence[Path], kind: str, encoder: Encoder) -> list[_Lines | _Packed]:
    """Stretches of text files, found by reading them once; a compressed file is read from its start."""
    stretches: list[_Lines | _Packed] = []
    first = 0
    header = open_source(files[0], kind).header
    for path in files:
        stamp = Stamp.of(path)
        if path.stat().st_size and open_source(path, kind).header != header:
            raise TableError(f"{path} differs from {files[0]} in its header")
        if path.suffix in COMPRESSED:
            many = count_records(path, kind)
            assert many is not None
            if many:
                stretches.append(_Packed(stamp, kind, many, encoder, first))
            first += many
            continue
        for start, stop, count in spans(path, kind, _RECORDS):
            stretches.append(_Lines(stamp, kind, start, stop, count, encoder, first))
            first += count
    return stretches


def open_encoded(
    data: str | os.PathLike[str], encoder: Encoder, kind: str | None = None
) -> tuple[StoredRows, StoredLabels]:
    """Open a table of any size that a schema describes; records are encoded in every pass.

    Parameters
    ----------
    data : path
        A Parquet, CSV or JSON lines file, or a folder of such files. Text may be compressed. It is read once to find
        where records begin, or how many there are.
    encoder : Encoder
        Encoder of the records.
    kind : {"csv", "jsonl", "parquet"}, optional
        Format; by default determined from the name.

    Returns
    -------
    X : StoredRows
        The features.
    y : StoredLabels
        The labels.
    """
    if encoder.person is not None:
        raise TableError(
            f"a table that stays in its files protects single records only, and column {encoder.person!r} holds "
            "persons; "
            "read the table into memory (tables.read), or declare the column as 'ignore'"
        )
    source, _ = open_records(data, encoder, kind)
    stretches: list[Any]
    if isinstance(source, _Text):
        stretches = list(_text(source.files, source.kind, encoder))
    else:
        wanted = tuple(column.name for column in (*encoder.columns, encoder.target))
        groups = _groups(
            _files(data), "parquet", lambda schema, path: (wanted, np.dtype(np.float64))
        )
        starts = np.cumsum([0, *(group.count for group in groups)])
        stretches = [
            _Encoded(group, encoder, int(start))
            for group, start in zip(groups, starts[:-1], strict=True)
        ]
    if not stretches:
        raise TableError(f"{data} holds no records")
    names = tuple(encoder.names)
    table = Stored(stretches, names, encoder.target.name, np.dtype(np.float64))
    return StoredRows(table), StoredLabels(table)


def _labels(column: Any, path: str) -> Any:
    import pyarrow

    if column.null_count:
        raise TableError(
            f"a label in {path} is missing; add it or remove the record. Nothing was learnt"
        )
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    found = column.to_numpy(zero_copy_only=False)
    return found.astype(str) if found.dtype == object else found


def _columns(files: list[Path], kind: str, target: Any, features: Sequence[str] | None) -> Stored:
    if not isinstance(target, str):
        raise TableError(f"target must be the name of a column, got {target!r}")

    def choose(schema: Any, path: Path) -> tuple[tuple[str, ...], np.dtype[Any]]:
        names, dtype = _chosen(schema, target, features, path)
        return (*names, target), dtype

    groups = _groups(files, kind, choose)
    if not groups:
        raise TableError(f"{files[0]} holds no records")
    return Stored(groups, groups[0].names[:-1], target, groups[0].dtype)


def _groups(
    files: list[Path],
    kind: str,
    choose: Callable[[Any, Path], tuple[tuple[str, ...], np.dtype[Any]]],
) -> list[_Group]:
    """The row groups or batches of all files, which must agree in the columns that are read."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet and Arrow files need pyarrow: pip install pyarrow") from error
    groups: list[_Group] = []
    names: tuple[str, ...] = ()
    schema = None
    for path in files:
        stamp = Stamp.of(path)
        try:
            found, sizes = (_parquet_sizes if kind == "parquet" else _arrow_sizes)(path)
        except (pyarrow.ArrowException, OSError) as error:
            raise TableError(f"{path} is not a readable {kind} file ({error})") from None
        if schema is None:
            schema, (names, dtype) = found, choose(found, path)
        elif [found.field(n).type for n in names if n in found.names] != [
            schema.field(n).type for n in names
        ]:
            raise TableError(
                f"{path} differs from {files[0]} in the columns that are read, or in their types; open "
                "files with the same ones"
            )
        groups += [
            _Group(stamp, kind, k, count, size, names, dtype)
            for k, (count, size) in enumerate(sizes)
            if count
        ]
    return groups


def _parquet_sizes(path: Path) -> tuple[Any, list[tuple[int, int]]]:
    """The schema of a file, and the numbers of rows and of bytes of its row groups."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        meta = file.metadata
        groups = [meta.row_group(k) for k in range(meta.num_row_groups)]
        return file.schema_arrow, [(group.num_rows, group.total_byte_size) for group in groups]


def _arrow_sizes(path: Path) -> tuple[Any, list[tuple[int, int]]]:
    """The schema of a file, and the numbers of rows and of bytes of its batches."""
    import pyarrow

    with pyarrow.memory_map(str(path)) as source:
        reader = pyarrow.ipc.open_file(source)
        batches = [reader.get_batch(k) for k in range(reader.num_record_batches)]
        sizes = [(batch.num_rows, batch.nbytes) for batch in batches]
        del batches
        return reader.schema, sizes


def _chosen(
    schema: Any, target: str, features: Sequence[str] | None, path: Path
) -> tuple[tuple[str, ...], np.dtype[Any]]:
    there = list(schema.names)
    wanted = tuple(n for n in there if n != target) if features is None else tuple(features)
    for name in (target, *wanted):
        if there.count(name) != 1:
            raise TableError(
                f"{path} has no single column {name!r}; its columns are {', '.join(there)}"
            )
    if not wanted:
        raise TableError(
            f"{path} has no column besides the target {target!r}; there is nothing to learn from"
        )
    kinds = [schema.field(name).type for name in wanted]
    for name, kind in zip(wanted, kinds, strict=True):
        if not _is_number(kind):
            raise TableError(
                f"column {name!r} of {path} has type {kind}, which is not a number; list the features (features=), "
                "or encode it first"
            )
    narrow = all(_is_narrow(kind) for kind in kinds)
    return wanted, np.dtype(np.float32 if narrow else np.float64)


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def _is_narrow(kind: Any) -> bool:
    """Whether single precision holds every number of this type."""
    from pyarrow import types

    if types.is_boolean(kind) or types.is_float32(kind) or types.is_float16(kind):
        return True
    return bool(kind.bit_width <= 16)
