"""A site's own table, read into the arrays that a party needs.

Rows are sorted by their ids as text, because two exports of the same patients rarely agree on an order and the protocol
needs one. Who is in the table must be agreed on beforehand; the alignment check verifies it.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class PartyTable:
    """Columns, labels if any, and who each row is about, in the order of the ids."""

    names: tuple[str, ...]
    ids: list[str]
    features: NDArray[np.float64]
    labels: NDArray[np.float64] | None


def read_table(
    path: Path,
    *,
    id_column: str,
    label_column: str | None = None,
    columns: Sequence[str] | None = None,
) -> PartyTable:
    """Read a `.csv` with a header, a `.parquet`, or a `.npz` with one array per column.

    Parameters
    ----------
    path
        File to read.
    id_column
        Column that identifies the person of a row.
    label_column
        Column to be predicted; None if the table has none.
    columns
        Other columns to use, in this order; None for all of them.

    Returns
    -------
    PartyTable
        The table, sorted by id.
    """
    raw = _read(path)
    special = [id_column] if label_column is None else [id_column, label_column]
    names = tuple(name for name in raw if name not in special) if columns is None else columns
    for name in (*special, *names):
        _need(raw, name, path)
    if not names or set(names) & set(special):
        raise ValueError(
            f"columns must name at least one column, and neither ids nor labels, got {names}"
        )
    ids = _ids(raw, id_column, path)
    order = sorted(range(len(ids)), key=ids.__getitem__)
    features = np.column_stack([_numbers(raw[name], name, path) for name in names])[order]
    labels = None if label_column is None else _numbers(raw[label_column], label_column, path)
    return PartyTable(
        names=tuple(names),
        ids=[ids[row] for row in order],
        features=np.ascontiguousarray(features),
        labels=None if labels is None else np.ascontiguousarray(labels[order]),
    )


def read_ids(path: Path, id_column: str) -> list[str]:
    """Whom the rows of a table are about, in the order in which `read_table` puts them."""
    return sorted(_ids(_read(path), id_column, path))


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise FileNotFoundError(f"data must be an existing file, got {path}")
    readers = {".csv": _csv, ".parquet": _parquet, ".npz": _npz}
    if path.suffix not in readers:
        raise ValueError(f"data must end in one of {sorted(readers)}, got {path}")
    return readers[path.suffix](path)


def _need(raw: Mapping[str, Any], name: str, path: Path) -> None:
    if name not in raw:
        raise ValueError(f"{path} has no column {name!r}; it has {list(raw)}")


def _ids(raw: Mapping[str, Any], id_column: str, path: Path) -> list[str]:
    _need(raw, id_column, path)
    ids = [str(value) for value in raw[id_column]]
    if len(set(ids)) != len(ids):
        raise ValueError(
            f"column {id_column!r} of {path} contains an id twice; give each person one row"
        )
    return ids


def _csv(path: Path) -> dict[str, Any]:
    with path.open(newline="") as file:
        lines = csv.reader(file)
        header = next(lines, None)
        if header is None:
            raise ValueError(f"{path} is empty; its first line must name the columns")
        if len(set(header)) != len(header):
            raise ValueError(f"the first line of {path} names a column twice; rename one of them")
        rows = list(lines)
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(f"line {number} of {path} has {len(row)} entries, not {len(header)}")
    return {name: [row[place] for row in rows] for place, name in enumerate(header)}


def _parquet(path: Path) -> dict[str, Any]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError(f"reading {path} needs pyarrow: pip install pyarrow pandas") from None
    table = parquet.read_table(path)
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _npz(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name].tolist() for name in file.files}


def _numbers(values: Sequence[Any], name: str, path: Path) -> NDArray[np.float64]:
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"column {name!r} of {path} contains a value that is not a number; encode text and fill gaps first"
        ) from None
    if column.ndim != 1 or not np.isfinite(column).all():
        raise ValueError(f"column {name!r} of {path} must hold one finite number per row")
    return column
