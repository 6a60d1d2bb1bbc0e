"""What can be done to a stream, as commands for the engine: create it, send records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from reticent.privacy import Budget, Guarantee, Ledger, uncharged
from reticent.privacy.errors import BudgetExceeded
from reticent.service import keys as packed
from reticent.service import runners
from reticent.service.engine import Head, Live, Turn
from reticent.service.problems import Problem
from reticent.service.records import Batch
from reticent.service.specification import Specification
from reticent.service.store import EntryRow, LedgerRow, OutputRow, Producer, Reading, StreamRow

_EARLY = 600.0  # a key may be this many seconds ahead of the service's clock


@dataclass(frozen=True)
class Create:
    """Create a stream, and charge its whole life to a ledger."""

    specification: Specification

    def apply(self, turn: Turn) -> dict[str, Any]:
        """Refused if the name is taken or the ledger cannot pay."""
        asked = self.specification
        existing = turn.rows.stream(asked.name)
        if existing is not None:
            if existing.specification == plain(asked):
                return {"name": asked.name, "created": False}
            raise Problem(
                409, "name-taken", f"there is a stream {asked.name!r} with another specification; choose another name"
            )  # fmt: skip
        # The ledger is charged below, in the same transaction, before any noise is drawn.
        runner = uncharged(lambda: runners.start(asked))
        guarantee = runner.guarantee
        ledger = asked.ledger or asked.name
        if asked.ledger is None:
            add_ledger(turn, ledger, asked.budget, guarantee.unit)
        charge(turn, ledger, guarantee, f"stream {asked.name}")
        row = StreamRow(0, asked.name, plain(asked), guarantee.to_dict(), ledger, turn.now)
        turn.add(row, asked, runner, body_of(runner.decision(), 0, 0))
        return {"name": asked.name, "created": True}


@dataclass(frozen=True)
class Send:
    """Records of one request for one stream."""

    stream: str
    batch: Batch

    def apply(self, turn: Turn) -> dict[str, Any]:
        """Learn from what is new and publish; count what was there, and refuse what is too old to know."""
        live = turn.stream(self.stream)
        batch, head = self.batch, turn.head(live)
        if batch.producer is not None:
            return self._numbered(turn, live, *batch.producer)
        each = len(batch.keys) == len(batch)
        known = turn.rows.known(live.row.id, batch.keys)
        timed = any(packed.made(key) is not None for key in batch.keys)
        oldest = forgotten_until(turn, live) if timed else 0.0
        fresh: list[int] = []
        seen: dict[bytes, bytes] = {}
        repeated = refused = 0
        latest = -1  # the decision that repeated records led to
        for place, (key, digest) in enumerate(zip(batch.keys, batch.digests, strict=True)):
            before = known.get(key)
            there = seen.get(key) if before is None else before.digest
            if there is not None:
                if there != digest:
                    raise _another_body()
                repeated += 1
                if before is not None:
                    latest = max(latest, before.number)
                continue
            when = packed.made(key)
            if when is not None and when < oldest:
                refused += 1
                continue
            if when is not None and when > turn.now + _EARLY:
                raise Problem(
                    422, "key-from-the-future",
                    "a key carries a time that is ahead of the service's clock by more than ten minutes; set the "
                    "sender's clock",
                )  # fmt: skip
            seen[key] = digest
            fresh.append(place)
        if not fresh:
            return _answer(head, 0, repeated, refused, latest, each, len(batch))
        chosen = batch if len(fresh) == len(batch.keys) else batch.rows(fresh)
        new = learn(turn, live, chosen)
        turn.rows.remember(
            live.row.id, [(batch.keys[place], batch.digests[place], new.number) for place in fresh]
        )
        accepted = len(fresh) if each else len(batch)
        return _answer(new, accepted, repeated, refused, new.number, True, accepted)

    def _numbered(self, turn: Turn, live: Live, producer: bytes, sequence: int) -> dict[str, Any]:
        last = turn.rows.producer(live.row.id, producer)
        (digest,) = self.batch.digests
        head, count = turn.head(live), len(self.batch)
        if last is not None and sequence == last.sequence:
            if digest != last.digest:
                raise _another_body()
            return _answer(head, 0, count, 0, last.number, True, count)
        if last is not None and sequence < last.sequence:
            return _answer(head, 0, 0, count, head.number, True, count)
        expected = 0 if last is None else last.sequence + 1
        if last is not None and sequence != expected:
            raise Problem(
                409, "sequence-gap",
                f"batch {sequence} of this producer came where {expected} was expected; send what is missing first",
            )  # fmt: skip
        new = learn(turn, live, self.batch)
        turn.rows.set_producer(live.row.id, producer, Producer(sequence, digest, new.number, count))
        return _answer(new, count, 0, 0, new.number, True, count)


def learn(turn: Turn, live: Live, batch: Batch) -> Head:
    """Have a stream take records and publish what its specification says."""
    runner = turn.runner(live)
    room = runner.room()
    if room is not None and len(batch) > room:
        raise Problem(
            409, "horizon-used-up",
            f"{len(batch)} records do not fit: {room} of the horizon are left; send fewer, or create a stream "
            "with a larger horizon or with a window",
        )  # fmt: skip
    head = turn.head(live)
    outputs: list[OutputRow] = []
    parts = [batch]
    if live.specification.publish == "every":
        parts = [batch.rows([place]) for place in range(len(batch))]
    for part in parts:
        runner.learn(part)
        number = head.number + 1 + len(outputs)
        body = body_of(runner.decision(), number, runner.steps)
        outputs.append(OutputRow(number, runner.steps, turn.now, body))
    turn.publish(live, outputs)
    return turn.head(live)


def forgotten_until(turn: Turn, live: Live) -> float:
    """The time before which keys of a stream are refused."""
    # the clock alone does not decide: what was forgotten stays forgotten when the clock is set back
    written = turn.rows.about().get(f"forgotten {live.row.id}")
    return max(turn.now - live.specification.remember, float(written or 0.0))


def _another_body() -> Problem:
    return Problem(
        409, "key-with-another-body",
        "a key came again with another body, and nothing of this request was counted; send the record under a "
        "key of its own, or repeat what was sent first",
    )  # fmt: skip


def _answer(
    head: Head, accepted: int, repeated: int, refused: int, number: int, each: bool, count: int
) -> dict[str, Any]:
    if not each:  # one key stands for all records of the batch
        repeated, refused = repeated and count, refused and count
    return {
        "accepted": accepted,
        "repeated": repeated,
        "refused": refused,
        "decision_number": head.number if number < 0 else number,
        "steps": head.steps,
    }


def body_of(decision: dict[str, Any], number: int, steps: int) -> bytes:
    """A decision as the bytes that every reader gets."""
    return msgspec.json.encode({"number": number, "steps": steps} | decision)


def plain(specification: Specification) -> dict[str, Any]:
    """A specification as the store gives it back."""
    out: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(specification.to_dict()))
    return out


# Ledgers ---------------------------------------------------------------------------------------------


def add_ledger(turn: Turn, name: str, budget: Budget, unit: str) -> None:
    """Add a ledger, refused if there is one of that name."""
    if any(row.name == name for row in turn.rows.ledgers()):
        raise Problem(
            409, "name-taken",
            f"there is a ledger {name!r} already; choose another name, or say \"ledger\": {name!r} to charge it",
        )  # fmt: skip
    terms = msgspec.json.decode(msgspec.json.encode(vars(budget)))
    turn.rows.add_ledger(LedgerRow(name, terms, unit, turn.now))


def ledger_of(rows: Reading, name: str) -> Ledger:
    """A ledger with everything that was charged to it."""
    for row in rows.ledgers():
        if row.name == name:
            ledger = Ledger(Budget(**row.budget), unit=row.unit)
            for entry in rows.entries(name):
                ledger.spend(Guarantee.from_dict(entry.guarantee), entry.what)
            return ledger
    raise Problem(
        404, "unknown-ledger", f"there is no ledger {name!r}; an administrator can add one"
    )


def charge(turn: Turn, name: str, guarantee: Guarantee, what: str) -> None:
    """Charge a ledger, or refuse."""
    ledger = ledger_of(turn.rows, name)
    try:
        ledger.spend(guarantee, what)
    except (BudgetExceeded, ValueError) as error:
        raise Problem(409, "budget-exceeded", str(error)) from None
    at = datetime.fromtimestamp(turn.now, UTC).isoformat(timespec="seconds")
    turn.rows.add_entry(EntryRow(name, at, what, guarantee.to_dict()))
