"""Who may do what, and that nothing leaves by any route or file that the guarantee does not cover."""

from __future__ import annotations

import http.client
import json
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from reticent.service import app, openapi, persons
from reticent.service.packing import unpack
from reticent.service.problems import Problem
from reticent.service.sealing import Ring, state_place
from reticent.service.sqlite import SqliteStore

from .running import Service, records, specification

W, R, H, A = "writer", "reader", "data holder", "administrator"
OPEN = {W, R, H, A, None}
# Written down again, on purpose: a change of the service's own table must be made here as well.
WHO: dict[tuple[str, str], set[str | None]] = {
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/openapi.json"): OPEN,
    ("GET", "/metrics"): {R, H, A},
    ("GET", "/v1/streams"): {W, R, H, A},
    ("POST", "/v1/streams"): {A},
    ("GET", "/v1/streams/{name}"): {R, H, A},
    ("POST", "/v1/streams/{name}/records"): {W, A},
    ("GET", "/v1/streams/{name}/decisions"): {R, H, A},
    ("GET", "/v1/streams/{name}/decisions/{number}"): {R, H, A},
    ("POST", "/v1/streams/{name}/predict"): {R, H, A},
    ("POST", "/v1/streams/{name}/ask"): {W, A},
    ("POST", "/v1/streams/{name}/tell"): {W, A},
    ("GET", "/v1/streams/{name}/events"): {R, H, A},
    ("GET", "/v1/streams/{name}/guarantee"): {R, H, A},
    ("GET", "/v1/streams/{name}/diagnostics"): {H},
    ("GET", "/v1/events"): {W, R, H, A},
    ("POST", "/v1/estimate"): {W, R, H, A},
    ("POST", "/v1/dummy"): {W, R, H, A},
    ("GET", "/v1/ledgers"): {R, H, A},
    ("POST", "/v1/ledgers"): {A},
    ("GET", "/v1/ledgers/{name}"): {R, H, A},
    ("GET", "/v1/tables"): {H, A},
    ("POST", "/v1/tables"): {A},
    ("POST", "/v1/tables/{name}/fits"): {H, A},
    ("GET", "/v1/jobs"): {H, A},
    ("GET", "/v1/jobs/{id}"): {H, A},
    ("DELETE", "/v1/jobs/{id}"): {H, A},
    ("GET", "/v1/session"): {W, R, H, A},
    ("POST", "/v1/session"): OPEN,
    ("DELETE", "/v1/session"): OPEN,
    ("GET", "/v1/log"): {A},
    ("GET", "/v1/tokens"): {A},
    ("POST", "/v1/tokens"): {A},
    ("DELETE", "/v1/tokens/{id}"): {A},
    # last, for nothing can be done to the stream afterwards
    ("POST", "/v1/streams/{name}/close"): {A},
    ("DELETE", "/v1/streams/{name}"): {A},
}


def call(
    service: Service, token: str | None, method: str, path: str, body: Any = None
) -> tuple[int, bytes]:
    """One request, of whose answer at most some is read: a stream of events does not end."""
    connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=30)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    kind = "application/x-ndjson" if path.endswith("/records") else "application/json"
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    connection.request(method, path, data, headers | {"Content-Type": kind})
    response = connection.getresponse()
    found = (
        response.read1(2**16)
        if path.endswith("/events") and response.status == 200
        else response.read()
    )
    connection.close()
    return response.status, found


def test_every_route_is_described_and_has_its_roles() -> None:
    described = {
        (method.upper(), path)
        for path, item in openapi.document()["paths"].items()
        for method in item
    }
    assert described == {(method, path) for method, path, _ in app.ROUTES} == set(WHO)


def test_every_endpoint_with_every_role(service: Service) -> None:
    client = service.client()
    client.create(specification("roles"))
    client.send("roles", records(0, 3))
    made = {
        role: client.call("POST", "/v1/tokens", {"role": role})["token"] for role in (W, R, H, A)
    }
    for (method, path), allowed in WHO.items():
        where = path.replace("{name}", "roles").replace("{number}", "0").replace("{id}", "nothing")
        for role in (W, R, H, A, None):
            token = None if role is None else made[role]
            status, body = call(service, token, method, where, b"{}" if method == "POST" else None)
            assert status != 500, (method, path, role, body)
            if role in allowed:
                assert status not in (401, 403), (method, path, role, body)
            else:
                assert status == (401 if role is None else 403), (method, path, role, body)


