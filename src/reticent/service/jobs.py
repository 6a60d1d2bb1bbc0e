"""Fits of tables that the service holds: one at a time, charged before noise is drawn, stored before they are seen.

A table is a folder of Parquet files below a folder that the command line allows. Each fit is charged to the ledger of
its table in a separate transaction, from within the estimator, at the point where the library charges: after everything
was checked and before anything is drawn. A job that is cancelled or interrupted after that has spent its charge; its
result was never stored and nobody can see it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import queue
import secrets
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from reticent import estimators
from reticent.privacy import Budget, Guarantee, Ledger
from reticent.privacy.errors import BudgetExceeded
from reticent.privacy.ledger import Entry
from reticent.service.engine import Engine, Turn
from reticent.service.leases import JOBS
from reticent.service.ledgers import add_ledger, charge
from reticent.service.problems import Problem
from reticent.service.specification import budget_from, check_name
from reticent.service.store import JobRow, TableRow
from reticent.tables import Encoder, Model, Schema, TableError, batches, open_records
from reticent.tables.sources import join

log = logging.getLogger("reticent.service")

KINDS = {
    "logistic": "PrivateLogisticRegression",
    "linear": "PrivateLinearRegression",
    "lasso": "PrivateLasso",
}
_ENDED = ("done", "failed", "cancelled")
OF_RECORDS = "of the records: "
"""Prefix of the detail of a failure that may depend on single records, which only data holders may see."""
INTERRUPTED = (
    "the service ended before the fit did; what was charged stays charged: send a new request"
)


@dataclass(frozen=True)
class AddTable:
    """Add a table, with a ledger of the same name."""

    name: str
    path: str
    schema: dict[str, Any]
    budget: Budget

    def apply(self, turn: Turn) -> dict[str, Any]:
        """Add it; refused if the name is taken."""
        if any(row.name == self.name for row in turn.rows.tables()):
            raise Problem(409, "name-taken", f"there is a table {self.name!r}; choose another name")
        person = Schema.from_dict(self.schema).person
        add_ledger(turn, self.name, self.budget, "record" if person is None else "person")
        turn.rows.add_table(TableRow(self.name, self.path, self.schema, turn.now))
        turn.act({"act": "add table", "table": self.name})
        return {"name": self.name}


@dataclass(frozen=True)
class SetJob:
    """Record the status of a job."""

    row: JobRow

    def apply(self, turn: Turn) -> None:
        """Record it, for the worker that runs jobs."""
        turn.hold(JOBS)
        row = self.row
        turn.rows.set_job(row)
        if row.status in _ENDED:
            what = {"act": f"fit {row.status}", "table": row.table, "job": row.id}
            if row.result is not None:
                what["digest"] = hashlib.sha256(row.result).hexdigest()
            turn.act(what)


@dataclass(frozen=True)
class AddJob:
    """Add a job, or return the one with the same key."""

    row: JobRow

    def apply(self, turn: Turn) -> JobRow:
        """Add it; refused if the key came with another request."""
        there = turn.rows.job(self.row.id)
        if there is not None:
            if there.request != self.row.request or there.table != self.row.table:
                raise Problem(
                    409,
                    "key-with-another-body",
                    "this key was used for a different job; send this one under another key",
                )
            return there
        turn.rows.set_job(self.row)
        turn.act({"act": "ask for a fit", "table": self.row.table, "job": self.row.id})
        return self.row


@dataclass(frozen=True)
class _Charge:
    ledger: str
    guarantee: Guarantee
    what: str

    def apply(self, turn: Turn) -> None:
        turn.hold(JOBS)
        charge(turn, self.ledger, self.guarantee, self.what)


class _Payer(Ledger):
    """A ledger whose entries are durable in the store before the library continues."""

    def __init__(self, engine: Engine, name: str, budget: Budget, unit: str) -> None:
        super().__init__(budget, unit=unit)
        self._engine, self._name = engine, name
        self.paid: list[Guarantee] = []

    def spend(self, guarantee: Guarantee, what: str) -> Entry:
        self._check_scope(guarantee)
        self._engine.call(_Charge(self._name, guarantee, what))
        self.paid.append(guarantee)
        return Entry(what, guarantee, "")


class Cancelled(Exception):
    """A job was cancelled."""


class Jobs:
    """Runs jobs, one at a time, in a thread.

    Parameters
    ----------
    engine : Engine
        Makes everything durable.
    roots : list of path
        Folders that may contain tables.
    """

    def __init__(self, engine: Engine, roots: list[Path]) -> None:
        self.engine = engine
        self.roots = [root.resolve() for root in roots]
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._progress: dict[str, dict[str, Any]] = {}
        self._cancelled: set[str] = set()
        self._thread = threading.Thread(target=self._work, name="reticent-jobs", daemon=True)
        self._thread.start()
        if engine.leases is None:
            self.take_over()

    # Called by routes ------------------------------------------------------------------------------

    def table(self, asked: dict[str, Any]) -> AddTable:
        """A command that adds a table, after all checks."""
        unknown = sorted(set(asked) - {"name", "path", "schema", "budget"})
        if unknown:
            raise Problem(
                422, "bad-table", f"a table has name, path, schema and budget, not {unknown[0]!r}"
            )
        try:
            name = check_name(asked.get("name"), "name")
            schema = Schema.from_dict(asked.get("schema"))
            budget = budget_from(asked.get("budget"))
            budget.must_be_for_ever("a table", "its records do not expire")
            path = self._allowed(asked.get("path"))
        except (ValueError, TypeError) as error:
            raise Problem(422, "bad-table", str(error)) from None
        return AddTable(name, str(path), schema.to_dict(), budget)

    def _allowed(self, path: Any) -> Path:
        if not self.roots:
            raise ValueError("this service holds no tables; start it with --tables FOLDER")
        if not isinstance(path, str) or "\0" in path:
            raise ValueError("path must be the folder that the Parquet files are in")
        found = Path(path).resolve()
        if not any(found.is_relative_to(root) for root in self.roots):
            raise ValueError(
                "path must lie below a folder that the service was started with, --tables FOLDER"
            )
        if not found.exists():
            raise ValueError("path does not exist; name a folder of Parquet files")
        return found

    def request(self, name: str, asked: dict[str, Any], key: str | None) -> tuple[JobRow, TableRow]:
        """A job for a request, after all checks that need no records."""
        with self.engine.store.read() as rows:
            table = next((row for row in rows.tables() if row.name == name), None)
        if table is None:
            raise Problem(
                404, "unknown-table", f"there is no table {name!r}; an administrator can add one"
            )
        try:
            self._estimator(table, asked)
        except (ValueError, TypeError) as error:
            raise Problem(422, "bad-fit", str(error)) from None
        identity = key or secrets.token_hex(8)
        return JobRow(identity, name, asked, "waiting", "", self.engine.clock()), table

    def take_over(self) -> None:
        """Continue with the jobs of a process that has ended."""
        with self.engine.store.read() as rows:
            unfinished = [row for row in rows.jobs() if row.status not in _ENDED]
        for row in unfinished:
            if row.status == "waiting":
                self._queue.put(row.id)
            else:
                self.engine.call(SetJob(replace(row, status="failed", detail=INTERRUPTED)))

    def start(self, row: JobRow) -> None:
        """Queue a job that is durable."""
        self._queue.put(row.id)

    def cancel(self, identity: str) -> None:
        """Cancel a job; its result will not be stored."""
        self._cancelled.add(identity)

    def progress(self, identity: str) -> dict[str, Any]:
        """Progress of a running job."""
        return self._progress.get(identity, {})

    def stop(self) -> None:
        """End the thread after the current step."""
        self._queue.put(None)

    # The thread ------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (identity := self._queue.get()) is not None:
            with self.engine.store.read() as rows:
                row = rows.job(identity)
            if row is None or row.status != "waiting":
                continue
            try:
                self._run(row)
            except Exception as error:
                log.error("a job could not be written down: %s", type(error).__name__)

    def _run(self, row: JobRow) -> None:
        engine = self.engine
        row = replace(row, status="running")
        engine.call(SetJob(row))
        try:
            result = self._fit(row)
            self._check(row.id)
            engine.call(SetJob(replace(row, status="done", result=result)))
        except Cancelled:
            engine.call(
                SetJob(replace(row, status="cancelled", detail="cancelled; nothing was stored"))
            )
        except (Problem, BudgetExceeded) as error:
            words = error.detail if isinstance(error, Problem) else str(error)
            engine.call(SetJob(replace(row, status="failed", detail=words)))
        except (ValueError, TypeError, ArithmeticError, OSError) as error:
            engine.call(SetJob(replace(row, status="failed", detail=OF_RECORDS + str(error))))
        except Exception as error:
            log.error("a fit failed: %s", type(error).__name__, exc_info=error)
            words = "this is a bug in the service; see its log"
            engine.call(SetJob(replace(row, status="failed", detail=words)))
        finally:
            self._progress.pop(row.id, None)
            self._cancelled.discard(row.id)

    def _check(self, identity: str) -> None:
        if identity in self._cancelled:
            raise Cancelled

    def _estimator(self, table: TableRow, asked: dict[str, Any]) -> tuple[Any, Encoder]:
        unknown = sorted(set(asked) - {"kind", "epsilon", "delta", "target", "options"})
        if unknown:
            raise ValueError(
                f"a fit has kind, epsilon, delta, target and options, not {unknown[0]!r}"
            )
        kind = asked.get("kind")
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}")
        with self.engine.store.read() as rows:
            ledger = next(row for row in rows.ledgers() if row.name == table.name)
        encoder = Encoder(Schema.from_dict(table.schema), asked.get("target"))
        if (encoder.classes is not None) != (kind == "logistic"):
            raise ValueError(
                f"kind {kind!r} does not fit the target, whose type is {encoder.target.type!r}"
            )
        given: dict[str, Any] = {
            "epsilon": asked.get("epsilon"),
            "delta": asked.get("delta", ledger.budget["delta"]),
            "neighbours": ledger.budget["neighbours"],
            "feature_norm": encoder.largest_norm,
        }
        if encoder.classes is not None:
            given["classes"] = list(encoder.classes)
        else:
            given["label_bounds"] = encoder.target.bounds
        options = asked.get("options", {})
        taken = {"epsilon", "delta", "neighbours", "classes", "label_bounds"}
        if not isinstance(options, dict) or taken & set(options):
            raise ValueError("options must be an object of further arguments of the estimator")
        if "random_state" in options:
            raise ValueError(
                "options take no random_state, because anyone who knows the seed can remove the noise"
            )
        if "verbose" in options:
            raise ValueError("options take no verbose; the job itself says how far it is")
        Budget(given["epsilon"], given["delta"], given["neighbours"])
        return getattr(estimators, KINDS[kind])(**given | options), encoder

    def _fit(self, row: JobRow) -> bytes:
        with self.engine.store.read() as rows:
            table = next(one for one in rows.tables() if one.name == row.table)
            ledger = next(one for one in rows.ledgers() if one.name == row.table)
        estimator, encoder = self._estimator(table, row.request)
        X, y, persons = self._read(row.id, self._allowed(table.path), encoder)
        self._go_on(row.id, "fitting", encoder, len(X))
        payer = _Payer(self.engine, table.name, Budget(**ledger.budget), ledger.unit)
        with payer:
            estimator.fit(X, y, **({} if persons is None else {"groups": persons}))
        model = Model.from_estimator(estimator, encoder, records=len(X))
        return json.dumps(model.to_dict(), allow_nan=False).encode()

    def _go_on(self, identity: str, phase: str, encoder: Encoder, records: int) -> None:
        """Record the progress of a job; if persons are protected, the number of their records is not public."""
        said = {} if encoder.person else {"records": records}
        self._progress[identity] = {"phase": phase, **said}

    def _read(self, identity: str, path: Path, encoder: Encoder) -> tuple[Any, Any, Any]:
        source, _ = open_records(str(path), encoder, "parquet")
        parts = []
        done = 0
        for found in batches(source, encoder):
            self._check(identity)
            if found.bad:
                place = min(found.bad)
                raise TableError(
                    f"record {done + place + 1}: {found.bad[place]}; nothing was learnt"
                )
            parts.append(found)
            done += len(found.X)
            self._go_on(identity, "reading", encoder, done)
        if not done:
            raise TableError("the table holds no records")
        whole = join(parts)
        return whole.X, np.asarray(whole.y), whole.persons
