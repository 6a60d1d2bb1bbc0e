"""A run of `reticent learn` on disk: its state, saved before any output that depends on it is written.

The order is: learn from some records, save the state together with the pending decisions, write the decisions. After a
crash at any moment, the run continues by writing the pending decisions again, which are the same numbers, and by using
the same noise.

A state holds clean sums and the key of future noise. It is as secret as the records (mode 0600, and encrypted under a
key beside it that each save replaces). It must be continued with the records that follow, never with others in place of
those it has learnt from: the same noise on other data would reveal their difference. So the records are hashed, and a
different beginning is refused.
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
_FORMER = "state.tacit"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder against other processes: two continuations of one state would be a fork."""
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
    """Write the state; after a crash it is either complete or absent, and only its owner can read it."""
    File(folder / NAME).save({"format": FORMAT, "version": VERSION, **data})


def load(folder: Path) -> dict[str, Any]:
    """Read the state of a stopped run."""
    path = folder / NAME
    refuse_former(folder)
    if not path.exists():
        raise Refused(f"there is nothing to resume in {folder}: it has no {NAME}")
    try:
        data = File(path).load()
    except (OSError, ValueError, KeyError) as error:
        raise Refused(f"{path} cannot be resumed: {error}") from None
    if data.get("format") != FORMAT or data.get("version") != VERSION:
        raise Refused(f"{path} was not written by this version of `reticent learn`")
    return data


def refuse_former(folder: Path) -> None:
    """Refuse a folder with the state of a run of Tacit, which must be neither resumed nor overlooked."""
    if (folder / _FORMER).exists():
        raise Refused(
            f"{folder / _FORMER} is the state of a run of Tacit, the former name of this project; resume it with the "
            "version that wrote it, or choose another --out for a new run, which spends a second budget if the records "
            "are the same"
        )


def forget(folder: Path) -> None:
    """Remove the state of a run, its key first."""
    File(folder / NAME).erase()
