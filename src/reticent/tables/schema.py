"""What is known about the columns of a table without looking at it: types, bounds, categories.

It is stated in a small TOML or JSON file::

    target = "spent"

    [columns.age]
    type = "number"
    bounds = [18, 100]

    [columns.job]
    type = "category"
    values = ["clerk", "cook", "other"]

    [columns.customer]
    type = "person"

A column of type ``person`` says whom a record is about; nothing is learnt from it.

A schema is public and no guarantee covers it: bounds or categories that were read from private records reveal something
about the records at the extremes.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PERSON = "person"
TYPES = ("number", "category", "boolean", PERSON, "ignore")
_TRUTH = ("false", "true")
_KNOWN = {
    "number": {"type", "bounds"},
    "category": {"type", "values"},
    "boolean": {"type"},
    PERSON: {"type"},
    "ignore": {"type"},
}


class TableError(ValueError):
    """A schema, a table or a model file that cannot be used; the message says what to change.

    The message never quotes a cell of a record, because it may end up in a log that is less well protected than the
    records.
    """


@dataclass(frozen=True)
class Column:
    """One declared column.

    Parameters
    ----------
    name : str
        Name of the column, as in the table's header.
    type : {"number", "category", "boolean", "person", "ignore"}
        Type of its cells; a "person" column holds the ids of the people that records are about.
    bounds : tuple of two floats, optional
        Smallest and largest value of a number.
    values : tuple of str
        All categories; those of a boolean are ``false`` and ``true``.


    Examples
    --------
    >>> from reticent import tables
    >>> tables.Column("age", "number", bounds=(18, 100)).to_dict()
    {'type': 'number', 'bounds': [18, 100]}
    """

    name: str
    type: str
    bounds: tuple[float, float] | None = None
    values: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The column as plain data, as in a schema file."""
        out: dict[str, Any] = {"type": self.type}
        if self.bounds is not None:
            out["bounds"] = list(self.bounds)
        if self.type == "category":
            out["values"] = list(self.values)
        return out


@dataclass(frozen=True)
class Schema:
    """The declared columns of a table, and the one to be predicted.

    Build one with :meth:`from_file` or :meth:`from_dict`, which check every entry; `reticent.tables.draft`
    writes a first version.

    Parameters
    ----------
    columns : tuple of Column
        The declared columns, in the order of the file.
    target : str, optional
        Name of the column to be predicted.

    Examples
    --------
    >>> from reticent import tables
    >>> schema = tables.Schema.from_dict(
    ...     {
    ...         "target": "spent",
    ...         "columns": {
    ...             "age": {"type": "number", "bounds": [18, 100]},
    ...             "spent": {"type": "boolean"},
    ...         },
    ...     }
    ... )
    >>> [column.name for column in schema.features("spent")]
    ['age']
    >>> print(schema.to_toml())
    target = "spent"
    <BLANKLINE>
    [columns.age]
    type = "number"
    bounds = [18, 100]
    <BLANKLINE>
    [columns.spent]
    type = "boolean"
    <BLANKLINE>
    """

    columns: tuple[Column, ...]
    target: str | None = None

    def column(self, name: str) -> Column:
        """The declared column with this name.

        Parameters
        ----------
        name : str
            Name of the column.
        """
        for column in self.columns:
            if column.name == name:
                return column
        names = ", ".join(column.name for column in self.columns)
        raise TableError(f"the schema has no column {name!r}; it declares {names}")

    @property
    def person(self) -> str | None:
        """Name of the column that says whom a record is about, if one is declared."""
        return next((column.name for column in self.columns if column.type == PERSON), None)

    def with_person(self, name: str) -> Schema:
        """The same schema with this column as the one that says whom a record is about.

        Parameters
        ----------
        name : str
            A column that is declared as ``person`` or ``ignore``, or not at all.
        """
        if self.person not in (None, name):
            raise TableError(
                f"the schema declares {self.person!r} as the column of persons, not {name!r}; choose one"
            )
        kept = {column.name: column for column in self.columns}
        if name in kept and kept[name].type not in (PERSON, "ignore"):
            raise TableError(
                f"column {name!r} is declared as {kept[name].type!r}, so it would be learnt from; declare it as "
                "'person' to "
                "use it as the id of the person"
            )
        kept[name] = Column(name, PERSON)
        return Schema(tuple(kept.values()), self.target)

    def features(self, target: str) -> tuple[Column, ...]:
        """The columns from which the target is learnt: all others except those of type person or ignore.

        Parameters
        ----------
        target : str
            Name of the column to be predicted.
        """
        found = tuple(
            c for c in self.columns if c.name != target and c.type not in (PERSON, "ignore")
        )
        if not found:
            raise TableError(f"the schema declares no column to learn {target!r} from")
        return found

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain data, as in its file."""
        out: dict[str, Any] = {} if self.target is None else {"target": self.target}
        return out | {"columns": {column.name: column.to_dict() for column in self.columns}}

    def to_toml(self, remarks: Mapping[str, str] | None = None) -> str:
        """The schema as the text of a TOML file.

        Parameters
        ----------
        remarks : mapping of str to str, optional
            Comments for some columns, by name.
        """
        lines = [] if self.target is None else [f"target = {_text(self.target)}", ""]
        for column in self.columns:
            lines.append(f"[columns.{_key(column.name)}]")
            if remarks and column.name in remarks:
                lines.append(f"# {remarks[column.name]}")
            lines.append(f"type = {_text(column.type)}")
            if column.bounds is not None:
                lines.append(f"bounds = [{_number(column.bounds[0])}, {_number(column.bounds[1])}]")
            if column.type == "category":
                lines.append(f"values = [{', '.join(_text(value) for value in column.values)}]")
            lines.append("")
        return "\n".join(lines)

    @classmethod
    def from_dict(cls, data: Any, where: str = "the schema") -> Schema:
        """A schema from plain data, after checking every entry.

        Parameters
        ----------
        data : mapping
            The result of :meth:`to_dict`, or the content of a schema file.
        where : str
            Name of the schema in error messages.

        Raises
        ------
        TableError
            If an entry is missing, unknown or has a value that is not allowed.
        """
        if not isinstance(data, Mapping) or not isinstance(data.get("columns"), Mapping):
            raise TableError(f"{where} has no table of columns: write [columns.NAME] for each")
        for word in data:
            if word not in ("columns", "target"):
                raise TableError(f"{where}: {word!r} is not known; use target and columns")
        columns = tuple(_column(str(name), entry, where) for name, entry in data["columns"].items())
        persons = [column.name for column in columns if column.type == PERSON]
        if len(persons) > 1:
            raise TableError(
                f"{where} declares {' and '.join(map(repr, persons))} as 'person', but a record is about one person: "
                "declare "
                "one column, combined from both if necessary"
            )
        schema = cls(columns, data.get("target"))
        if schema.target is not None:
            schema.column(schema.target)
        return schema

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Schema:
        """Read a schema file.

        Parameters
        ----------
        path : path
            JSON if its name ends in ``.json``, else TOML.

        Raises
        ------
        TableError
            The file cannot be read, or :meth:`from_dict` refuses what it holds.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise TableError(f"the schema {path} cannot be read: {error.strerror}") from None
        try:
            data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
            raise TableError(f"the schema {path} is not well-formed: {error}") from None
        return cls.from_dict(data, f"the schema {path}")


