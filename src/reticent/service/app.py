"""The HTTP application, which maps addresses to routes.

It uses Starlette and uvicorn: routing, streaming bodies and server-sent events with little overhead, so that a request
costs little more than its commit. Considered: FastAPI (Starlette with pydantic models; bodies here are decoded by
msgspec into a type made from each stream's schema, which FastAPI's declarations cannot express), Litestar (uses msgspec
too, but a larger framework for two dozen routes).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, compile_path
from starlette.types import Receive, Scope, Send

from reticent.service import health
from reticent.service import routes_admin as admin
from reticent.service import routes_session as sessions
from reticent.service import routes_streams as streams
from reticent.service import routes_views as views
from reticent.service.engine import store_failed
from reticent.service.logs import event
from reticent.service.problems import Problem
from reticent.service.store import StoreFailed
from reticent.service.web import Service, problem

log = logging.getLogger("reticent.service")

Handler = Callable[[Service, Request], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]

RECORDS = "/v1/streams/{name}/records"
ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", "/healthz", health.health),
    ("GET", "/readyz", health.readiness),
    ("GET", "/metrics", health.metrics),
    ("GET", "/openapi.json", admin.description),
    ("GET", "/v1/streams", streams.list_streams),
    ("POST", "/v1/streams", streams.create_stream),
    ("GET", "/v1/streams/{name}", streams.describe_stream),
    ("DELETE", "/v1/streams/{name}", streams.delete_stream),
    ("POST", "/v1/streams/{name}/close", streams.close_stream),
    ("POST", RECORDS, streams.send_records),
    ("GET", "/v1/streams/{name}/decisions", views.history),
    ("GET", "/v1/streams/{name}/decisions/{number}", streams.read_decision),
    ("POST", "/v1/streams/{name}/predict", streams.predict),
    ("POST", "/v1/streams/{name}/ask", streams.ask),
    ("POST", "/v1/streams/{name}/tell", streams.tell),
    ("GET", "/v1/streams/{name}/events", streams.events),
    ("GET", "/v1/streams/{name}/guarantee", views.by_age),
    ("GET", "/v1/streams/{name}/diagnostics", streams.diagnose),
    ("GET", "/v1/events", views.events),
    ("POST", "/v1/estimate", streams.estimate),
    ("POST", "/v1/dummy", streams.dummy),
    ("GET", "/v1/ledgers", admin.list_ledgers),
    ("POST", "/v1/ledgers", admin.create_ledger),
    ("GET", "/v1/ledgers/{name}", admin.read_ledger),
    ("GET", "/v1/tables", admin.list_tables),
    ("POST", "/v1/tables", admin.create_table),
    ("POST", "/v1/tables/{name}/fits", admin.start_fit),
    ("GET", "/v1/jobs", admin.list_jobs),
    ("GET", "/v1/jobs/{id}", admin.read_job),
    ("DELETE", "/v1/jobs/{id}", admin.cancel_job),
    ("GET", "/v1/session", sessions.who),
    ("POST", "/v1/session", sessions.sign_in),
    ("DELETE", "/v1/session", sessions.sign_out),
    ("GET", "/v1/log", admin.read_log),
    ("GET", "/v1/tokens", admin.list_tokens),
    ("POST", "/v1/tokens", admin.create_token),
    ("DELETE", "/v1/tokens/{id}", admin.revoke_token),
]
_RECORDS = compile_path(RECORDS)[0]
PAGE: list[tuple[str, str, Handler]] = [
    ("GET", "/", sessions.page),
    ("GET", "/page/{file}", sessions.page),
]


def make_app(service: Service, lifespan: Any = None) -> Starlette:
    """The application, for uvicorn or any other ASGI server."""

    def endpoint(path: str, handler: Handler) -> Endpoint:
        async def handle(request: Request) -> Response:
            began = time.perf_counter()
            try:
                response = await answered(request)
            finally:
                service.let_go(request)
            seconds = time.perf_counter() - began
            service.metrics.request(request.method, path, response.status_code, seconds)
            if service.log_requests:
                about = {"method": request.method, "route": path, "status": response.status_code}
                about |= {"seconds": round(seconds, 6), "stream": request.path_params.get("name")}
                event("request", **about, token=getattr(request.state, "token", None))
            return response

        async def answered(request: Request) -> Response:
            try:
                return await handler(service, request)
            except Problem as found:
                return problem(found)
            except StoreFailed as failed:
                log.error("the store failed: %s", failed)
                return problem(store_failed())
            except ClientDisconnect:
                return Response(status_code=499)
            except Exception as error:
                log.error("a request failed: %s", type(error).__name__, exc_info=error)
                return problem(Problem(500, "failed", "this is a bug in the service; see its log"))

        return handle

    async def not_found(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return problem(_unknown_address(status, dict(getattr(error, "headers", None) or {})))

    by_path: dict[str, dict[str, Handler]] = {}
    for method, path, handler in ROUTES + PAGE:
        by_path.setdefault(path, {})[method] = handler
    endpoints = {path: endpoint(path, _chosen(handlers)) for path, handlers in by_path.items()}
    routes = [
        Route(path, endpoints[path], methods=list(handlers)) for path, handlers in by_path.items()
    ]
    return _App(
        endpoints[RECORDS],
        routes=routes,
        exception_handlers={HTTPException: not_found},
        lifespan=lifespan,
    )


class _App(Starlette):
    """Starlette with a shortcut for records: its layers take longer than everything else around a small request.

    Parameters
    ----------
    records : callable
        Endpoint for records; it turns every exception into an answer.
    options
        Options of Starlette.
    """

    def __init__(self, records: Endpoint, **options: Any) -> None:
        super().__init__(**options)
        self._records = records

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and "\0" in scope["path"]:  # PostgreSQL has no such text
            await problem(_unknown_address(404))(scope, receive, send)
            return
        if scope["type"] == "http" and scope["method"] == "POST":
            found = _RECORDS.match(scope["path"])
            if found is not None:
                scope["path_params"] = found.groupdict()
                response = await self._records(Request(scope, receive))
                await response(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def _unknown_address(status: int, headers: dict[str, str] | None = None) -> Problem:
    names = {404: "unknown-address", 405: "method-not-allowed"}
    words = "GET /openapi.json lists every address and the methods that it takes"
    return Problem(status, names.get(status, "failed"), words, headers)


def _chosen(handlers: dict[str, Handler]) -> Handler:
    if len(handlers) == 1:
        (only,) = handlers.values()
        return only

    async def handle(service: Service, request: Request) -> Response:
        # HEAD is GET without a body, which the server leaves out
        method = "GET" if request.method == "HEAD" else request.method
        return await handlers[method](service, request)

    return handle
