"""A run of `reticent learn` on disk: what was learnt so far, written down before any output of it leaves.

The order is: learn from some records, write the state (with the decisions that are about to leave), let
the decisions leave. A crash at any moment is continued by writing the pending decisions again, which
are the same numbers, and going on with the same noise.

A state holds clean sums and the key of the noise to come. It is as secret as the records (mode 0600, and
encrypted under a key beside it that each save replaces), and it must be continued with the records that
follow, never with others in place of those it has seen: same noise, other data, and their difference is
told. So the records are hashed, and a different beginning is refused.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reticent.cli.errors import Refused
from reticent.state.files import File
from reticent.state.locks import try_lock

FORMAT = "reticent-learn"
VERSION = 2
NAME = "state.reticent"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else may run in this folder: two runs of one state would be a fork."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if not try_lock(descriptor):
            raise Refused(
                f"another reticent process is working in {folder}; wait for it, or choose another --out"
            )
        yield
    finally:
        os.close(descriptor)


def save(folder: Path, data: dict[str, Any]) -> None:
    """Write the state: whole or absent after a crash, readable by its owner only."""
    File(folder / NAME).save({"format": FORMAT, "version": VERSION, **data})


def load(folder: Path) -> dict[str, Any]:
    """Read the state of a run that was stopped."""
    path = folder / NAME
    if not path.exists():
        raise Refused(f"there is nothing to resume in {folder}: it has no {NAME}")
    try:
        data = File(path).load()
    except (OSError, ValueError, KeyError) as error:
        raise Refused(f"{path} cannot be resumed: {error}") from None
    if data.get("format") != FORMAT or data.get("version") != VERSION:
        raise Refused(f"{path} was not written by this version of `reticent learn`")
    return data


def forget(folder: Path) -> None:
    """Remove the state of a run, its key first."""
    File(folder / NAME).erase()
