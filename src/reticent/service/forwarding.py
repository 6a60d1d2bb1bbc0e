"""Forward a request for a stream that another worker writes to that worker, and return its answer."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from reticent.service.problems import Problem

FORWARDED = "reticent-forwarded"
_KEPT = (
    "authorization", "content-type", "idempotency-key", "reticent-producer", "reticent-sequence",
    "cookie", "origin", "sec-fetch-site", "host",  # these identify a page that is signed in
)  # fmt: skip
_PATIENCE = 15.0  # seconds for an answer


async def forward(request: Request, body: bytes, address: str) -> Response:
    """Forward a request, and return the answer as it arrives."""
    headers = {name: value for name in _KEPT if (value := request.headers.get(name)) is not None}
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")

    def send() -> Response:
        where = urlsplit(address)
        kind = (
            http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
        )
        connection = kind(where.netloc, timeout=_PATIENCE)
        try:
            connection.request(request.method, path, body, headers | {FORWARDED: "1"})
            found = connection.getresponse()
            again = found.headers.get("Retry-After")
            return Response(
                found.read(),
                found.status,
                None if again is None else {"Retry-After": again},
                found.headers.get("Content-Type"),
            )
        finally:
            connection.close()

    try:
        return await run_in_threadpool(send)
    except (OSError, http.client.HTTPException):
        raise Problem(
            503,
            "worker-silent",
            "the worker that writes this stream does not answer; its streams move in a few seconds: try again then",
            {"Retry-After": "2"},
        ) from None
