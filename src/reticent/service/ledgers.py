"""Ledgers of the service: budgets in the store, charged in the same transaction as what they pay for."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from reticent.privacy import Budget, Guarantee, Ledger
from reticent.privacy.errors import BudgetExceeded
from reticent.service.chain import digest_of_charge
from reticent.service.engine import Turn
from reticent.service.problems import Problem
from reticent.service.store import EntryRow, LedgerRow, Reading, StreamRow


def add_ledger(turn: Turn, name: str, budget: Budget, unit: str) -> None:
    """Add a ledger; refused if the name exists."""
    if any(row.name == name for row in turn.rows.ledgers()):
        raise Problem(
            409,
            "name-taken",
            f'there is a ledger {name!r} already; choose another name, or say "ledger": {name!r} to charge it',
        )
    terms = msgspec.json.decode(msgspec.json.encode(vars(budget)))
    turn.rows.add_ledger(LedgerRow(name, terms, unit, turn.now))
    turn.act(
        {"act": "add ledger", "ledger": name, "epsilon": budget.epsilon, "delta": budget.delta}
    )


def ledger_of(rows: Reading, name: str) -> Ledger:
    """A ledger with all its charges."""
    for row in rows.ledgers():
        if row.name == name:
            ledger = Ledger(Budget(**row.budget), unit=row.unit)
            for entry in rows.entries(name):
                ledger.spend(Guarantee.from_dict(entry.guarantee), entry.what)
            return ledger
    raise Problem(
        404, "unknown-ledger", f"there is no ledger {name!r}; an administrator can add one"
    )


def check_shared(rows: Reading, name: str) -> None:
    """Refuse a ledger that was made for one stream: a restore assumes that it paid for nothing else."""
    if name in own_ledgers(rows.streams()):
        raise Problem(
            409,
            "ledger-of-a-stream",
            f"ledger {name!r} is that of stream {name!r} alone; an administrator can add one for several streams",
        )


def own_ledgers(streams: list[StreamRow]) -> set[str]:
    """The ledgers that were made with a stream, which pay for that stream alone."""
    return {row.ledger for row in streams if row.specification.get("ledger") is None}


def charge(turn: Turn, name: str, guarantee: Guarantee, what: str) -> None:
    """Charge a ledger, or refuse."""
    for row in turn.rows.ledgers():
        if row.name == name and row.closed:
            raise Problem(409, "ledger-closed", row.closed)
    ledger = ledger_of(turn.rows, name)
    try:
        ledger.spend(guarantee, what)
    except (BudgetExceeded, ValueError) as error:
        raise Problem(409, "budget-exceeded", str(error)) from None
    at = datetime.fromtimestamp(turn.now, UTC).isoformat(timespec="seconds")
    entry = EntryRow(name, at, what, guarantee.to_dict())
    turn.rows.add_entry(entry)
    turn.act({"act": "charge", "ledger": name, "what": what, "digest": digest_of_charge(entry)})
