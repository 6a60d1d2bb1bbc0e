"""An append-only log of every release and every administrative act, as hash chains.

Each stream has a chain with one entry per commit that published decisions: their numbers, and a digest of their bytes.
One more chain records what administrators did, what was charged, and which models were published. The hash of an entry
covers the previous hash, so whoever changes or removes an entry has to change all later ones. Entries are written in
the transaction that they describe.

A chain cannot detect that its end was cut off, or that all of it was rewritten. So its head, the last hash, should be
stored elsewhere too: ``reticent serve verify`` prints the heads and compares them with those of an earlier run, and the
process logs them when it stops.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from reticent.service.store import EntryRow, LogRow, OutputRow, Reading, StreamRow, Transaction
from reticent.service.tokens import Caller

if TYPE_CHECKING:  # commands that do not learn start quickly without these modules
    from reticent.service.engine import Turn

ACTS = 0
"""The chain of administrative acts; streams count from 1."""
_START = bytes(32)
_PAGE = 1000


def link(before: bytes, chain: int, number: int, at: float, body: bytes) -> bytes:
    """The hash of an entry."""
    return hashlib.sha256(before + struct.pack(">qqd", chain, number, at) + body).digest()


def append(rows: Transaction, chain: int, at: float, bodies: list[dict[str, Any]]) -> None:
    """Add entries to a chain, in a transaction."""
    head = rows.log_head(chain)
    number, before = (-1, _START) if head is None else (head.number, head.hash)
    out = []
    for plain in bodies:
        body = msgspec.json.encode(plain)
        number, before = number + 1, link(before, chain, number + 1, at, body)
        out.append(LogRow(number, at, body, before))
    rows.add_log(chain, out)


def append_act(rows: Transaction, at: float, act: str, **about: Any) -> None:
    """Record what a command did while the service was stopped."""
    rows.alone()
    append(rows, ACTS, at, [{"act": act} | about])


def witness(turn: Turn) -> None:
    """Record what a transaction does; called within it, after its commands."""
    for stream, outputs in turn.published.items():
        body: dict[str, Any] = {
            "first": outputs[0].number,
            "last": outputs[-1].number,
            "steps": outputs[-1].steps,
            "digest": digest_of(outputs),
        }
        if stream in turn.sources:
            body["sources"] = sorted(turn.sources[stream])
        append(turn.rows, stream, turn.now, [body])
    if turn.acts:
        turn.rows.alone()
        append(turn.rows, ACTS, turn.now, turn.acts)


def digest_of(outputs: list[OutputRow]) -> str:
    """Digest of the bytes of decisions."""
    hashed = hashlib.sha256()
    for output in outputs:
        hashed.update(
            struct.pack(">qqdq", output.number, output.steps, output.at, len(output.body))
        )
        hashed.update(output.body)
    return hashed.hexdigest()


def digest_of_charge(row: EntryRow) -> str:
    """Digest of everything that a ledger stores about a charge."""
    plain = [row.ledger, row.at, row.what, row.guarantee]
    return hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()


@dataclass(frozen=True)
class By:
    """A command of a caller; what it does is recorded under the caller's name."""

    command: Any
    caller: Caller

    @property
    def stream(self) -> str | None:
        """The stream of the command, if it is about one stream."""
        found: str | None = getattr(self.command, "stream", None)
        return found

    def apply(self, turn: Turn) -> Any:
        """Apply the command."""
        before = len(turn.acts)
        answer = self.command.apply(turn)
        who = {"id": self.caller.id, "role": self.caller.role, "label": self.caller.label}
        for act in turn.acts[before:]:
            act["by"] = who
        return answer


# Verifying -----------------------------------------------------------------------------------------------


@dataclass
class Verdict:
    """The outcome of a verification."""

    entries: int = 0
    decisions: int = 0
    charges: int = 0
    heads: dict[str, dict[str, Any]] = field(default_factory=dict)
    """For each chain, by name: its number of entries, and the hash of the last one."""
    wrong: list[str] = field(default_factory=list)


def heads(rows: Reading, streams: list[StreamRow]) -> dict[str, dict[str, Any]]:
    """The head of each chain."""
    out = {}
    for chain, name in _names(streams):
        head = rows.log_head(chain)
        if head is not None:
            out[name] = {"rows": head.number + 1, "hash": head.hash.hex()}
    return out


def _names(streams: list[StreamRow]) -> list[tuple[int, str]]:
    return [(ACTS, "acts"), *((row.id, f"stream {row.name}") for row in streams)]


