"""The table of persons of a stream, stored apart from its state, so that a commit writes only who came.

A state is written as a whole with every commit, and the table of persons grows with their number. So the table is
stored in parts: first all of it, then what each commit adds, until these parts have as many rows as the first and all
of it is written anew. A state says which parts belong to it, and every part is bound to its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.service.packing import pack, unpack
from reticent.service.runners import Runner
from reticent.service.sealing import Damaged, Ring, person_place
from reticent.service.store import Reading, Transaction

_TABLE = "table"  # the entry of a state that names the parts belonging to it
_ROWS = 2**18  # largest number of rows of a part


@dataclass(frozen=True)
class StoredPersons:
    """What is stored of a stream's table: how often it was rewritten, in how many parts, with how many rows."""

    generation: int = 0
    parts: int = 0
    rows: int = 0


def begin(runner: Runner, kept: StoredPersons) -> None:
    """Let the table of a stream, if it has one, record what is new in it."""
    if runner.persons is not None:
        runner.persons.keep_apart(kept.rows)


def write(
    rows: Transaction, ring: Ring, stream: int, runner: Runner, kept: StoredPersons
) -> tuple[dict[str, Any], StoredPersons]:
    """Write what is new in the table of a stream; returns the stream's state and the description of the parts."""
    state = runner.state()
    if runner.persons is None:
        return state, kept
    found = runner.persons.changes()
    if found.whole:
        kept = StoredPersons(kept.generation + 1)
        rows.clear_persons(stream)
    for first in range(0, len(found.entries), _ROWS):
        some = slice(first, first + _ROWS)
        plain = pack({"digests": found.digests[some], "entries": found.entries[some]})
        place = person_place(stream, kept.generation, kept.parts)
        rows.add_persons(stream, kept.generation, kept.parts, ring.seal(plain, place))
        kept = StoredPersons(kept.generation, kept.parts + 1, kept.rows + len(found.entries[some]))
    state[_TABLE] = [kept.generation, kept.parts, kept.rows]
    return state, kept


def read(rows: Reading, ring: Ring, stream: int, state: dict[str, Any]) -> StoredPersons:
    """Put the table of a stream back into its state, and return its description."""
    if _TABLE not in state:  # there is no table, or an earlier version kept it in the state
        return StoredPersons()
    kept = StoredPersons(*map(int, state.pop(_TABLE)))
    there = rows.persons(stream)
    if [(generation, part) for generation, part, _ in there] != [
        (kept.generation, part) for part in range(kept.parts)
    ]:
        raise Damaged("a part of its table of persons is missing")
    found = [
        unpack(ring.open(sealed, person_place(stream, generation, part)))
        for generation, part, sealed in there
    ]
    table = _table_in(state)
    table["digests"] = np.concatenate([part["digests"] for part in found])
    table["entries"] = np.concatenate([part["entries"] for part in found])
    table["apart"] = False
    return kept


def _table_in(state: dict[str, Any]) -> dict[str, Any]:
    """The part of a state that describes persons."""
    for name, value in state.items():
        if name == "persons" and value is not None:
            return value
        if isinstance(value, dict):
            try:
                return _table_in(value)
            except KeyError:
                continue
    raise KeyError("persons")
