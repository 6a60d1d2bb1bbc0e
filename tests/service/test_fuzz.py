"""Requests that nobody would send: made from the service's own description, and made by hand."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from .running import Service, records, specification

schemathesis = pytest.importorskip("schemathesis", reason="the fuzzing needs schemathesis")


@pytest.fixture(scope="module")
def service(
    store: Callable[[], str | None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service of its own: whatever may be sent is sent to it."""
    made = Service(tmp_path_factory.mktemp("fuzzed") / "data", "--log", "error", database=store())
    yield made
    made.kill()


@schemathesis.serializer("application/x-ndjson", "application/vnd.apache.arrow.stream")
def _as_it_is(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


EXTREMES: list[bytes] = [
    b"", b"null", b"[]", b"{}", b"0", b'"', b"\x00", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 5000, b"1e999", b"NaN",
    b'{"name": "\\ud800", "kind": "logistic"}', b"-" * 1000, json.dumps({"name": "x" * 10_000}).encode(),
]  # fmt: skip
CELLS: list[Any] = [
    1.797e308, -1.797e308, 5e-324, 2**63, -(2**200), True, None, "", "nan", "inf", "1", [], {}, "\ud800", "a\x00b",
]  # fmt: skip


def ask(
    service: Service, method: str, path: str, body: bytes | None, kind: str
) -> tuple[int, bytes]:
    """One request as it is, without the client's care."""
    connection = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=60)
    try:
        headers = {"Authorization": f"Bearer {service.token}", "Content-Type": kind}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_the_description_fuzzed(service: Service) -> None:
    description = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    headers = {"Authorization": f"Bearer {service.token}"}
    tried = 0
    for found in description.get_all_operations():
        operation = found.ok()
        if operation.path.endswith("/events"):
            continue  # its answer has no end

        @settings(
            max_examples=8, deadline=None, derandomize=True, database=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(operation.as_strategy())
        def probe(case: Any) -> None:
            answer = case.call(base_url=service.url, headers=headers)
            assert answer.status_code < 500, (case.method, case.path, answer.text)
            kind = "application/json" if answer.status_code < 400 else "application/problem+json"
            if case.path != "/metrics" or answer.status_code >= 400:  # which is text
                assert answer.headers["content-type"] == [kind]

        probe()
        tried += 1
    assert tried > 15


def test_bodies_made_by_hand(service: Service) -> None:
    client = service.client()
    client.create(specification("fuzzed", seed=1))
    client.send("fuzzed", records(0, 5))
    before = client.decision("fuzzed")
    description = client.call("GET", "/openapi.json")
    places = [
        path.replace("{name}", "fuzzed")
        for path, ways in description["paths"].items()
        if "post" in ways
    ]
    for path in places:
        for body in EXTREMES:
            for kind in (
                "application/json",
                "application/x-ndjson",
                "application/vnd.apache.arrow.stream",
                "text/x",
            ):
                if path.endswith(("/ask", "/close")):  # they take no body
                    continue
                status, answer = ask(service, "POST", path, body, kind)
                assert 400 <= status < 500, (path, body[:40], kind, status, answer[:200])
                assert json.loads(answer)["detail"]
    assert client.decision("fuzzed") == before


@pytest.mark.parametrize("cell", CELLS)
def test_cells_at_the_extremes(service: Service, cell: Any) -> None:
    client = service.client()
    client.create(specification("extremes", seed=1))
    steps = client.stream("extremes")["steps"]
    lines = [
        {"id": f"{cell!r}-a", "x": {"a": cell, "b": 0.0}, "y": True},
        {"id": f"{cell!r}-y", "x": {"a": 0.0, "b": 0.0}, "y": cell},
        {"id": cell, "x": {"a": 0.0, "b": 0.0}, "y": False},
        {"id": f"{cell!r}-p", "x": {"a": 0.0, "b": 0.0}, "y": False, "person": cell},
    ]
    for line in lines:
        status, answer = ask(
            service, "POST", "/v1/streams/extremes/records", json.dumps(line).encode(), "application/x-ndjson"
        )  # fmt: skip
        assert status in (200, 409, 422), (line, status, answer)
        steps += json.loads(answer).get("accepted", 0)
    found = client.stream("extremes")
    assert found["steps"] == steps
    assert all(abs(value) < 1e6 for row in found["decision"]["coefficients"] for value in row)
