"""Commands of the engine for streams: create, send records, ask and tell, close."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from reticent.service import keys as packed
from reticent.service import runners
from reticent.service.engine import Head, Live, Turn
from reticent.service.ledgers import add_ledger, charge, check_shared
from reticent.service.problems import Problem
from reticent.service.records import Batch
from reticent.service.specification import Specification
from reticent.service.store import OutputRow, Producer, StreamRow

_FEW = 16  # up to this many records take no longer than their commit
_CLOSED = (
    "an administrator closed this stream; its decisions stay, and a new stream needs another name"
)
_DELETED = "an administrator deleted this stream; what it spent stays spent, and a new one needs another name"


@dataclass(frozen=True)
class Create:
    """Create a stream, and charge its whole life to a ledger."""

    specification: Specification

    def apply(self, turn: Turn) -> dict[str, Any]:
        """Create it; refused if the name is taken or the ledger cannot pay."""
        asked = self.specification
        existing = turn.rows.stream(asked.name)
        if existing is not None:
            if existing.specification == plain(asked) and existing.closed != _DELETED:
                return {"name": asked.name, "created": False}
            raise Problem(
                409,
                "name-taken",
                f"there is a stream {asked.name!r} with another specification; choose another name",
            )
        if asked.ledger is not None:
            check_shared(turn.rows, asked.ledger)
        # The ledger is charged below, in the same transaction, before any noise is drawn.
        runner = runners.start(asked)
        guarantee = runner.guarantee
        ledger = asked.ledger or asked.name
        if asked.ledger is None:
            add_ledger(turn, ledger, asked.budget, guarantee.unit)
        charge(turn, ledger, guarantee, f"stream {asked.name}")
        row = StreamRow(0, asked.name, plain(asked), guarantee.to_dict(), ledger, turn.now)
        turn.add(row, asked, runner, body_of(runner.decision(), 0, 0))
        turn.act(
            {"act": "create stream", "stream": asked.name, "kind": asked.kind, "ledger": ledger}
        )
        return {"name": asked.name, "created": True}


@dataclass(frozen=True)
class Send:
    """Learn from the records of one request."""

    stream: str
    batch: Batch
    careful = True

    @property
    def small(self) -> bool:
        """Whether the request is small enough for the event loop."""
        return len(self.batch) <= _FEW

    def apply(self, turn: Turn) -> dict[str, Any]:
        """Learn from new records and publish; count repeats, and refuse records that are too old to be recognised."""
        live = turn.stream(self.stream)
        batch, head = self.batch, turn.head(live)
        if batch.producer is not None:
            return self._numbered(turn, live, *batch.producer)
        low, high = packed.span(forgotten_until(turn, live))  # between these a key is too old
        ordered = sorted(batch.keys)
        if bisect_left(ordered, low) == bisect_left(ordered, high):  # none is too old
            try:
                ready = runner_for(turn, live, batch)
            except Problem:  # repeats are answered all the same
                return self._mixed(turn, live, low, high)
            # Usually no record of a request is a repeat, which a single insertion shows.
            every = live.specification.publish == "every"
            number = head.number + (len(batch) if every else 1)
            if turn.rows.remember_new(live.row.id, batch.keys, batch.digests, number):
                new = learn(turn, live, batch, runner=ready)
                assert new.number == number
                return _answer(new, len(batch), 0, 0, number, True, len(batch))
        return self._mixed(turn, live, low, high)

    def _mixed(self, turn: Turn, live: Live, low: bytes, high: bytes) -> dict[str, Any]:
        """Handle a request with records that are repeats, or too old to be recognised."""
        batch, head = self.batch, turn.head(live)
        each = len(batch.keys) == len(batch)
        known = turn.rows.known(live.row.id, batch.keys)
        fresh: list[int] = []
        seen: dict[bytes, bytes] = {}
        repeated = refused = 0
        latest = -1  # the decision that repeated records led to
        for place, (key, digest) in enumerate(zip(batch.keys, batch.digests, strict=True)):
            before = known.get(key)
            there = seen.get(key) if before is None else before.digest
            if there is not None:
                if not batch.repeats(place, there):
                    raise another_body()
                repeated += 1
                if before is not None:
                    latest = max(latest, before.number)
            elif low <= key < high:
                refused += 1
            else:
                seen[key] = digest
                fresh.append(place)
        if not fresh:
            return _answer(head, 0, repeated, refused, latest, each, len(batch))
        chosen = batch if len(fresh) == len(batch.keys) else batch.rows(fresh)
        new = learn(turn, live, chosen)
        keys, digests = ([all[place] for place in fresh] for all in (batch.keys, batch.digests))
        turn.rows.remember_new(live.row.id, keys, digests, new.number)
        accepted = len(fresh) if each else len(batch)
        return _answer(new, accepted, repeated, refused, new.number, True, accepted)

    def _numbered(self, turn: Turn, live: Live, producer: bytes, sequence: int) -> dict[str, Any]:
        last = turn.rows.producer(live.row.id, producer)
        (digest,) = self.batch.digests
        head, count = turn.head(live), len(self.batch)
        if last is not None and sequence == last.sequence:
            if not self.batch.repeats(0, last.digest):
                raise another_body()
            return _answer(head, 0, count, 0, last.number, True, count)
        if last is not None and sequence < last.sequence:
            return _answer(head, 0, 0, count, head.number, True, count)
        expected = 0 if last is None else last.sequence + 1
        if last is not None and sequence != expected:
            raise Problem(
                409,
                "sequence-gap",
                f"batch {sequence} of this producer came where {expected} was expected; send what is missing first",
            )
        new = learn(turn, live, self.batch)
        turn.rows.set_producer(live.row.id, producer, Producer(sequence, digest, new.number, count))
        return _answer(new, count, 0, 0, new.number, True, count)


@dataclass(frozen=True)
class Ask:
    """Ask a bandit for its next point."""

    stream: str
    key: bytes | None = None

    def apply(self, turn: Turn) -> bytes:
        """Return the point and its ticket, as bytes that are stored for repeats."""
        live = turn.stream(self.stream)
        runner = _player(turn, live)
        if self.key is not None:
            known = turn.rows.known(live.row.id, [self.key]).get(self.key)
            if known is not None:
                found = turn.output(live, known.number)
                assert found is not None
                return found.body
        check_open(live)
        check_room(runner, 1)
        turn.touch(live)
        asked = runner.ask()
        number = turn.head(live).number + 1
        body = body_of(asked, number, runner.steps)
        turn.publish(live, [OutputRow(number, runner.steps, turn.now, body)])
        if self.key is not None:
            turn.rows.remember_new(live.row.id, [self.key], [b""], number)
        return body


@dataclass(frozen=True)
class Tell:
    """Report the loss of a point that was played; None if there will be none."""

    stream: str
    ticket: int
    value: float | None
    keys: tuple[bytes, bytes]
    """The key of the ticket, and that of earlier versions, which might also be the key of an :class:`Ask`."""
    digest: bytes
    person: str | None = None

    def apply(self, turn: Turn) -> dict[str, Any]:
        """Count the value once; the same value again is a repeat, another value is refused."""
        live = turn.stream(self.stream)
        runner = _player(turn, live)
        head = turn.head(live)
        for known in turn.rows.known(live.row.id, self.keys).values():
            if not known.digest:  # of an Ask
                continue
            if known.digest != self.digest:
                raise another_body()
            return _answer(head, 0, 1, 0, known.number, True, 1)
        check_open(live)
        turn.touch(live)
        runner.tell(self.ticket, self.value, self.person)
        turn.rows.remember_new(live.row.id, [self.keys[0]], [self.digest], head.number)
        return _answer(head, 1, 0, 0, head.number, True, 1)


@dataclass(frozen=True)
class Inspect:
    """Read diagnostics of a stream, which depend on private data."""

    stream: str

    def apply(self, turn: Turn) -> dict[str, Any]:
        """Change nothing, but record the access."""
        found = turn.runner(turn.stream(self.stream)).diagnostics()
        turn.act({"act": "read diagnostics", "stream": self.stream})
        return found


@dataclass(frozen=True)
class Close:
    """Close a stream to new records; what it published stays."""

    stream: str
    erase: bool = False
    """Whether its state, decisions and keys are deleted too. Its name and its ledger stay."""

    def apply(self, turn: Turn) -> dict[str, Any]:
        """Close or delete the stream; repeating the command does nothing."""
        live = turn.stream(self.stream)
        row = live.row
        if self.erase:
            row = replace(row, closed=_DELETED)
            turn.rows.erase(row.id)
            turn.gone.append(row.name)
        elif not row.closed:
            row = replace(row, closed=_CLOSED)
        if row is not live.row:
            turn.rows.set_stream(row)
            turn.act({"act": "delete stream" if self.erase else "close stream", "stream": row.name})
            turn.gone.append(row.name)
        return {"name": row.name, "closed": row.closed}


def _player(turn: Turn, live: Live) -> Any:
    if live.specification.kind != "bandit":
        raise wrong_kind(
            "only a bandit takes /ask and /tell; POST /records sends records to this stream"
        )
    return turn.runner(live)


def deleted(row: StreamRow) -> bool:
    """Whether a stream was deleted, so that only its name is left."""
    return row.closed == _DELETED


def wrong_kind(detail: str) -> Problem:
    """A refusal of a request that fits only streams of another kind."""
    return Problem(409, "wrong-kind", detail)


def check_open(live: Live) -> None:
    """Refuse a stream that cannot continue."""
    if live.row.closed:
        raise Problem(409, "stream-closed", live.row.closed)


def check_room(runner: runners.Runner, count: int) -> None:
    """Refuse records that do not fit into the horizon."""
    room = runner.room()
    if room is not None and count > room:
        raise Problem(
            409,
            "horizon-used-up",
            f"{count} records do not fit: {room} of the horizon are left; send fewer, or create a stream "
            "with a larger horizon or with a window",
        )


def runner_for(turn: Turn, live: Live, batch: Batch) -> runners.Runner:
    """The runner of a stream that can take these records; otherwise refuse, with nothing changed."""
    check_open(live)
    if live.specification.kind == "bandit":
        raise wrong_kind("a bandit takes no records: POST /ask, play the point, POST /tell")
    runner = turn.runner(live)
    check_room(runner, len(batch))
    runner.check(batch)
    return runner


def learn(
    turn: Turn,
    live: Live,
    batch: Batch,
    source: str | None = None,
    runner: runners.Runner | None = None,
) -> Head:
    """Let a stream learn from records and publish; the log names the source, if any."""
    if runner is None:  # not checked yet
        runner = runner_for(turn, live, batch)
    turn.touch(live)
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
    turn.publish(live, outputs, source)
    return turn.head(live)


@dataclass(frozen=True)
class Forget:
    """Forget the keys of a stream that are older than its specification allows."""

    stream: str

    def apply(self, turn: Turn) -> int:
        """Forget them, and record this, so that setting back the clock cannot undo it."""
        live = turn.stream(self.stream)
        until = turn.now - live.specification.remember
        written = float(turn.rows.fact(_forgotten(live)) or 0.0)
        # rarely, because each time costs a commit
        if until - written < 0.02 * live.specification.remember:
            return 0
        found = turn.rows.forget(live.row.id, *packed.span(until))
        turn.rows.set_about(_forgotten(live), repr(until))
        live.forgotten = until
        return found


def _forgotten(live: Live) -> str:
    return f"forgotten {live.row.id}"


def forgotten_until(turn: Turn, live: Live) -> float:
    """The time before which keys of a stream are refused."""
    if live.forgotten is None:
        live.forgotten = float(turn.rows.fact(_forgotten(live)) or 0.0)
    return max(turn.now - live.specification.remember, live.forgotten)


def another_body() -> Problem:
    """A refusal of a key that came again with another body."""
    return Problem(
        409,
        "key-with-another-body",
        "a key came again with another body, and nothing of this request was counted; send the record under a "
        "key of its own, or repeat what was sent first",
    )


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
    """A specification as the store returns it."""
    out: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(specification.to_dict()))
    return out
