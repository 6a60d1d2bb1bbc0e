"""A client in Python: the verbs of the service, with retries that cannot count a record twice.

The standard library's HTTP client is enough, so a sender needs nothing but this package. Every request that changes
something carries keys, by which the service knows a repeat again; so whatever is lost on the way is sent again.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from reticent.service.keys import new_key
from reticent.service.problems import Problem

_AGAIN = (429, 502, 503, 504)


class Client:
    """A connection to `reticent serve`.

    Parameters
    ----------
    url : str
        Where the service listens, such as ``"http://127.0.0.1:8080"``.
    token : str
        What it is allowed to do.
    timeout : float
        Seconds to wait for an answer before it is asked for again.
    attempts : int
        How often a request is sent before its error is raised.
    context : ssl.SSLContext, optional
        For ``https`` with certificates of one's own.

    Notes
    -----
    What the service refuses is raised as a :class:`reticent.service.problems.Problem`, whose ``status``, ``name``
    and ``detail`` are those of the answer. One client may be used by several threads, each of which has a
    connection of its own.

    Examples
    --------
    ::

        client = reticent.Client("http://127.0.0.1:8080", token)
        client.create({"name": "visits", "kind": "logistic", "schema": schema, "budget": budget})
        client.send("visits", [{"x": {"age": 40}, "y": True}])
        client.predict("visits", [{"age": 30}])
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 30.0,
        attempts: int = 5,
        context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must be like http://host:8080, got {url!r}")
        self._parts, self._token, self._context = parts, token, context
        self.timeout, self.attempts = timeout, max(1, attempts)
        self._local = threading.local()

    # Verbs -----------------------------------------------------------------------------------------

    def create(self, specification: Mapping[str, Any]) -> dict[str, Any]:
        """Create a stream, or find that it is there with the same specification."""
        return self.call("POST", "/v1/streams", specification)

    def streams(self) -> list[dict[str, Any]]:
        """Name, kind and number of steps of every stream that the token is for."""
        found: list[dict[str, Any]] = self.call("GET", "/v1/streams")["streams"]
        return found

    def stream(self, name: str) -> dict[str, Any]:
        """A stream, its latest decision and its guarantee."""
        return self.call("GET", f"/v1/streams/{quote(name, safe='')}")

    def decision(self, name: str, number: int | str = "latest") -> dict[str, Any]:
        """A published decision."""
        return self.call("GET", f"/v1/streams/{quote(name, safe='')}/decisions/{number}")

    def send(self, name: str, records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Send records; each ``{"x": {...}, "y": ...}``, with an ``id`` of its own or one that is made here.

        Parameters
        ----------
        name : str
            The stream.
        records : iterable of mapping
            One request: a decision is published after the last of them.

        Returns
        -------
        dict
            How many were accepted, repeated and refused, and the number of the decision.
        """
        lines = (
            json.dumps(record if "id" in record else {"id": new_key(), **record})
            for record in records
        )
        body = "\n".join(lines).encode()
        path = f"/v1/streams/{quote(name, safe='')}/records"
        return self.call("POST", path, body, kind="application/x-ndjson")

    def send_arrow(
        self,
        name: str,
        table: Any,
        *,
        key: str | None = None,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> dict[str, Any]:
        """Send records as one Arrow batch, which is faster than JSON lines.

        Parameters
        ----------
        name : str
            The stream.
        table : pyarrow.Table, RecordBatch or bytes
            One column for each of the schema, the target included; or the bytes of an Arrow IPC stream.
        key : str, optional
            By which a repeat of the whole batch is known again; one is made if none is given.
        producer : str, optional
            In place of a key: who numbers its batches.
        sequence : int, optional
            The number of the batch: one more than that of the producer's last.
        """
        headers = {}
        if producer is not None:
            headers = {"Reticent-Producer": producer, "Reticent-Sequence": str(sequence)}
        else:
            headers = {"Idempotency-Key": key or new_key()}
        body = table if isinstance(table, bytes) else _arrow(table)
        path = f"/v1/streams/{quote(name, safe='')}/records"
        return self.call(
            "POST", path, body, kind="application/vnd.apache.arrow.stream", headers=headers
        )

    def predict(
        self, name: str, records: Sequence[Mapping[str, Any]], number: int | None = None
    ) -> dict[str, Any]:
        """What a published decision predicts.

        Parameters
        ----------
        name : str
            The stream.
        records : sequence of mapping
            The cells of each column, by name.
        number : int, optional
            Which decision; by default the latest.
        """
        body: dict[str, Any] = {"records": list(records)}
        if number is not None:
            body["number"] = number
        return self.call("POST", f"/v1/streams/{quote(name, safe='')}/predict", body)

    def ask(self, name: str, key: str | None = None) -> dict[str, Any]:
        """The next point of a bandit, and its ticket; the same again for the same key."""
        headers = {"Idempotency-Key": key or new_key()}
        return self.call("POST", f"/v1/streams/{quote(name, safe='')}/ask", headers=headers)

    def tell(self, name: str, ticket: int, value: float | None) -> dict[str, Any]:
        """The loss of a point that was played, or None if there will be none."""
        body = {"ticket": ticket, "value": value}
        return self.call("POST", f"/v1/streams/{quote(name, safe='')}/tell", body)

    def estimate(self, specification: Mapping[str, Any]) -> dict[str, Any]:
        """What a stream would cost, and whether its ledger could pay; nothing is created."""
        return self.call("POST", "/v1/estimate", specification)

    def dummy(self, specification: Mapping[str, Any], records: int = 1000) -> dict[str, Any]:
        """A dry run of a stream on made-up records; nothing is created."""
        return self.call("POST", "/v1/dummy", {**specification, "records": records})

    def events(self, name: str, after: int | None = None) -> Iterator[dict[str, Any]]:
        """Decisions as they are published, from the latest on or from the one after ``after``.

        The connection is opened anew whenever it breaks, and no decision is left out.
        """
        attempt = 0
        while True:
            headers = {"Authorization": f"Bearer {self._token}", "Accept": "text/event-stream"}
            if after is not None:
                headers["Last-Event-ID"] = str(after)
            connection = self._connect()
            try:
                path = f"/v1/streams/{quote(name, safe='')}/events"
                connection.request("GET", self._parts.path.rstrip("/") + path, headers=headers)
                response = connection.getresponse()
                if response.status != 200:
                    _read(response.status, response.read())
                attempt = 0
                for line in response:
                    if line.startswith(b"data: "):
                        found = json.loads(line[6:])
                        after = int(found["number"])
                        yield found
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            attempt += 1
            if attempt >= self.attempts:
                raise ConnectionError(f"the service at {self._parts.geturl()} cannot be reached")
            time.sleep(min(2.0, 0.1 * 2**attempt))

    def ledgers(self) -> list[dict[str, Any]]:
        """Budgets, what was charged to them and what is left."""
        found: list[dict[str, Any]] = self.call("GET", "/v1/ledgers")["ledgers"]
        return found

    # Requests --------------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send one request, again if its answer is lost, and return the answer's JSON.

        Parameters
        ----------
        method : str
            Such as ``"GET"``.
        path : str
            Such as ``"/v1/streams"``.
        body : bytes or plain data, optional
            Bytes are sent as they are, anything else as JSON.
        kind : str
            The body's content type.
        headers : mapping of str to str, optional
            Further headers.
        """
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if body is not None:
            sent["Content-Type"] = kind
        sent |= dict(headers or {})
        for attempt in range(self.attempts):
            last = attempt + 1 == self.attempts
            try:
                status, data, wait = self._once(method, path, body, sent)
            except (TimeoutError, OSError, http.client.HTTPException):
                self.close()
                if last:
                    raise
                time.sleep(min(2.0, 0.1 * 2**attempt))
                continue
            if status in _AGAIN and not last:
                time.sleep(wait if wait is not None else min(2.0, 0.1 * 2**attempt))
                continue
            return _read(status, data)
        raise AssertionError("there is at least one attempt")

    def _once(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes, float | None]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
        connection.request(method, self._parts.path.rstrip("/") + path, body, headers)
        response = connection.getresponse()
        data = response.read()
        wait = response.headers.get("Retry-After")
        return response.status, data, float(wait) if wait and wait.isdigit() else None

    def _connect(self) -> http.client.HTTPConnection:
        host, port = str(self._parts.hostname), self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(
                host, port, timeout=self.timeout, context=self._context
            )
        return http.client.HTTPConnection(host, port, timeout=self.timeout)

    def close(self) -> None:
        """Close this thread's connection; the next request opens another."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def __repr__(self) -> str:
        return f"Client({self._parts.geturl()!r})"


def _arrow(table: Any) -> bytes:
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    body: bytes = out.getvalue().to_pybytes()
    return body


def _read(status: int, data: bytes) -> Any:
    try:
        found = json.loads(data)
    except ValueError:
        raise Problem(
            status, "not-the-service", "the answer is not JSON; is this a Reticent service?"
        ) from None
    if status >= 400:
        name = str(found.get("type", "")).removeprefix("urn:reticent:") or "failed"
        raise Problem(status, name, str(found.get("detail", "")))
    return found