def canonical(value: Any) -> str:
    """A category as text, the same whether it came from CSV, JSON, Parquet or TOML.

    Examples
    --------
    >>> canonical(1.0), canonical("1"), canonical(True), canonical(" Yes ")
    ('1', '1', 'true', 'Yes')
    """
    if isinstance(value, str):
        text = value.strip()
    elif value is True or value is False:
        return _TRUTH[value]
    else:
        text = str(value)
    if text[:1] in "+-.0123456789":
        try:
            number = float(text)
        except ValueError:
            return text
        if math.isfinite(number):
            return str(int(number)) if number == int(number) else repr(number)
    return text


def _column(name: str, entry: Any, where: str) -> Column:
    place = f"{where}, column {name!r}"
    if not isinstance(entry, Mapping) or entry.get("type") not in TYPES:
        raise TableError(f"{place}: type must be one of {', '.join(TYPES)}")
    kind = entry["type"]
    for word in entry:
        if word not in _KNOWN[kind]:
            raise TableError(f"{place}: {word!r} is not allowed with type = {kind!r}; remove it")
    if kind == "number":
        return Column(name, kind, bounds=_bounds(entry.get("bounds"), place))
    if kind == "category":
        return Column(name, kind, values=_values(entry.get("values"), place))
    return Column(name, kind, values=_TRUTH if kind == "boolean" else ())


def _bounds(value: Any, place: str) -> tuple[float, float]:
    right = (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in value)
        and all(abs(v) <= sys.float_info.max for v in value)  # a whole number may be larger
        and math.isfinite(float(value[1]) - float(value[0]))
        and float(value[0]) < float(value[1])
    )
    if not right:
        raise TableError(
            f"{place}: a number needs bounds = [low, high] that are known without looking at the "
            "data; they are required and never guessed"
        )
    return float(value[0]), float(value[1])


def _values(value: Any, place: str) -> tuple[str, ...]:
    values = tuple(canonical(v) for v in value) if isinstance(value, list | tuple) else ()
    if len(values) < 2 or len(set(values)) != len(values):
        raise TableError(
            f"{place}: a category needs values = [...]: all possible values, at least two, each once"
        )
    return values


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    return f"{int(value)}" if value == int(value) and abs(value) < 1e15 else repr(value)
