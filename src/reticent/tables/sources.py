"""Sources of records: CSV, JSON lines or Parquet, from a file, a folder, or a live stream.

Records are requested by number (``read(n)``), so that the learner decides where a step ends. CSV and JSON lines need
only the standard library, also compressed (``.gz``, ``.bz2``, ``.xz``); Parquet and ``.zst`` need pyarrow.

A line that cannot be parsed is still a record, with all its cells missing. Leaving it out would shift all later records
by one, which no guarantee covers. For the same reason only a line feed ends a line: a carriage return within a cell is
no more than a character of it.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import itertools
import json
import lzma
import os
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from reticent.tables.encoder import Encoded, Encoder
from reticent.tables.schema import TableError

STDIN = "-"
_ENDINGS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
"""Endings of compressed text."""
_PACKED = 8
"""Assumed ratio of the size of text to its compressed size."""
_BLOCK = 65536
_PATIENCE = 0.2  # seconds between checks for a stop, while a live stream is silent

Rows = tuple[dict[str, Sequence[Any]], int]


class Source(Protocol):
    """Records in order, requested by number.

    Attributes
    ----------
    header : list of str or None
        Names of the columns; None if each record names its own cells (JSON lines).
    live : bool
        Whether records arrive while they are read.
    ended : bool
        Whether there are no more.
    """

    header: list[str] | None
    live: bool
    ended: bool

    def read(self, count: int) -> Rows:
        """Read the next records.

        Parameters
        ----------
        count : int
            Number of records. There are fewer only at the end, or if a live stream was asked to stop.

        Returns
        -------
        columns : mapping of str to sequence
            The cells of each column.
        count : int
            Number of records that were read.
        """


def _files_of(folder: Path, data: str, kind: str | None) -> tuple[list[Path], str]:
    """The files of a folder, in order, and their common format."""
    files = sorted(p for p in folder.iterdir() if p.is_file() and _ending(p) in _ENDINGS)
    if not files:
        raise TableError(f"the folder {data} holds no CSV, JSON lines or Parquet files")
    kinds = {_kind(file, kind) for file in files}
    if len(kinds) > 1:
        raise TableError(
            f"the folder {data} holds several formats; say which one (--format, or kind=)"
        )
    return files, kinds.pop()


def open_source(
    data: str | os.PathLike[str],
    kind: str | None = None,
    stopped: Callable[[], bool] = lambda: False,
    names: Sequence[str] = (),
) -> Source:
    """Open a table or a stream of records.

    Parameters
    ----------
    data : path or str
        A file, a folder of files with the same columns, or ``-`` for standard input.
    kind : {"csv", "jsonl", "parquet"}, optional
        Format; by default determined from the name, and for a stream from the first character.
    stopped : callable
        Called while a live stream is silent; a true result ends the stream.
    names : sequence of str
        Columns that will be needed; others need not be read. Default: all.

    Returns
    -------
    Source
        The records.

    Raises
    ------
    TableError
        If there is nothing to read, or its format cannot be determined.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from reticent import tables
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "visits.csv"
    >>> _ = path.write_text("age,spent\\n35,yes\\n61,no\\n")
    >>> source = tables.open_source(path)
    >>> source.header
    ['age', 'spent']
    >>> source.read(10)
    ({'age': ('35', '61'), 'spent': ('yes', 'no')}, 2)
    >>> source.ended
    True
    """
    data = os.fspath(data)
    if data == STDIN:
        return _live(sys.stdin.fileno(), kind, stopped, names)
    path = Path(data)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise TableError(f"{data} cannot be read: {error.strerror}") from None
    if stat.S_ISDIR(mode):
        files, word = _files_of(path, data, kind)
    elif stat.S_ISREG(mode):
        files, word = [path], _kind(path, kind)
    else:
        return _live(os.open(path, os.O_RDONLY), kind, stopped, names)
    if word == "parquet":
        return _Parquet(files, names)
    return _Text(lambda: itertools.chain.from_iterable(map(_lines, files)), word, files)


def count_records(
    data: str | os.PathLike[str],
    kind: str | None = None,
    *,
    watch: Callable[[int], None] = lambda count: None,
) -> int | None:
    """Number of records of a file or folder; None for a stream.

    Parameters
    ----------
    data : path or str
        A file, a folder of files, or ``-`` for standard input.
    kind : {"csv", "jsonl", "parquet"}, optional
        Format; by default determined from the name.
    watch : callable
        Called from time to time with the number of records counted so far.
    """
    source = open_source(data, kind) if os.fspath(data) != STDIN else None
    if source is None or source.live:
        return None
    if isinstance(source, _Parquet):
        return source.count()
    total = 0
    while True:
        _, got = source.read(_BLOCK)
        total += got
        watch(total)
        if source.ended:
            return total


def open_records(
    data: str | os.PathLike[str],
    encoder: Encoder,
    kind: str | None = None,
    stopped: Callable[[], bool] = lambda: False,
    *,
    labels: bool = True,
) -> tuple[Source, list[str]]:
    """Open a table for one encoder: only its columns are read, and all of them must exist.

    Parameters
    ----------
    data : path or str
        A file, a folder of files with the same columns, or ``-`` for standard input.
    encoder : Encoder
        Encoder that determines the columns.
    kind : {"csv", "jsonl", "parquet"}, optional
        Format; by default determined from the name, and for a stream from the first character.
    stopped : callable
        Called while a live stream is silent; a true result ends the stream.
    labels : bool
        Whether the target is needed too. Default: True.

    Returns
    -------
    source : Source
        The records.
    unused : list of str
        Columns of the table that the schema does not declare.
    """
    source = open_source(data, kind, stopped, encoder.wanted(labels))
    if source.header is None:
        return source, []
    return source, encoder.check_header(source.header, target=labels)


def batches(
    source: Source, encoder: Encoder, *, rows: int = 8192, labels: bool = True
) -> Iterator[Encoded]:
    """The rest of a source in encoded batches; a live source gives one record at a time.

    Parameters
    ----------
    source : Source
        The result of :func:`open_source` or :func:`open_records`.
    encoder : Encoder
        Encoder of the records.
    rows : int
        Number of records per batch.
    labels : bool
        Whether to encode the target. Default: True.
    """
    while not source.ended:
        columns, got = source.read(1 if source.live else rows)
        yield encoder.encode(columns, got, labels=labels)


def read(
    data: str | os.PathLike[str], encoder: Encoder, kind: str | None = None, *, labels: bool = True
) -> Encoded:
    """Read a whole table into memory, encoded.

    Parameters
    ----------
    data : path or str
        A file, a folder of files with the same columns, or ``-`` for standard input.
    encoder : Encoder
        Encoder of the records.
    kind : {"csv", "jsonl", "parquet"}, optional
        Format; by default determined from the name, and for a stream from the first character.
    labels : bool
        Whether to encode the target. Default: True.

    Returns
    -------
    Encoded
        ``X``, ``y`` and ``persons`` (as ``groups``) are arguments of an estimator's ``fit``; the rows in ``bad`` have
        no usable label or no person.


    Examples
    --------
    >>> import pathlib, tempfile
    >>> from reticent import tables
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "visits.csv"
    >>> _ = path.write_text("age,spent\\n35,yes\\n80,no\\n40,perhaps\\n")
    >>> age = {"type": "number", "bounds": [0, 80]}
    >>> columns = {"age": age, "spent": {"type": "boolean"}}
    >>> encoder = tables.Encoder(tables.Schema.from_dict({"columns": columns}), "spent")
    >>> records = tables.read(path, encoder)
    >>> records.X.tolist(), records.y.tolist(), records.bad
    ([[-0.125], [1.0], [0.0]], ['true', 'false', 'false'], {2: "column 'spent' is not one of its declared values"})
    """
    source, _ = open_records(data, encoder, kind, labels=labels)
    return join(batches(source, encoder, labels=labels))


def join(parts: Iterable[Encoded]) -> Encoded:
    """Concatenate batches of encoded records."""
    parts = list(parts)
    bad: dict[int, str] = {}
    before = 0
    for part in parts:
        bad |= {before + row: reason for row, reason in part.bad.items()}
        before += len(part.X)
    without = parts[0].y is None
    return Encoded(
        np.concatenate([part.X for part in parts]),
        None if without else np.concatenate([part.y for part in parts]),
        np.concatenate([part.codes for part in parts]),
        bad,
        sum(part.outside for part in parts),
        None
        if parts[0].persons is None
        else [name for part in parts for name in part.persons or ()],
    )


def _kind(path: Path, kind: str | None) -> str:
    word = kind or _ENDINGS.get(_ending(path))
    if word is None:
        raise TableError(
            f"the format of {path} cannot be determined from its name; state it (--format, or kind=): csv, jsonl or "
            "parquet"
        )
    if word == "parquet" and path.suffix in COMPRESSED:
        raise TableError(
            f"{path} is a compressed Parquet file; decompress it first, Parquet compresses its own content"
        )
    return word


def _ending(path: Path) -> str:
    """The ending that determines the format: that of ``visits.csv.gz`` is ``.csv``."""
    return Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def _bytes(path: Path) -> Any:
    """Open a file for reading, decompressed according to its ending."""
    if path.suffix != ".zst":
        readers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
        return readers.get(path.suffix, open)(path, "rb")
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"{path} needs pyarrow: pip install pyarrow") from error
    return pyarrow.input_stream(str(path), compression="zstd")


def _lines(path: Path) -> Iterator[str]:
    try:
        with (
            _bytes(path) as stored,
            io.TextIOWrapper(stored, "utf-8-sig", errors="replace", newline="\n") as file,
        ):
            yield from file
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise TableError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None


class _Text:
    """CSV or JSON lines, from any iterator of lines."""

    live = False

    def __init__(
        self,
        lines: Callable[[], Iterator[str]],
        kind: str,
        files: Sequence[Path] = (),
        ahead: bool = True,
    ) -> None:
        self.files = files
        self.kind = kind
        self.ended = False
        self.header: list[str] | None = None
        self._width = 0
        if kind == "jsonl":
            self._rows: Iterator[Any] = (_object(line) for line in lines() if line.strip())
        elif len(files) > 1:
            self._rows = itertools.chain.from_iterable(self._table(_lines(f)) for f in files)
            self._first()
        else:
            self._rows = self._table(lines())
            if ahead:
                self._first()

    def _first(self) -> None:
        """Read one record ahead, which reads the header."""
        first = next(self._rows, None)
        if self.header is None:
            raise TableError("the data are empty and have not even a header")
        if first is not None:
            self._rows = itertools.chain([first], self._rows)

    def _table(self, lines: Iterator[str]) -> Iterator[list[str]]:
        top = next(lines, None)
        if top is None:
            return
        if "\r" in top.rstrip("\r\n"):
            raise TableError(
                "the first line of the data has carriage returns within it; end lines with line feeds: "
                "`tr '\\r' '\\n'` converts a file"
            )
        separator = next((mark for mark in ",\t;" if mark in top), ",")
        reader = csv.reader(map(_one_line, itertools.chain([top], lines)), delimiter=separator)
        header = [name.strip() for name in next(reader)]
        if self.header is None:
            if len(set(header)) != len(header):
                raise TableError("the header of the data names a column twice; rename one of them")
            self.header, self._width = header, len(header)
        elif header != self.header:
            raise TableError("the files of the folder differ in their headers")
        try:
            for row in reader:
                if row:
                    yield row
        except csv.Error as error:
            raise TableError(f"the data are not well-formed CSV: {error}") from None

    def read(self, count: int) -> Rows:
        rows = list(itertools.islice(self._rows, count))
        self.ended = len(rows) < count
        if self.header is not None:
            width, blank = self._width, [None] * self._width
            if rows and set(map(len, rows)) != {width}:
                rows = [row if len(row) == width else blank for row in rows]
            columns: Any = zip(*rows, strict=True) if rows else [()] * width
            return dict(zip(self.header, columns, strict=True)), len(rows)
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}, len(rows)


def _one_line(line: str) -> str:
    """A line for the CSV parser, which would refuse a carriage return within a cell that is not quoted."""
    place = line.find("\r")
    if place < 0 or (place == len(line) - 2 and line[-1] == "\n"):
        return line
    content = line.rstrip("\r\n")
    end = "\r\n" if line[len(content) :].startswith("\r") else "\n"
    return content.replace("\r", "\N{REPLACEMENT CHARACTER}") + end


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: None if isinstance(v, list | dict) else v for name, v in found.items()}


def spans(path: Path, kind: str, every: int) -> list[tuple[int, int, int]]:
    """Byte ranges of groups of ``every`` records in a text file, with the number of records in each.

    Parameters
    ----------
    path : path
        A CSV or JSON lines file that is not compressed.
    kind : {"csv", "jsonl"}
        Its format.
    every : int
        Number of records per group.
    """
    found: list[tuple[int, int, int]] = []
    with open(path, "rb") as file:
        at = [0]

        def lines() -> Iterator[str]:
            for line in file:
                at[0] += len(line)
                yield line.decode("utf-8-sig" if at[0] == len(line) else "utf-8", "replace")

        source = _Text(lines, kind, ahead=False)
        start = len(file.readline()) if kind == "csv" else 0
        file.seek(0)
        while not source.ended:
            _, got = source.read(every)
            if got:
                found.append((start, at[0], got))
            start = at[0]
    return found


def stored_size(source: Source) -> int:
    """Bytes of a table that could stay in its files, estimated for compressed text; 0 for a stream."""
    if isinstance(source, _Parquet):
        return source.size
    if not isinstance(source, _Text):
        return 0
    return sum(
        path.stat().st_size * (_PACKED if path.suffix in COMPRESSED else 1) for path in source.files
    )


def read_span(path: Path, kind: str, start: int, stop: int) -> Source:
    """The records of a text file in a byte range that :func:`spans` found."""
    with open(path, "rb") as file:
        top = file.readline() if kind == "csv" else b""
        file.seek(start)
        # a byte order mark is at the start of the file, if anywhere
        text = file.read(stop - start).decode("utf-8" if start else "utf-8-sig", "replace")
    lines = io.StringIO(text, newline="\n")
    return _Text(lambda: itertools.chain([top.decode("utf-8-sig", "replace")], lines), kind)


class _Live(_Text):
    """Lines of a pipe or a terminal, as they arrive."""

    live = True


def _live(
    descriptor: int, kind: str | None, stopped: Callable[[], bool], names: Sequence[str]
) -> Source:
    if kind == "parquet":
        data = io.BytesIO()
        while block := os.read(descriptor, _BLOCK):
            data.write(block)
        return _Parquet([data], names)
    lines = _arriving(descriptor, stopped)
    if kind is None:
        first = next(lines, "")
        kind = "jsonl" if first.lstrip().startswith("{") else "csv"
        lines = itertools.chain([first], lines) if first else lines
    return _Live(lambda: lines, kind)


def _arriving(descriptor: int, stopped: Callable[[], bool]) -> Iterator[str]:
    """Whole lines, without waiting for more than one; ends when asked to stop."""
    rest, coding = b"", "utf-8-sig"
    while True:
        # regular files are always ready, and some systems cannot select on them
        ready = select.select([descriptor], [], [], _PATIENCE)[0]
        if not ready:
            if stopped():
                return
            continue
        block = os.read(descriptor, _BLOCK)
        if not block:
            if rest:
                yield rest.decode(coding, "replace")
            return
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        for line in lines:
            yield line.decode(coding, "replace") + "\n"
            coding = "utf-8"
        if stopped():
            return


class _Parquet:
    """Parquet files, read in batches."""

    live = False

    def __init__(self, files: Sequence[Any], names: Sequence[str]) -> None:
        try:
            from pyarrow import parquet
        except ImportError as error:
            raise ImportError("Parquet needs pyarrow: pip install pyarrow pandas") from error
        self.ended = False
        try:
            self._files = [parquet.ParquetFile(file) for file in files]
        except Exception as error:
            raise TableError(f"{files[0]} is not a readable Parquet file ({error})") from None
        self.header: list[str] | None = list(self._files[0].schema_arrow.names)
        if any(list(file.schema_arrow.names) != self.header for file in self._files):
            raise TableError("the files of the folder differ in their columns")
        wanted = [name for name in names if name in self.header] or self.header
        self._batches = (
            batch for file in self._files for batch in file.iter_batches(_BLOCK, columns=wanted)
        )
        self._at, self._batch = 0, None

    @property
    def size(self) -> int:
        """Bytes of all columns, not compressed."""
        groups = (f.metadata.row_group(k) for f in self._files for k in range(f.num_row_groups))
        return sum(group.total_byte_size for group in groups)

    def count(self) -> int:
        return sum(file.metadata.num_rows for file in self._files)

    def read(self, count: int) -> Rows:
        pieces, got = [], 0
        while got < count:
            if self._batch is None or self._at >= self._batch.num_rows:
                self._batch, self._at = next(self._batches, None), 0
                if self._batch is None:
                    self.ended = True
                    break
            piece = self._batch.slice(self._at, count - got)
            self._at += piece.num_rows
            got += piece.num_rows
            pieces.append(piece)
        if not pieces:
            return {name: () for name in self.header or ()}, 0
        import pyarrow

        table = pyarrow.Table.from_batches(pieces)
        return {name: cells(table.column(name)) for name in table.column_names}, got


def cells(column: Any) -> Sequence[Any]:
    """The cells of a column of pyarrow."""
    from pyarrow import types

    if types.is_floating(column.type) or (types.is_integer(column.type) and not column.null_count):
        return column.to_numpy()
    # A missing cell would turn a whole column of integers into floats, and large ones into other numbers.
    try:
        found = column.to_pylist()
    except (ValueError, OverflowError):
        found = [_cell(scalar) for scalar in column]
    # As in JSON lines: a value that is not a single cell counts as missing, whatever the other records hold.
    return [None if isinstance(cell, list | dict) else cell for cell in found]


def _cell(scalar: Any) -> Any:
    """A cell of pyarrow, None if Python has no such value: a date after the year 9999, text that is not UTF-8."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return None
