"""What runs a stream: one interface over learners, running totals and bandits.

A runner is a live object of the library with its noise at hand. The engine makes its outputs durable before anyone
sees them, saves its state in the same transaction, and drops it if that fails.
"""

from __future__ import annotations

from typing import Any, Protocol

from reticent.privacy import Guarantee, uncharged
from reticent.privacy.errors import BudgetExceeded
from reticent.service import bandits, learners, totals
from reticent.service.problems import Problem
from reticent.service.records import Batch
from reticent.service.specification import Specification
from reticent.state.lease import Lease
from reticent.state.persons import Persons
from reticent.tables import Encoder

_KINDS: dict[str, Any] = {
    "logistic": learners.Learner,
    "linear": learners.Learner,
    "total": totals.Total,
    "bandit": bandits.Player,
}


class Runner(Protocol):
    """A stream that is at work."""

    @property
    def steps(self) -> int:
        """How many records it has taken, or points it has played."""

    @property
    def position(self) -> int:
        """Where its lease stands."""

    @property
    def lease(self) -> Lease:
        """Who may go on."""

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about all that it will ever publish."""

    def check(self, batch: Batch) -> None:
        """Refuse records that cannot be taken, with a Problem, before anything is changed."""

    def learn(self, batch: Batch) -> None:
        """Take records that were checked."""

    def room(self) -> int | None:
        """How many records there may still be; None: no limit."""

    def decision(self) -> dict[str, Any]:
        """What the guarantee covers, as plain data."""

    def diagnostics(self) -> dict[str, Any]:
        """What reads private data, and no guarantee covers: for the data holder alone."""

    @property
    def persons(self) -> Persons | None:
        """Whose records still count, where persons are protected."""

    def state(self) -> dict[str, Any]:
        """All that is needed to go on. A secret."""


def start(specification: Specification) -> Runner:
    """A new stream. It charges no ledger: whoever starts it does, before its first record."""
    try:
        runner: Runner = uncharged(lambda: _KINDS[specification.kind](specification))
    except (ValueError, TypeError, BudgetExceeded) as error:
        raise Problem(422, "bad-specification", str(error)) from None
    return runner


def restore(specification: Specification, state: dict[str, Any]) -> Runner:
    """A stream that goes on from its state."""
    runner: Runner = uncharged(lambda: _KINDS[specification.kind](specification, state))
    return runner


def renew(specification: Specification, state: dict[str, Any], decision: dict[str, Any]) -> Runner:
    """A stream with fresh noise that begins from the last decision of one that cannot go on."""
    runner: Runner = uncharged(
        lambda: _KINDS[specification.kind].renewed(specification, state, decision)
    )
    return runner


def encoder_of(specification: Specification) -> Encoder:
    """What turns the records of a stream into vectors."""
    if specification.kind == "bandit":
        raise Problem(
            409,
            "wrong-kind",
            "a bandit takes no records: POST /ask, play the point, POST /tell",
        )
    home: Any = totals if specification.kind == "total" else learners
    encoder: Encoder = home.encoder_of(specification)
    return encoder
