"""Routes for administration: tokens, the log, ledgers, tables and their jobs."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from reticent import checks
from reticent.privacy import Budget, Guarantee, Ledger
from reticent.service import chain, jobs, openapi, tokens
from reticent.service.engine import Turn
from reticent.service.leases import JOBS
from reticent.service.ledgers import add_ledger, ledger_of
from reticent.service.problems import Problem
from reticent.service.specification import budget_from, check_name
from reticent.service.store import JobRow, LedgerRow, LogRow, Reading, TokenRow
from reticent.service.web import Service, answer

_ACTS = 100  # number of acts in one answer
_YEAR = 366 * 24 * 3600


async def description(service: Service, request: Request) -> Response:
    return answer(openapi.document())


# Tokens --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _AddToken:
    row: TokenRow
    request: str
    """What the ids of tokens of the same request begin with."""

    def apply(self, turn: Turn) -> None:
        if any(row.id.startswith(self.request) for row in turn.rows.tokens()):
            raise Problem(
                409,
                "token-made-already",
                "a token was already made for this request, and is shown only once; if nobody kept it, revoke it and "
                "ask for another under another key",
            )
        row = self.row
        turn.rows.add_token(row)
        turn.act(
            {
                "act": "make token",
                "token": row.id,
                "role": row.role,
                "label": row.label,
                "streams": row.streams,
            }
        )


@dataclass(frozen=True)
class _RemoveToken:
    id: str

    def apply(self, turn: Turn) -> None:
        if not turn.rows.remove_token(self.id):
            raise Problem(
                404, "unknown-token", "there is no token with this id; GET /v1/tokens lists them"
            )
        turn.act({"act": "revoke token", "token": self.id})


def _terms(asked: dict[str, Any]) -> tuple[str, list[str] | None, str, float | None]:
    """Role, streams, label and seconds to live of a token that is asked for."""
    unknown = sorted(set(asked) - {"role", "streams", "expires_in", "label"})
    if unknown:
        raise ValueError(f"a token has role, streams, expires_in and label, not {unknown[0]!r}")
    granted, label = asked.get("streams"), asked.get("label", "")
    role = checks.choice(asked.get("role"), "role", tokens.ROLES)
    if granted is not None:
        if not isinstance(granted, list) or len(granted) > 10_000:
            raise ValueError("streams must be a list of names, or omitted for all streams")
        granted = [check_name(name, "streams") for name in granted]
    if not isinstance(label, str) or len(label) > 200 or not label.isprintable():
        raise ValueError("label must be text of at most 200 characters, all of them printable")
    seconds = asked.get("expires_in")
    if seconds is not None:
        seconds = checks.number(seconds, "expires_in", low=1, high=100 * _YEAR)
    return role, granted, label, seconds


async def create_token(service: Service, request: Request) -> Response:
    caller = service.caller(request, "administer")
    asked = await service.json(request)
    try:
        role, granted, label, seconds = _terms(asked)
    except (ValueError, TypeError) as error:
        raise Problem(422, "bad-token", str(error)) from None
    now = service.engine.clock()
    expires = None if seconds is None else now + seconds
    key = service.key(request)
    token = tokens.new_token()
    same = secrets.token_hex(8) if key is None else service.keys.sign(b"token " + key)[:8].hex()
    # no id comes twice, because cookies and the log name a token by its id
    identity = same + secrets.token_hex(4)
    row = TokenRow(identity, tokens.hashed(token), role, label, granted, now, expires)
    await service.do(_AddToken(row, same), caller)
    service.reload_tokens()
    return answer(_token(row) | {"token": token}, 201)


def _token(row: TokenRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "role": row.role,
        "label": row.label,
        "streams": row.streams,
        "created": row.created,
        "expires": row.expires,
    }


async def list_tokens(service: Service, request: Request) -> Response:
    service.caller(request, "administer")
    with service.engine.store.read() as rows:
        return answer({"tokens": [_token(row) for row in rows.tokens()]})


async def revoke_token(service: Service, request: Request) -> Response:
    caller = service.caller(request, "administer")
    await service.do(_RemoveToken(str(request.path_params["id"])), caller)
    service.reload_tokens()
    return answer({"revoked": True})


# Who did what --------------------------------------------------------------------------------------------


async def read_log(service: Service, request: Request) -> Response:
    """Administrative acts, the latest first, and where each chain ends."""
    service.caller(request, "administer")
    said = request.query_params.get("before", "")
    if said and not (said.isascii() and said.isdigit() and len(said) < 19):
        raise Problem(422, "bad-question", "before must be the number of an entry")

    def read() -> dict[str, Any]:
        with service.engine.store.read() as rows:
            head = rows.log_head(chain.ACTS)
            end = -1 if head is None else head.number + 1
            before = min(int(said), end) if said else end
            first = max(0, before - _ACTS)
            found = rows.log(chain.ACTS, first, before - first) if before > first else []
            ends = chain.heads(rows, rows.streams())
        return {
            "acts": [_act(row) for row in reversed(found)],
            "heads": [{"chain": name, **end} for name, end in ends.items()],
        }

    return answer(await run_in_threadpool(read))


def _act(row: LogRow) -> dict[str, Any]:
    about = msgspec.json.decode(row.body)
    act, by = about.pop("act"), about.pop("by", None)
    return {
        "number": row.number,
        "at": row.at,
        "act": act,
        "by": by,
        "about": about,
        "hash": row.hash.hex(),
    }


# Ledgers -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _AddLedger:
    name: str
    budget: Budget
    unit: str

    def apply(self, turn: Turn) -> None:
        add_ledger(turn, self.name, self.budget, self.unit)


def _ledger(rows: Reading, row: LedgerRow) -> dict[str, Any]:
    ledger = ledger_of(rows, row.name)
    spent = ledger.spent
    return {
        "name": row.name,
        "budget": {name: value for name, value in row.budget.items() if value is not None},
        "unit": row.unit,
        "spent": None if spent is None else str(spent),
        "share": _share(ledger),
        "remaining": "nothing" if row.closed else ledger.remaining,
        "closed": row.closed or None,
        "entries": [
            {
                "at": entry.at,
                "what": entry.what,
                "cost": Guarantee.from_dict(entry.guarantee).summary,
            }
            for entry in rows.entries(row.name)
        ],
    }


def _share(ledger: Ledger) -> float:
    """The spent share of a budget's epsilon; for a fading budget, at the age where it is largest."""
    budget, spent = ledger.budget, ledger.spent
    if spent is None:
        return 0.0
    if budget.fade is None:
        return spent.epsilon(budget.delta) / budget.epsilon
    return max(spent.epsilon(budget.delta, age=age) / epsilon for age, epsilon in budget.fade)