def test_grants_expiry_and_revocation(service: Service) -> None:
    client = service.client()
    for name in ("granted", "other"):
        client.create(specification(name))
    made = client.call(
        "POST", "/v1/tokens", {"role": R, "streams": ["granted"], "expires_in": 3600}
    )
    reader = service.client(made["token"])
    assert reader.stream("granted")["steps"] == 0
    assert [stream["name"] for stream in reader.streams()] == ["granted"]
    assert [ledger["name"] for ledger in reader.ledgers()] == ["granted"]
    with pytest.raises(Problem, match="not for this stream") as caught:
        reader.stream("other")
    assert caught.value.status == 403
    short = client.call("POST", "/v1/tokens", {"role": R, "expires_in": 1})
    time.sleep(1.1)
    with pytest.raises(Problem, match="expired") as caught:
        service.client(short["token"]).streams()
    assert caught.value.status == 401
    client.call("DELETE", f"/v1/tokens/{made['id']}")
    with pytest.raises(Problem, match="not known, or was revoked"):
        reader.streams()
    for bad in (
        {"role": "king"},
        {},
        {"role": R, "streams": "all"},
        {"role": R, "expires_in": -1},
        {"role": R, "x": 1},
    ):
        with pytest.raises(Problem) as caught:
            client.call("POST", "/v1/tokens", bad)
        assert caught.value.status == 422
    assert not any(
        "token" in row or "hash" in row for row in client.call("GET", "/v1/tokens")["tokens"]
    )


def test_what_no_database_can_hold_is_refused_alike_by_all(service: Service) -> None:
    for method, path in (
        ("GET", "/v1/streams/%00"), ("POST", "/v1/streams/a%00/records"), ("GET", "/v1/jobs/%00"),
        ("DELETE", "/v1/tokens/%00"), ("DELETE", "/v1/streams/%00"),
    ):  # fmt: skip
        with pytest.raises(Problem) as caught:
            service.client(patience=0).call(method, path)
        assert caught.value.status == 404, (method, path)
    for label in ("a\0b", "a\nb", "\u202egnp.exe"):
        with pytest.raises(Problem, match="printable") as caught:
            service.client(patience=0).call(
                "POST", "/v1/tokens", {"role": "reader", "label": label}
            )
        assert caught.value.status == 422


