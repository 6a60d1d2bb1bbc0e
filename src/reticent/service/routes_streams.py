"""Routes for streams: create, describe, send records, read decisions, predict, ask and tell, events."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from reticent.service import learners, made_up, runners, streams, totals
from reticent.service.engine import Live
from reticent.service.ledgers import check_shared, ledger_of
from reticent.service.problems import Problem
from reticent.service.records import Batch
from reticent.service.specification import Specification
from reticent.service.store import OutputRow
from reticent.service.tokens import Caller
from reticent.service.web import ARROW, LINES, Service, answer, guarantee_view, guaranteed, header
from reticent.tables.encoder import person_id

_THREAD = (
    65536  # a body above this is decoded in a thread, so that other requests are answered meanwhile
)
_LARGEST = sys.float_info.max
_QUESTIONS = 100_000  # records to predict in one request
PAUSE = 15.0  # seconds after which a silent stream of events sends a sign of life


def name_of(request: Request) -> str:
    """The stream's name in the address."""
    return str(request.path_params["name"])


def summary(live: Live) -> dict[str, Any]:
    """The status of a stream, in brief."""
    return {
        "name": live.row.name,
        "kind": live.specification.kind,
        "steps": live.head.steps,
        "decision_number": live.head.number,
        "decided_at": live.head.at,
        "closed": live.row.closed or None,
    }


def _described(live: Live) -> dict[str, Any]:
    head = live.head
    out = summary(live) | {
        "decision": msgspec.Raw(head.body),
        "guarantee": guaranteed(live),
        "ledger": live.row.ledger,
        "epochs": live.row.epochs,
        "created": live.row.created,
        "specification": _public(live.row.specification),
    }
    if live.specification.kind != "bandit":
        encoder = runners.encoder_of(live.specification)
        out["features"] = encoder.names
        if live.specification.kind == "logistic":
            out["classes"] = sorted(encoder.classes or ())
        if live.specification.kind == "total":
            out["scales"] = totals.scales(encoder)
    return out


def _public(specification: dict[str, Any]) -> dict[str, Any]:
    """A specification for readers; it omits the seed, with which the noise could be removed."""
    return {name: value for name, value in specification.items() if name != "seed"}


async def create_stream(service: Service, request: Request) -> Response:
    caller = service.caller(request, "administer")
    specification = Specification.from_dict(await service.json(request))
    done = await service.do(streams.Create(specification), caller)
    live = service.engine.live(specification.name)
    return answer(_described(live), 201 if done["created"] else 200)


async def list_streams(service: Service, request: Request) -> Response:
    caller = service.caller(request, "list")
    return answer({"streams": summaries(service, caller)})


def summaries(service: Service, caller: Caller) -> list[dict[str, Any]]:
    """The status of the streams that a caller may see, by name."""
    return [summary(live) for live in lives(service, caller)]


def lives(service: Service, caller: Caller) -> list[Live]:
    """The streams that a caller may see, by name."""
    with service.engine.store.read() as rows:
        found = [row for row in rows.streams() if not streams.deleted(row)]
    names = [row.name for row in found if caller.may("list", row.name)]
    return [service.engine.live(name) for name in names]


async def describe_stream(service: Service, request: Request) -> Response:
    service.caller(request, "read", name_of(request))
    return answer(_described(service.engine.live(name_of(request))))


async def close_stream(service: Service, request: Request, *, erase: bool = False) -> Response:
    caller = service.caller(request, "administer")
    name = name_of(request)
    if (away := await service.lead(request, name)) is not None:
        return away
    return answer(await service.do(streams.Close(name, erase), caller))


async def delete_stream(service: Service, request: Request) -> Response:
    return await close_stream(service, request, erase=True)


async def send_records(service: Service, request: Request) -> Response:
    name = name_of(request)
    service.caller(request, "send", name)
    if (away := await service.lead(request, name)) is not None:
        return away
    live = service.engine.live(name)
    reader = service.reader(live)
    kind = (header(request, b"content-type") or "").partition(";")[0].strip().lower()
    if kind not in (LINES, ARROW):
        raise Problem(
            415,
            "unknown-format",
            f"records come as {LINES}, one JSON object per line, or as {ARROW}",
        )
    body = await service.body(request)

    def decode() -> Batch:
        if kind == LINES:
            return reader.lines(body)
        return reader.arrow(body, header(request, b"idempotency-key"), _producer(request))

    batch = await run_in_threadpool(decode) if len(body) > _THREAD else decode()
    return answer(await service.do(streams.Send(name, batch)))


