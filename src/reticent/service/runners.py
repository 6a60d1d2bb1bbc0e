"""One interface for everything that runs a stream: learners, running totals and bandits.

A runner is an object of the library that holds its noise generator. The engine makes its outputs durable before anyone
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
    "logistic": learners.LinearLearner,
    "linear": learners.LinearLearner,
    "total": totals.Total,
    "bandit": bandits.Player,
}


class Runner(Protocol):
    """A running stream."""

    @property
    def steps(self) -> int:
        """Number of records taken, or of points played."""

    @property
    def position(self) -> int:
        """Position of its lease."""

    @property
    def lease(self) -> Lease:
        """The lease, which decides who may continue."""

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee for everything that it will ever publish."""

    def check(self, batch: Batch) -> None:
        """Refuse records that cannot be taken, with a Problem, before anything is changed."""

    def learn(self, batch: Batch) -> None:
        """Learn from records that were checked."""

    def room(self) -> int | None:
        """How many more records fit; None without a limit."""

    def decision(self) -> dict[str, Any]:
        """The current decision, which the guarantee covers, as plain data."""

    def diagnostics(self) -> dict[str, Any]:
        """Numbers that read private data and that no guarantee covers, for the data holder only."""

    @property
    def persons(self) -> Persons | None:
        """The table of persons, if persons are protected."""

    def state(self) -> dict[str, Any]:
        """Everything that is needed to continue. A secret."""


def start(specification: Specification) -> Runner:
    """A new stream. The caller charges its ledger, before the first record."""
    try:
        runner: Runner = uncharged(lambda: _KINDS[specification.kind](specification))
    except (ValueError, TypeError, BudgetExceeded) as error:
        raise Problem(422, "bad-specification", str(error)) from None
    except RecursionError:
        words = "the specification is nested too deeply; a set is one object, or a few within each other"
        raise Problem(422, "bad-specification", words) from None
    return runner


def restore(specification: Specification, state: dict[str, Any]) -> Runner:
    """A stream that continues from its state."""
    runner: Runner = uncharged(lambda: _KINDS[specification.kind](specification, state))
    return runner


def renew(specification: Specification, state: dict[str, Any], decision: dict[str, Any]) -> Runner:
    """A stream with fresh noise that starts from the last decision of one that cannot continue."""
    runner: Runner = uncharged(
        lambda: _KINDS[specification.kind].renewed(specification, state, decision)
    )
    return runner


def encoder_of(specification: Specification) -> Encoder:
    """The encoder of a stream's records."""
    if specification.kind == "bandit":
        raise Problem(
            409,
            "wrong-kind",
            "a bandit takes no records: POST /ask, play the point, POST /tell",
        )
    home: Any = totals if specification.kind == "total" else learners
    encoder: Encoder = home.encoder_of(specification)
    return encoder
