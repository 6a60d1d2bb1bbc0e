"""Common parts of the routes: callers, bodies within their limits, answers and refusals."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from reticent.privacy import Guarantee
from reticent.service import runners, session, tokens
from reticent.service.chain import By
from reticent.service.engine import Engine, Group, Live, moving, too_busy
from reticent.service.forwarding import FORWARDED, forward
from reticent.service.jobs import Jobs
from reticent.service.keys import MOST, Keys
from reticent.service.leases import JOBS, Claim
from reticent.service.metrics import Metrics
from reticent.service.problems import Problem
from reticent.service.records import Reader

LINES, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
ANY = "*"
"""Stands for all streams, in place of a stream's name."""
_READERS = 512  # number of streams whose decoder is cached
_HELD = "reticent.held"  # in the scope of a request: bytes of its body
_BODIES = 4  # number of bodies of the largest size that are held at a time, until they are answered


def header(request: Request, name: bytes) -> str | None:
    """A header, by its name in lower case, found without Starlette's view of all headers."""
    for found, value in request.scope["headers"]:
        if found == name:
            return str(value.decode("latin-1"))
    return None


class Waiting(asyncio.Event):
    """An event that records which streams have published."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()


class Service:
    """A service as its routes see it.

    Parameters
    ----------
    engine : Engine
        Applies commands.
    keys : Keys
        Encoding of the keys of records.
    jobs : Jobs
        Runs fits of tables.
    limit : int
        Largest body of a request, in bytes.
    rate : float
        Requests per second and token; 0 is unlimited.
    folder : path or None
        Folder that holds everything, if it is a folder.
    log_requests : bool
        Whether to log each request.
    """

    def __init__(
        self,
        engine: Engine,
        keys: Keys,
        jobs: Jobs,
        *,
        limit: int = 64 * 2**20,
        rate: float = 0.0,
        folder: Path | None = None,
        log_requests: bool = False,
    ) -> None:
        self.engine, self.keys, self.jobs, self.limit = engine, keys, jobs, limit
        self.ready = False
        self.folder = folder
        self.log_requests = log_requests
        self.metrics = Metrics()
        engine.observed = self.metrics.transaction
        self.stopping = asyncio.Event()
        self.held = 0  # bytes of the bodies of unanswered requests
        self._readers: dict[str, Reader] = {}
        self._waiting: dict[str, set[Waiting]] = defaultdict(set)
        self._limiter = tokens.Limiter(rate)
        self.tokens = tokens.KnownTokens([])
        self.reload_tokens()
        self._loop: asyncio.AbstractEventLoop | None = None
        engine.watch(self._published)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver answers to an event loop, which applies small commands itself."""
        self._loop = loop
        self.engine.attach(loop.call_soon, _deliver_to(loop))

    def reload_tokens(self) -> None:
        """Read the tokens again after a change."""
        with self.engine.store.read() as rows:
            self.tokens.load(rows.tokens())

    async def lead(self, request: Request, name: str) -> Response | None:
        """Take the lease of a stream and return None, or return the answer of the worker that holds it."""
        leases = self.engine.leases
        if leases is None or leases.holds(name):
            return None
        if name != JOBS:
            self.engine.live(name)  # refused if there is no such stream
        found = await self.do(Claim(name, leases))
        if found.token is not None:
            if name == JOBS:
                await run_in_threadpool(self.jobs.take_over)
            return None
        if FORWARDED in request.headers:  # forwarded twice: the two workers do not agree yet
            raise moving()
        return await forward(request, await self.body(request), found.address)

    async def do(self, command: Any, caller: tokens.Caller | None = None) -> Any:
        """Let the engine apply a command in the name of its caller."""
        if caller is not None:
            command = By(command, caller)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(answer: Any, error: BaseException | None) -> None:
            if not future.done():  # the client may have disconnected
                if error is None:
                    future.set_result(answer)
                else:
                    future.set_exception(error)

        self.engine.submit(command, done)
        return await future

    def caller(self, request: Request, action: str, stream: str | None = None) -> tokens.Caller:
        """The caller of a request; refused without permission."""
        found = self._known(request)
        request.state.token = found.id  # for the log
        self._limiter.check(found.id)
        found.check(action, stream)
        return found

    def _known(self, request: Request) -> tokens.Caller:
        """The caller of a request, whatever it may do; refused if its token or its cookie is not valid now."""
        now = self.engine.clock()
        given = header(request, b"authorization")
        cookie = None if given is not None else request.cookies.get(session.COOKIE)
        if cookie is None:
            return self.tokens.caller(given, now)
        session.check_origin(request)
        return self.tokens.by_id(session.token_of(self.keys, cookie, now), now)

    def may_continue(self, request: Request) -> bool:
        """Whether a request that is still being answered may go on: its token was not revoked and has not expired."""
        if self.stopping.is_set():
            return False
        try:
            self._known(request)
        except Problem:
            return False
        return True

    def reader(self, live: Live) -> Reader:
        """The decoder of a stream's records."""
        reader = self._readers.get(live.row.name)
        if reader is None:
            encoder = runners.encoder_of(live.specification)
            reader = Reader(encoder, self.keys, labelled=live.specification.kind != "total")
            while len(self._readers) >= _READERS:
                self._readers.pop(next(iter(self._readers)), None)
            self._readers[live.row.name] = reader
        return reader

    def key(self, request: Request) -> bytes | None:
        """The key of a whole request, if it has one."""
        given = header(request, b"idempotency-key")
        if given is None:
            return None
        if not 0 < len(given) <= MOST:
            raise Problem(422, "no-key", f"Idempotency-Key must have 1 to {MOST} characters")
        return self.keys.pack(given)

    async def body(self, request: Request) -> bytes:
        """The body of a request; refused as soon as it is longer than allowed."""
        said = header(request, b"content-length")
        if said is not None and (not said.isdigit() or int(said) > self.limit):
            raise self._too_large()
        self._hold(request, 0, int(said or 0))
        parts, size, more = [], 0, True
        while more:  # request.stream() does the same in twice the time
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            part, more = message.get("body", b""), message.get("more_body", False)
            if part:
                size += len(part)
                if size > self.limit:
                    raise self._too_large()
                self._hold(request, len(part))
                parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _hold(self, request: Request, size: int, more: int = 0) -> None:
        """Count bytes that wait for an answer, and refuse more than the limit."""
        if self.held + size + more > _BODIES * self.limit:
            refusal = too_busy("more bytes are waiting than the service accepts at a time", 1.0)
            refusal.headers["Connection"] = "close"  # the rest of the body is not read
            raise refusal
        self.held += size
        request.scope[_HELD] = request.scope.get(_HELD, 0) + size

    def let_go(self, request: Request) -> None:
        """Stop counting the bytes of a request that was answered or abandoned."""
        self.held -= request.scope.pop(_HELD, 0)

    def _too_large(self) -> Problem:
        return Problem(
            413,
            "body-too-large",
            f"a body may have at most {self.limit} bytes; send fewer records at a time",
            {"Connection": "close"},
        )

    async def json(self, request: Request) -> dict[str, Any]:
        """The body of a request as a JSON object."""
        try:
            found = msgspec.json.decode(await self.body(request))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Problem(422, "bad-json", "the body is not JSON; send one JSON object") from None
        if not isinstance(found, dict):
            raise Problem(422, "bad-json", "the body is JSON, but not an object")
        return found

    # Events ----------------------------------------------------------------------------------------

    def _published(self, live: Live) -> None:
        """Notify those who wait for decisions of a stream. Called in the engine's thread."""
        name = live.row.name
        if (self._waiting.get(name) or self._waiting.get(ANY)) and self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake, name)

    def _wake(self, name: str) -> None:
        for waiting in (*self._waiting.get(name, ()), *self._waiting.get(ANY, ())):
            waiting.names.add(name)
            waiting.set()

    def look_elsewhere(self, before: dict[str, int]) -> dict[str, int]:
        """Notify those who wait for another worker's decisions; returns the latest ones for the next call."""
        leases = self.engine.leases
        if leases is None or not self._waiting or self._loop is None:
            return before
        with self.engine.store.read() as rows:
            latest = rows.latest()
        for name, number in latest.items():
            if before.get(name) != number and not leases.holds(name):
                self._loop.call_soon_threadsafe(self._wake, name)
        return latest

    def wait_on(self, name: str) -> Waiting:
        """An event that is set whenever a stream, or any stream, publishes."""
        event = Waiting()
        self._waiting[name].add(event)
        return event

    def wait_no_more(self, name: str, event: Waiting) -> None:
        """The inverse of :meth:`wait_on`."""
        self._waiting[name].discard(event)
        if not self._waiting[name]:
            del self._waiting[name]

    def stop(self) -> None:
        """End all event streams."""
        self.stopping.set()
        for name in list(self._waiting):
            self._wake(name)