def _producer(request: Request) -> tuple[str, int] | None:
    producer, said = (request.headers.get(f"reticent-{word}") for word in ("producer", "sequence"))
    if producer is None and said is None:
        return None
    if (
        not producer
        or not said
        or len(producer) > 200
        or not (said.isascii() and said.isdigit() and len(said) < 19)
    ):
        raise Problem(
            422,
            "no-key",
            "a numbered batch has both Reticent-Producer, a name of at most 200 characters, and "
            "Reticent-Sequence, a whole number from 0 on",
        )
    return producer, int(said)


def _output(service: Service, live: Live, asked: str) -> OutputRow:
    if asked == "latest":
        number = live.head.number
    elif asked.isascii() and asked.isdigit() and len(asked) < 19:
        number = int(asked)
    else:
        raise Problem(
            404, "unknown-decision", "a decision has a number from 0 on, or is called latest"
        )
    found = None
    if number <= live.head.number:  # what is committed but not yet published must not be seen
        with service.engine.store.read() as rows:
            found = rows.output(live.row.id, number)
    if found is None:
        raise Problem(
            404,
            "unknown-decision",
            f"the latest decision of this stream is number {live.head.number}",
        )
    return found


async def read_decision(service: Service, request: Request) -> Response:
    service.caller(request, "read", name_of(request))
    live = service.engine.live(name_of(request))
    found = _output(service, live, request.path_params["number"])
    return answer(
        {
            "decision_number": found.number,
            "steps": found.steps,
            "decided_at": found.at,
            "decision": msgspec.Raw(found.body),
            "guarantee": guaranteed(live),
        }
    )


async def predict(service: Service, request: Request) -> Response:
    name = name_of(request)
    service.caller(request, "read", name)
    live = service.engine.live(name)
    if live.specification.kind not in ("logistic", "linear"):
        raise streams.wrong_kind(
            "only a stream that learns a model can predict; read the decision of this one instead"
        )
    asked = await service.json(request)
    rows = asked.get("records", [asked["x"]] if "x" in asked else None)
    if (
        not isinstance(rows, list)
        or len(rows) > _QUESTIONS
        or set(asked) - {"records", "x", "number"}
    ):
        raise Problem(
            422,
            "bad-question",
            'send {"x": {...}}, or {"records": [{...}, ...]} with at most '
            f'{_QUESTIONS} records, and "number" for an earlier decision',
        )
    found = _output(service, live, str(asked.get("number", "latest")))
    reader = service.reader(live)

    def compute() -> dict[str, Any]:
        X = reader.questions(msgspec.json.encode(rows))
        model = learners.model_of(
            live.specification, msgspec.json.decode(found.body), live.row.guarantee
        )
        out: dict[str, Any] = {"decision_number": found.number, "predictions": []}
        if len(X):
            out["predictions"] = model.predict(X).tolist()
        if model.classes is not None:
            out["classes"] = list(model.classes)
            out["probabilities"] = model.probabilities(X).tolist() if len(X) else []
        return out

    return answer(await run_in_threadpool(compute))


async def ask(service: Service, request: Request) -> Response:
    name = name_of(request)
    service.caller(request, "send", name)
    if (away := await service.lead(request, name)) is not None:
        return away
    body = await service.do(streams.Ask(name, service.key(request)))
    found = msgspec.json.decode(body)
    return answer(
        {"ticket": found["ticket"], "point": found["point"], "decision_number": found["number"]}
    )


def _is_told(told: dict[str, Any]) -> bool:
    """Whether a body has the form that `tell` takes."""
    if set(told) - {"ticket", "value", "person"} or not {"ticket", "value"} <= set(told):
        return False
    ticket, value, person = told["ticket"], told["value"], told.get("person")
    if type(ticket) is not int or not 0 < ticket < 2**62:
        return False
    # compared, because a whole number may be too large for a float
    if value is not None and not (type(value) in (int, float) and abs(value) <= _LARGEST):
        return False
    return person is None or (type(person) in (str, int) and person_id(person) != "")


