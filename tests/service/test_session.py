"""Signing in from a browser, by HTTP: the cookie, what it is good for, and who else cannot use it."""

from __future__ import annotations

import http.client
import json
import re
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from reticent.service import session
from reticent.service.keys import Keys
from reticent.service.problems import Problem
from reticent.service.routes_session import files

from .running import Service, records, specification


def ask(
    service: Service, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any, http.client.HTTPMessage]:
    """One request with headers of one's own."""
    connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, {"Content-Type": "application/json"} | named)
    response = connection.getresponse()
    text = response.read()
    connection.close()
    kind = response.headers.get("Content-Type", "")
    return response.status, json.loads(text) if "json" in kind else text, response.headers


def sign_in(service: Service, token: str = "") -> str:
    """The cookie of a token."""
    body = {"token": token or service.token}
    status, _, headers = ask(service, "POST", "/v1/session", body, Origin=service.url)
    assert status == 200
    return headers["Set-Cookie"].partition(";")[0]


def test_the_page_is_its_own_files_under_a_strict_policy(service: Service) -> None:
    status, html, headers = ask(service, "GET", "/")
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    for word in ("script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "trusted-types 'none'"):  # fmt: skip
        assert word in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert not re.search(rb"<script(?![^>]*src=)|\son\w+=|<style|\sstyle=|https?://", html)
    linked = re.findall(rb'(?:src|href)="(/page/[^"]+)"', html)
    assert len(linked) == 3
    for name in (*files(), *(link.decode().removeprefix("/page/") for link in linked)):
        status, body, headers = ask(service, "GET", f"/page/{name}")
        assert status == 200
        assert headers["Content-Security-Policy"] == policy
        assert body == files()[name]
        mark = headers["ETag"]
        assert ask(service, "GET", f"/page/{name}", If_None_Match=mark)[0] == 304
    for name in ("nothing.js", "..%2fapp.py", "%2e%2e/app.py"):
        assert ask(service, "GET", f"/page/{name}")[0] == 404


def test_scripts_of_the_page_come_from_nowhere_else_and_write_no_markup() -> None:
    """What the policy would stop in the browser is not even there."""
    for name, body in files().items():
        text = body.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//[a-z0-9.-]+\.[a-z]{2,}/", text), name
        if name.endswith(".js"):
            writers = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function"
            assert not re.search(writers, text), name
            for module in re.findall(r'from "([^"]+)"', text):
                assert module.removeprefix("./") in files()


def test_a_token_becomes_a_cookie_that_scripts_cannot_read(service: Service) -> None:
    status, found, headers = ask(service, "POST", "/v1/session", {"token": service.token})
    assert status == 200
    assert found["role"] == "administrator"
    assert "inspect" not in found["may"]
    words = headers["Set-Cookie"]
    assert "HttpOnly" in words
    assert "SameSite=Strict" in words
    assert "Path=/" in words
    assert service.token not in words
    assert service.token[4:] not in words
    cookie = words.partition(";")[0]
    assert ask(service, "GET", "/v1/session", Cookie=cookie)[1] == found
    assert ask(service, "GET", "/v1/streams", Cookie=cookie)[0] == 200
    status, _, headers = ask(service, "DELETE", "/v1/session", Cookie=cookie, Origin=service.url)
    assert status == 200
    assert "Max-Age=0" in headers["Set-Cookie"]


def test_behind_a_proxy_that_ends_tls_the_cookie_is_secure(service: Service) -> None:
    body = {"token": service.token}
    for scheme, secure in (("https", True), ("http", False)):
        _, _, headers = ask(service, "POST", "/v1/session", body, X_Forwarded_Proto=scheme)
        assert ("Secure" in headers["Set-Cookie"]) == secure


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [({"token": "ret_nobody"}, 401, "not known"), ({}, 422, "token"), ({"token": ""}, 422, "token"),
     ({"token": 5}, 422, "token"), ({"token": "a", "role": "administrator"}, 422, "nothing else")],
)  # fmt: skip
def test_what_is_no_token_signs_nobody_in(
    service: Service, body: Any, status: int, word: str
) -> None:
    found = ask(service, "POST", "/v1/session", body)
    assert found[0] == status
    assert word in found[1]["detail"]
    assert "Set-Cookie" not in found[2]


