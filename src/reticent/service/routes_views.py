"""Routes for the plots: decisions over time, guarantees by age, and the status of every stream."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from reticent.privacy import Guarantee
from reticent.service.problems import Problem
from reticent.service.routes_streams import PAUSE, event_stream, name_of, summaries, summary
from reticent.service.web import ANY, Service, answer

_POINTS = 1000
_EVERY = 0.5  # least seconds between two summaries of all streams
_AGES = 24


async def history(service: Service, request: Request) -> Response:
    """Decisions evenly spread over those that a stream has published, including the first and the latest."""
    name = name_of(request)
    service.caller(request, "read", name)
    live = service.engine.live(name)
    said = request.query_params.get("points", "200")
    if not (said.isascii() and said.isdigit() and len(said) < 6 and 2 <= int(said) <= _POINTS):
        raise Problem(422, "bad-question", f"points must be a whole number from 2 to {_POINTS}")
    last, points = live.head.number, int(said)
    steps = min(last, points - 1)
    numbers = [round(k * last / steps) for k in range(steps + 1)] if steps else [0]

    def read() -> list[dict[str, Any]]:
        out = []
        with service.engine.store.read() as rows:
            for number in numbers:
                found = rows.output(live.row.id, number)
                if found is not None:
                    body = msgspec.Raw(found.body)
                    out.append(
                        {"number": number, "steps": found.steps, "at": found.at, "decision": body}
                    )
        return out

    return answer({"decisions": await run_in_threadpool(read)})


async def by_age(service: Service, request: Request) -> Response:
    """The guarantee of a record by age, and what it means for people."""
    name = name_of(request)
    service.caller(request, "read", name)
    live = service.engine.live(name)
    terms = msgspec.json.encode(live.row.guarantee)
    return answer(await run_in_threadpool(_by_age, terms, live.specification.budget.delta))


@lru_cache(maxsize=256)
def _by_age(encoded: bytes, delta: float) -> msgspec.Raw:
    guarantee = Guarantee.from_dict(msgspec.json.decode(encoded))
    asked = guarantee.by_age(delta=delta).ages
    end = 10 * (guarantee.window or max(asked))
    spread = {round(end ** (k / (_AGES - 1))) for k in range(_AGES)}
    ages = sorted(spread | {age for age in asked if age <= end})
    found = guarantee.by_age(ages, delta=delta)
    out = {
        "delta": delta,
        "window": guarantee.window,
        "unit": guarantee.unit,
        "ages": found.ages,
        "epsilons": [value if math.isfinite(value) else None for value in found.epsilons],
        "odds": str(guarantee.odds()),
    }
    return msgspec.Raw(msgspec.json.encode(out))


async def events(service: Service, request: Request) -> Response:
    """The status of every stream, now and whenever one of them has published."""
    caller = service.caller(request, "list")

    def told(streams: list[dict[str, Any]], every: bool) -> bytes:
        found = {"now": service.engine.clock(), "all": every, "streams": streams}
        return b"event: streams\ndata: %s\n\n" % msgspec.json.encode(found)

    async def lines() -> AsyncIterator[bytes]:
        waiting = service.wait_on(ANY)
        try:
            yield told(await run_in_threadpool(summaries, service, caller), True)
            while service.may_continue(request):
                try:
                    await asyncio.wait_for(waiting.wait(), PAUSE)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                names = sorted(name for name in waiting.names if caller.may("list", name))
                waiting.names.clear()
                waiting.clear()
                if names and service.may_continue(request):
                    try:
                        yield told([summary(service.engine.live(name)) for name in names], False)
                    except Problem:  # a stream was deleted
                        yield told(await run_in_threadpool(summaries, service, caller), True)
                    await asyncio.sleep(_EVERY)
        finally:
            service.wait_no_more(ANY, waiting)

    return event_stream(lines())