async def tell(service: Service, request: Request) -> Response:
    name = name_of(request)
    service.caller(request, "send", name)
    if (away := await service.lead(request, name)) is not None:
        return away
    told = await service.json(request)
    if not _is_told(told):
        raise Problem(
            422,
            "bad-value",
            'send {"ticket": 17, "value": 0.25}, with the ticket that ask gave and a finite loss, or null if '
            'there will be none; and "person": "id" where persons are protected',
        )
    ticket, value, person = told["ticket"], told["value"], told.get("person")
    loss = None if value is None else float(value)
    key, earlier = service.keys.ticket(ticket), service.keys.pack(f"ticket {ticket}")
    whose = None if person is None else person_id(person)
    words = repr(loss) if whose is None else f"{loss!r} {whose}"
    digest = service.keys.digest(words.encode("utf-8", "surrogatepass"))
    return answer(await service.do(streams.Tell(name, ticket, loss, (key, earlier), digest, whose)))


async def diagnose(service: Service, request: Request) -> Response:
    """Diagnostics, which read private data; they are for the data holder only, and are marked as such."""
    name = name_of(request)
    caller = service.caller(request, "inspect", name)
    if (away := await service.lead(request, name)) is not None:
        return away
    found = await service.do(streams.Inspect(name), caller)
    return answer(
        {"warning": "these numbers read private data and no guarantee covers them: do not publish"}
        | found
    )


async def events(service: Service, request: Request) -> Response:
    """Every decision from now on, or after Last-Event-ID, in order."""
    name = name_of(request)
    service.caller(request, "read", name)
    live = service.engine.live(name)
    last = request.headers.get("last-event-id", "")
    known = int(last) if last.isascii() and last.isdigit() and len(last) < 19 else None
    following = live.head.number if known is None else known + 1

    async def lines() -> AsyncIterator[bytes]:
        number = following
        event = service.wait_on(name)
        try:
            while service.may_continue(request):
                event.clear()
                try:
                    live = service.engine.live(name)
                except Problem:  # the stream was deleted
                    return
                while number <= live.head.number and service.may_continue(request):
                    with service.engine.store.read() as rows:
                        found = rows.output(live.row.id, number)
                    if found is not None:
                        yield b"event: decision\nid: %d\ndata: %s\n\n" % (number, found.body)
                    number += 1
                try:
                    await asyncio.wait_for(event.wait(), PAUSE)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            service.wait_no_more(name, event)

    return event_stream(lines())


def event_stream(lines: AsyncIterator[bytes]) -> StreamingResponse:
    """Lines as server-sent events."""
    return StreamingResponse(
        lines, media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


# Estimates and dry runs --------------------------------------------------------------------------------


async def estimate(service: Service, request: Request) -> Response:
    """What a stream would cost, and whether its ledger could pay."""
    caller = service.caller(request, "plan")
    specification = Specification.from_dict(await service.json(request))
    if specification.ledger is not None:
        caller.check("ledgers", specification.ledger)
    runner = await run_in_threadpool(runners.start, specification)
    guarantee = runner.guarantee
    fits, left = True, str(specification.budget)
    if specification.ledger is not None:
        with service.engine.store.read() as rows:
            ledger = ledger_of(rows, specification.ledger)
            check_shared(rows, specification.ledger)
            with contextlib.suppress(ValueError):
                fits = False
                fits = ledger.fits(guarantee)
            left = ledger.remaining
    return answer(
        {
            "guarantee": guarantee_view(guarantee.to_dict(), specification.budget.delta),
            "fits": fits,
            "remaining": left,
        }
    )


async def dummy(service: Service, request: Request) -> Response:
    """A dry run: the same kind of stream on records that are made up from the schema."""
    service.caller(request, "plan")
    asked = await service.json(request)
    count = asked.pop("records", 1000)
    if type(count) is not int or not 1 <= count <= made_up.MOST:
        raise Problem(
            422, "bad-question", f"records must be a whole number from 1 to {made_up.MOST}"
        )
    specification = Specification.from_dict(asked)

    def compute() -> dict[str, Any]:
        runner = runners.start(specification)
        streams.check_room(runner, count)
        sample: list[dict[str, Any]] = []
        if specification.kind == "bandit":
            made_up.play(runner, count)
        else:
            encoder = runners.encoder_of(specification)
            sample = made_up.records(encoder, count, labelled=specification.kind != "total")
            made_up.feed(runner, encoder, sample, labelled=specification.kind != "total")
        return {
            "made_up": True,
            "steps": runner.steps,
            "decision": runner.decision(),
            "sample": sample[:3],
            "guarantee": guarantee_view(runner.guarantee.to_dict(), specification.budget.delta),
        }

    return answer(await run_in_threadpool(compute))
