"""Records as an Arrow IPC stream: columns become arrays without a copy per cell.

pyarrow reads untrusted input, so a stream is fully validated before it is used. Compressed streams are refused, because
a small body could expand to any size; compress at the HTTP level, if at all.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.service import kernels
from reticent.service.problems import Problem
from reticent.tables import Column
from reticent.tables.encoder import person_id

PERSON = "person"


def read(body: bytes) -> Any:
    """Read the table of a body."""
    try:
        import pyarrow as pa
    except ImportError:
        raise Problem(
            415,
            "unknown-format",
            "this service has no pyarrow; send JSON lines, or install pyarrow there",
        ) from None
    try:
        buffer = pa.py_buffer(body)
        for message in pa.ipc.MessageReader.open_stream(buffer):
            if message.type in ("record batch", "dictionary") and _compressed(
                message.metadata.to_pybytes(), message.type == "dictionary"
            ):
                raise Problem(
                    415,
                    "compressed",
                    "the Arrow stream is compressed; write it without compression (compression=None)",
                )
        table = pa.ipc.open_stream(buffer).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, struct.error, IndexError) as error:
        raise Problem(
            422,
            "bad-records",
            f"the body is not a whole Arrow IPC stream ({type(error).__name__}); nothing was learnt",
        ) from None
    return table


def _compressed(metadata: bytes, dictionary: bool) -> bool:
    """Whether a message's buffers are compressed, from its flatbuffer (Message.fbs of the Arrow format)."""
    message = _Table(metadata, struct.unpack_from("<I", metadata)[0])
    batch = message.inner(2)  # Message.header
    if dictionary and batch is not None:
        batch = batch.inner(1)  # DictionaryBatch.data
    return batch is None or batch.inner(3) is not None  # RecordBatch.compression


class _Table:
    """A flatbuffer table: enough to see whether a field exists."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data, self._place = data, place
        self._vtable = place - struct.unpack_from("<i", data, place)[0]

    def inner(self, field: int) -> _Table | None:
        """The table in a field, or None."""
        (size,) = struct.unpack_from("<H", self._data, self._vtable)
        at = 4 + 2 * field
        offset = struct.unpack_from("<H", self._data, self._vtable + at)[0] if at < size else 0
        if not offset:
            return None
        place = self._place + offset
        return _Table(self._data, place + struct.unpack_from("<I", self._data, place)[0])


def check_columns(there: Sequence[str], wanted: Sequence[str], person: str | None = None) -> None:
    """Refuse a table that lacks a column, or has one that the schema does not declare."""
    found, known = set(there), {*wanted, PERSON, person}
    if len(found) != len(there):
        raise Problem(422, "bad-records", "the Arrow stream has a column twice; name each once")
    absent = [name for name in wanted if name not in found]
    more = [name for name in there if name not in known]
    if absent or more:
        what = f"lacks column {absent[0]!r}" if absent else f"has a column {more[0]!r}"
        raise Problem(
            422,
            "bad-records",
            f"the Arrow stream {what}, and the schema of the stream declares {', '.join(wanted[:8])}"
            + (f" and {len(wanted) - 8} more" if len(wanted) > 8 else ""),
        )


def numbers(table: Any, names: Sequence[str], body: bytes) -> NDArray[np.float64]:
    """Numeric columns as one array, with NaN for missing cells; a NaN that was sent is refused."""
    found = _block(table, names, body)
    if found is not None:
        return found
    out = np.empty((table.num_rows, len(names)))
    for place, name in enumerate(names):
        out[:, place] = _number(table.column(name), name)
    return out


def _block(table: Any, names: Sequence[str], body: bytes) -> NDArray[np.float64] | None:
    """All columns at once, if they are contiguous doubles without missing cells; else None."""
    import pyarrow as pa

    batches = table.to_batches()
    if len(batches) != 1 or not names:
        return None
    (batch,), plain = batches, pa.float64()
    place = {name: at for at, name in enumerate(batch.schema.names)}
    columns = [batch.column(place[name]) for name in names]
    if any(column.type != plain or column.null_count for column in columns):
        return None
    # pyarrow's arrays lie in the body, except those that it had to align
    doubles = np.frombuffer(body, np.float64, len(body) // 8)
    there = [column.buffers()[1].address + 8 * column.offset for column in columns]
    starts, odd = np.divmod(np.array(there) - doubles.ctypes.data, 8)
    if odd.any() or starts.min() < 0 or starts.max() + len(batch) > len(doubles):
        return None
    out = np.empty((len(batch), len(names)))
    kernels.gather(doubles, starts, out)
    return out if np.isfinite(out).all() else None


def _number(column: Any, name: str) -> NDArray[np.float64]:
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise Problem(
            422,
            "bad-records",
            f"column {name!r} has the type {kind}, but the schema declares a number",
        )
    values = column.to_numpy().astype(np.float64, copy=False)
    odd = int(np.count_nonzero(~np.isfinite(values)))
    if odd > column.null_count or np.isinf(values).any():
        raise Problem(
            422,
            "bad-records",
            f"column {name!r} holds NaN or an infinite number; write null for a cell that is missing",
        )
    return np.asarray(values, np.float64)


def booleans(column: Any) -> NDArray[np.uint8] | None:
    """A column of booleans as 0 and 1; None if it is something else, or not whole."""
    import pyarrow as pa

    if column.type != pa.bool_() or column.null_count or column.num_chunks != 1:
        return None
    piece = column.chunk(0)
    bits = np.frombuffer(piece.buffers()[1], np.uint8)
    return np.unpackbits(bits, bitorder="little")[piece.offset : piece.offset + len(piece)]


def cells(table: Any, columns: Sequence[Column]) -> dict[str, Any]:
    """Columns of any declared type, in the form that an encoder takes."""
    return {
        column.name: (
            _number(table.column(column.name), column.name)
            if column.bounds is not None
            else _texts(table.column(column.name), column.name)
        )
        for column in columns
    }


def _texts(column: Any, name: str) -> list[Any]:
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    plain = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_null,
    )
    if not any(test(kind) for test in plain):
        raise Problem(
            422,
            "bad-records",
            f"column {name!r} has the type {kind}; send text, numbers or booleans",
        )
    found: list[Any] = column.to_pylist()
    return found


def persons(table: Any, declared: Sequence[str], column: str | None = None) -> list[str] | None:
    """The persons' ids, if there is a column for them that is not a feature.

    It is the schema's column of persons, or else the one named ``person``.
    """
    name = PERSON if column is None else column
    if name in declared or name not in table.schema.names:
        return None
    found = _texts(table.column(name), name)
    ids = [person_id(person) for person in found]
    if not all(ids):
        raise Problem(
            422,
            "bad-records",
            "either every record of a request names its person, or none does; ids are text or whole numbers",
        )
    return ids
