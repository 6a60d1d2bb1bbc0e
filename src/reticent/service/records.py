"""Decode records from requests into the arrays that a stream learns from.

msgspec decodes JSON lines into a type made from the schema, so that what does not fit is refused while it is read, in
one pass. Considered: orjson (equally fast, but checks nothing), pydantic (a tenth of the speed). A message about a bad
record names the line and the column, and never quotes a cell.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from reticent.checks import FloatArray
from reticent.service import arrow, kernels
from reticent.service.keys import MOST, Keys
from reticent.service.problems import Problem
from reticent.state.persons import Persons
from reticent.tables import Column, Encoder
from reticent.tables.encoder import person_id

_CELL = float | str | bool | None
_KEY = str | int
_SPELLINGS = 64  # number of spellings of labels whose codes are cached


@dataclass
class Batch:
    """Records of one request.

    Parameters
    ----------
    X : array of shape (records, features)
        Encoded features.
    codes : array of shape (records,)
        Labels: the index of a class in the schema, or a number.
    persons : list of str or None
        Id of the person of each record, if given.
    keys : list of bytes
        One key per record, or one for all of them.
    digests : list of bytes
        One digest per key.
    producer : tuple of (bytes, int) or None
        Instead of a key: the producer of the batch, and its number.
    earlier : callable or None
        Computes the digest that earlier versions stored, if it differs and there is one digest for all records.
    """

    X: FloatArray
    codes: FloatArray
    persons: list[str] | None
    keys: list[bytes]
    digests: list[bytes]
    producer: tuple[bytes, int] | None = None
    earlier: Callable[[], bytes] | None = None

    def __len__(self) -> int:
        return len(self.X)

    def repeats(self, place: int, digest: bytes) -> bool:
        """Whether the content that came with the key at ``place`` is that of a stored digest."""
        return digest == self.digests[place] or (
            self.earlier is not None and digest == self.earlier()
        )

    def rows(self, places: Any) -> Batch:
        """Some of the records, for learning; their keys are omitted."""
        persons = None if self.persons is None else [self.persons[place] for place in places]
        return Batch(self.X[places], self.codes[places], persons, [], [])


def check_persons(table: Persons, ids: Sequence[str], step: int) -> None:
    """Refuse ids of another kind, and more persons than a stream may have, without saying how many it knows.

    Parameters
    ----------
    table : Persons
        Table of persons of the stream.
    ids : sequence of str
        Persons of the next records.
    step : int
        Step of the first of these records.
    """
    try:
        digests = table.digests(ids, len(ids))
    except (ValueError, TypeError) as error:
        raise Problem(422, "bad-persons", str(error)) from None
    try:
        table.check_room(digests, step)
    except ValueError:
        raise Problem(
            422,
            "bad-persons",
            f"these records are of more persons than the stream has room for, max_persons="
            f"{table.participation.max_persons}, and nothing was learnt; create another stream for new persons",
        ) from None


class Reader:
    """Decodes the records of one stream.

    Parameters
    ----------
    encoder : Encoder
        Encoder of the stream's schema.
    keys : Keys
        Encoding of the keys.
    labelled : bool
        Whether records have a label. Default: True.
    """

    def __init__(self, encoder: Encoder, keys: Keys, *, labelled: bool = True) -> None:
        self.encoder, self.keys, self.labelled = encoder, keys, labelled
        self._columns = encoder.columns
        self._names = [column.name for column in encoder.columns]
        self._numeric = all(column.bounds is not None for column in encoder.columns)
        if self._numeric:
            bounds = np.array([column.bounds for column in encoder.columns], np.float64)
            self._low, self._span = bounds[:, 0].copy(), bounds[:, 1] - bounds[:, 0]
        self._row = struct.Struct(f"={len(self._names)}d")
        self._known: dict[tuple[type, Any], float] = {}  # codes of labels, by their spelling
        self._features = _features_type(encoder)
        line: list[Any] = [("id", _KEY | None, None), ("x", self._features)]
        if labelled:
            line.append(("y", _type_of(encoder.target, missing=False)))
        line.append(("person", _KEY | None, None))
        # cells are numbers and text, which cannot form cycles, so the garbage collector need not track them
        kind = msgspec.defstruct("Line", line, forbid_unknown_fields=True, kw_only=True, gc=False)
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
        self._questions = msgspec.json.Decoder(list[self._features])  # type: ignore[name-defined]

    def lines(self, body: bytes, *, keyed: bool = True) -> Batch:
        """Decode JSON lines ``{"id", "x": {...}, "y", "person"}``; ids are ignored if records are not keyed."""
        found = self._decoded(self._decoder.decode_lines, body)
        if not found:
            raise Problem(
                422, "no-records", "the body holds no records; send one JSON object per line"
            )
        X = self._encode([line.x for line in found])
        codes = self._labels([line.y for line in found]) if self.labelled else np.zeros(len(found))
        persons = self._persons(found)
        if not keyed:
            return Batch(X, codes, persons, [], [])
        ids = ["" if line.id is None else str(line.id) for line in found]
        for place, key in enumerate(ids):
            if not 0 < len(key) <= MOST:
                raise Problem(
                    422,
                    "no-key",
                    f"line {place + 1}: a record needs an id of 1 to {MOST} characters, by which a repeat "
                    "is known again",
                )
        table = np.empty((len(X), X.shape[1] + 1))
        table[:, :-1], table[:, -1] = X, codes
        if persons is None:
            digests = self.keys.digests(table)
        else:
            digests = [
                self.keys.digest(np.ascontiguousarray(row), person.encode("utf-8", "surrogatepass"))
                for row, person in zip(table, persons, strict=True)
            ]
        return Batch(X, codes, persons, self.keys.pack_all(ids), digests)

    def arrow(self, body: bytes, key: str | None, producer: tuple[str, int] | None) -> Batch:
        """Decode an Arrow stream, with one key for all of it or the number of a producer's batch."""
        table = arrow.read(body)
        names = [*self._names, *([self.encoder.target.name] if self.labelled else [])]
        arrow.check_columns(table.schema.names, names, self.encoder.person)
        if not table.num_rows:
            raise Problem(
                422, "no-records", "the Arrow stream holds no rows; send one for each record"
            )
        if self._numeric:
            X = self._scaled(arrow.numbers(table, self._names, body))
        else:
            X = self.encoder.encode(
                arrow.cells(table, self._columns), table.num_rows, labels=False
            ).X
        codes = self._codes(table) if self.labelled else np.zeros(table.num_rows)
        persons = arrow.persons(table, names, self.encoder.person)
        parts: list[Any] = [np.ascontiguousarray(X), np.ascontiguousarray(codes)]
        if persons is not None:
            parts.append(b"".join(person.encode() + b"\0" for person in persons))
        digest = self.keys.digest_of_many(*parts)

        def earlier() -> bytes:
            return self.keys.digest(*parts)

        if producer is not None:
            packed = self.keys.pack(producer[0])
            return Batch(X, codes, persons, [], [digest], (packed, producer[1]), earlier)
        if key is None or not 0 < len(key) <= MOST:
            raise Problem(
                422,
                "no-key",
                "a batch needs a key by which a repeat is known again: Idempotency-Key: ..., or "
                "Reticent-Producer: ... and Reticent-Sequence: ...",
            )
        return Batch(X, codes, persons, [self.keys.pack(key)], [digest], None, earlier)

    def questions(self, body: bytes) -> FloatArray:
        """Decode and encode a JSON array of feature objects, for prediction."""
        return self._encode(self._decoded(self._questions.decode, body))

    def _decoded(self, decode: Callable[[bytes], Any], body: bytes) -> list[Any]:
        try:
            found: list[Any] = decode(body)
        except UnicodeDecodeError:  # quotes the bytes
            raise Problem(422, "bad-records", "the body is not UTF-8; nothing was learnt") from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise Problem(422, "bad-records", _words(error, self._names)) from None
        return found

    def _encode(self, found: list[Any]) -> FloatArray:
        if self._numeric:
            return self._scaled(self._numbers(found))
        rows = list(map(msgspec.structs.astuple, found))
        columns = dict(zip(self._names, zip(*rows, strict=True), strict=True)) if rows else {}
        return self.encoder.encode(columns, len(rows), labels=False).X

    def _numbers(self, found: list[Any]) -> FloatArray:
        """Numeric cells as an array; missing cells are NaN."""
        cells, pack = msgspec.structs.astuple, self._row.pack
        try:  # one row at a time, because an iterator over all cells takes twice as long
            packed = bytearray().join([pack(*cells(one)) for one in found])
        except struct.error:  # a cell is missing
            table = np.array(list(map(cells, found)), np.float64)
        else:
            table = np.frombuffer(packed, np.float64)
        return table.reshape(len(found), len(self._names))

    def _scaled(self, numbers: FloatArray) -> FloatArray:
        """The encoder's own arithmetic, on all columns at once and in place; NaN is a missing cell."""
        kernels.scale(numbers, self._low, self._span)
        return numbers

    def _codes(self, table: Any) -> FloatArray:
        """Labels of an Arrow table."""
        target = self.encoder.target
        if target.type == "boolean":
            bits = arrow.booleans(table.column(target.name))
            if bits is not None:
                return self._labels([False, True])[bits]
        return self._labels(arrow.cells(table, [target])[target.name])

    def _labels(self, cells: Any) -> FloatArray:
        if self.encoder.classes is None:
            return self._codes_of(cells)
        typed = list(zip(map(type, cells), cells, strict=True))  # True and 1 are equal
        known = self._known
        try:
            return np.array([known[pair] for pair in typed])
        except KeyError:
            codes = self._codes_of(cells)
        new = dict(zip(typed, codes.tolist(), strict=True))
        if len(new) + len(known) <= _SPELLINGS:
            known.update(new)
        return codes

    def _codes_of(self, cells: Any) -> FloatArray:
        _, codes, bad = self.encoder._labels(cells)
        if bad:
            row = min(bad)
            raise Problem(
                422,
                "bad-records",
                f"record {row + 1}: {bad[row]}; nothing was learnt",
            )
        return codes

    def _persons(self, found: list[Any]) -> list[str] | None:
        persons = [line.person for line in found]
        missing = persons.count(None)
        if missing == len(persons):
            return None
        if missing:
            raise Problem(
                422,
                "bad-records",
                "either every record of a request names its person, or none does",
            )
        ids = [person_id(person) for person in persons]
        if not all(ids):
            raise Problem(
                422, "bad-records", "the person of a record must be text that is not empty"
            )
        return ids


def _features_type(encoder: Encoder) -> Any:
    fields = [(f"c{k}", _type_of(column)) for k, column in enumerate(encoder.columns)]
    names = {f"c{k}": column.name for k, column in enumerate(encoder.columns)}
    return msgspec.defstruct("Features", fields, rename=names, forbid_unknown_fields=True, gc=False)


def _type_of(column: Column, missing: bool = True) -> Any:
    if column.bounds is not None:
        return float | None if missing else float
    return _CELL if missing else float | str | bool


def _words(error: Exception, names: list[str]) -> str:
    """msgspec's error message, which names positions and types but quotes no value."""
    said = str(error)
    if "truncated" in said:
        said = "the body ends in the middle of a line"
    return f"{said}; nothing was learnt: each line is one object with id, x, y, and x has {_list(names)}"


def _list(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