def verify(rows: Reading, earlier: dict[str, dict[str, Any]] | None = None) -> Verdict:
    """Recompute every hash, and compare the chains with what they describe.

    Parameters
    ----------
    rows : Reading
        Content of the service, which may be running.
    earlier : dict, optional
        Heads of an earlier verification, which must still be on the chains.
    """
    out = Verdict()
    streams = rows.streams()
    reached = {row.id: state.number for row in streams if (state := rows.state(row.id)) is not None}
    earlier = dict(earlier or {})
    known = {chain for chain, _ in _names(streams)}
    out.wrong += [
        f"chain {chain} belongs to no stream" for chain in rows.chains() if chain not in known
    ]
    for chain, name in _names(streams):
        parts: list[_Releases | _Charges] = []
        if chain in reached:
            parts.append(_Releases(rows, chain, name, reached[chain], out))
        if chain == ACTS:
            parts.append(_Charges(rows, out))
        _walk(rows, chain, name, earlier.pop(name, None), parts, out)
        for part in parts:
            part.end()
    out.wrong += [f"{name}: the whole chain is missing" for name in earlier]
    return out


def _walk(
    rows: Reading,
    chain: int,
    name: str,
    then: dict[str, Any] | None,
    parts: list[_Releases | _Charges],
    out: Verdict,
) -> None:
    """Follow one chain from its start, and pass each entry to a callback that compares it."""
    before, count = _START, 0
    met = then is None
    for row in _entries(rows, chain):
        if row.number != count:
            out.wrong.append(f"{name}: entry {count} is missing")
            break
        if row.hash != _computed(before, chain, row):
            out.wrong.append(f"{name}: entry {row.number} was changed, or one before it")
            break
        before, count = row.hash, count + 1
        if then is not None and count == then["rows"]:
            met = row.hash.hex() == then["hash"]
        body = msgspec.json.decode(row.body)
        for part in parts:
            part.take(body)
    out.entries += count
    if count:
        out.heads[name] = {"rows": count, "hash": before.hex()}
    if then is not None and not met:
        out.wrong.append(
            f"{name}: the head of the earlier run, entry {then['rows'] - 1}, is not on the chain; this is normal "
            "after an adopted restore, and the chain of acts says when there was one"
        )


def _computed(before: bytes, chain: int, row: LogRow) -> bytes | None:
    try:
        return link(before, chain, row.number, row.at, row.body)
    except (TypeError, struct.error):  # somebody put something else there
        return None


def _entries(rows: Reading, chain: int) -> Iterator[LogRow]:
    first = 0
    while page := rows.log(chain, first, _PAGE):
        yield from page
        first = page[-1].number + 1


class _Releases:
    """Compares the decisions of a stream with its chain."""

    def __init__(self, rows: Reading, chain: int, name: str, reached: int, out: Verdict) -> None:
        self._rows, self._chain, self._out = rows, chain, out
        self._name, self._reached = name, reached
        self._next: int | None = None

    def take(self, body: dict[str, Any]) -> None:
        first, last = body["first"], body["last"]
        if self._next is not None and first != self._next:
            self._miss(first - 1)
        self._next = last + 1
        found = [self._rows.output(self._chain, number) for number in range(first, last + 1)]
        there = [output for output in found if output is not None]
        try:
            right = len(there) == len(found) and digest_of(there) == body["digest"]
        except (TypeError, struct.error):  # somebody put something else there
            right = False
        if not right:
            span = f"decision {first}" if first == last else f"decisions {first} to {last}"
            self._out.wrong.append(f"{self._name}: {span}: not the bytes that were published")
        self._out.decisions += len(there)

    def end(self) -> None:
        # a folder of an earlier version has decisions that were published before there was a log
        if self._next is not None and self._next <= self._reached:
            self._miss(self._reached)

    def _miss(self, last: int) -> None:
        words = f"{self._name}: decisions {self._next} to {last} are not in the log"
        self._out.wrong.append(words)


class _Charges:
    """Compares the charges of all ledgers with the chain of acts."""

    def __init__(self, rows: Reading, out: Verdict) -> None:
        self._out, self._logged = out, 0
        self._left: dict[str, int] = {}
        for ledger in rows.ledgers():
            try:
                entries = rows.entries(ledger.name)
            except ValueError:
                out.wrong.append(f"the charges of ledger {ledger.name} cannot be read")
                continue
            for entry in entries:
                digest = digest_of_charge(entry)
                self._left[digest] = self._left.get(digest, 0) + 1
        out.charges = sum(self._left.values())

    def take(self, body: dict[str, Any]) -> None:
        if body["act"] == "charge":
            self._logged += 1
            if self._left.get(body["digest"], 0):
                self._left[body["digest"]] -= 1
            else:
                self._out.wrong.append(
                    f"a charge to ledger {body['ledger']} was removed or changed"
                )
        if body["act"] == "begin the log":
            self._logged += body["charges"]

    def end(self) -> None:
        if self._out.charges > self._logged:
            words = f"{self._out.charges - self._logged} charges are not in the log"
            self._out.wrong.append(words)


def begin(rows: Transaction, at: float) -> None:
    """Begin the chain of acts, recording how many charges existed before."""
    if rows.log_head(ACTS) is None:
        append_act(rows, at, "begin the log", charges=rows.charges())
