"""Encoding of message fields: little-endian, bounded, and finite.

A length stated in a message is checked against the available bytes before anything is allocated.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

MAX_TEXT = 64 * 2**10
"""Largest length of a string in a message, in bytes."""
RUN = 16
"""Number of bytes of a run's id."""


class MalformedMessage(ValueError):
    """Bytes that are not a message of this protocol; the text says why and quotes none of them."""


class FieldReader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise MalformedMessage("the message ends before its last field")
        piece = self.data[self.at : self.at + size]
        self.at += size
        return piece

    def number(self, form: struct.Struct) -> Any:
        return form.unpack(self.take(form.size))[0]


class Field(NamedTuple):
    """How one kind of field is written and read."""

    write: Callable[[Any], bytes]
    read: Callable[[FieldReader], Any]


_U8, _U32, _U64, _I8, _F64 = (struct.Struct(f"<{letter}") for letter in "BIQbd")


def _write_number(form: struct.Struct, value: Any) -> bytes:
    try:
        return form.pack(value)
    except struct.error:
        raise ValueError(f"{value!r} does not fit in a field of a message") from None


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise MalformedMessage("a number in the message is not finite")
    return value


def _fixed(size: int, words: str) -> Field:
    """Bytes of one length."""

    def write(value: Any) -> bytes:
        if not isinstance(value, bytes) or len(value) != size:
            raise ValueError(f"{words} must be {size} bytes, got {value!r}")
        return value

    return Field(write, lambda reader: reader.take(size))


def _number(form: struct.Struct) -> Field:
    return Field(lambda value: _write_number(form, value), lambda reader: reader.number(form))


def _read_flag(reader: FieldReader) -> bool:
    value = reader.number(_U8)
    if value > 1:
        raise MalformedMessage("a flag in the message is neither 0 nor 1")
    return bool(value)


def _read_sign(reader: FieldReader) -> int:
    value: int = reader.number(_I8)
    if value not in (-1, 1):
        raise MalformedMessage("a sign in the message is neither -1 nor 1")
    return value


def _write_text(value: str) -> bytes:
    data = value.encode()
    if len(data) > MAX_TEXT:
        raise ValueError(f"a text in a message may have {MAX_TEXT} bytes, got {len(data)}")
    return _U32.pack(len(data)) + data


def _read_text(reader: FieldReader) -> str:
    size = reader.number(_U32)
    if size > MAX_TEXT:
        raise MalformedMessage(f"a text in the message is longer than {MAX_TEXT} bytes")
    try:
        return reader.take(size).decode()
    except UnicodeDecodeError:
        raise MalformedMessage("a text in the message is not UTF-8") from None


def _write_numbers(value: Any) -> bytes:
    array = np.ascontiguousarray(value, dtype="<f8")
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError("an array in a message must be one-dimensional and finite")
    return _U32.pack(array.size) + array.tobytes()


def _write_places(value: Any) -> bytes:
    whole = np.asarray(value)
    if whole.ndim != 1 or (whole.size and (whole.min() < 0 or whole.max() >= 2**32)):
        raise ValueError("an array of places in a message must hold 32-bit whole numbers")
    return _U32.pack(whole.size) + whole.astype("<u4").tobytes()


def _array(reader: FieldReader, form: str) -> Any:
    count = reader.number(_U32)
    data = reader.take(count * np.dtype(form).itemsize)  # checked against the length first
    return np.frombuffer(data, form)


def _read_numbers(reader: FieldReader) -> Any:
    array = _array(reader, "<f8").astype(np.float64)
    if not np.isfinite(array).all():
        raise MalformedMessage("an array in the message holds a number that is not finite")
    return array


FIELDS = {
    "u8": _number(_U8),
    "u32": _number(_U32),
    "u64": _number(_U64),
    "flag": Field(lambda value: _write_number(_U8, int(bool(value))), _read_flag),
    "sign": Field(lambda value: _write_number(_I8, int(value)), _read_sign),
    "f64": Field(
        lambda value: _write_number(_F64, _finite(float(value))),
        lambda reader: _finite(reader.number(_F64)),
    ),
    "run": _fixed(RUN, "run"),
    "digest": _fixed(32, "a digest"),
    "text": Field(_write_text, _read_text),
    "f64s": Field(_write_numbers, _read_numbers),
    "u32s": Field(_write_places, lambda reader: _array(reader, "<u4").astype(np.uint32)),
}
"""Every kind of field that a message may have."""


def write(kind: str, value: Any) -> bytes:
    """The bytes of a field."""
    return FIELDS[kind].write(value)


def read(kind: str, reader: FieldReader) -> Any:
    """The next field, of that kind."""
    return FIELDS[kind].read(reader)
