"""White-box audit lines of the feature-distributed protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from reticent import vertical
from reticent.audit.party_requests import GenerousLedger, asked
from reticent.audit.whitebox_matching import InputPair, Outcome
from reticent.audit.whitebox_records import (
    BOTH,
    HUGE,
    TINY,
    Case,
    Run,
    case,
)
from reticent.noise import Source
from reticent.privacy import Budget
from reticent.vertical import messages
from reticent.vertical.plan import Terms, guarantee_of

_MANY = 128  # rows that put one score far ahead of the others, where Laplace noise reveals most


def _told(plan: vertical.Plan, terms: Terms) -> Run:
    """Everything that a party sends to a coordinator that pushes every record's slope to its clip."""
    claim = guarantee_of(plan, terms)
    budget = Budget(1e6, 1e-3, terms.neighbours)

    def run(data: Any, source: Source) -> Outcome:
        X, y = data
        party = vertical.Party(
            "honest",
            X,
            ids=range(len(X)),
            ledger=GenerousLedger(budget, adaptive=True),
            key=bytes(16),
            labels=y,
        )
        asked(party, plan.request(bytes(16), 1))
        sequence, seen = 2, []
        for t in range(plan.rounds):
            push = np.full(plan.sketch_size, 1e6 if t % 2 == 0 else -1e6)
            step = messages.Step(run=bytes(16), sequence=sequence, round=t, last=False, others=push)
            choice = asked(party, step)
            seen += [[choice.column, choice.sign], choice.value, choice.sketch]
            sequence += 1
        if plan.columns and plan.value_scale:
            fetch = messages.Fetch(run=bytes(16), sequence=sequence, column=choice.column)
            seen.append(asked(party, fetch).sketch)
            sequence += 1
        if plan.labels == "send":
            seen.append(asked(party, messages.AskLabels(run=bytes(16), sequence=sequence)).sketch)
        return Outcome(seen, claim)

    return run


def _rows(neighbours: str, rows: int, places: Iterable[int] = (0,)) -> Iterator[InputPair]:
    for place in places:
        for size in (1.0, 3.0, HUGE, TINY):
            X, y = np.zeros((rows, 2)), np.zeros(rows)
            X[:, 0] = float(rows == _MANY)
            other, labels = X.copy(), y.copy()
            X[place], y[place] = (size, -size), size
            other[place] = 0.0
            if neighbours == "replace":
                other[place], labels[place] = -X[place], -y[place]
            yield InputPair((X, y), (other, labels), f"row {place} holds {size:g}")


def columns() -> Iterator[Case]:
    """The feature-distributed protocol: one party against all others together, and whole runs."""
    rows = 4
    for neighbours in BOTH:
        terms = Terms(neighbours=neighbours)
        moved = terms.moved(1.0)
        plan = partial(
            vertical.Plan, clip=2.0, selection_scale=8.0 * moved, sketch_scale=4.0 * moved
        )
        plans = {
            "choices and values": plan(
                rows=rows, rounds=3, columns=1, value_scale=9.0 * moved, sketch_size=rows
            ),
            "choices, laplace": plan(
                rows=_MANY, rounds=2, columns=0, sketch_size=_MANY, selection="laplace"
            ),
            "unsketched columns": plan(rows=rows, rounds=1, columns=1, sketch_size=rows),
            "sketches": plan(rows=rows, rounds=1, columns=1, sketch_size=2, sketch_spread=2),
            "labels": plan(
                rows=rows,
                rounds=0,
                columns=0,
                labels="send",
                label_scale=3.0 * moved,
                sketch_size=2,
                sketch_spread=2,
            ),
        }
        for words, made in plans.items():
            yield case(
                f"Party, {words}, {neighbours}",
                _told(made, terms),
                partial(_rows, neighbours, made.rows, (0, made.rows - 1)),
                delta=1e-3,
            )
        # an honest coordinator pushes no slope to its clip, so the loss of one run is far below the claim
        for variant in ("ball", "product"):
            yield case(
                f"Coordinator, {variant}, {neighbours}",
                _coordinated(Budget(2.0, 1e-3, neighbours), variant),
                partial(_rows, neighbours, rows),
                delta=1e-3,
                quick=False,
            )
        yield case(
            f"one_shot_sketch, {neighbours}",
            _sketched(Budget(1.0, 1e-6, neighbours)),
            partial(_rows, neighbours, rows),
        )


def _coordinated(budget: Budget, variant: str) -> Run:
    def run(data: Any, source: Source) -> Outcome:
        X, y = data
        parties = {
            name: vertical.Party(
                name,
                X[:, [k]],
                ids=range(len(X)),
                ledger=GenerousLedger(budget, adaptive=True),
                key=bytes(16),
                labels=y,
            )
            for k, name in enumerate(("a", "b"))
        }
        found = vertical.Coordinator(vertical.InProcess(parties)).run(
            budget=budget, rounds=2, columns=1, variant=variant, seed=0
        )
        return Outcome(found.point, found.guarantee)

    return run


def _sketched(budget: Budget) -> Run:
    def run(data: Any, source: Source) -> Outcome:
        X, y = data
        found = vertical.one_shot_sketch(
            [X[:, :1], X[:, 1:]], y, budget=budget, sketch_size=2, radius=1.0
        )
        return Outcome(found.point, found.guarantee)

    return run
