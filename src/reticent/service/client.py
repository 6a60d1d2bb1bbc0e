"""A Python client for the service, with retries that cannot count a record twice.

Every request that changes a stream carries a key chosen before the first attempt, and every attempt sends the same
bytes: the service counts what it sees first and recognises repeats. So a lost answer, a restart or a busy service costs
time and nothing else. It uses the standard library's ``http.client``; requests and httpx were considered, and would add
dependencies to every machine that sends records.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from reticent.service.keys import new_key
from reticent.service.problems import Problem

LINES, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
BATCH = 1000
_AGAIN = (429, 502, 503, 504, 507)  # nothing was changed, and a later attempt may succeed
_LONGEST = 5.0  # seconds between two attempts
_SUMS = ("accepted", "repeated", "refused")


class Client:
    """A connection to ``reticent serve``.

    Parameters
    ----------
    url : str
        Address of the service, such as ``"http://127.0.0.1:8080"``.
    token : str, optional
        Token that authorises the requests. Default: the environment variable ``RETICENT_TOKEN``.
    patience : float
        Seconds for which a request is retried while the service cannot be reached or is busy.
    timeout : float
        Seconds for which one attempt waits for an answer.
    certificate : path, optional
        For ``https``: file with the certificate of an authority that this machine does not know.

    Notes
    -----
    Refusals by the service are raised as :class:`reticent.service.problems.Problem`, with the ``status``, ``name`` and
    ``detail`` of the answer. If no complete answer arrives within ``patience``, ``ConnectionError`` is raised: the
    request may have been counted, and sending it again with the same ids is safe. A client may be used by several
    threads, each of which has its own connection.


    Examples
    --------
    >>> import reticent
    >>> reticent.Client("http://127.0.0.1:8080", "ret_...")
    Client('http://127.0.0.1:8080')

    With a running service::

        client.create(
            name="visits", kind="logistic", schema=schema, budget={"epsilon": 1, "delta": 1e-6}
        )
        client.send("visits", [{"x": {"age": 40}, "y": True}])
        client.stream("visits")["decision"]
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        patience: float = 60.0,
        timeout: float = 30.0,
        certificate: str | os.PathLike[str] | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must be like http://host:8080, got {url!r}")
        for name, value, least in (("patience", patience, 0.0), ("timeout", timeout, 1e-3)):
            if not least <= value < float("inf"):
                raise ValueError(
                    f"{name} must be a number of seconds, at least {least:g}, got {value}"
                )
        token = os.environ.get("RETICENT_TOKEN", "") if token is None else token
        if not (token.isascii() and token.isprintable()):
            raise ValueError("token contains characters that no token has; copy it again")
        self.url, self.patience, self.timeout = url.rstrip("/"), float(patience), float(timeout)
        self._parts, self._token = parts, token
        self._context = None
        if parts.scheme == "https":
            self._context = ssl.create_default_context(cafile=certificate)
        self._local = threading.local()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close this thread's connection; the next request opens another."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    # Streams ---------------------------------------------------------------------------------------

    def create(
        self, specification: Mapping[str, Any] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Create a stream, which charges its ledger; repeating the call does nothing.

        Parameters
        ----------
        specification : mapping, optional
            Fields of the specification: ``name``, ``kind``, ``schema``, ``budget`` and options.
        **fields
            Fields as keywords, which override ``specification``. A schema or a budget may be a Reticent object.

        Returns
        -------
        dict
            The stream, as :meth:`stream` returns it.
        """
        found: dict[str, Any] = self.call(
            "POST", "/v1/streams", {**(specification or {}), **fields}
        )
        return found

    def streams(self) -> list[dict[str, Any]]:
        """Name, kind, steps and latest decision number of every stream that the token may read."""
        found: list[dict[str, Any]] = self.call("GET", "/v1/streams")["streams"]
        return found

    def stream(self, name: str) -> dict[str, Any]:
        """A stream, its latest decision and its guarantee.

        Parameters
        ----------
        name : str
            Name of the stream.

        Returns
        -------
        dict
            Among others ``steps``, ``decision``, ``decision_number`` and ``guarantee``.
        """
        found: dict[str, Any] = self.call("GET", _stream(name))
        return found

    def decision(self, name: str, number: int | str = "latest") -> dict[str, Any]:
        """A published decision, which never changes.

        Parameters
        ----------
        name : str
            Name of the stream.
        number : int or "latest"
            Number of the decision. Default: "latest".

        Returns
        -------
        dict
            ``decision_number``, ``steps``, ``decision`` and ``guarantee``.
        """
        found: dict[str, Any] = self.call("GET", f"{_stream(name)}/decisions/{number}")
        return found

    def send(
        self, name: str, records: Iterable[Mapping[str, Any]], *, batch: int = BATCH
    ) -> dict[str, Any]:
        """Send records, in batches, and return how many were counted.

        A record without an ``id`` gets a fresh key that is valid for this call. If the call itself may be repeated, for
        instance after a restart of the sending program, give ids that are the same each time.

        Parameters
        ----------
        name : str
            Name of the stream.
        records : iterable of mapping
            Each record has ``x`` (cells by column), ``y`` (target), and optionally ``id`` and ``person``.
        batch : int
            Number of records per request; a decision is published after each request.

        Returns
        -------
        dict
            How many records were ``accepted``, ``repeated`` and ``refused`` in all requests, and the
            ``decision_number`` and ``steps`` of the last one.
        """
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        total: dict[str, Any] = {}
        lines: list[bytes] = []

        def leave() -> None:
            answer = self.call("POST", _stream(name) + "/records", b"\n".join(lines), kind=LINES)
            total.update(answer | {one: total.get(one, 0) + answer[one] for one in _SUMS})
            lines.clear()

        for place, record in enumerate(records, 1):
            lines.append(_line(record, place))
            if len(lines) == batch:
                leave()
        if lines:
            leave()
        if not total:
            raise ValueError("records is empty: there is nothing to send")
        return total

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
            Name of the stream.
        table : pyarrow.Table, RecordBatch or bytes
            One column per column of the schema, including the target; or the bytes of an Arrow IPC stream.
        key : str, optional
            Key that identifies repeats of the whole batch. Default: a fresh key.
        producer : str, optional
            Instead of a key: name of a producer that numbers its batches.
        sequence : int, optional
            Number of the batch: one more than the producer's previous one.
        """
        headers = {"Idempotency-Key": key or new_key()}
        if producer is not None:
            headers = {"Reticent-Producer": producer, "Reticent-Sequence": str(sequence)}
        body = table if isinstance(table, bytes) else _arrow(table)
        found: dict[str, Any] = self.call(
            "POST", _stream(name) + "/records", body, kind=ARROW, headers=headers
        )
        return found

    def predict(
        self, name: str, records: Iterable[Mapping[str, Any]], number: int | None = None
    ) -> dict[str, Any]:
        """Predict with a published decision; the service does not store the records.

        Parameters
        ----------
        name : str
            Name of the stream.
        records : iterable of mapping
            Cells of each record by column, without the target.
        number : int, optional
            Number of the decision. Default: the latest.
        """
        body: dict[str, Any] = {"records": [dict(record) for record in records]}
        if number is not None:
            body["number"] = number
        found: dict[str, Any] = self.call("POST", _stream(name) + "/predict", body)
        return found

    def events(self, name: str, after: int | None = None) -> Iterator[dict[str, Any]]:
        """Decisions as they are published; after a broken connection, the next one continues where it stopped.

        Parameters
        ----------
        name : str
            Name of the stream.
        after : int, optional
            Start with the decision after this one. Default: start with the latest.

        Yields
        ------
        dict
            A decision, with its ``number`` and ``steps``.
        """
        heard = time.monotonic()
        while True:
            headers = {"Authorization": f"Bearer {self._token}", "Accept": "text/event-stream"}
            if after is not None:
                headers["Last-Event-ID"] = str(after)
            connection = self._connect()
            try:
                path = self._parts.path.rstrip("/") + _stream(name) + "/events"
                connection.request("GET", path, headers=headers)
                response = connection.getresponse()
                if response.status != 200:
                    if response.status not in _AGAIN or time.monotonic() - heard > self.patience:
                        _read(response.status, response.read())
                else:
                    for line in response:
                        heard = time.monotonic()
                        if line.startswith(b"data: ") and line.endswith(b"\n"):
                            found = json.loads(line[6:])
                            after = int(found["number"])
                            yield found
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() - heard > self.patience:
                    raise self._silent(error) from error
            finally:
                connection.close()
            time.sleep(random.uniform(0.1, 0.5))

    # Bandits ---------------------------------------------------------------------------------------

    def ask(self, name: str, key: str | None = None) -> dict[str, Any]:
        """The next point that a bandit plays, and its ticket.

        Parameters
        ----------
        name : str
            Name of the stream.
        key : str, optional
            Key of the request; repeating it returns the same point. Default: a fresh key that is valid for this call.
        """
        headers = {"Idempotency-Key": key or new_key()}
        found: dict[str, Any] = self.call("POST", _stream(name) + "/ask", headers=headers)
        return found

    def tell(
        self, name: str, ticket: int, value: float | None, person: str | int | None = None
    ) -> dict[str, Any]:
        """Report the loss of a point that was played.

        Parameters
        ----------
        name : str
            Name of the stream.
        ticket : int
            Ticket that :meth:`ask` returned with the point.
        value : float or None
            The loss, or None if it will never be known.
        person : str or int, optional
            Id of the person, if the stream protects persons.
        """
        body = {"ticket": ticket, "value": value} | ({} if person is None else {"person": person})
        found: dict[str, Any] = self.call("POST", _stream(name) + "/tell", body)
        return found

    # Before anything is spent ----------------------------------------------------------------------

    def estimate(self, specification: Mapping[str, Any]) -> dict[str, Any]:
        """What a stream would cost, and whether its ledger could pay; creates nothing.

        Parameters
        ----------
        specification : mapping
            Fields of the specification: ``name``, ``kind``, ``schema``, ``budget`` and options.
        """
        found: dict[str, Any] = self.call("POST", "/v1/estimate", specification)
        return found

    def dummy(self, specification: Mapping[str, Any], records: int = 1000) -> dict[str, Any]:
        """A dry run of a stream on made-up records of the same schema; creates nothing.

        Parameters
        ----------
        specification : mapping
            Fields of the specification: ``name``, ``kind``, ``schema``, ``budget`` and options.
        records : int

            Number of made-up records.
        """
        body = {**specification, "records": records}
        found: dict[str, Any] = self.call("POST", "/v1/dummy", body)
        return found

    # Ledgers ---------------------------------------------------------------------------------------

    def ledgers(self) -> list[dict[str, Any]]:
        """Budgets, what was charged to them, and what is left."""
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
        """Send one request, retry with the same bytes while that may help, and return the JSON of the answer.

        Parameters
        ----------
        method : str
            HTTP method, such as ``"GET"``.
        path : str
            Path, such as ``"/v1/streams"``.
        body : bytes or plain data, optional
            Bytes are sent unchanged, anything else as JSON.
        kind : str
            Content type of the body.
        headers : mapping of str to str, optional
            Further headers.
        """
        if body is not None and not isinstance(body, bytes):
            body = _encoded(body)
        sent = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if body is not None:
            sent["Content-Type"] = kind
        sent |= dict(headers or {})
        end, wait = time.monotonic() + self.patience, 0.05
        while True:
            pause = wait * random.uniform(
                0.5, 1.0
            )  # jitter, so that clients that waited together do not retry together
            try:
                status, data, asked = self._once(method, path, body, sent)
                pause = min(max(pause, asked), _LONGEST)
                if status not in _AGAIN or time.monotonic() + pause > end:
                    return _read(status, data)
            except ssl.SSLCertVerificationError:
                raise
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() + pause > end:
                    raise self._silent(error) from error
            time.sleep(pause)
            wait = min(2.0 * wait, _LONGEST)

    def _silent(self, error: Exception) -> ConnectionError:
        return ConnectionError(
            f"no answer from {self.url} within {self.patience:g} s ({error or type(error).__name__}); what was "
            "sent may have been counted, and sending it again under the same ids is safe"
        )

    def _once(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes, float]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
        try:
            connection.request(method, self._parts.path.rstrip("/") + path, body, headers)
            response = connection.getresponse()
            # http.client mistakes an answer that was cut off within its headers for one without a body
            if not response.headers.get("Content-Length", "").isdigit() and not response.chunked:
                raise http.client.HTTPException("the answer was cut short")
            data = response.read()
        except BaseException:
            self.close()  # the rest of an answer may still be on its way
            raise
        asked = response.headers.get("Retry-After", "")
        return response.status, data, float(asked) if asked.isdigit() else 0.0

    def _connect(self) -> http.client.HTTPConnection:
        host, port = str(self._parts.hostname), self._parts.port
        if self._context is not None:
            return http.client.HTTPSConnection(
                host, port, timeout=self.timeout, context=self._context
            )
        return http.client.HTTPConnection(host, port, timeout=self.timeout)


def _stream(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(f"name must be the name of a stream, got {name!r}")
    return "/v1/streams/" + quote(name, safe="")


def _line(record: Mapping[str, Any], place: int) -> bytes:
    if not isinstance(record, Mapping) or "x" not in record:
        raise ValueError(f"record {place} must be a mapping with 'x', the cells by column")
    return _encoded(record if record.get("id") is not None else {**record, "id": new_key()})


def _encoded(data: Any) -> bytes:
    try:
        return json.dumps(data, allow_nan=False, separators=(",", ":"), default=_plain).encode()
    except ValueError:
        raise ValueError(
            "a number is NaN or infinite, which JSON cannot carry; send None for a missing cell"
        ) from None


def _plain(value: Any) -> Any:
    """Convert schemas, budgets, and NumPy's numbers and arrays to plain data."""
    for method in ("to_dict", "tolist"):
        if hasattr(value, method):
            return getattr(value, method)()
    if hasattr(value, "__dataclass_fields__"):
        return {name: part for name, part in vars(value).items() if part is not None}
    raise TypeError(f"a value of type {type(value).__name__} cannot be sent as JSON")


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
    found: Any = None
    with contextlib.suppress(ValueError):
        found = json.loads(data)
    if 200 <= status < 300 and found is not None:
        return found
    if not isinstance(found, dict) or "detail" not in found:
        raise Problem(
            status,
            "not-the-service",
            "the answer is not that of a Reticent service; check the address",
        )
    name = str(found.get("type", "")).removeprefix("urn:reticent:") or "failed"
    raise Problem(status, name, str(found["detail"]))
