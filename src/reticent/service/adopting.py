"""Continue after a restore: a folder that its anchor refuses gets fresh noise, and its ledgers are charged for it.

The state in a restored folder is older than what may have been published. Continuing with its noise would apply used
noise to other records. So every stream starts again with new keys, from the last decision in the folder, and its
guarantee becomes the composition of both: a record that was sent after the backup, and is sent again, is counted in
what was lost and in what follows.

The same backup can be adopted more than once, and each time something may have been released. So adoptions are counted
for the whole lineage, outside the folder and before they happen, and a folder is charged for all that it has not been
charged for. On another machine there is no such count; the command says so.

What a ledger was charged with after the backup is unknown. A stream's own ledger pays for that stream alone. A shared
ledger, or that of a table, may have been charged up to its budget; unless the anchor shows that no charge is missing,
it is closed, together with the streams that it paid for. If it stays open, the folder that was served last, should it
still exist, is refused from then on: two folders would charge one ledger without knowing of each other.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec

from reticent.privacy import Budget, Guarantee, Ledger
from reticent.privacy.errors import BudgetExceeded
from reticent.service import chain, runners
from reticent.service.anchor import count_adoption
from reticent.service.folder import Home, Options, open_home
from reticent.service.ledgers import own_ledgers
from reticent.service.packing import pack, unpack
from reticent.service.sealing import state_place
from reticent.service.specification import Specification
from reticent.service.store import EntryRow, LedgerRow, StateRow, StreamRow, Transaction

_LOST = (
    "closed when a restored folder was adopted: what it paid for after the backup is not known; add a ledger with "
    "a budget of its own"
)
_ROOM = 1.0 + 1e-9  # so that rounding does not refuse a charge for which the budget was raised


@dataclass(frozen=True)
class Adopted:
    """The outcome of an adoption."""

    renewed: list[str]
    closed: list[str]
    raised: list[str]
    adoptions: int = 1
    """Number of adoptions that were charged: more than one if the same backup was adopted before."""
    counted: bool = True
    """Whether this machine knows how often the lineage was adopted before."""


def adopt(options: Options) -> Adopted:
    """Give the streams of a folder fresh noise, and the folder a new anchor.

    Parameters
    ----------
    options : Options
        Location of the folder, and its key.

    Raises
    ------
    StoreError
        If the folder is the one that was served last, so that there is nothing to adopt.
    """
    folder = open_home(options, adopting=True)
    try:
        known = folder.known_charges()
        with folder.store.read() as found:
            nothing_lost = known == found.charges()
        count, counted = count_adoption(folder.adoption_files(), folder.adoptions)
        copies = count - folder.adoptions
        # charges of another adoption of the same backup are not in this folder
        complete = nothing_lost and copies == 1 and folder.retire_original()
        folder.id = secrets.token_hex(16)
        # before the transaction, because an id without an anchor would have to be adopted again
        folder.anchor = folder.new_anchor()
        with folder.store.transaction() as rows:
            chain.begin(rows, time.time())
            done = _renew_all(folder, rows, complete, copies)
            chain.append_act(rows, time.time(), "adopt", streams=done.renewed, closed=done.closed)
            rows.set_about("id", folder.id)
            rows.set_about("root", folder.root)
            rows.set_about("adoptions", str(count))
            folder.settle(rows)
            mark, charges = rows.mark(), rows.charges()
        folder.anchor.commit(mark, charges)
        return replace(done, adoptions=copies, counted=counted or known is not None)
    finally:
        folder.close()


def _renew_all(folder: Home, rows: Transaction, complete: bool, copies: int) -> Adopted:
    done = Adopted([], [], [])
    found = rows.streams()
    if not complete:
        done.closed.extend(_close_shared(rows, found))
    ledgers = {row.name: row for row in rows.ledgers()}
    for stream in found:
        if ledgers[stream.ledger].closed or stream.closed:
            rows.set_stream(replace(stream, closed=stream.closed or _LOST))
            continue
        guarantee = _renew(folder, rows, stream, copies)
        before = ledgers[stream.ledger]
        after = ledgers[stream.ledger] = _charge(rows, before, guarantee, stream.name)
        if after.budget != before.budget:
            done.raised.append(after.name)
        done.renewed.append(stream.name)
    return done


def _close_shared(rows: Transaction, streams: list[StreamRow]) -> list[str]:
    """Close all ledgers but those of one stream each, and return their names."""
    # earlier versions let other streams charge them
    shared = {row.ledger for row in streams if row.ledger != row.name}
    own = own_ledgers(streams) - shared
    closed = []
    for ledger in rows.ledgers():
        if not ledger.closed and ledger.name not in own:
            rows.set_ledger(replace(ledger, closed=_LOST))
            closed.append(ledger.name)
    return closed


def _renew(folder: Home, rows: Transaction, stream: StreamRow, copies: int) -> Guarantee:
    """Replace the state of a stream by one with fresh noise, and return its cost.

    The cost is counted once for each adoption that the folder had not been charged for: a record that was sent after
    the backup may be in what each of them released.
    """
    specification = Specification.from_dict(stream.specification)
    state = rows.state(stream.id)
    assert state is not None
    output = rows.output(stream.id, state.number)
    assert output is not None
    place = state_place(stream.id)
    old = unpack(folder.ring.open(state.sealed, place))
    runner = runners.renew(specification, old, msgspec.json.decode(output.body))
    sealed = folder.ring.seal(pack(runner.state()), place)
    rows.save(stream.id, StateRow(state.steps, state.number, sealed))
    rows.clear_persons(stream.id)  # under the new guarantee the records of each person count anew
    cost = runner.guarantee
    for _ in range(copies - 1):
        cost = cost + runner.guarantee
    whole = Guarantee.from_dict(stream.guarantee) + cost
    rows.set_stream(replace(stream, guarantee=whole.to_dict(), epochs=stream.epochs + copies))
    return cost


def _charge(rows: Transaction, row: LedgerRow, guarantee: Guarantee, stream: str) -> LedgerRow:
    """Charge a ledger; its budget is raised if it is too small, because an administrator asked for the adoption."""
    what = f"stream {stream}: fresh noise after a restore"
    entries = [*rows.entries(row.name)]
    parts = [*(Guarantee.from_dict(entry.guarantee) for entry in entries), guarantee]
    budget = Budget(**row.budget)
    if not _fits(budget, row.unit, parts):
        old = budget.epsilon
        budget = _enough(budget, row.unit, parts)
        what += f" (budget raised from epsilon {old:g} to {budget.epsilon:.6g} by adopting)"
        row = replace(row, budget=msgspec.json.decode(msgspec.json.encode(vars(budget))))
        rows.set_ledger(row)
    at = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds")
    entry = EntryRow(row.name, at, what, guarantee.to_dict())
    rows.add_entry(entry)
    chain.append_act(
        rows,
        time.time(),
        "charge",
        ledger=row.name,
        what=what,
        digest=chain.digest_of_charge(entry),
    )
    return row


def _fits(budget: Budget, unit: str, parts: list[Guarantee]) -> bool:
    ledger = Ledger(budget, unit=unit)
    try:
        for part in parts:
            ledger.spend(part, "replayed")
    except BudgetExceeded:
        return False
    return True


def _enough(budget: Budget, unit: str, parts: list[Guarantee]) -> Budget:
    """The smallest budget, approximately, that pays for everything."""
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    factor = _ROOM
    while True:
        if budget.fade is None:
            new = budget.with_(epsilon=max(budget.epsilon, whole.epsilon(budget.delta)) * factor)
        else:
            pairs = [
                (age, max(epsilon, whole.epsilon(budget.delta, age=age)) * factor)
                for age, epsilon in budget.fade
            ]
            new = budget.with_(epsilon=pairs[0][1], fade=tuple(pairs))
        if _fits(new, unit, parts):
            return new
        factor = 1.0 + 2.0 * (factor - 1.0)
