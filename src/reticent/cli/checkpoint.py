"""A run of `reticent learn` on disk: what was learnt so far, written down before any output of it leaves.

The order is: learn from some records, write the state (with the decisions that are about to leave), let
the decisions leave. A crash at any moment is continued by writing the pending decisions again, which
are the same numbers, and going on with the same noise.

The one thing a reader would get wrong: a state holds clean sums and noise to come. It is as secret as
the records (mode 0600), and it must be continued with the records that follow, never with others
in place of those it has seen: same noise, other data, and their difference is told. So the records are
hashed, and a different beginning is refused.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent import _state
from reticent.cli.errors import Refused

if TYPE_CHECKING:
    from reticent.estimators.stream import Plan

FORMAT = "reticent-learn"
VERSION = 1
NAME = "state.reticent"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else may run in this folder: two runs of one state would be a fork."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(
                f"another reticent is at work in {folder}; wait for it, or choose another --out"
            ) from None
        yield
    finally:
        os.close(descriptor)


def save(folder: Path, data: dict[str, Any]) -> None:
    """Write the state: whole or absent after a crash, readable by its owner only."""
    _state.save({"format": FORMAT, "version": VERSION, **data}, folder / NAME)


def load(folder: Path) -> dict[str, Any]:
    """Read the state of a run that was stopped."""
    path = folder / NAME
    if not path.exists():
        raise Refused(f"there is nothing to resume in {folder}: it has no {NAME}")
    try:
        data = _state.load(path)
    except (OSError, ValueError, KeyError) as error:
        raise Refused(f"{path} cannot be resumed: {error}") from None
    if data.get("format") != FORMAT or data.get("version") != VERSION:
        raise Refused(f"{path} was not written by this version of `reticent learn`")
    return data


# The estimator's own part ------------------------------------------------------------------------


def freeze(model: Any) -> dict[str, Any]:
    """All that an online estimator needs to go on as if nothing had happened."""
    state: dict[str, Any] = model._stream.state()
    return state


def plan_of(model: Any, columns: int, label: Any) -> Plan:
    """Make an estimator ready for its first record, and return what its stream is built from."""
    # A throw-away step makes it ready; the stream of that step never leaves.
    model.partial_fit(np.zeros((1, columns)), np.array([label]))
    if model._stream is None:
        raise Refused(
            "a horizon of one record leaves nothing to go on with; give a larger --horizon"
        )
    plan: Plan = model._stream.plan
    return plan


def begin(model: Any, columns: int, label: Any) -> None:
    """Start an estimator's stream without a record."""
    from reticent.estimators.stream import Stream

    model._stream = Stream(plan_of(model, columns, label))
    model.n_samples_seen_ = 0


def thaw(model: Any, state: dict[str, Any], columns: int, label: Any) -> None:
    """Give a fresh estimator the stream of a frozen one."""
    from reticent.estimators.stream import Stream

    model._stream = Stream.from_state(state, plan_of(model, columns, label))
    _publish(model)


def gap(model: Any) -> None:
    """Go on one step without a record: what a record that cannot be used counts as."""
    model._stream.gap()
    _publish(model)


def _publish(model: Any) -> None:
    model.n_samples_seen_ = model._stream.seen
    model._publish(model._stream)
