"""First drafts of schemas, from column names alone or from public records.

A schema is published with the model and is not protected: the largest income in a private table, used as a bound, is
somebody's income.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

from reticent.tables.schema import Column, Schema, TableError, canonical
from reticent.tables.sources import open_source

_ROWS = 100_000
_MOST_VALUES = 30
_MISSING = ("", "na", "nan", "null", "none")


def draft(
    data: str | os.PathLike[str],
    *,
    public_sample: bool = False,
    target: str | None = None,
    kind: str | None = None,
) -> tuple[Schema, dict[str, str]]:
    """Draft a schema for a person to complete and check.

    Parameters
    ----------
    data : path or str
        A file, a folder of files, or ``-`` for standard input.
    public_sample : bool
        Whether the records are public. Only then are types, bounds and categories read from them (from the first
        100,000); otherwise every column is declared as ``ignore``.
    target : str, optional
        Name of the column to be predicted.
    kind : {"csv", "jsonl", "parquet"}, optional
        Format; by default determined from the name.

    Returns
    -------
    schema : Schema
        The draft.
    remarks : dict of str to str
        What to check about some of the columns; `Schema.to_toml` writes them as comments.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from reticent import tables
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "sample.csv"
    >>> _ = path.write_text("age,member\\n35,true\\n61,false\\n")
    >>> schema, remarks = tables.draft(path, public_sample=True, target="member")
    >>> schema.column("age")
    Column(name='age', type='number', bounds=(30.0, 70.0), values=())
    >>> remarks
    {'age': 'CHECK: state what is possible, not what occurs here'}
    """
    source = open_source(data, kind)
    columns, count = source.read(_ROWS if public_sample else 1)
    names = source.header or list(columns)
    if target is not None and target not in names:
        raise TableError(f"the data have no column {target!r}; they have {', '.join(names)}")
    if not public_sample:
        template = 'type = "number" with bounds = [low, high], or "category" with values = [...]'
        ignored = tuple(Column(name, "ignore") for name in names)
        return Schema(ignored, target), dict.fromkeys(names, template)
    if not count:
        raise TableError(f"{data} holds no records")
    found = [_column(name, columns[name], name == target) for name in names]
    schema = Schema(tuple(column for column, _ in found), target)
    return schema, {column.name: remark for column, remark in found if remark}


def _column(name: str, cells: Sequence[Any], target: bool) -> tuple[Column, str]:
    there = [c for c in cells if c is not None and str(c).strip().lower() not in _MISSING]
    values = sorted({canonical(cell) for cell in there})
    if len(values) < 2:
        return Column(name, "ignore"), "has at most one value"
    if set(values) == {"false", "true"}:
        return Column(name, "boolean", values=("false", "true")), ""
    numbers = _numbers(values)
    if numbers is not None and min(numbers) == max(numbers):
        return Column(name, "ignore"), "has at most one value"
    if numbers is not None and not (target and len(values) <= 10 and _whole(numbers)):
        low, high = _outward(min(numbers), max(numbers))
        return Column(
            name, "number", bounds=(low, high)
        ), "CHECK: state what is possible, not what occurs here"
    if len(values) > _MOST_VALUES:
        return Column(name, "ignore"), f"text with {len(values)} different values"
    return Column(name, "category", values=tuple(values)), "CHECK: list all possible values"


def _numbers(values: Sequence[str]) -> list[float] | None:
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return None
    return numbers if all(math.isfinite(number) for number in numbers) else None


def _whole(numbers: Sequence[float]) -> bool:
    return all(number == int(number) for number in numbers)


def _outward(low: float, high: float) -> tuple[float, float]:
    """Round bounds around an interval.

    Examples
    --------
    >>> _outward(17.3, 88.0), _outward(0.0, 0.93), _outward(-1234.0, 12.0)
    ((10.0, 90.0), (0.0, 1.0), (-1300.0, 100.0))
    """
    if not 1e-300 < high - low < 1e300:  # no room for a unit
        return low, high
    unit = 10.0 ** math.floor(math.log10(high - low))
    if unit < 1.0:
        steps = round(1.0 / unit)
        around = math.floor(low * steps) / steps, math.ceil(high * steps) / steps
    else:
        unit = max(1.0, unit / 10.0) if (high - low) / unit < 2.0 else unit
        around = math.floor(low / unit) * unit, math.ceil(high / unit) * unit
    # of numbers with many digits the last ones are rounded inwards
    return min(low, around[0]), max(high, around[1])
