"""Records made up from a schema alone, for dry runs, which read no private data."""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent.service.records import Batch
from reticent.tables import Column, Encoder

MOST = 10_000


def records(encoder: Encoder, count: int, *, labelled: bool, seed: int = 0) -> list[dict[str, Any]]:
    """Records with uniform cells, in the form in which a client sends them.

    Parameters
    ----------
    encoder : Encoder
        Encoder of the stream, which determines the columns.
    count : int
        Number of records.
    labelled : bool
        Whether the records have a label.
    seed : int
        Seed; the same seed gives the same records.
    """
    generator = np.random.default_rng(seed)
    out: list[dict[str, Any]] = []
    for place in range(count):
        row: dict[str, Any] = {
            "id": f"made-up-{place}",
            "x": {column.name: _cell(column, generator) for column in encoder.columns},
        }
        if labelled:
            row["y"] = _cell(encoder.target, generator)
        out.append(row)
    return out


def _cell(column: Column, generator: np.random.Generator) -> Any:
    if column.bounds is not None:
        return float(generator.uniform(*column.bounds))
    value = column.values[int(generator.integers(len(column.values)))]
    return value == "true" if column.type == "boolean" else value


def feed(runner: Any, encoder: Encoder, rows: list[dict[str, Any]], *, labelled: bool) -> None:
    """Let a runner learn from made-up records."""
    columns = {column.name: [row["x"][column.name] for row in rows] for column in encoder.columns}
    if labelled:
        columns[encoder.target.name] = [row["y"] for row in rows]
    found = encoder.encode(columns, len(rows), labels=labelled)
    codes = found.codes if labelled else np.zeros(len(rows))
    runner.learn(Batch(found.X, codes, None, [], []))


def play(player: Any, count: int) -> None:
    """Let a bandit play points with made-up losses."""
    for place in range(count):
        asked = player.ask()
        player.tell(asked["ticket"], float(np.random.default_rng(place).uniform()))
