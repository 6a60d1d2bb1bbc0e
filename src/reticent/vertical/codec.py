"""How the fields of a message are written and read: little-endian, bounded, and finite.

A length that a message states is checked against what is there before anything is allocated.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

MAX_TEXT = 64 * 2**10
"""No text in a message may be longer than this, in bytes."""
RUN = 16
"""How many bytes name a run."""


class MalformedMessage(ValueError):
    """Bytes that are not a message of this protocol; says why, and quotes none of them."""


class Reader:
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


def write(kind: str, value: Any) -> bytes:
    match kind:
        case "u8":
            return _write_number(_U8, value)
        case "flag":
            return _write_number(_U8, int(bool(value)))
        case "u32":
            return _write_number(_U32, value)
        case "u64":
            return _write_number(_U64, value)
        case "sign":
            return _write_number(_I8, int(value))
        case "f64":
            return _write_number(_F64, _finite(float(value)))
        case "run":
            if not isinstance(value, bytes) or len(value) != RUN:
                raise ValueError(f"run must be {RUN} bytes, got {value!r}")
            return value
        case "digest":
            if not isinstance(value, bytes) or len(value) != 32:
                raise ValueError("a digest must be 32 bytes")
            return value
        case "text":
            data = value.encode()
            if len(data) > MAX_TEXT:
                raise ValueError(f"a text in a message may have {MAX_TEXT} bytes, got {len(data)}")
            return _U32.pack(len(data)) + data
        case "f64s":
            array = np.ascontiguousarray(value, dtype="<f8")
            if array.ndim != 1 or not np.isfinite(array).all():
                raise ValueError("an array in a message must be one-dimensional and finite")
            return _U32.pack(array.size) + array.tobytes()
        case "u32s":
            whole = np.asarray(value)
            if whole.ndim != 1 or (whole.size and (whole.min() < 0 or whole.max() >= 2**32)):
                raise ValueError("an array of places in a message must hold 32-bit whole numbers")
            return _U32.pack(whole.size) + whole.astype("<u4").tobytes()
    raise AssertionError(kind)


def _array(reader: Reader, form: str) -> Any:
    count = reader.number(_U32)
    data = reader.take(count * np.dtype(form).itemsize)  # checked against the length first
    return np.frombuffer(data, form)


def read(kind: str, reader: Reader) -> Any:
    match kind:
        case "u8":
            return reader.number(_U8)
        case "flag":
            value = reader.number(_U8)
            if value > 1:
                raise MalformedMessage("a flag in the message is neither 0 nor 1")
            return bool(value)
        case "u32":
            return reader.number(_U32)
        case "u64":
            return reader.number(_U64)
        case "sign":
            value = reader.number(_I8)
            if value not in (-1, 1):
                raise MalformedMessage("a sign in the message is neither -1 nor 1")
            return value
        case "f64":
            return _finite(reader.number(_F64))
        case "run":
            return reader.take(RUN)
        case "digest":
            return reader.take(32)
        case "text":
            size = reader.number(_U32)
            if size > MAX_TEXT:
                raise MalformedMessage(f"a text in the message is longer than {MAX_TEXT} bytes")
            try:
                return reader.take(size).decode()
            except UnicodeDecodeError:
                raise MalformedMessage("a text in the message is not UTF-8") from None
        case "f64s":
            array = _array(reader, "<f8").astype(np.float64)
            if not np.isfinite(array).all():
                raise MalformedMessage("an array in the message holds a number that is not finite")
            return array
        case "u32s":
            return _array(reader, "<u4").astype(np.uint32)
    raise AssertionError(kind)
