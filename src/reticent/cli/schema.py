"""What is known about the columns of a table without looking at it: types, bounds, categories.

A small TOML or JSON file:

    target = "spent"

    [columns.age]
    type = "number"
    bounds = [18, 100]

    [columns.job]
    type = "category"
    values = ["clerk", "cook", "other"]

The one thing a reader would get wrong: the schema is public and the guarantee does not cover it. Bounds
or categories that were read off private records tell about whoever stood at the edge.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent.cli.errors import Refused

TYPES = ("number", "category", "boolean", "ignore")
_TRUTH = ("false", "true")
_KNOWN = {
    "number": {"type", "bounds"},
    "category": {"type", "values"},
    "boolean": {"type"},
    "ignore": {"type"},
}


@dataclass(frozen=True)
class Column:
    """One declared column.

    Parameters
    ----------
    name
        As in the header.
    type
        ``"number"``, ``"category"``, ``"boolean"`` or ``"ignore"``.
    bounds
        The least and the largest value of a number.
    values
        All categories; those of a boolean are ``false`` and ``true``.
    """

    name: str
    type: str
    bounds: tuple[float, float] | None = None
    values: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as in the file."""
        out: dict[str, Any] = {"type": self.type}
        if self.bounds is not None:
            out["bounds"] = list(self.bounds)
        if self.type == "category":
            out["values"] = list(self.values)
        return out


@dataclass(frozen=True)
class Schema:
    """All declared columns, in the order of the file, and the one to be predicted."""

    columns: tuple[Column, ...]
    target: str | None = None

    def column(self, name: str) -> Column:
        """A declared column by name."""
        for column in self.columns:
            if column.name == name:
                return column
        names = ", ".join(column.name for column in self.columns)
        raise Refused(f"the schema has no column {name!r}; it declares {names}")

    def features(self, target: str) -> tuple[Column, ...]:
        """The columns that are learnt from."""
        found = tuple(c for c in self.columns if c.name != target and c.type != "ignore")
        if not found:
            raise Refused(f"the schema declares no column to learn {target!r} from")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as in the file."""
        out: dict[str, Any] = {} if self.target is None else {"target": self.target}
        return out | {"columns": {column.name: column.to_dict() for column in self.columns}}

    def to_toml(self, remarks: Mapping[str, str] | None = None) -> str:
        """The file's text; ``remarks`` puts a comment beside a column."""
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
        """A schema from plain data, every entry checked."""
        if not isinstance(data, Mapping) or not isinstance(data.get("columns"), Mapping):
            raise Refused(f"{where} has no table of columns: write [columns.NAME] for each")
        for word in data:
            if word not in ("columns", "target"):
                raise Refused(f"{where}: {word!r} is not known; use target and columns")
        columns = tuple(_column(str(name), entry, where) for name, entry in data["columns"].items())
        schema = cls(columns, data.get("target"))
        if schema.target is not None:
            schema.column(schema.target)
        return schema

    @classmethod
    def load(cls, path: Path) -> Schema:
        """Read a TOML or JSON file."""
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise Refused(f"the schema {path} cannot be read: {error.strerror}") from None
        try:
            data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
            raise Refused(f"the schema {path} is not well-formed: {error}") from None
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
        raise Refused(f"{place}: type must be one of {', '.join(TYPES)}")
    kind = entry["type"]
    for word in entry:
        if word not in _KNOWN[kind]:
            raise Refused(f"{place}: {word!r} does not go with type = {kind!r}")
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
        and math.isfinite(value[1] - value[0])
        and value[0] < value[1]
    )
    if not right:
        raise Refused(
            f"{place}: a number needs bounds = [low, high] that are known without looking at the "
            "data; they are required and never guessed"
        )
    return float(value[0]), float(value[1])


def _values(value: Any, place: str) -> tuple[str, ...]:
    values = tuple(canonical(v) for v in value) if isinstance(value, list | tuple) else ()
    if len(values) < 2 or len(set(values)) != len(values):
        raise Refused(
            f"{place}: a category needs values = [...], at least two, each once, all that can occur"
        )
    return values


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    return f"{int(value)}" if value == int(value) and abs(value) < 1e15 else repr(value)
