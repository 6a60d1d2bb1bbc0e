"""`reticent schema`: a draft of a schema, from names alone or from records that are public.

The one thing a reader would get wrong: a schema is published with the model and nothing protects it. The
largest income in a private table, written down as a bound, is somebody's income.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reticent.cli.console import Console
from reticent.cli.errors import Refused
from reticent.cli.schema import Column, Schema, canonical
from reticent.cli.sources import open_source

LEAK = (
    "the bounds and categories in this draft were read off the data. That is only right for a public "
    "sample: a schema read off private records leaks them. Check every line"
)
_TOP = "# What is known of the columns. This is public: no bound may come from private records.\n"
_ROWS = 100_000
_MOST_VALUES = 30
_MISSING = ("", "na", "nan", "null", "none")


def draft(
    data: str,
    *,
    public_sample: bool,
    names_only: bool,
    target: str | None,
    kind: str | None,
    out: Path | None,
    console: Console,
) -> int:
    """Run the command and return its exit status."""
    if not public_sample and not names_only:
        raise Refused(
            "a schema read off private data leaks; say --public-sample if DATA is public, or "
            "--names-only for a template with the names of the columns and nothing else"
        )
    source = open_source(data, kind)
    columns, count = source.read(1 if names_only else _ROWS)
    names = source.header or list(columns)
    if target is not None and target not in names:
        raise Refused(f"the data have no column {target!r}; they have {', '.join(names)}")
    remarks: dict[str, str] = {}
    if names_only:
        schema = Schema(tuple(Column(name, "ignore") for name in names), target)
        remarks = dict.fromkeys(
            names, 'type = "number" with bounds = [low, high], or "category" with values = [...]'
        )
    else:
        if not count:
            raise Refused(f"{data} holds no records")
        found = [_column(name, columns[name], name == target) for name in names]
        schema = Schema(tuple(column for column, _ in found), target)
        remarks = {column.name: remark for column, remark in found if remark}
        console.warn(LEAK)
    text = _TOP + schema.to_toml(remarks)
    if out is not None:
        try:
            with open(out, "x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise Refused(f"{out} exists already; choose another --out") from None
        console.note(f"schema: {out}")
    if console.as_json:
        console.result(schema.to_dict(), "")
    elif out is None:
        os.write(sys.stdout.fileno(), text.encode())
    return 0


def _column(name: str, cells: Sequence[Any], target: bool) -> tuple[Column, str]:
    there = [c for c in cells if c is not None and str(c).strip().lower() not in _MISSING]
    values = sorted({canonical(cell) for cell in there})
    if len(values) < 2:
        return Column(name, "ignore"), "one value only, or none"
    if set(values) == {"false", "true"}:
        return Column(name, "boolean", values=("false", "true")), ""
    numbers = _numbers(values)
    if numbers is not None and not (target and len(values) <= 10 and _whole(numbers)):
        low, high = _outward(min(numbers), max(numbers))
        return Column(name, "number", bounds=(low, high)), "CHECK: what can it be, not what it was"
    if len(values) > _MOST_VALUES:
        return Column(name, "ignore"), f"text with {len(values)} different values"
    return Column(name, "category", values=tuple(values)), "CHECK: all that can occur"


def _numbers(values: Sequence[str]) -> list[float] | None:
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return None
    return numbers if all(math.isfinite(number) for number in numbers) else None


def _whole(numbers: Sequence[float]) -> bool:
    return all(number == int(number) for number in numbers)


def _outward(low: float, high: float) -> tuple[float, float]:
    """Round numbers around an interval.

    Examples
    --------
    >>> _outward(17.3, 88.0), _outward(0.0, 0.93), _outward(-1234.0, 12.0)
    ((10.0, 90.0), (0.0, 1.0), (-1300.0, 100.0))
    """
    unit = 10.0 ** math.floor(math.log10(high - low))
    if unit < 1.0:
        steps = round(1.0 / unit)
        return math.floor(low * steps) / steps, math.ceil(high * steps) / steps
    unit = max(1.0, unit / 10.0) if (high - low) / unit < 2.0 else unit
    return math.floor(low / unit) * unit, math.ceil(high / unit) * unit
