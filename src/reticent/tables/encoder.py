"""Encode records into the features of an estimator, by the schema alone.

A number is scaled from its declared bounds to [-1, 1], a category with two values becomes -1 or 1, and one with more
values is one-hot encoded. So the Euclidean norm of every encoded record is at most the square root of the number of
columns, whatever its content; declare that as ``feature_norm``.

Every record is encoded on its own. A missing cell becomes 0, the middle of the bounds or no category; imputing it from
other records would make a record's features depend on these.
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
_ROWS = 2**14  # cells of a column per block


@dataclass
class Encoded:
    """Encoded records, and diagnostics about them.

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
        For each unusable record, which column is wrong and why.
    outside : int
        Number of cells that were missing, unreadable, beyond their bounds, or of no declared category.
    persons : list of str or None
        Id of the person of each record, if the schema has a column of persons; empty if it is missing.
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
    """The map from coefficients of encoded features and an intercept to those of a table's own columns.

    :attr:`Encoder.contrasts` makes one.

    Parameters
    ----------
    names : tuple of str
        Names of the results: columns, ``column=value`` for each value of a category but the first, and the intercept.
    matrix : array of shape (names, features + 1)
        Matrix by which the coefficients of encoded features, with the intercept last, are multiplied.
    collinear : array of shape (categories, features + 1)
        Coefficients that cancel in every record: ones for all values of a category, and an intercept of -1.
    about : str
        The first values of the categories, in words.


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
        Name of the column to be predicted. Default: the schema's target.
    persons : bool
        Whether to read the schema's column of persons, as for learning; False for prediction. Default: True.

    Attributes
    ----------
    columns : tuple of Column
        Columns from which features are made.
    names : list of str
        Names of the encoded features.
    target : Column
        Column to be predicted.
    person : str or None
        Name of the column with the persons' ids.


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
            raise TableError(
                "the schema names no target; pass the name of the column to be predicted as target"
            )
        self.schema = schema
        self.target = schema.column(target)
        if self.target.type in ("ignore", PERSON):
            raise TableError(
                f"the target {target!r} is declared as {self.target.type!r}; declare it as a number, category or "
                "boolean"
            )
        self.person = schema.person if persons else None
        self.columns = schema.features(target)
        self.names = [name for column in self.columns for name in _names(column)]

    @property
    def largest_norm(self) -> float:
        """Upper bound on the Euclidean norm of every encoded record; declare it as ``feature_norm``."""
        return math.sqrt(len(self.columns))

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The class labels of a classification; None for a regression."""
        return self.target.values or None

    @property
    def contrasts(self) -> Contrasts:
        """The map from coefficients of encoded features to the table's own columns, for ``summary(encoder=...)``.

        The coefficient of a number is per unit. A category has one coefficient per value, relative to the first value
        in the schema, which the intercept includes.
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
            Whether to include the target and the persons, as for learning. Default: True.
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
            Whether the target is required too. Default: True.

        Returns
        -------
        list of str
            Columns of the table that the schema does not declare, and that are not used.
        """
        names = self.wanted(target)
        absent = [name for name in names if name not in there]
        if absent:
            # a first line without any declared name may be a record: it is not quoted
            named = any(column.name in there for column in self.schema.columns)
            found = f"they have {', '.join(there)}"
            if not named:
                found = (
                    "nor any other that the schema declares; their first line must name the columns"
                )
            raise TableError(f"the data have no column {absent[0]!r}; {found}")
        used = {*names, *(column.name for column in self.schema.columns)}
        return [name for name in there if name not in used]

    def encode(self, records: Columns, count: int | None = None, *, labels: bool = True) -> Encoded:
        """Encode some records.

        Parameters
        ----------
        records : mapping of str to sequence
            The cells of each column; a data frame works as well. The cells of an absent column count as missing.
        count : int, optional
            Number of records. Default: the number of cells of a column.
        labels : bool
            Whether to encode the target. Default: True.

        Returns
        -------
        Encoded
            Features, labels and diagnostics.
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
            words = f"column {self.person!r} does not say whom the record is about"
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
    """An id as text, the same from every format; empty if it is missing or not an id.

    Text is unchanged: unlike the numbers, the texts ``007`` and ``7`` may be two people.

    Parameters
    ----------
    cell : object
        A cell of a table, a line of JSON or a column of Arrow.
    """
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, float | np.floating):  # integers are read as floats if some are missing
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
        # a missing number carries no information, an infinite one is large
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
    """Cells as float64; NaN for cells that are not numbers."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf":
        return np.asarray(cells, dtype=np.float64)
    try:
        numbers: FloatArray | None = np.array(cells, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = None
    # lists of equal lengths would become a matrix
    if numbers is None or numbers.ndim != 1:
        numbers = np.array([_number(cell) for cell in cells], dtype=np.float64)
    return numbers


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


_ALIKE = (str, int, float, bool, np.number, np.bool_, type(None))
"""Types of cells of which equal ones have the same canonical text."""


def _places(column: Column, cells: Sequence[Any]) -> NDArray[np.int64]:
    """The index of each cell's category; -1 for undeclared ones."""
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
        # True and 1 are equal, and so is one moment in two time zones, but they are not the same category
        typed = [(type(cell), cell if isinstance(cell, _ALIKE) else repr(cell)) for cell in some]
        places = {key: place(cell) for key, cell in dict(zip(typed, some, strict=True)).items()}
        out[start : start + _ROWS] = np.fromiter(
            map(places.__getitem__, typed), np.int64, len(typed)
        )
    return out
