"""A run that was stopped before its last step, and what it takes to continue it once.

The whole plan was charged when the run began, so continuing costs nothing more; continuing twice would be a second,
uncharged release. See :mod:`reticent.state.lease`.

A pause fixes the plan (loss, budget, steps, noise, number of records), not the records. The accounting allows
``resume`` with other records, since no record is in more than the planned number of steps, but it is rarely intended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reticent.erm.problem import OfflineProblem
from reticent.noise import Source
from reticent.state.lease import Lease, claim

_VERSION = 2
_INTERVAL = 64  # steps that share a key; making a key can take longer than a step


@dataclass(eq=False)
class Pause:
    """The state of a run between two steps."""

    solver: str
    plan: dict[str, Any]
    step: int
    arrays: dict[str, np.ndarray]
    source: Source
    lease: Lease = field(default_factory=Lease)

    def turn(self, step: int) -> None:
        """Before the draws of a step: periodically replace the key, so that earlier draws cannot be recomputed."""
        if step % _INTERVAL == 1:
            self.source.ratchet()

    def state(self) -> dict[str, Any]:
        with self.lease.lock:
            self.lease.publish(self, "paused run")
        return {
            "kind": "paused run",
            "version": _VERSION,
            "solver": self.solver,
            "plan": dict(self.plan),
            "step": self.step,
            "arrays": {name: array.copy() for name, array in self.arrays.items()},
            "source": self.source.state(within=True),
            "id": self.lease.id,
        }


def terms(problem: OfflineProblem) -> dict[str, Any]:
    """What every plan states about its problem, as text that is the same in every process."""
    return {
        "loss": re.sub(r" at 0x[0-9a-fA-F]+", "", repr(problem.loss)),
        "budget": repr(problem.budget),
        "noise precision": problem.precision,
        # what one person could do in the steps before is not known otherwise
        **({} if problem.groups is None else {"unit": problem.unit}),
    }


def take_up(resume: Any, solver: str, plan: dict[str, Any]) -> Pause:
    """The pause of a fit or of a saved state, claimed so that nobody else can continue it."""
    pause = getattr(resume, "_pause", None)
    if pause is None:
        pause = _restore(resume)
    if pause.solver != solver or pause.plan != plan:
        changed = sorted(
            name for name in {*pause.plan, *plan} if pause.plan.get(name) != plan.get(name)
        )
        raise ValueError(
            f"resume holds a {pause.solver} run with another plan (differs in: "
            f"{', '.join(changed) or 'solver'}); call the solver with the arguments of the stopped run"
        )
    with pause.lease.lock:
        if pause.lease.furthest != pause.step:
            pause.lease.check(pause.step, f"{solver} run")
        pause.lease.furthest = pause.step + 1
    return pause


def _restore(state: Any) -> Pause:
    if not isinstance(state, Mapping) or state.get("kind") != "paused run":
        raise TypeError(
            "resume must be a Fit that was stopped before its last step, or its state(); got "
            f"{type(state).__name__}"
        )
    if state.get("version") != _VERSION:
        raise ValueError(
            f"resume has version {state.get('version')}, and this version of Reticent reads {_VERSION}; continue "
            "the run with the version that wrote it"
        )
    lease = claim(state["id"], int(state["step"]), f"{state['solver']} run")
    pause = Pause(
        str(state["solver"]),
        dict(state["plan"]),
        int(state["step"]),
        {name: np.array(array) for name, array in state["arrays"].items()},
        Source.from_state(state["source"]),
        lease,
    )
    lease.hold(pause)
    return pause
