"""The client against a real service, behind a network that loses, repeats and cuts, and without one."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest

import reticent
from reticent import Budget, Client
from reticent.service.problems import Problem
from reticent.tables import Schema

from .running import SCHEMA, Service, records, specification


class Network:
    """A proxy that loses half of the answers, after the service has them, and cuts some requests."""

    def __init__(self, url: str, seed: int) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._to, self._dice = (host, int(port)), random.Random(seed)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.lost = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        service = socket.create_connection(self._to)
        threading.Thread(target=self._flow, args=(client, service, 0.05), daemon=True).start()
        self._flow(service, client, 0.3)

    def _flow(self, source: socket.socket, to: socket.socket, share: float) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self._dice.random() < share:
                    to.sendall(data[: self._dice.randrange(len(data))])
                    self.lost += 1
                    break
                to.sendall(data)
        for end in (source, to):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def network(service: Service) -> Iterator[Network]:
    made = Network(service.url, 3)
    yield made
    made.close()


def test_what_a_network_loses_is_sent_again_and_counted_once(
    service: Service, network: Network
) -> None:
    client = Client(network.url, service.token)
    made = client.create(specification("lossy", seed=5))
    assert made["steps"] == 0
    fresh = [{key: record[key] for key in ("x", "y")} for record in records(0, 36)]
    sent = client.send("lossy", fresh, batch=3)
    assert network.lost > 2
    assert sent["accepted"] + sent["repeated"] == 36
    assert sent["refused"] == 0
    assert (sent["steps"], sent["decision_number"]) == (36, 12)
    found = service.client().stream("lossy")
    assert (found["steps"], found["decision_number"]) == (36, 12)
    # nothing was counted twice or out of turn: the library says the same of the same records
    model = reticent.OnlineLogisticRegression(
        epsilon=1.0, delta=1e-6, window=64, feature_norm=2**0.5, classes=["false", "true"], random_state=5,
    )  # fmt: skip
    X = np.array([[record["x"]["a"], record["x"]["b"]] for record in fresh])
    model.partial_fit(X, [str(record["y"]).lower() for record in fresh])
    assert found["decision"]["coefficients"] == np.atleast_2d(model.coef_).tolist()


def test_objects_of_the_library_can_be_sent(service: Service) -> None:
    client = service.client()
    budget = Budget(1.0, 1e-6, window=64)
    made = client.create(
        name="objects", kind="logistic", schema=Schema.from_dict(SCHEMA), budget=budget
    )
    again = client.create(specification("objects"))
    assert made["created"] == again["created"]
    x = {"a": np.float64(0.5), "b": np.int64(1)}
    assert client.send("objects", [{"x": x, "y": np.bool_(True)}])["accepted"] == 1
    assert [one["name"] for one in client.streams()].count("objects") == 1
    assert client.decision("objects", 1)["steps"] == 1
    assert client.decision("objects")["decision_number"] == 1
    assert "objects" in [one["name"] for one in client.ledgers()]


def test_refusals_come_as_problems(service: Service) -> None:
    client = service.client()
    with pytest.raises(Problem, match="no stream") as caught:
        client.stream("nowhere")
    assert (caught.value.status, caught.value.name) == (404, "unknown-stream")
    with pytest.raises(Problem) as caught:
        service.client("ret_wrong").streams()
    assert caught.value.status == 401


def test_bad_arguments_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(ValueError, match="url must be"):
        Client("127.0.0.1:8080")
    with pytest.raises(ValueError, match="patience"):
        Client("http://127.0.0.1:1", patience=float("nan"))
    with pytest.raises(ValueError, match="token"):
        Client("http://127.0.0.1:1", "a\r\nHost: b")
    client = Client("http://127.0.0.1:1", "t", patience=0)
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="JSON cannot carry"):
            client.send("s", [{"x": {"a": value}, "y": True}])
    with pytest.raises(ValueError, match="'x'"):
        client.send("s", [{"a": 1}])
    with pytest.raises(ValueError, match="empty"):
        client.send("s", [])
    with pytest.raises(ValueError, match="batch"):
        client.send("s", records(0, 1), batch=0)
    with pytest.raises(ValueError, match="name"):
        client.stream("")
    with pytest.raises(ConnectionError, match="safe"):
        client.streams()


def test_another_server_is_not_taken_for_the_service() -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(Problem, match="check the address"):
            Client(f"http://127.0.0.1:{server.server_port}", "t").streams()
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_a_restart_is_waited_for(tmp_path: Path) -> None:
    service = Service(tmp_path / "data")
    port = service.url.rpartition(":")[2]
    client = service.client()
    client.create(specification("waits"))
    client.send("waits", records(0, 5))
    service.kill()
    answers: list[dict[str, object]] = []
    sender = threading.Thread(target=lambda: answers.append(client.send("waits", records(5, 5))))
    sender.start()
    service._options = ("--port", port)
    service.start()
    sender.join(60)
    assert answers
    assert (answers[0]["accepted"], answers[0]["steps"]) == (5, 10)
    service.kill()