def test_limits_on_size_and_rate(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", "--limit", "2000", "--rate", "5", wait=False)
    client = service.client(patience=0)
    client.create(specification("small"))
    with pytest.raises(Problem, match="2000") as caught:
        client.send("small", records(0, 100))
    assert caught.value.status == 413
    statuses = [call(service, service.token, "GET", "/v1/streams")[0] for _ in range(20)]
    assert 429 in statuses
    assert call(service, None, "GET", "/healthz")[0] == 200
    time.sleep(1.0)
    assert client.stream("small")["steps"] == 0
    service.kill()


CELL = 0.1234567890123
PERSON = "patient-4711-of-ward-nine"


def numbers(value: Any) -> list[float]:
    """Every number in a state."""
    if isinstance(value, dict):
        return [x for item in value.values() for x in numbers(item)]
    if isinstance(value, list | tuple):
        return [x for item in value for x in numbers(item)]
    return [] if isinstance(value, str | bool | None) else np.ravel(value).tolist()


def test_clean_sums_leave_by_no_route_and_no_file(tmp_path: Path) -> None:
    """The state is opened with its key; what it holds is then looked for in every answer and every file."""
    service = Service(tmp_path / "data", wait=False)
    client = service.client()
    columns = {name: {"type": "number", "bounds": [-1, 1]} for name in ("a", "b")}
    budget = {"epsilon": 1.0, "delta": 1e-6, "window": 64}
    client.create(specification("model"))
    client.create(
        {"name": "total", "kind": "total", "schema": {"columns": columns}, "budget": budget}
    )
    client.create(
        {"name": "plays", "kind": "bandit", "budget": {"epsilon": 1, "delta": 1e-6}, "values": [0, 1],
         "set": {"kind": "L2Ball", "dim": 2}}
    )  # fmt: skip
    client.create(
        specification("people", max_records=3, horizon=1000, budget={"epsilon": 1, "delta": 1e-6})
    )
    x = {"a": CELL, "b": -CELL / 3}
    for k in range(20):
        client.send(
            "people", [{"id": f"{PERSON}-{k}", "x": x, "y": True, "person": f"{PERSON} {k}"}]
        )
        client.send("model", [{"id": f"{PERSON}-{k}", "x": x, "y": True, "person": None}])
        client.send("total", [{"id": f"{PERSON}-{k}", "x": x}])
        client.tell("plays", client.ask("plays")["ticket"], CELL)
    holder = client.call("POST", "/v1/tokens", {"role": H})["token"]
    answers = []
    for method, path in WHO:
        if path.endswith("/diagnostics"):
            continue  # for the data holder alone, and marked: what it reads is private
        if (method, path) == ("DELETE", "/v1/streams/{name}"):
            continue  # the state is looked at below
        for name in ("model", "total", "plays", "people"):
            where = (
                path.replace("{name}", name)
                .replace("{number}", "latest")
                .replace("{id}", "nothing")
            )
            body: Any = b"{}" if method == "POST" else None
            if where.endswith("/predict"):
                body = {"x": {"a": 0.5, "b": 0.5}}
            if where.endswith("/records"):
                body = b'{"id": "n", "x": {"a": "%s"}, "y": 1}' % PERSON.encode()
            for token in (service.token, holder):
                answers.append((where, call(service, token, method, where, body)[1]))
        if "{name}" not in path and "{id}" not in path and method == "GET":
            answers.append((path, call(service, None, method, path)[1]))
    service.process.kill()
    log = "".join(service.process.communicate())

    ring = Ring([bytes.fromhex((tmp_path / "data" / "service.key").read_text())])
    store = SqliteStore(tmp_path / "data" / "service.sqlite")
    secrets: list[float] = []
    keys: list[str] = []
    hidden: list[bytes] = []  # of the table of persons
    published: set[float] = set()
    with store.read() as rows:
        for stream in rows.streams():
            state = rows.state(stream.id)
            assert state is not None
            plain = unpack(ring.open(state.sealed, state_place(stream.id)))
            persons.read(rows, ring, stream.id, plain)
            for number in range(state.number + 1):
                output = rows.output(stream.id, number)
                assert output is not None
                published |= set(numbers(json.loads(output.body)))
            # clean totals are kept in whole steps of the lattice, and in units
            part = plain.get("stream", {}).get("learner", plain.get("bandit", plain)).get("total")
            secrets += numbers(part["total"]) + numbers(plain.get("bandit", {}).get("pending", []))
            keys += [part["source"]["next"]]
            if (table := part["persons"]) is not None:
                there = table["entries"] != 0
                assert there.sum() >= 20
                hidden += [bytes(table["key"]), *(row.tobytes() for row in table["digests"][there])]
    store.close()
    clean = [20 * CELL, -20 * CELL / 3, CELL]
    looked_for = [s for s in secrets if abs(s) > 1e4] + clean
    assert len(looked_for) > 5
    assert len(set(keys)) == 4
    assert hidden
    words = [*hidden, PERSON.encode(), repr(CELL).encode(), *(key.encode() for key in keys)]
    words += [bytes.fromhex(key) for key in keys]
    words += [np.float64(s).tobytes() for s in looked_for] + [
        np.int64(s).tobytes() for s in looked_for if abs(s) > 1e4
    ]
    places = answers + [("the log", log.encode())]
    for path in (tmp_path / "data").iterdir():
        if path.name != "service.key":
            places.append((path.name, path.read_bytes()))
    for where, data in places:
        for word in words:
            assert word not in data, (where, word)
    for where, data in answers:
        for text in re.findall(rb"-?\d+\.\d+(?:e-?\d+)?|-?\d{5,}", data):
            value = float(text)
            if value in published:
                continue
            for secret in looked_for:
                assert not np.isclose(value, secret, rtol=1e-9, atol=0.0), (where, text)
