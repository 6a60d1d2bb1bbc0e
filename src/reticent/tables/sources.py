"""Where records come from: CSV, JSON lines or Parquet; a file, a folder, or a live stream.

Records are asked for by number (``read(n)``), so that whoever learns decides where a step ends.
CSV and JSON lines need nothing but the standard library, also compressed (``.gz``, ``.bz2``, ``.xz``); Parquet and
``.zst`` need pyarrow.

A line that cannot be read is still a record. It comes out with every cell missing, because leaving it out
would shift all later records by one, and no guarantee covers that.
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
"""Compressed text is taken to be so many times as large."""
_BLOCK = 65536
_PATIENCE = 0.2  # seconds between looks at whether to stop, while a live stream is silent

Rows = tuple[dict[str, Sequence[Any]], int]


class Source(Protocol):
    """Records in order, asked for by number.

    Attributes
    ----------
    header : list of str or None
        Names of the columns; None where each record names its own cells (JSON lines).
    live : bool
        Whether records arrive while they are read.
    ended : bool
        Whether there are no more.
    """

    header: list[str] | None
    live: bool
    ended: bool

    def read(self, count: int) -> Rows:
        """The next ``count`` records by column, and how many there were.

        There are fewer only at the end, or where a live stream was asked to stop.
        """


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
        The format; by default told from the name, and on a stream from the first character.
    stopped : callable
        Asked while a live stream is silent; True ends it.
    names : sequence of str
        Columns that will be wanted; others need not be read. By default all.

    Returns
    -------
    Source

    Raises
    ------
    TableError
        There is nothing to read, or its format cannot be told.

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
        files = sorted(p for p in path.iterdir() if p.is_file() and _ending(p) in _ENDINGS)
        if not files:
            raise TableError(f"the folder {data} holds no CSV, JSON lines or Parquet files")
        kinds = {_kind(file, kind) for file in files}
        if len(kinds) > 1:
            raise TableError(
                f"the folder {data} holds several formats; say which one (--format, or kind=)"
            )
    elif stat.S_ISREG(mode):
        files, kinds = [path], {_kind(path, kind)}
    else:
        return _live(os.open(path, os.O_RDONLY), kind, stopped, names)
    word = kinds.pop()
    if word == "parquet":
        return _Parquet(files, names)
    return _Text(lambda: itertools.chain.from_iterable(_lines(f) for f in files), word, files)


def count_records(
    data: str | os.PathLike[str],
    kind: str | None = None,
    *,
    watch: Callable[[int], None] = lambda count: None,
) -> int | None:
    """How many records a file or folder holds; None for a stream.

    Parameters
    ----------
    data : path or str
        A file, a folder of files, or ``-`` for standard input.
    kind : {"csv", "jsonl", "parquet"}, optional
        The format; by default told from the name.
    watch : callable
        Is told now and then how many records have been counted.
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
    """Open a table for one encoder: only its columns are read, and all of them must be there.

    Parameters
    ----------
    data : path or str
        A file, a folder of files with the same columns, or ``-`` for standard input.
    encoder : Encoder
        Which columns are wanted.
    kind : {"csv", "jsonl", "parquet"}, optional
        The format; by default told from the name, and on a stream from the first character.
    stopped : callable
        Asked while a live stream is silent; True ends it.
    labels : bool
        Whether the target is wanted too.

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
    """The rest of a source, encoded, some records at a time; a live source gives one at a time.

    Parameters
    ----------
    source : Source
        What :func:`open_source` or :func:`open_records` returned.
    encoder : Encoder
        How records become numbers.
    rows : int
        How many records to read at a time.
    labels : bool
        Whether to encode the target.
    """
    while not source.ended:
        columns, got = source.read(1 if source.live else rows)
        yield encoder.encode(columns, got, labels=labels)


def read(
    data: str | os.PathLike[str], encoder: Encoder, kind: str | None = None, *, labels: bool = True
) -> Encoded:
    """A whole table, encoded.

    Parameters
    ----------
    data : path or str
        A file, a folder of files with the same columns, or ``-`` for standard input.
    encoder : Encoder
        How records become numbers.
    kind : {"csv", "jsonl", "parquet"}, optional
        The format; by default told from the name, and on a stream from the first character.
    labels : bool
        Whether to encode the target.

    Returns
    -------
    Encoded
        ``X``, ``y`` and, as ``groups``, ``persons`` are what an estimator's ``fit`` takes; rows in ``bad`` have
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
    """Several batches of encoded records as one."""
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
            f"what {path} is cannot be told from its name; say its format (--format, or kind=): csv, jsonl or parquet"
        )
    if word == "parquet" and path.suffix in COMPRESSED:
        raise TableError(f"{path} is compressed twice: Parquet files are read as they are")
    return word


def _ending(path: Path) -> str:
    """The ending that tells the format: that of ``visits.csv.gz`` is ``.csv``."""
    return Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def _bytes(path: Path) -> Any:
    """A file to be read, decompressed by its ending."""
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
            io.TextIOWrapper(stored, "utf-8-sig", errors="replace", newline="") as file,
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
            raise TableError("the data are empty: not even a header")
        if first is not None:
            self._rows = itertools.chain([first], self._rows)

    def _table(self, lines: Iterator[str]) -> Iterator[list[str]]:
        top = next(lines, None)
        if top is None:
            return
        separator = next((mark for mark in ",\t;" if mark in top), ",")
        reader = csv.reader(itertools.chain([top], lines), delimiter=separator)
        header = [name.strip() for name in next(reader)]
        if self.header is None:
            if len(set(header)) != len(header):
                raise TableError("the data's header names a column twice")
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
            if any(len(row) != width for row in rows):
                rows = [row if len(row) == width else blank for row in rows]
            columns: Any = zip(*rows, strict=True) if rows else [()] * width
            return dict(zip(self.header, columns, strict=True)), len(rows)
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}, len(rows)


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: None if isinstance(v, list | dict) else v for name, v in found.items()}


def spans(path: Path, kind: str, every: int) -> list[tuple[int, int, int]]:
    """Where in a text file every so many records begin and end, in bytes, and how many records there are between.

    Parameters
    ----------
    path : path
        A CSV or JSON lines file that is not compressed.
    kind : {"csv", "jsonl"}
        Which of them.
    every : int
        How many records belong together.
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
    """Bytes of a table that could stay in its files, a guess where text is compressed; 0 for a stream."""
    if isinstance(source, _Parquet):
        return source.size
    if not isinstance(source, _Text):
        return 0
    return sum(
        path.stat().st_size * (_PACKED if path.suffix in COMPRESSED else 1) for path in source.files
    )


def read_span(path: Path, kind: str, start: int, stop: int) -> Source:
    """The records of a text file between two places that :func:`spans` found."""
    with open(path, "rb") as file:
        top = file.readline() if kind == "csv" else b""
        file.seek(start)
        text = file.read(stop - start).decode("utf-8", "replace")
    lines = io.StringIO(text, newline="\n")
    return _Text(lambda: itertools.chain([top.decode("utf-8-sig", "replace")], lines), kind)


class _Live(_Text):
    """Lines of a pipe or a terminal, as they come."""

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
    """Whole lines, read without waiting for more than one; ends when asked to stop."""
    rest = b""
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
                yield rest.decode("utf-8", "replace")
            return
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        for line in lines:
            yield line.decode("utf-8", "replace") + "\n"
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

    if types.is_integer(column.type) or types.is_floating(column.type):
        return column.to_numpy()
    # As in JSON lines: what is no single cell is none, whatever the other records hold.
    return [None if isinstance(cell, list | dict) else cell for cell in column.to_pylist()]
