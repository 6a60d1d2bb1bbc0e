"""A result as data: one JSON file with everything, and the same rows as CSV.

A stored result is reused only if its settings are exactly equal; then nothing is run, and the picture is drawn from the
file.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent.papers.figures.figure import MeanOverSeeds, Row, Settings

FORMAT = 1
FIELDS = tuple(field.name for field in dataclasses.fields(Row))


@dataclass(frozen=True)
class Result:
    """The result of a run of a figure.

    Parameters
    ----------
    figure
        Name of the figure.
    settings
        Everything that determines the numbers.
    rows
        The numbers.
    made
        The version, machine and duration that produced them; they do not affect the numbers.
    """

    figure: str
    settings: Settings
    rows: list[Row]
    made: dict[str, Any]


def _plain(value: Any) -> Any:
    # JSON has no infinity
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Any) -> float | None:
    return None if value is None or value == "" else float(value)


def write(result: Result, folder: Path, name: str) -> tuple[Path, Path]:
    """Write NAME.json and NAME.csv into a folder; after a crash each file is complete or absent."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [[_plain(getattr(row, field)) for field in FIELDS] for row in result.rows]
    head = {
        "format": FORMAT,
        "figure": result.figure,
        "settings": result.settings,
        "made": result.made,
        "fields": FIELDS,
    }
    data, table = folder / f"{name}.json", folder / f"{name}.csv"
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
    _replace(data, f'{json.dumps(head, allow_nan=False)[:-1]}, "rows": [\n{lines}\n]}}\n')
    _replace(table, "\n".join([",".join(FIELDS), *map(_csv_line, rows)]) + "\n")
    return data, table


def _csv_line(values: list[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(["" if v is None else v for v in values])
    return line.getvalue()


def _replace(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def read(path: Path) -> Result:
    """Read a stored result; raises ValueError if the file is not one."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']}, this version reads {FORMAT}")
        named = [dict(zip(document["fields"], row, strict=True)) for row in document["rows"]]
        rows = [
            Row(
                **row
                | {
                    "x": _number(row["x"]),
                    "value": float(row["value"]),
                    "true_epsilon": _number(row["true_epsilon"]),
                }
            )
            for row in named
        ]
        return Result(document["figure"], document["settings"], rows, document["made"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not a stored result of `reticent reproduce` ({error}); move it away to run again"
        ) from None


def summarise(rows: list[Row]) -> list[MeanOverSeeds]:
    """Combine rows that differ only in their seed, in order of first appearance.

    Examples
    --------
    >>> rows = [Row("p", "ours", 1.0, value, seed) for seed, value in enumerate([1.0, 3.0])]
    >>> (found,) = summarise(rows)
    >>> found.mean, found.error, found.count
    (2.0, 1.0, 2)
    """
    groups: dict[tuple[str, str, str, float | None], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.panel, row.series, row.variant, row.x].append(row)
    found = []
    for (panel, series, variant, x), group in groups.items():
        values = [row.value for row in group]
        mean = math.fsum(values) / len(values)
        spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / max(1, len(values) - 1))
        true = [row.true_epsilon for row in group if row.true_epsilon is not None]
        found.append(
            MeanOverSeeds(panel, series, variant, x, mean, spread / math.sqrt(len(values)), len(values),
                    max(true) if true else None)
        )  # fmt: skip
    return found