def share_of(rows: Reading, name: str) -> float:
    """The spent share of a ledger's budget; 1 if it is closed."""
    closed = any(row.closed for row in rows.ledgers() if row.name == name)
    return 1.0 if closed else _share(ledger_of(rows, name))


async def create_ledger(service: Service, request: Request) -> Response:
    caller = service.caller(request, "administer")
    asked = await service.json(request)
    unknown = sorted(set(asked) - {"name", "budget", "unit"})
    try:
        if unknown:
            raise ValueError(f"a ledger has name, budget and unit, not {unknown[0]!r}")
        name = check_name(asked.get("name"), "name")
        budget = budget_from(asked.get("budget"))
        unit = checks.choice(asked.get("unit", "record"), "unit", ("record", "person"))
    except (ValueError, TypeError) as error:
        raise Problem(422, "bad-ledger", str(error)) from None
    await service.do(_AddLedger(name, budget, unit), caller)
    return answer({"name": name}, 201)


async def list_ledgers(service: Service, request: Request) -> Response:
    caller = service.caller(request, "ledgers")

    def read() -> list[dict[str, Any]]:
        with service.engine.store.read() as rows:
            return [_ledger(rows, row) for row in rows.ledgers() if caller.may("ledgers", row.name)]

    return answer({"ledgers": await run_in_threadpool(read)})


async def read_ledger(service: Service, request: Request) -> Response:
    name = str(request.path_params["name"])
    service.caller(request, "ledgers", name)
    with service.engine.store.read() as rows:
        for row in rows.ledgers():
            if row.name == name:
                return answer(_ledger(rows, row))
    raise Problem(404, "unknown-ledger", f"there is no ledger {name!r}; GET /v1/ledgers lists them")


# Tables and jobs -----------------------------------------------------------------------------------------


async def create_table(service: Service, request: Request) -> Response:
    caller = service.caller(request, "administer")
    await service.do(command := service.jobs.table(await service.json(request)), caller)
    return answer({"name": command.name}, 201)


async def list_tables(service: Service, request: Request) -> Response:
    caller = service.caller(request, "fit")
    with service.engine.store.read() as rows:
        found = [row for row in rows.tables() if caller.may("fit", row.name)]
    return answer(
        {"tables": [{"name": row.name, "schema": row.schema, "ledger": row.name} for row in found]}
    )


async def start_fit(service: Service, request: Request) -> Response:
    name = str(request.path_params["name"])
    caller = service.caller(request, "fit", name)
    if (away := await service.lead(request, JOBS)) is not None:
        return away
    asked = await service.json(request)
    given = service.key(request)
    row, _ = service.jobs.request(name, asked, None if given is None else given.hex())
    found: JobRow = await service.do(jobs.AddJob(row), caller)
    if found is row:
        service.jobs.start(row)
    return answer(_job(service, found, caller), 202)


def _job(service: Service, row: JobRow, caller: tokens.Caller) -> dict[str, Any]:
    detail = row.detail
    if detail.startswith(jobs.OF_RECORDS) and not caller.may("inspect", row.table):
        detail = "the fit failed for a reason that may depend on single records: a data holder can read it"
    out: dict[str, Any] = {
        "id": row.id,
        "table": row.table,
        "request": row.request,
        "status": row.status,
        "detail": detail,
        "created": row.created,
        "progress": service.jobs.progress(row.id),
    }
    if row.result is not None:
        out["model"] = msgspec.Raw(row.result)
    return out


async def list_jobs(service: Service, request: Request) -> Response:
    caller = service.caller(request, "fit")
    with service.engine.store.read() as rows:
        found = [row for row in rows.jobs() if caller.may("fit", row.table)]
    return answer({"jobs": [_job(service, row, caller) for row in found]})


def _find(service: Service, request: Request) -> tuple[JobRow, tokens.Caller]:
    caller = service.caller(request, "fit")
    with service.engine.store.read() as rows:
        row = rows.job(str(request.path_params["id"]))
    if row is None or not caller.may("fit", row.table):
        raise Problem(404, "unknown-job", "there is no job with this id; GET /v1/jobs lists them")
    return row, caller


async def read_job(service: Service, request: Request) -> Response:
    return answer(_job(service, *_find(service, request)))


async def cancel_job(service: Service, request: Request) -> Response:
    row, caller = _find(service, request)
    if (away := await service.lead(request, JOBS)) is not None:
        return away
    if row.status in ("waiting", "running"):
        service.jobs.cancel(row.id)
    return answer(_job(service, row, caller), 202)
