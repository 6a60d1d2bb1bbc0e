"""The service over HTTP: routes, who may use them, and how answers are written.

Starlette and uvicorn: routing, streaming bodies and server-sent events with little around them, so that a single
request costs what its commit costs. Considered: FastAPI (Starlette with pydantic models on top; bodies here are
read by msgspec in a type made from each stream's schema, which FastAPI's declarations cannot express), Litestar
(the same by msgspec, but a larger framework for a dozen routes).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from reticent._version import __version__
from reticent.privacy import Guarantee
from reticent.service import openapi, runners, streams, tokens
from reticent.service.engine import Deliver, Engine, Live
from reticent.service.keys import Keys
from reticent.service.problems import Problem
from reticent.service.records import Reader
from reticent.service.specification import Specification

log = logging.getLogger("reticent.service")

LINES, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
_THREAD = (
    65536  # a body above this is decoded in a thread, so that other requests are answered meanwhile
)


class Service:
    """What the routes share.

    Parameters
    ----------
    engine : Engine
        Carries out commands.
    limit : int
        The largest body of a request, in bytes.
    """

    def __init__(self, engine: Engine, *, limit: int = 64 * 2**20) -> None:
        self.engine, self.limit = engine, limit
        self.keys = Keys(engine.ring.derive(b"keys of records"))
        self._readers: dict[str, Reader] = {}
        self.ready = False
        with engine.store.read() as rows:
            self.tokens = tokens.Desk(rows.tokens())

    async def do(self, command: Any) -> Any:
        """Have the engine carry out a command."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def done(answer: Any, error: BaseException | None) -> None:
            if not future.done():  # the client may have gone
                if error is None:
                    future.set_result(answer)
                else:
                    future.set_exception(error)

        self.engine.submit(command, done)
        return await future

    def caller(self, request: Request, action: str, stream: str | None = None) -> tokens.Caller:
        """Who sends a request, refused if they may not."""
        found = self.tokens.caller(request.headers.get("authorization"), self.engine.clock())
        found.check(action, stream)
        return found

    def reader(self, live: Live) -> Reader:
        """What decodes the records of a stream."""
        reader = self._readers.get(live.row.name)
        if reader is None:
            reader = Reader(runners.encoder_of(live.specification), self.keys)
            self._readers[live.row.name] = reader
        return reader

    async def body(self, request: Request) -> bytes:
        """The body of a request, refused as soon as it is longer than allowed."""
        said = request.headers.get("content-length")
        if said is not None and (not said.isdigit() or int(said) > self.limit):
            raise self._too_large()
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self.limit:
                raise self._too_large()
            parts.append(part)
        return b"".join(parts)

    def _too_large(self) -> Problem:
        return Problem(
            413, "body-too-large", f"a body may have at most {self.limit} bytes; send fewer records at a time"
        )  # fmt: skip

    async def json(self, request: Request) -> Any:
        """The body of a request as JSON."""
        try:
            return msgspec.json.decode(await self.body(request))
        except msgspec.DecodeError as error:
            raise Problem(422, "bad-json", f"the body is not JSON: {error}") from None


def deliver_to(loop: asyncio.AbstractEventLoop) -> Callable[[list[Any]], None]:
    """Hand the answers of a group to the event loop in one go."""

    def deliver(group: list[tuple[Deliver, Any, BaseException | None]]) -> None:
        def each() -> None:
            for done, answer, error in group:
                done(answer, error)

        loop.call_soon_threadsafe(each)

    return deliver


# Answers -----------------------------------------------------------------------------------------------