def test_other_pages_cannot_use_the_cookie(service: Service) -> None:
    """A form or a script of another origin, another port of the same host, and a request that does not say."""
    cookie = sign_in(service)
    host = urlsplit(service.url).hostname
    wanted = specification("forged")
    for headers in (
        {"Origin": "https://evil.example"}, {"Origin": f"http://{host}:1"}, {"Origin": "null"}, {},
        {"Origin": "http://["}, {"Origin": service.url, "Sec_Fetch_Site": "same-site"},
    ):  # fmt: skip
        status, found, _ = ask(service, "POST", "/v1/streams", wanted, Cookie=cookie, **headers)
        assert (status, "another origin" in found["detail"]) == (403, True), headers
    assert ask(service, "GET", "/v1/streams", Cookie=cookie, Sec_Fetch_Site="cross-site")[0] == 403
    status, _, headers = ask(
        service, "POST", "/v1/session", {"token": service.token}, Origin="https://evil.example"
    )
    assert status == 403
    assert "Set-Cookie" not in headers
    assert "forged" not in [one["name"] for one in service.client().streams()]
    status, _, _ = ask(service, "POST", "/v1/streams", wanted, Cookie=cookie, Origin=service.url)
    assert status == 201
    # a program with a token is no browser, and need not say where it comes from
    assert service.client().create(specification("plain"))["name"] == "plain"


def test_a_forged_a_foreign_and_an_expired_cookie(service: Service) -> None:
    cookie = sign_in(service)
    name, _, value = cookie.partition("=")
    token, until, mark = value.split(".")
    later = f"{name}={token}.{int(until) + 1}.{mark}"
    foreign = f"{name}=" + session.cookie(Keys(bytes(32)), token, time.time())
    for bad in (later, foreign, f"{name}=nonsense", f"{name}=..", f"{name}=é.1.é"):
        connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=30)
        connection.request("GET", "/v1/streams", headers={"Cookie": bad.encode("latin-1")})
        response = connection.getresponse()
        assert response.status == 401
        assert "sign in again" in json.loads(response.read())["detail"]
    keys = Keys(b"k" * 32)
    made = session.cookie(keys, "some", 1000.0)
    assert session.token_of(keys, made, 1000.0 + session.LASTS - 1) == "some"
    with pytest.raises(Problem, match="12 hours") as caught:
        session.token_of(keys, made, 1000.0 + session.LASTS)
    assert caught.value.status == 401


def test_a_revoked_token_ends_its_cookies_and_a_restart_does_not(service: Service) -> None:
    client = service.client()
    made = client.call("POST", "/v1/tokens", {"role": "reader", "label": "short"})
    reader = sign_in(service, made["token"])
    assert ask(service, "GET", "/v1/session", Cookie=reader)[1]["label"] == "short"
    client.call("DELETE", f"/v1/tokens/{made['id']}")
    status, found, _ = ask(service, "GET", "/v1/streams", Cookie=reader)
    assert status == 401
    assert "revoked" in found["detail"]
    cookie = sign_in(service)
    service.restart()
    assert ask(service, "GET", "/v1/streams", Cookie=cookie)[0] == 200


def test_a_cookie_of_a_revoked_token_is_not_one_of_the_next_token_of_the_same_form(
    service: Service,
) -> None:
    client = service.client()
    headers = {"Idempotency-Key": "a form that is sent again"}
    first = client.call("POST", "/v1/tokens", {"role": "reader"}, headers=headers)
    cookie = sign_in(service, first["token"])
    client.call("DELETE", f"/v1/tokens/{first['id']}")
    second = client.call("POST", "/v1/tokens", {"role": "administrator"}, headers=headers)
    assert second["id"] != first["id"]
    assert ask(service, "GET", "/v1/session", Cookie=cookie)[0] == 401
    client.call("DELETE", f"/v1/tokens/{second['id']}")


@pytest.mark.parametrize("path", ["/v1/events", "/v1/streams/watched/events"])
def test_events_end_with_the_token(service: Service, path: str) -> None:
    client = service.client()
    client.create(specification("watched"))
    made = client.call("POST", "/v1/tokens", {"role": "reader"})
    connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=30)
    connection.request("GET", path, headers={"Authorization": f"Bearer {made['token']}"})
    response = connection.getresponse()

    told = (line for line in response if line.startswith(b"data: "))
    assert next(told)
    client.call("DELETE", f"/v1/tokens/{made['id']}")
    sent = client.send("watched", records(0 if path == "/v1/events" else 100, 3))
    # what was on its way before may arrive; then the answer is over, without the new decision
    assert not any(b'"steps":%d,' % sent["steps"] in line for line in told)
    connection.close()