def _deliver_to(loop: asyncio.AbstractEventLoop) -> Callable[[Group], None]:
    """Deliver the answers of a group to the event loop at once."""

    def deliver(group: Group) -> None:
        def each() -> None:
            for done, answer, error in group:
                done(answer, error)

        with contextlib.suppress(RuntimeError):  # the loop has ended, and all callers with it
            loop.call_soon_threadsafe(each)

    return deliver


# Answers -----------------------------------------------------------------------------------------------


class _Json(Response):
    """A JSON answer without other headers, made faster than by Starlette."""

    def __init__(self, body: bytes, status: int) -> None:
        self.status_code, self.body, self.background = status, body, None
        length = b"%d" % len(body)
        self.raw_headers = [(b"content-length", length), (b"content-type", b"application/json")]


def answer(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Plain data as JSON."""
    body = msgspec.json.encode(data)
    return (
        _Json(body, status) if not headers else Response(body, status, headers, "application/json")
    )


def problem(found: Problem) -> Response:
    """A refusal as problem+json."""
    return Response(
        msgspec.json.encode(found.body()), found.status, found.headers, "application/problem+json"
    )


def guaranteed(live: Live) -> msgspec.Raw:
    """The guarantee of a stream, for people and for programs."""
    return guarantee_view(live.row.guarantee, live.specification.budget.delta)


def guarantee_view(terms: dict[str, Any], delta: float) -> msgspec.Raw:
    """A guarantee for people and for programs."""
    return _guarantee_view(msgspec.json.encode(terms), delta)


@lru_cache(maxsize=4096)
def _guarantee_view(encoded: bytes, delta: float) -> msgspec.Raw:
    terms = msgspec.json.decode(encoded)
    guarantee = Guarantee.from_dict(terms)
    epsilon = guarantee.epsilon(delta)
    out: dict[str, Any] = {
        "text": str(guarantee),
        "epsilon": epsilon if epsilon < float("inf") else None,
        "delta": delta,
        "seeded": guarantee.seeded,
        "unit": guarantee.unit,
        "neighbours": guarantee.scope.neighbours,
        "window": guarantee.scope.window,
        "caveats": list(guarantee.caveats),
        "terms": terms,
    }
    return msgspec.Raw(msgspec.json.encode(out))