def answer(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Plain data as JSON."""
    return Response(msgspec.json.encode(data), status, headers, "application/json")


def problem(found: Problem) -> Response:
    """A refusal as problem+json."""
    return Response(
        msgspec.json.encode(found.body()), found.status, found.headers, "application/problem+json"
    )


def guaranteed(live: Live) -> msgspec.Raw:
    """The guarantee of a stream, for people and for programs."""
    return _guaranteed(msgspec.json.encode(live.row.guarantee), live.specification.budget.delta)


@lru_cache(maxsize=4096)
def _guaranteed(encoded: bytes, delta: float) -> msgspec.Raw:
    terms = msgspec.json.decode(encoded)
    guarantee = Guarantee.from_dict(terms)
    out: dict[str, Any] = {
        "text": str(guarantee),
        "epsilon": guarantee.epsilon(delta),
        "delta": delta,
        "seeded": guarantee.seeded,
        "unit": guarantee.unit,
        "neighbours": guarantee.scope.neighbours,
        "window": guarantee.scope.window,
        "caveats": list(guarantee.caveats),
        "terms": terms,
    }
    return msgspec.Raw(msgspec.json.encode(out))


def _summary(live: Live) -> dict[str, Any]:
    return {
        "name": live.row.name,
        "kind": live.specification.kind,
        "steps": live.head.steps,
        "decision_number": live.head.number,
    }


# Routes --------------------------------------------------------------------------------------------------

Handler = Callable[[Service, Request], Awaitable[Response]]


async def health(service: Service, request: Request) -> Response:
    return answer({"status": "ok", "version": __version__})


async def readiness(service: Service, request: Request) -> Response:
    if not service.ready:
        raise Problem(
            503, "starting", "the service is starting; try again in a moment", {"Retry-After": "1"}
        )
    return answer({"status": "ready"})


async def description(service: Service, request: Request) -> Response:
    return answer(openapi.document())


async def create_stream(service: Service, request: Request) -> Response:
    service.caller(request, "administer")
    specification = Specification.from_dict(await service.json(request))
    done = await service.do(streams.Create(specification))
    live = service.engine.live(specification.name)
    return answer(_described(live), 201 if done["created"] else 200)


async def list_streams(service: Service, request: Request) -> Response:
    caller = service.caller(request, "list")
    with service.engine.store.read() as rows:
        names = [row.name for row in rows.streams()]
    shown = [name for name in names if caller.may("list", name)]
    return answer({"streams": [_summary(service.engine.live(name)) for name in shown]})


def _described(live: Live) -> dict[str, Any]:
    head = live.head
    out = _summary(live) | {
        "decision": msgspec.Raw(head.body),
        "decided_at": head.at,
        "guarantee": guaranteed(live),
        "ledger": live.row.ledger,
        "created": live.row.created,
        "specification": _public(live.row.specification),
    }
    if live.specification.kind in ("logistic", "linear"):
        encoder = runners.encoder_of(live.specification)
        out["features"] = encoder.names
        out["classes"] = None if encoder.classes is None else sorted(encoder.classes)
    return out


def _public(specification: dict[str, Any]) -> dict[str, Any]:
    """A specification for readers: whoever knows the seed can take the noise off."""
    return {name: value for name, value in specification.items() if name != "seed"}


async def describe_stream(service: Service, request: Request) -> Response:
    name = request.path_params["name"]
    service.caller(request, "read", name)
    return answer(_described(service.engine.live(name)))


async def send_records(service: Service, request: Request) -> Response:
    name = request.path_params["name"]
    service.caller(request, "send", name)
    live = service.engine.live(name)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != LINES:
        raise Problem(415, "unknown-format", f"records come as {LINES}, one JSON object a line")
    body = await service.body(request)
    reader = service.reader(live)
    if len(body) > _THREAD:
        batch = await run_in_threadpool(reader.lines, body)
    else:
        batch = reader.lines(body)
    return answer(await service.do(streams.Send(name, batch)))


async def read_decision(service: Service, request: Request) -> Response:
    name, asked = request.path_params["name"], request.path_params["number"]
    service.caller(request, "read", name)
    live = service.engine.live(name)
    if asked == "latest":
        number = live.head.number
    elif asked.isascii() and asked.isdigit() and len(asked) < 19:
        number = int(asked)
    else:
        raise Problem(
            404, "unknown-decision", "a decision has a number from 0 on, or is called latest"
        )
    with service.engine.store.read() as rows:
        found = rows.output(live.row.id, number)
    if found is None:
        raise Problem(
            404,
            "unknown-decision",
            f"the latest decision of this stream is number {live.head.number}",
        )
    return answer(
        {
            "decision_number": found.number,
            "steps": found.steps,
            "decided_at": found.at,
            "decision": msgspec.Raw(found.body),
            "guarantee": guaranteed(live),
        }
    )


async def list_ledgers(service: Service, request: Request) -> Response:
    caller = service.caller(request, "ledgers")
    with service.engine.store.read() as rows:
        out = []
        for row in rows.ledgers():
            if not caller.may("ledgers", row.name):
                continue
            ledger = streams.ledger_of(rows, row.name)
            spent = ledger.spent
            out.append(
                {
                    "name": row.name,
                    "budget": {k: v for k, v in row.budget.items() if v is not None},
                    "unit": row.unit,
                    "spent": None if spent is None else str(spent),
                    "remaining": ledger.remaining,
                    "entries": [
                        {"at": entry.at, "what": entry.what, "cost": Guarantee.from_dict(entry.guarantee).summary}
                        for entry in rows.entries(row.name)
                    ],
                }
            )  # fmt: skip
    return answer({"ledgers": out})


ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", "/healthz", health),
    ("GET", "/readyz", readiness),
    ("GET", "/openapi.json", description),
    ("GET", "/v1/streams", list_streams),
    ("POST", "/v1/streams", create_stream),
    ("GET", "/v1/streams/{name}", describe_stream),
    ("POST", "/v1/streams/{name}/records", send_records),
    ("GET", "/v1/streams/{name}/decisions/{number}", read_decision),
    ("GET", "/v1/ledgers", list_ledgers),
]


def make_app(service: Service, lifespan: Any = None) -> Starlette:
    """The application, for uvicorn or any other ASGI server."""

    def endpoint(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            try:
                return await handler(service, request)
            except Problem as found:
                return problem(found)
            except ClientDisconnect:
                return Response(status_code=499)
            except Exception as error:
                log.error("a request failed: %s", type(error).__name__, exc_info=error)
                return problem(
                    Problem(500, "failed", "this is a fault of the service; see its log")
                )

        return handle

    async def not_found(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        names = {404: "unknown-address", 405: "method-not-allowed"}
        words = "GET /openapi.json lists every address and the methods that it takes"
        headers = dict(getattr(error, "headers", None) or {})
        return problem(Problem(status, names.get(status, "failed"), words, headers))

    routes = [Route(path, endpoint(handler), methods=[method]) for method, path, handler in ROUTES]
    return Starlette(
        routes=routes, exception_handlers={HTTPException: not_found}, lifespan=lifespan
    )


def wait_ready(service: Service, seconds: float) -> bool:
    """Wait until a service is ready, for tests and scripts in the same process."""
    end = time.monotonic() + seconds
    while not service.ready and time.monotonic() < end:
        time.sleep(0.01)
    return service.ready
