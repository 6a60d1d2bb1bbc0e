"""Columns of records into the numbers that an estimator learns from, by the schema alone.

A number is scaled from its declared bounds to [-1, 1], a category of two values is -1 or 1, one of more
values is one-hot. So a record's Euclidean norm is at most the square root of the number of columns,
whatever the records hold, and that is the ``feature_norm`` to declare.

Every record is encoded by itself. A missing cell becomes 0, the middle of the bounds or no category at all;
nothing is imputed from other records, which would make one record's features depend on another record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.checks import FloatArray
from reticent.tables.schema import PERSON, Column, Schema, TableError, canonical

Columns = Mapping[str, Sequence[Any]]
_ROWS = 2**14  # cells of a column that are looked at at a time


@dataclass
class Encoded:
    """Records as arrays, and what was odd about them.

    ``bad`` and ``outside`` are diagnostics: they read private data, and no guarantee covers them.

    Parameters
    ----------
    X : array of shape (records, features)
        Features, each in [-1, 1].
    y : array or None
        Labels: class names, or numbers.
    codes : array
        Labels as numbers: the index of a class, or the label itself.
    bad : dict of int to str
        For each record that cannot be used, which column says so and why.
    outside : int
        How many cells were missing, unreadable, beyond their bounds, or of no declared category.
    persons : list of str or None
        Whom each record is about, where the schema has a column of persons; empty where it is missing.
    """

    X: FloatArray
    y: Any
    codes: FloatArray
    bad: dict[int, str]
    outside: int
    persons: list[str] | None = None

    @property
    def good(self) -> NDArray[np.int64]:
        """The rows that can be used."""
        keep = np.ones(len(self.X), dtype=bool)
        keep[list(self.bad)] = False
        return np.flatnonzero(keep)


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Coefficients of a table's own columns, from those of its encoded features and an intercept.

    :attr:`Encoder.contrasts` makes one.

    Parameters
    ----------
    names : tuple of str
        Of the numbers: columns, ``column=value`` for each value of a category but the first, and the intercept.
    matrix : array of shape (names, features + 1)
        What the coefficients of encoded features, the intercept last, are multiplied by.
    collinear : array of shape (categories, features + 1)
        Coefficients that cancel in every record: ones for all values of a category, and an intercept of -1.
    about : str
        Which values are the first ones, in words.

    Examples
    --------
    >>> from reticent import tables
    >>> colour = {"type": "category", "values": ["red", "green", "blue"]}
    >>> schema = {"target": "y", "columns": {"colour": colour, "y": {"type": "boolean"}}}
    >>> contrasts = tables.Encoder(tables.Schema.from_dict(schema)).contrasts
    >>> contrasts.names, contrasts.about
    (('colour=green', 'colour=blue', 'intercept'), '; categories compared with colour=red')
    >>> contrasts.matrix @ [0.5, 0.7, 0.4, 3.0]  # red, green, blue, intercept
    array([ 0.2, -0.1,  3.5])
    """

    names: tuple[str, ...]
    matrix: FloatArray
    collinear: FloatArray
    about: str


