"""Sign in from a browser: a token is exchanged for a cookie that scripts cannot read and other sites cannot use.

The cookie contains the id of the token and an expiry time, under a keyed hash. It is not the token: anyone who reads it
from a disk can use it for half a day at most. The server stores nothing, so a restart signs nobody out, and revoking a
token or its expiry ends its cookies at once.

A browser sends cookies automatically, so a request that changes something must come from this page (``Origin``).
``SameSite=Strict`` keeps the cookie from other sites, but other ports of one host are the same site.
"""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from starlette.requests import Request

from reticent.service.keys import Keys
from reticent.service.problems import Problem

COOKIE = "reticent-session"
LASTS = 12 * 3600
"""Seconds for which a cookie is valid."""
_SAFE = ("GET", "HEAD")


def cookie(keys: Keys, token: str, now: float) -> str:
    """The cookie for a token, which is identified by its id."""
    body = f"{token}.{int(now) + LASTS}"
    return f"{body}.{keys.sign(body.encode()).hex()}"


def token_of(keys: Keys, given: str, now: float) -> str:
    """The id of the token of a cookie; refused if the cookie was not made here, or has expired."""
    body, _, mark = given.rpartition(".")
    token, _, until = body.rpartition(".")
    right = hmac.compare_digest(keys.sign(body.encode()).hex(), mark) if mark.isascii() else False
    if not right or not until.isdigit():
        raise _over("this browser's cookie was not made by this service")
    if int(until) <= now:
        raise _over(f"you were signed in for {LASTS // 3600} hours, which are over")
    return token


def header(request: Request, value: str | None) -> dict[str, str]:
    """The header that sets the cookie; None removes it. The cookie ends with the browser session at the latest."""
    secure = "; Secure" if request.url.scheme == "https" else ""
    end = "" if value else "; Max-Age=0"
    words = f"{COOKIE}={value or ''}; Path=/; HttpOnly; SameSite=Strict{secure}{end}"
    return {"Set-Cookie": words, "Cache-Control": "no-store"}


def check_origin(request: Request, *, signed_in: bool = True) -> None:
    """Refuse a request that another page made the browser send."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    foreign = site not in (None, "same-origin", "none")
    if origin is not None:
        foreign |= urlsplit(origin).netloc != request.headers.get("host")
    elif signed_in and request.method not in _SAFE:
        foreign = True
    if foreign:
        raise Problem(
            403,
            "foreign-origin",
            "this request was sent by a page of another origin, and nothing was changed; open the service's own page",
        )


def _over(why: str) -> Problem:
    return Problem(401, "session-over", f"{why}; sign in again", {"WWW-Authenticate": "Bearer"})
