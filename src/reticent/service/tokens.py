"""Tokens and roles: who may do what. Only hashes of tokens are stored.

A token is 32 random bytes, so a plain SHA-256 hash of it cannot be inverted; slow hashes are for passwords.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from dataclasses import dataclass

from reticent.service.problems import Problem
from reticent.service.store import TokenRow

ROLES = ("writer", "reader", "data holder", "administrator")
_PREFIX = "ret_"

# The permission of each route, and the roles that have it. An administrator runs the service and reads what the
# guarantee covers; what reads private data is for the data holder only.
ALLOWED: dict[str, tuple[str, ...]] = {
    "send": ("writer", "administrator"),
    "read": ("reader", "data holder", "administrator"),
    "list": ROLES,
    "ledgers": ("reader", "data holder", "administrator"),
    "plan": ROLES,
    "inspect": ("data holder",),
    "fit": ("data holder", "administrator"),
    "watch": ("reader", "data holder", "administrator"),
    "administer": ("administrator",),
}


@dataclass(frozen=True)
class Caller:
    """The sender of a request."""

    id: str
    role: str
    streams: frozenset[str] | None
    label: str = ""
    expires: float | None = None

    def may(self, action: str, stream: str | None = None) -> bool:
        """Whether the caller may do this, on one stream if the action is about one."""
        granted = stream is None or self.streams is None or stream in self.streams
        return self.role in ALLOWED[action] and granted

    def check(self, action: str, stream: str | None = None) -> None:
        """Refuse the action if it is not allowed."""
        if self.role not in ALLOWED[action]:
            raise Problem(
                403,
                "role-not-allowed",
                f"a token of the role {self.role!r} may not do this; it needs one of the role "
                f"{' or '.join(repr(role) for role in ALLOWED[action])}",
            )
        if not self.may(action, stream):
            raise Problem(
                403,
                "stream-not-granted",
                "this token is not for this stream; ask an administrator for one that is",
            )


def new_token() -> str:
    """A fresh token."""
    return _PREFIX + secrets.token_urlsafe(32)


def hashed(token: str) -> bytes:
    """The hash of a token, which is stored in its place."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class KnownTokens:
    """The known tokens; read at start, and again whenever they change."""

    def __init__(self, rows: list[TokenRow]) -> None:
        self.load(rows)

    def load(self, rows: list[TokenRow]) -> None:
        """Replace the known tokens."""
        found = [(row, _caller(row)) for row in rows]
        self._by_hash = {row.hash: caller for row, caller in found}
        self._by_id = {row.id: caller for row, caller in found}

    def caller(self, header: str | None, now: float) -> Caller:
        """The caller with this ``Authorization`` header."""
        scheme, _, token = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise _unknown("send a token: Authorization: Bearer TOKEN")
        return self._known(self._by_hash.get(hashed(token.strip())), now)

    def by_id(self, identity: str, now: float) -> Caller:
        """The caller who signed in with the token of this id."""
        return self._known(self._by_id.get(identity), now)

    def _known(self, found: Caller | None, now: float) -> Caller:
        if found is None:
            raise _unknown(
                "this token is not known, or was revoked; ask an administrator for another"
            )
        if found.expires is not None and found.expires <= now:
            raise _unknown("this token has expired; ask an administrator for another")
        return found


def _caller(row: TokenRow) -> Caller:
    streams = None if row.streams is None else frozenset(row.streams)
    return Caller(row.id, row.role, streams, row.label, row.expires)


class Limiter:
    """Rate limits per token: a bucket that fills at a rate and holds two seconds of it.

    Parameters
    ----------
    rate : float
        Requests per second and token; 0 is unlimited.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._buckets: dict[str, tuple[float, float]] = {}

    def check(self, token: str) -> None:
        """Count a request, or refuse it."""
        if self._rate <= 0.0:
            return
        now, most = time.monotonic(), max(1.0, 2.0 * self._rate)
        left, before = self._buckets.get(token, (most, now))
        left = min(most, left + (now - before) * self._rate)
        if left < 1.0:
            self._buckets[token] = (left, now)
            wait = math.ceil((1.0 - left) / self._rate)
            raise Problem(
                429,
                "too-many-requests",
                f"this token may send {self._rate:g} requests per second; send more records in each",
                {"Retry-After": str(wait)},
            )
        self._buckets[token] = (left - 1.0, now)


def _unknown(detail: str) -> Problem:
    return Problem(401, "not-authorised", detail, {"WWW-Authenticate": "Bearer"})
