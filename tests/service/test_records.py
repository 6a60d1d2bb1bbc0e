"""Records over HTTP: counted once, refused in words, and learnt as the library learns them."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from reticent import OnlineLogisticRegression
from reticent.service.problems import Problem

from .running import Service, records, specification


def post(service: Service, name: str, body: bytes, kind: str = "application/x-ndjson") -> Any:
    """A request as curl would send it: status and answer."""
    connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=30)
    headers = {"Authorization": f"Bearer {service.token}", "Content-Type": kind}
    connection.request("POST", f"/v1/streams/{name}/records", body, headers)
    response = connection.getresponse()
    data = json.loads(response.read())
    connection.close()
    if response.status >= 400:
        assert response.headers["Content-Type"] == "application/problem+json"
        assert data["detail"]
    return response.status, data


def expected(rows: list[dict[str, Any]], seed: int) -> Any:
    """The model that the library itself learns from these records with this seed."""
    X = np.array([[row["x"]["a"], row["x"]["b"]] for row in rows])
    y = np.array([str(row["y"]).lower() for row in rows])
    model = OnlineLogisticRegression(
        1.0,
        1e-6,
        window=64,
        classes=["false", "true"],
        feature_norm=np.sqrt(2.0),
        random_state=seed,
    )
    return model.partial_fit(X, y)


def test_a_repeat_counts_nothing_and_answers_the_same(service: Service) -> None:
    client = service.client()
    client.create(specification("repeats", seed=3))
    first = client.send("repeats", records(0, 10))
    assert first == {
        "accepted": 10, "repeated": 0, "refused": 0, "decision_number": 1, "steps": 10,
    }  # fmt: skip
    before = client.stream("repeats")
    again = client.send("repeats", records(0, 10))
    assert again == first | {"accepted": 0, "repeated": 10}
    assert client.stream("repeats") == before
    mixed = client.send("repeats", records(5, 10))
    assert (mixed["accepted"], mixed["repeated"], mixed["decision_number"]) == (5, 5, 2)
    assert client.send("repeats", records(0, 3))["decision_number"] == 1


def test_results_are_the_library_s_whatever_the_grouping(service: Service) -> None:
    """The same records in requests of other sizes end in the same bits, which are the library's own."""
    client, rows = service.client(), records(0, 300)
    for name, size in (("ones", 1), ("sevens", 7), ("whole", 300)):
        client.create(specification(name, seed=11))
        for first in range(0, 300, size):
            client.send(name, rows[first : first + size])
    decisions = [client.stream(name)["decision"] for name in ("ones", "sevens", "whole")]
    model = expected(rows, 11)
    for decision in decisions:
        assert decision["coefficients"] == model.coef_.tolist()
        assert decision["intercepts"] == model.intercept_.tolist()
    # a decision belongs to its records: what was published after 7 records is what 7 ones led to
    after = client.decision("sevens", 1)["decision"]
    assert after["coefficients"] == client.decision("ones", 7)["decision"]["coefficients"]


def test_concurrent_requests_are_all_counted_once(service: Service) -> None:
    from concurrent.futures import ThreadPoolExecutor

    client = service.client()
    client.create(specification("crowd", seed=5))
    rows = records(0, 400)
    with ThreadPoolExecutor(8) as pool:  # every record twice, from eight connections
        answers = list(pool.map(lambda row: client.send("crowd", [row]), rows + rows))
    assert sum(answer["accepted"] for answer in answers) == 400
    assert client.stream("crowd")["steps"] == 400
    # replayed in the order in which they were counted, they give the same decision to the last bit
    order = sorted(
        (answer["decision_number"], k % 400)
        for k, answer in enumerate(answers)
        if answer["accepted"]
    )
    model = expected([rows[k] for _, k in order], 5)
    assert client.stream("crowd")["decision"]["coefficients"] == model.coef_.tolist()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"id":"r1","x":{"a":0.5,"b":0.25},"y":true}', 409),  # the key of another record
        (b'{"id":"n1","x":{"a":0.5,"b":0.25},"y":tr', 422),  # half a line
        (b'{"id":"n1","x":{"a":0.5,"b":0.25},"y":true}\n{"id":"n2"', 422),
        (b'{"id":"n1","x":{"a":NaN,"b":0},"y":true}', 422),
        (b'{"id":"n1","x":{"a":1e999,"b":0},"y":true}', 422),
        (b'{"id":"n1","x":{"a":"high","b":0},"y":true}', 422),
        (b'{"id":"n1","x":{"a":0.5},"y":true}', 422),
        (b'{"id":"n1","x":{"a":0.5,"b":0,"c":0},"y":true}', 422),
        (b'{"id":"n1","x":{"a":0.5,"b":0}}', 422),
        (b'{"id":"n1","x":{"a":0.5,"b":0},"y":"perhaps"}', 422),
        (b'{"x":{"a":0.5,"b":0},"y":true}', 422),  # no key
        (b'{"id":"","x":{"a":0.5,"b":0},"y":true}', 422),
        (b'{"id":"n1","x":{"a":0.5,"b":0},"y":true,"z":1}', 422),
        (b"[1, 2]", 422),
        (b"\xff\xfe", 422),
        (b'{"id":"\xff","x":{"a":0.5,"b":0},"y":true}', 422),
        (b'{"id":"n1","x":{"a":0.5,"b":0},"y":true,"person":"\xff"}', 422),
        (b"", 422),
    ],
)
def test_bad_records_are_refused_and_change_nothing(
    service: Service, body: bytes, status: int
) -> None:
    client = service.client()
    client.create(specification("bad", seed=1))
    client.send("bad", records(0, 5))
    before = client.stream("bad")
    got, answer = post(service, "bad", body)
    assert got == status, answer
    assert "perhaps" not in answer["detail"]
    assert "high" not in answer["detail"]
    assert "column 'y' is column" not in answer["detail"]
    assert client.stream("bad") == before
    # whatever was refused left no key behind
    assert client.stream("bad")["steps"] == 5


def test_other_refusals(service: Service) -> None:
    client = service.client()
    client.create(specification("others", horizon=3, budget={"epsilon": 1.0, "delta": 1e-6}))
    for name, kind, status in (
        ("nobody", "application/x-ndjson", 404),
        ("others", "text/csv", 415),
    ):
        assert post(service, name, b"{}", kind)[0] == status
    with pytest.raises(Problem, match="horizon") as caught:
        client.send("others", records(0, 4))
    assert caught.value.status == 409
    assert client.send("others", records(0, 3))["accepted"] == 3
    with pytest.raises(Problem, match="horizon"):
        client.send("others", records(3, 1))
    assert client.send("others", records(0, 3))["repeated"] == 3
    with pytest.raises(Problem, match="max_sheep"):
        client.create(specification("sheep", max_sheep=3))
    with pytest.raises(Problem, match="epsilon"):
        client.create(specification("sheep", budget={"epsilon": -1}))
    with pytest.raises(Problem, match="another specification"):
        client.create(specification("others"))
    with pytest.raises(Problem) as caught:
        service.client("wrong").streams()
    assert caught.value.status == 401
