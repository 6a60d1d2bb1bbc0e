"""Turn records that are dictionaries into vectors of a fixed length.

Either the features are declared and have one column each, or their names are hashed to a column and a sign (Weinberger
et al. 2009, section 2), so that features may come and go. An absent feature is 0. The hash is scikit-learn's
MurmurHash3, because Python's own ``hash`` differs between processes and would not fit a saved model.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reticent.checks import FloatArray
from reticent.compiling import compiled

Record = Mapping[Any, Any]
SparseRecord = tuple[bytes | NDArray[np.int64], FloatArray]
"""Names separated by zero bytes, and their values; or columns and signed values if a name contains a zero byte."""

_NUMBERS = (int, float, np.number, np.bool_)
_NOT_PLAIN = (KeyError, struct.error, TypeError, ValueError, OverflowError)
_WORD, _ONE, _FOUR = np.uint64(0xFFFFFFFF), np.uint64(1), np.uint64(4)
_REMEMBERED = 2**16  # names whose columns are cached; others are hashed each time


class Declared:
    """One column per declared feature; other features are ignored."""

    def __init__(self, features: Sequence[Hashable]) -> None:
        self.features = tuple(features)
        self.columns = len(self.features)
        self._pick = itemgetter(*self.features)
        self._write = _writer(self.columns)

    def one(self, x: Record) -> FloatArray:
        out = np.empty(self.columns)
        try:
            found = self._pick(x)
            if self.columns == 1:
                found = (found,)
            # struct is the fastest way found here; it accepts every Python number and no text
            self._write(out, 0, *found)
        except _NOT_PLAIN:
            found = [x.get(name, 0.0) for name in self.features]
            return _numbers(np.array(found), found, self.features)
        return out

    def __getstate__(self) -> dict[str, Any]:
        return {"features": self.features}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["features"])  # type: ignore[misc]

    def many(self, X: Any) -> FloatArray:
        """One vector per row of a data frame."""
        there = set(X.columns)
        out = np.zeros((len(X), self.columns))
        for place, name in enumerate(self.features):
            if name in there:
                out[:, place] = _column(X, name)
        return out


class Hashed:
    """Every name is hashed to a column and a sign; a text value counts as a feature ``name=value`` of value 1."""

    def __init__(self, dimension: int) -> None:
        self.columns = dimension
        self._write = _writer(dimension)
        self._places: dict[Any, tuple[int, float]] = {}

    def place(self, name: Any) -> tuple[int, float]:
        # Equal names may be different texts, such as 1 and True: the column of one must not depend on whether an
        # earlier record had the other.
        known = type(name) is str
        found = self._places.get(name) if known else None
        if found is None:
            from sklearn.utils import murmurhash3_32  # not needed by the service, so imported late

            number = murmurhash3_32(str(name), seed=0, positive=True)
            found = number % self.columns, 1.0 if number & 0x80000000 else -1.0
            if known and len(self._places) < _REMEMBERED:
                self._places[name] = found
        return found

    def one(self, x: Record) -> FloatArray:
        out = [0.0] * self.columns
        known = self._places
        for name, value in x.items():
            if type(value) is not float:
                name, value = _feature(name, value)
            found = known.get(name) if type(name) is str else None
            place, sign = self.place(name) if found is None else found
            out[place] += sign * value
        row = np.empty(self.columns)
        self._write(row, 0, *out)
        return row

    def many(self, X: Any) -> FloatArray:
        """One vector per row of a data frame."""
        out = np.zeros((len(X), self.columns))
        for name in X.columns:
            column = X[name]
            if column.dtype.kind not in "iufb":
                for row, value in enumerate(column.tolist()):
                    out[row] += self.one({name: value})
                continue
            place, sign = self.place(name)
            out[:, place] += sign * _column(X, name)
        return out

    def __getstate__(self) -> dict[str, Any]:
        return {"columns": self.columns}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["columns"])  # type: ignore[misc]


class SparselyHashed(Hashed):
    """Names hashed to the columns and signs of `Hashed`, for sparse records in high dimension.

    All names of a record are hashed at once where they are used, which is faster than looking them up one by one.
    """

    def __init__(self, dimension: int) -> None:
        self.columns = dimension
        self._places = {}

    def one(self, x: Record) -> SparseRecord:  # type: ignore[override]
        names: Any = x
        count = len(x)
        values = np.empty(count)
        try:
            # struct is the fastest way found here; it accepts every Python number and no text
            _writer(count)(values, 0, *x.values())
        except _NOT_PLAIN:
            pairs = [_feature(name, value) for name, value in x.items()]
            values = np.array([value for _, value in pairs], np.float64)
            names = [name for name, _ in pairs]
        try:
            text = "\0".join(names).encode()
        except TypeError:
            names = [str(name) for name in names]
            text = "\0".join(names).encode()
        if text.count(0) + 1 == count:
            return text, values
        # the record is empty, or a name contains the separator
        found = [self.place(name) for name in names]
        places = np.array([place for place, _ in found], np.int64)
        return places, values * np.array([sign for _, sign in found])

    def many(self, X: Any) -> Any:
        """The rows of a data frame, as a CSR matrix."""
        names, columns = list(X.columns), [X[name].tolist() for name in X.columns]
        records = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        rows = [placed(self.one(record), self.columns) for record in records]
        ends = np.cumsum([0, *(len(places) for places, _ in rows)])
        places = np.concatenate([np.empty(0, np.int64), *(places for places, _ in rows)])
        values = np.concatenate([np.empty(0), *(values for _, values in rows)])
        return sp.csr_array((values, places, ends), shape=(len(rows), self.columns))


def placed(record: SparseRecord, columns: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Columns and signed values of a record, after hashing its names if necessary."""
    names, values = record
    if not isinstance(names, bytes):
        return names, values
    places, signed = np.empty(len(values), np.int64), np.empty(len(values))
    murmur_places(names, columns, values, places, signed)
    return places, signed


