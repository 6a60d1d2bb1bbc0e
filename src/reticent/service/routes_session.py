"""Routes for the web page: its files, signing in and out, and who is calling."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response

from reticent.service import session
from reticent.service.problems import Problem
from reticent.service.tokens import ALLOWED, Caller
from reticent.service.web import Service, answer
from reticent.version import __version__

# The page consists of its own files only: no inline script, none from elsewhere, and none made from text.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@cache
def files() -> dict[str, bytes]:
    """The files of the page, by name."""
    folder = resources.files("reticent.service").joinpath("page")
    found = ((item.name, item) for item in folder.iterdir())
    return {name: item.read_bytes() for name, item in found if name.rpartition(".")[2] in _KINDS}


async def page(service: Service, request: Request) -> Response:
    name = str(request.path_params.get("file", "index.html"))
    body = files().get(name)
    if body is None:
        raise Problem(404, "unknown-address", "the page has no such file; it begins at /")
    mark = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    headers = _HEADERS | {"ETag": mark}
    if request.headers.get("if-none-match") == mark:
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, _KINDS[name.rpartition(".")[2]])


def _view(caller: Caller) -> dict[str, object]:
    return {
        "id": caller.id,
        "role": caller.role,
        "label": caller.label,
        "streams": None if caller.streams is None else sorted(caller.streams),
        "expires": caller.expires,
        "may": sorted(action for action, roles in ALLOWED.items() if caller.role in roles),
        "version": __version__,
    }


async def sign_in(service: Service, request: Request) -> Response:
    session.check_origin(request, signed_in=False)
    asked = await service.json(request)
    token = asked.get("token")
    if set(asked) != {"token"} or not isinstance(token, str) or not token.strip():
        raise Problem(422, "bad-session", 'send {"token": "ret_..."}, and nothing else')
    now = service.engine.clock()
    caller = service.tokens.caller(f"Bearer {token.strip()}", now)
    made = session.cookie(service.keys, caller.id, now)
    return answer(_view(caller), 200, session.header(request, made))


async def who(service: Service, request: Request) -> Response:
    return answer(_view(service.caller(request, "list")))


async def sign_out(service: Service, request: Request) -> Response:
    session.check_origin(request, signed_in=False)
    return answer({"signed_out": True}, 200, session.header(request, None))
