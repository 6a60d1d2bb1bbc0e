"""`reticent learn --to URL`: send the records of a table or a stream to a service, which learns from them.

A record of a file is identified by the file and its position in it, so the command can be stopped and run again without
counting a record twice. A record of a live stream gets a fresh key.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reticent.cli.console import Console, table
from reticent.cli.errors import Refused
from reticent.cli.options import LearnOptions, word
from reticent.tables import Encoder, open_records

_EVERY = 1000
_HERE = (
    "horizon", "endless", "fade", "resume", "keep_state", "overwrite", "new_records", "feature_norm", "task",
    "decisions",
)  # fmt: skip


def send(options: LearnOptions, encoder: Encoder, console: Console) -> int:
    """Create the stream if necessary, send every record, and report how many were accepted."""
    from reticent.service.client import Client
    from reticent.service.problems import Problem

    assert options.to is not None
    assert options.data is not None
    _check_options(options)
    assert options.stream is not None
    source, unused = open_records(options.data, encoder, word(options.format))
    if unused:
        console.note(f"ignored, because not in the schema: {', '.join(unused)}")
    prefix = None
    if not source.live:
        place = str(Path(options.data).resolve()).encode()
        prefix = hashlib.blake2b(place, digest_size=8).hexdigest()
    try:
        with Client(options.to) as client:
            if options.epsilon is not None:
                client.create(_specification(options, encoder))
            every = 1 if source.live else options.every or _EVERY
            done = client.send(
                options.stream, _records(source, encoder, prefix, every), batch=every
            )
            found = client.stream(options.stream)
    except (Problem, ConnectionError) as error:
        raise Refused(str(error)) from None
    except ValueError as error:
        raise Refused(f"{options.data}: {error}") from None
    rows = [(name, f"{done[name]:,}") for name in ("accepted", "repeated", "refused", "steps")]
    rows.append(("guarantee", found["guarantee"]["text"]))
    console.result(done | {"guarantee": found["guarantee"]["text"]}, table(rows))
    return 0


def _check_options(options: LearnOptions) -> None:
    """Refuse options that say something else than what a service does."""
    for name in _HERE:
        if getattr(options, name):
            raise Refused(
                f"--{name.replace('_', '-')} cannot be used with --to: create the stream with this setting "
                "(POST /v1/streams), then omit the option and --epsilon"
            )
    if options.stream is None:
        raise Refused("--stream is missing: the name of the stream to send the records to")
    if options.online is False:
        raise Refused(
            "--offline cannot be used with --to: a service learns from records as they arrive"
        )


def _specification(options: LearnOptions, encoder: Encoder) -> dict[str, Any]:
    schema = encoder.schema.to_dict() | {"target": encoder.target.name}
    delta = (
        1e-6 if options.delta is None else options.delta
    )  # the command's default, not the budget's
    budget: dict[str, Any] = {"epsilon": options.epsilon, "delta": delta}
    if options.window is not None:
        budget["window"] = options.window
    if options.neighbours is not None:
        budget["neighbours"] = options.neighbours.value
    kind = "linear" if encoder.classes is None else "logistic"
    out: dict[str, Any] = {
        "name": options.stream,
        "kind": kind,
        "schema": schema,
        "budget": budget,
    }
    rule = {"max_records": options.max_records, "min_gap": options.min_gap}
    out |= {name: value for name, value in rule.items() if value is not None}
    return out if options.seed is None else out | {"seed": options.seed}


def _records(
    source: Any, encoder: Encoder, prefix: str | None, size: int
) -> Iterator[dict[str, Any]]:
    done = 0
    while not source.ended:
        columns, got = source.read(size)
        cells = [(c.name, _plain(columns.get(c.name), got, c.bounds)) for c in encoder.columns]
        target = _plain(columns.get(encoder.target.name), got, encoder.target.bounds)
        persons = encoder.encode(columns, got).persons if encoder.person else None
        for row in range(got):
            record: dict[str, Any] = {
                "x": {name: some[row] for name, some in cells},
                "y": target[row],
            }
            if persons is not None:
                record["person"] = persons[row] or None
            if prefix is not None:
                record["id"] = f"{prefix}-{done + row}"
            yield record
        done += got


def _plain(cells: Any, count: int, bounds: tuple[float, float] | None) -> list[Any]:
    """Cells as JSON values: NaN becomes a missing value, and an infinite number its bound."""
    if cells is None:
        return [None] * count
    if bounds is None:
        return [cell.item() if hasattr(cell, "item") else cell for cell in cells]
    out: list[Any] = []
    for cell in cells:
        try:
            number = float(cell)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if math.isinf(number):
            number = bounds[number > 0]
        out.append(None if math.isnan(number) else number)
    return out