def test_a_form_sent_twice_does_its_work_once(service: Service) -> None:
    client = service.client()
    wanted = specification("twice")
    first, second = (client.call("POST", "/v1/streams", wanted) for _ in range(2))
    assert first["created"] == second["created"]
    assert [len(one["entries"]) for one in client.ledgers() if one["name"] == "twice"] == [1]
    headers = {"Idempotency-Key": "form 1"}
    made = client.call("POST", "/v1/tokens", {"role": "reader"}, headers=headers)
    with pytest.raises(Problem, match="already made for this request") as caught:
        client.call("POST", "/v1/tokens", {"role": "reader"}, headers=headers)
    assert caught.value.status == 409
    rows = client.call("GET", "/v1/tokens")["tokens"]
    assert [one["id"] for one in rows].count(made["id"]) == 1


def test_decisions_over_time_and_guarantees_by_age(service: Service) -> None:
    client = service.client()
    client.create(specification("drawn"))
    for k in range(30):
        client.send("drawn", records(3 * k, 3))
    found = client.call("GET", "/v1/streams/drawn/decisions?points=11")["decisions"]
    assert [one["number"] for one in found] == list(range(0, 31, 3))
    assert [one["steps"] for one in found] == list(range(0, 91, 9))
    for one in found[:3]:
        assert one["decision"] == client.decision("drawn", one["number"])["decision"]
    everything = client.call("GET", "/v1/streams/drawn/decisions")["decisions"]
    assert len(everything) == 31
    for bad in ("0", "1", "x", "-3", "100000", "2.5"):
        with pytest.raises(Problem, match="points"):
            client.call("GET", f"/v1/streams/drawn/decisions?points={bad}")
    guarantee = client.call("GET", "/v1/streams/drawn/guarantee")
    epsilon = dict(zip(guarantee["ages"], guarantee["epsilons"], strict=True))
    assert guarantee["window"] == 64
    assert epsilon[64] == pytest.approx(1.0)
    assert guarantee["epsilons"] == sorted(guarantee["epsilons"])
    assert "1,000 people" in guarantee["odds"]


def test_where_every_stream_stands_as_events(service: Service) -> None:
    client = service.client()
    client.create(specification("told"))
    made = client.call("POST", "/v1/tokens", {"role": "reader", "streams": ["told"]})
    connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=30)
    headers = {"Authorization": f"Bearer {made['token']}"}
    connection.request("GET", "/v1/events", headers=headers)
    response = connection.getresponse()

    def told() -> dict[str, Any]:
        for line in response:
            if line.startswith(b"data: "):
                found: dict[str, Any] = json.loads(line[6:])
                return found
        raise AssertionError("the stream of events ended")

    first = told()
    assert first["all"]
    assert [one["name"] for one in first["streams"]] == ["told"]
    client.create(specification("untold"))
    client.send("told", records(0, 7))
    later = told()
    assert not later["all"]
    assert [one["steps"] for one in later["streams"]] == [7]
    connection.close()


def test_scales_turn_the_deviation_of_a_total_into_units(service: Service) -> None:
    columns = {"a": {"type": "number", "bounds": [10, 30]}, "b": {"type": "boolean"},
               "c": {"type": "category", "values": ["x", "y", "z"]}}  # fmt: skip
    budget = {"epsilon": 1.0, "delta": 1e-6, "window": 64}
    client = service.client()
    client.create({"name": "units", "kind": "total", "schema": {"columns": columns}, "budget": budget})  # fmt: skip
    found = client.stream("units")["scales"]
    assert found == {"a": 10.0, "b": 0.5, "c=x": 1.0, "c=y": 1.0, "c=z": 1.0}


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb"])
def test_a_column_that_json_has_to_escape_is_refused_at_once(service: Service, name: str) -> None:
    columns = {name: {"type": "number", "bounds": [0, 1]}}
    with pytest.raises(Problem, match="quotation marks") as caught:
        service.client().create(specification("odd", kind="total", schema={"columns": columns}))
    assert caught.value.status == 422
