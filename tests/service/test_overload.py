"""More than the service can do is refused early, with a time, and what waits is bounded in number and in bytes."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette", reason="the service needs its extra")

from reticent.service import engine as engines
from reticent.service.engine import Engine
from reticent.service.problems import Problem
from reticent.service.sealing import Ring
from reticent.service.sqlite import SqliteStore

from .running import Service, records, specification


class _Slow:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def apply(self, turn: Any) -> str:
        time.sleep(self.seconds)
        return "done"


@pytest.fixture
def engine(tmp_path: Path) -> Any:
    store = SqliteStore(tmp_path / "service.sqlite")
    made = Engine(store, Ring([bytes(32)]))
    yield made
    made.stop()
    store.close()


def test_whoever_would_wait_too_long_is_told_when_to_come_back(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_PATIENCE", 0.5)
    for _ in range(10):  # it learns what a command takes
        engine.call(_Slow(0.05))
    answered: list[Any] = []
    refused = None
    for _ in range(1000):
        try:
            engine.submit(_Slow(0.05), lambda answer, error: answered.append((answer, error)))
        except Problem as problem:
            refused = problem
            break
    assert refused is not None
    assert refused.status == 429
    assert refused.name == "too-busy"
    assert int(refused.headers["Retry-After"]) >= 1
    # half a second holds ten commands of 0.05 s; the first two or three groups take some of them at once
    waiting = engine.waiting()
    assert 5 <= waiting <= 15
    end = time.monotonic() + 30
    while engine.waiting() and time.monotonic() < end:
        time.sleep(0.05)
    engine.call(_Slow(0.0))
    assert len(answered) >= waiting  # what was taken is done
    assert all(pair == ("done", None) for pair in answered)


def test_no_more_commands_wait_than_there_may_be(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()

    class _Gate:
        def apply(self, turn: Any) -> None:
            gate.wait(30)

    engine.submit(_Gate(), lambda answer, error: None)
    while engine.waiting():
        time.sleep(0.01)
    for _ in range(engines._WAITING):
        engine.submit(_Slow(0.0), lambda answer, error: None)
    with pytest.raises(Problem) as caught:
        engine.submit(_Slow(0.0), lambda answer, error: None)
    assert caught.value.status == 429
    assert "Retry-After" in caught.value.headers
    gate.set()


def test_bytes_that_wait_are_bounded(tmp_path: Path) -> None:
    limit = 100_000
    service = Service(tmp_path / "data", "--limit", str(limit), wait=False)
    client = service.client(patience=0)
    client.create(specification("narrow"))
    where = urlsplit(service.url)
    head = (
        f"POST /v1/streams/narrow/records HTTP/1.1\r\nHost: {where.netloc}\r\n"
        f"Authorization: Bearer {service.token}\r\nContent-Type: application/x-ndjson\r\n"
        f"Content-Length: {limit}\r\n\r\n"
    ).encode()
    slow = []
    for _ in range(4):  # all but the last bytes of four bodies
        connection = socket.create_connection((where.hostname, where.port))
        connection.sendall(head + b"x" * (limit - 10))
        slow.append(connection)
    waits(service, 4 * (limit - 10))
    with pytest.raises(Problem, match="bytes are waiting") as caught:
        client.send("narrow", records(0, 3))
    assert caught.value.status == 429
    assert client.stream("narrow")["steps"] == 0  # reading goes on
    for connection in slow:
        connection.close()
    waits(service, 0)
    assert client.send("narrow", records(0, 3))["accepted"] == 3
    service.kill()


def waits(service: Service, size: int) -> None:
    """Wait until so many bytes wait, as a monitor sees them."""
    end = time.monotonic() + 60
    found = b""
    while b"\nreticent_bytes_waiting %d\n" % size not in found:
        assert time.monotonic() < end, found
        time.sleep(0.05)
        asked = urllib.request.Request(f"{service.url}/metrics")
        asked.add_header("Authorization", f"Bearer {service.token}")
        with urllib.request.urlopen(asked, timeout=30) as answer:
            found = answer.read()