@compiled
def _scrambled(k):
    k = k * np.uint64(0xCC9E2D51) & _WORD
    return (k << np.uint64(15) | k >> np.uint64(17)) * np.uint64(0x1B873593) & _WORD


@compiled
def _word(text, at):
    """Four bytes as a little-endian integer."""
    low = np.uint64(text[at]) | np.uint64(text[at + _ONE]) << np.uint64(8)
    high = np.uint64(text[at + np.uint64(2)]) | np.uint64(text[at + np.uint64(3)]) << np.uint64(8)
    return low | high << np.uint64(16)


@compiled
def murmur(text, start, stop):
    """MurmurHash3 (32 bits, seed 0) of ``text[start:stop]``, equal to scikit-learn's ``murmurhash3_32``."""
    h, at, end = np.uint64(0), np.uint64(start), np.uint64(stop)
    while at + _FOUR <= end:
        h ^= _scrambled(_word(text, at))
        h = (h << np.uint64(13) | h >> np.uint64(19)) & _WORD
        h = (h * np.uint64(5) + np.uint64(0xE6546B64)) & _WORD
        at += _FOUR
    if at + _FOUR <= np.uint64(len(text)):
        # read past the end and mask: a branch on the remaining length would often be mispredicted
        rest = _word(text, at) & ((_ONE << np.uint64(8) * (end - at)) - _ONE)
    else:
        rest = np.uint64(0)
        while end > at:
            end -= _ONE
            rest = rest << np.uint64(8) | np.uint64(text[end])
    h ^= _scrambled(rest)
    h ^= np.uint64(stop - start)
    h = (h ^ h >> np.uint64(16)) * np.uint64(0x85EBCA6B) & _WORD
    h = (h ^ h >> np.uint64(13)) * np.uint64(0xC2B2AE35) & _WORD
    return h ^ h >> np.uint64(16)


@compiled
def murmur_places(text, columns, values, places, signed):
    """Hash names separated by zero bytes, one per value, into ``places``, and write signed values into ``signed``."""
    start, end = np.uint64(0), np.uint64(len(text))
    for i in range(values.size):
        stop = start
        while stop < end and text[stop] != 0:
            stop += _ONE
        number = murmur(text, start, stop)
        places[i] = np.int64(number % np.uint64(columns))
        signed[i] = values[i] * (2.0 * float(number >> np.uint64(31)) - 1.0)
        start = stop + _ONE


def _feature(name: Any, value: Any) -> tuple[Any, float]:
    """Name and value of a feature; text becomes part of the name."""
    if isinstance(value, str):
        return f"{name}={value}", 1.0
    if not isinstance(value, _NUMBERS):
        raise _refusal(name, value)
    try:
        return name, float(value)
    except OverflowError:
        raise _refusal(name, value) from None


@lru_cache(maxsize=1024)
def _writer(columns: int) -> Callable[..., None]:
    return struct.Struct(f"{columns}d").pack_into


def _column(X: Any, name: Any) -> FloatArray:
    values = X[name].to_numpy()
    if values.dtype.kind not in "iufb":
        raise _refusal(name, values[0] if len(values) else None)
    return np.asarray(values, dtype=np.float64)


def _numbers(values: Any, found: list[Any], names: Sequence[Any]) -> FloatArray:
    if values.ndim == 1 and values.dtype.kind in "iufb":
        return values.astype(np.float64)
    for name, value in zip(names, found, strict=True):
        if isinstance(value, str) or not isinstance(value, _NUMBERS):
            raise _refusal(name, value)
    return np.array([_feature(name, value)[1] for name, value in zip(names, found, strict=True)])


def _refusal(name: Any, value: Any) -> TypeError:
    """The error message names the type of the value, not the value, which is private."""
    return TypeError(
        f"feature {name!r} must be a number that fits into a double, got a value of type {type(value).__name__}; "
        "encode text and missing values first, or leave the feature out of the record"
    )