class Encoder:
    """Turns records into features and labels, by a schema.

    Parameters
    ----------
    schema : Schema
        What is known about the columns.
    target : str, optional
        The column to be predicted; by default the schema's.
    persons : bool
        Whether the schema's column of persons is read, as it is to learn; False to predict.

    Attributes
    ----------
    columns : tuple of Column
        The columns that features are made of.
    names : list of str
        Names of the encoded features.
    target : Column
        The column to be predicted.
    person : str or None
        Name of the column that says whom a record is about.

    Examples
    --------
    >>> from reticent import tables
    >>> number = {"type": "number", "bounds": [0, 10]}
    >>> colour = {"type": "category", "values": ["red", "green", "blue"]}
    >>> schema = tables.Schema.from_dict(
    ...     {"target": "y", "columns": {"x": number, "colour": colour, "y": {"type": "boolean"}}}
    ... )
    >>> encoder = tables.Encoder(schema)
    >>> encoder.names
    ['x', 'colour=red', 'colour=green', 'colour=blue']
    >>> records = encoder.encode({"x": [0, 5], "colour": ["blue", "mauve"], "y": ["yes", "no"]})
    >>> records.X
    array([[-1.,  0.,  0.,  1.],
           [ 0.,  0.,  0.,  0.]])
    >>> records.y.tolist(), records.outside
    (['true', 'false'], 1)
    """

    def __init__(self, schema: Schema, target: str | None = None, *, persons: bool = True) -> None:
        target = schema.target if target is None else target
        if target is None:
            raise TableError("the schema names no target: say which column is to be predicted")
        self.schema = schema
        self.target = schema.column(target)
        if self.target.type in ("ignore", PERSON):
            raise TableError(
                f"the target {target!r} is declared as {self.target.type!r}; declare what it is"
            )
        self.person = schema.person if persons else None
        self.columns = schema.features(target)
        self.names = [name for column in self.columns for name in _names(column)]

    @property
    def largest_norm(self) -> float:
        """No encoded record has a larger Euclidean norm: the ``feature_norm`` to declare."""
        return math.sqrt(len(self.columns))

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The labels of a classification, None for a regression."""
        return self.target.values or None

    @property
    def contrasts(self) -> Contrasts:
        """What carries coefficients of encoded features to the table's own columns: ``summary(encoder=...)``.

        A number's coefficient is per unit of it. A category is told by the differences of its values from the
        first one that the schema lists, which the intercept stands for.
        """
        size = len(self.names) + 1
        rows, collinear, firsts = [], [], []
        intercept = np.zeros(size)
        intercept[-1] = 1.0
        place = 0
        for column in self.columns:
            features = np.eye(size)[place : place + len(_names(column))]
            place += len(features)
            if column.bounds is not None:
                low, high = column.bounds
                rows.append((column.name, 2.0 / (high - low) * features[0]))
                intercept -= (high + low) / (high - low) * features[0]
                continue
            first, *others = column.values
            firsts.append(f"{column.name}={first}")
            if len(features) == 1:  # -1 and 1
                rows.append((f"{column.name}={others[0]}", 2.0 * features[0]))
                intercept -= features[0]
                continue
            for value, feature in zip(others, features[1:], strict=True):
                rows.append((f"{column.name}={value}", feature - features[0]))
            intercept += features[0]
            collinear.append(features.sum(axis=0) - np.eye(size)[-1])
        names, matrix = zip(*rows, ("intercept", intercept), strict=True)
        about = f"; categories compared with {', '.join(firsts)}" if firsts else ""
        return Contrasts(names, np.array(matrix), np.array(collinear).reshape(-1, size), about)

    def wanted(self, labels: bool = True) -> list[str]:
        """Names of the columns to read.

        Parameters
        ----------
        labels : bool
            Whether records are learnt from, so that the target and the persons are wanted too.
        """
        more = [] if not labels else [self.target.name, *([self.person] if self.person else [])]
        return [*(column.name for column in self.columns), *more]

    def check_header(self, there: Sequence[str], *, target: bool = True) -> list[str]:
        """Refuse a table that lacks a declared column.

        Parameters
        ----------
        there : sequence of str
            Names of the table's columns.
        target : bool
            Whether the target must be there too.

        Returns
        -------
        list of str
            Columns of the table that the schema does not declare, and that are not used.
        """
        names = self.wanted(target)
        absent = [name for name in names if name not in there]
        if absent:
            found = ", ".join(there)
            raise TableError(f"the data have no column {absent[0]!r}; they have {found}")
        used = {*names, *(column.name for column in self.schema.columns)}
        return [name for name in there if name not in used]

    def encode(self, records: Columns, count: int | None = None, *, labels: bool = True) -> Encoded:
        """Encode some records.

        Parameters
        ----------
        records : mapping of str to sequence
            The cells of each column; a data frame works as well. A column that is absent counts as
            missing cells.
        count : int, optional
            How many records there are; by default as many as the columns have cells.
        labels : bool
            Whether to encode the target.
        """
        if count is None:
            count = max((len(records[c]) for c in records), default=0)
        parts, outside = [], 0
        for column in self.columns:
            part, odd = _features(column, _cells(records, column.name, count), count)
            parts.append(part)
            outside += odd
        X = np.column_stack(parts) if count else np.zeros((0, len(self.names)))
        X = np.ascontiguousarray(X)
        if not labels:
            return Encoded(X, None, np.zeros(0), {}, outside)
        found = Encoded(X, *self._labels(_cells(records, self.target.name, count)), outside)
        if self.person is not None:
            found.persons = [person_id(cell) for cell in _cells(records, self.person, count)]
            missing = [row for row, name in enumerate(found.persons) if not name]
            words = f"column {self.person!r} says of nobody that the record is about them"
            found.bad = dict.fromkeys(missing, words) | found.bad
        return found

    def _labels(self, cells: Sequence[Any]) -> tuple[Any, FloatArray, dict[int, str]]:
        if self.classes is None:
            numbers = _numbers(cells)
            bad = np.flatnonzero(~np.isfinite(numbers))
            words = f"column {self.target.name!r} is not a number"
            return numbers, numbers, dict.fromkeys(bad.tolist(), words)
        places = _places(self.target, cells)
        bad = np.flatnonzero(places < 0)
        labels = np.array(self.classes)[np.maximum(places, 0)]
        words = f"column {self.target.name!r} is not one of its declared values"
        return labels, places.astype(np.float64), dict.fromkeys(bad.tolist(), words)


def _cells(records: Columns, name: str, count: int) -> Sequence[Any]:
    cells = records.get(name)
    if cells is None:
        return [None] * count
    if len(cells) != count:
        raise TableError(f"column {name!r} has {len(cells)} cells for {count} records")
    return cells


def person_id(cell: Any) -> str:
    """An id as text, the same from every format; empty where it is missing or no id.

    Text stays as it is: other than numbers, ``007`` and ``7`` may be two people.

    Parameters
    ----------
    cell : object
        What a table, a line of JSON or a column of Arrow has in that place.
    """
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, float | np.floating):  # whole numbers beside missing ones come as these
        number = float(cell)
        return str(int(number)) if abs(number) < 2**53 and number == int(number) else ""
    if cell is None or isinstance(cell, bool | np.bool_) or not isinstance(cell, int | np.integer):
        return ""
    return str(int(cell))


def _names(column: Column) -> list[str]:
    if column.type == "number" or len(column.values) == 2:
        return [column.name]
    return [f"{column.name}={value}" for value in column.values]


def _features(column: Column, cells: Sequence[Any], count: int) -> tuple[FloatArray, int]:
    if column.bounds is not None:
        low, high = column.bounds
        numbers = _numbers(cells)
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = (numbers - low) / (high - low) * 2.0 - 1.0
            within = np.abs(scaled) <= 1.0
        # a missing number says nothing, an infinite one that it was large
        scaled = np.clip(np.where(np.isnan(scaled), 0.0, scaled), -1.0, 1.0)
        return scaled[:, None], int(np.count_nonzero(~within))
    places = _places(column, cells)
    odd = int(np.count_nonzero(places < 0))
    if len(column.values) == 2:
        return np.where(places < 0, 0.0, 2.0 * places - 1.0)[:, None], odd
    hot = np.zeros((count, len(column.values)))
    rows = np.flatnonzero(places >= 0)
    hot[rows, places[rows]] = 1.0
    return hot, odd


def _numbers(cells: Sequence[Any]) -> FloatArray:
    """Cells as float64, NaN where they are none."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf":
        return np.asarray(cells, dtype=np.float64)
    try:
        return np.array(cells, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.array([_number(cell) for cell in cells], dtype=np.float64)


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _places(column: Column, cells: Sequence[Any]) -> NDArray[np.int64]:
    """The number of each cell's category, -1 where it is none of the declared ones."""
    known = {value: place for place, value in enumerate(column.values)}
    if column.type == "boolean":
        known |= {"0": 0, "1": 1, "no": 0, "yes": 1, "False": 0, "True": 1}

    def place(cell: Any) -> int:
        found = known.get(cell, -1) if isinstance(cell, str) else -1
        if found < 0 and cell is not None:
            found = known.get(canonical(cell), -1)
        return found

    out = np.empty(len(cells), np.int64)
    for start in range(0, len(cells), _ROWS):
        some = cells[start : start + _ROWS]
        typed = list(
            zip(map(type, some), some, strict=True)
        )  # True and 1 are equal, but not the same category
        places = {pair: place(pair[1]) for pair in set(typed)}
        out[start : start + _ROWS] = np.fromiter(
            map(places.__getitem__, typed), np.int64, len(typed)
        )
    return out
