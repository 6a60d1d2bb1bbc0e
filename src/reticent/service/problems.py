"""The answer of the service when it refuses: a status, a short name and one sentence that says what to do.

The sentence is sent to the client and logged, so it never quotes a cell of a record, a key or a token.
"""

from __future__ import annotations

from typing import Any


class Problem(Exception):
    """A request that is refused; it has changed nothing.

    Parameters
    ----------
    status : int
        HTTP status.
    name : str
        Short name of the problem, stable across versions, such as ``"unknown-stream"``.
    detail : str
        One sentence: what is wrong, and what to do about it.
    headers : dict of str to str, optional
        Further headers of the answer, such as ``Retry-After``.


    Examples
    --------
    >>> Problem(
    ...     404, "unknown-stream", "there is no stream 'a'; POST /v1/streams creates one"
    ... ).body()["status"]
    404
    """

    def __init__(
        self, status: int, name: str, detail: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.name, self.detail = status, name, " ".join(detail.split())
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        """The body of the answer, in the format of RFC 9457."""
        return {
            "type": f"urn:reticent:{self.name}",
            "title": self.name.replace("-", " "),
            "status": self.status,
            "detail": self.detail,
        }


def refused(error: Exception, name: str = "not-allowed") -> Problem:
    """A Problem with the text of an exception of the library."""
    return Problem(422, name, str(error))
