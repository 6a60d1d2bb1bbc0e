"""Worst cases of the feature-distributed protocol: hostile coordinators, alone and with accomplices.

Real parties answer real messages; only the requests are adversarial. The coordinator pushes the record's slope to its
clip with invented predictions, and sees every byte that comes back. If the other parties collude with it, the target is
one party's part of a row and that party's own guarantee; if it is alone, a whole row and the guarantees of all parties
together.

The invented predictions are allowed. The clip exists for them, and a party that trusted them would be refuted by these
pairs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reticent.audit.party_requests import GenerousLedger, asked
from reticent.audit.registry import Pair, register
from reticent.checks import FloatArray
from reticent.privacy import Budget
from reticent.vertical import Party, Plan
from reticent.vertical.messages import AskLabels, Choice, Fetch, Sketch, Step
from reticent.vertical.plan import Terms, guarantee_of

_OVERLONG = 3.0
_KEY = bytes(16)
_PLENTY = 1e6
BOTH = ({"neighbours": "zero-out"}, {"neighbours": "replace"})


def _blank(neighbours: str) -> float:
    return 0.0 if neighbours == "zero-out" else -_OVERLONG


def _open(party: Party, plan: Plan) -> None:
    asked(party, plan.request(bytes(16), 1))


def label_pair(name: str, *, neighbours: str = "zero-out", delta: float = 1e-6) -> Pair:
    """The worst case of a request for the labels without a sketch: each entry is a record of its own."""

    def plan(size: int) -> Plan:
        return Plan(rows=size, rounds=0, columns=0, clip=2.0, selection_scale=1.0, sketch_scale=1.0,
                    labels="send", label_scale=3.0, sketch_size=size)  # fmt: skip

    def run(world: float, size: int) -> FloatArray:
        budget = Budget(_PLENTY, delta, neighbours)
        party = Party(
            "honest",
            np.zeros((size, 1)),
            ids=range(size),
            ledger=budget,
            key=_KEY,
            labels=np.full(size, world),
        )
        _open(party, plan(size))
        answer: Sketch = asked(party, AskLabels(run=bytes(16), sequence=2))
        return answer.sketch

    claim = guarantee_of(plan(1000), Terms(neighbours=neighbours))
    return Pair(
        name, run, _blank(neighbours), _OVERLONG, claim=claim, delta=delta, batch=1000,
        why="every record's label is as large as allowed, or blanked, or reversed",
        subject=claim, selection=0.2,
    )  # fmt: skip


def _transcript(world: float, place: int, budget: Budget, plan: Plan, rounds: int) -> list[float]:
    """Everything that one party sends to a coordinator that pushes the second record to its clip."""
    X = np.zeros((2, 2))
    X[1] = (world, -world)
    party = Party(
        f"party {place}",
        X,
        ids=range(2),
        ledger=GenerousLedger(budget, adaptive=True),
        key=_KEY,
        labels=np.zeros(2),
    )
    _open(party, plan)
    told: list[float] = []
    sequence = 2
    for t in range(rounds):
        push = np.array([0.0, 1e6 if t % 2 == 0 else -1e6])
        request = Step(run=bytes(16), sequence=sequence, round=t, last=False, others=push)
        choice: Choice = asked(party, request)
        sign = choice.sign * (1.0 if choice.column == 0 else -1.0) * (1.0 if t % 2 == 0 else -1.0)
        told += [sign, sign * float(choice.value[0])]
        sequence += 1
    fetch = Fetch(run=bytes(16), sequence=sequence, column=choice.column)
    sketch: Sketch = asked(party, fetch)
    told.append(float(sketch.sketch[1]) * (1.0 if choice.column == 0 else -1.0))
    return told


def hostile_pair(
    name: str,
    parties: int,
    *,
    neighbours: str = "zero-out",
    delta: float = 1e-3,
    rounds: int = 2,
) -> Pair:
    """The worst case of honest parties when everybody else colludes.

    A run takes milliseconds, so there can be only few. The plan therefore has few choices, and values and sketches with
    little noise, which few runs can distinguish; white-box lines cover the choices.
    """
    terms = Terms(neighbours=neighbours)
    moved = terms.moved(1.0)
    scale = math.sqrt(parties) * moved  # the same noise in total for any number of parties
    plan = Plan(
        rows=2,
        rounds=rounds,
        columns=1,
        clip=2.0,
        selection_scale=8.0 * moved,
        value_scale=1.2 * scale,
        sketch_scale=0.5 * scale,
        sketch_size=2,
    )
    claim = guarantee_of(plan, terms)
    for _ in range(parties - 1):
        claim = claim + guarantee_of(plan, terms)
    budget = Budget(_PLENTY, delta, neighbours)

    # The logarithm of the likelihood ratio, up to a constant: a choice contributes twice clip / scale, a
    # Gaussian number its shift over its variance.
    choice, value = (
        plan.clip * moved / plan.selection_scale,
        plan.clip * moved / plan.value_scale**2,
    )
    weights = np.array([-choice, -value] * rounds + [moved / plan.sketch_scale**2])

    def statistic(rows: FloatArray) -> FloatArray:
        return np.asarray(rows) @ np.tile(weights, parties)

    def run(world: float) -> FloatArray:
        return np.concatenate([_transcript(world, k, budget, plan, rounds) for k in range(parties)])

    return Pair(
        name, run, _blank(neighbours), _OVERLONG, claim=claim, delta=delta,
        why="a row as long as allowed whose slope is pushed to its clip, or blanked, or reversed",
        subject=claim, selection=0.2, statistic=statistic,
    )  # fmt: skip


@register("vertical-labels", variants=BOTH)
def _labels(**changes: Any) -> Pair:
    return label_pair("vertical-labels", **changes)


@register("vertical-coalition", variants=BOTH)
def _coalition(**changes: Any) -> Pair:
    return hostile_pair("vertical-coalition", 1, **changes)


@register("vertical-coordinator", variants=BOTH)
def _coordinator(**changes: Any) -> Pair:
    return hostile_pair("vertical-coordinator", 2, **changes)
