"""Every kind of stream over HTTP gives what the library gives, to the last bit."""

from __future__ import annotations

import http.client
import io
import json
import re
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

import reticent
from reticent import bandit, sets, sums
from reticent.privacy import Participation
from reticent.service import runners
from reticent.service.problems import Problem
from reticent.service.specification import Specification

from .running import NUMBER, SCHEMA, Service, records, specification

ARROW = "application/vnd.apache.arrow.stream"
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "window": 64}


def arrow_body(rows: list[dict[str, Any]], **options: Any) -> bytes:
    """Records as an Arrow stream."""
    pa = pytest.importorskip("pyarrow")
    columns = {name: [row["x"][name] for row in rows] for name in rows[0]["x"]}
    table = pa.table(columns | {"y": [row["y"] for row in rows]})
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return out.getvalue()


def test_a_linear_stream(service: Service) -> None:
    client = service.client()
    schema = {"target": "y", "columns": {"a": NUMBER, "y": {"type": "number", "bounds": [0, 10]}}}
    client.create(
        {
            "name": "line",
            "kind": "linear",
            "schema": schema,
            "budget": BUDGET,
            "seed": 4,
            "ridge": 0.1,
        }
    )
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (50, 1)), rng.uniform(-2, 12, 50)
    client.send(
        "line", [{"x": {"a": a}, "y": b} for (a,), b in zip(X.tolist(), y.tolist(), strict=True)]
    )
    model = reticent.OnlineLinearRegression(
        1.0, 1e-6, window=64, label_bounds=(0, 10), ridge=0.1, random_state=4
    ).partial_fit(X, y)
    decision = client.stream("line")["decision"]
    assert decision["coefficients"] == [model.coef_.tolist()]
    assert decision["intercepts"] == [model.intercept_]
    asked = [{"a": -0.5}, {"a": 1.0}]
    assert client.predict("line", asked)["predictions"] == pytest.approx(
        model.predict([[-0.5], [1.0]])
    )


def test_several_classes_and_categories(service: Service) -> None:
    client = service.client()
    colour = {"type": "category", "values": ["red", "green", "blue"]}
    schema = {
        "target": "kind",
        "columns": {
            "a": NUMBER,
            "colour": colour,
            "kind": {"type": "category", "values": ["z", "x", "y"]},
        },
    }
    client.create(
        {"name": "classes", "kind": "logistic", "schema": schema, "budget": BUDGET, "seed": 2}
    )
    encoder = reticent.tables.Encoder(reticent.tables.Schema.from_dict(schema))
    cells = {
        "a": [0.5, -0.5, 0.0, 1.0],
        "colour": ["red", "blue", None, "green"],
        "kind": ["x", "y", "z", "x"],
    }
    found = encoder.encode(cells)
    model = reticent.OnlineLogisticRegression(
        1.0,
        1e-6,
        window=64,
        classes=["x", "y", "z"],
        feature_norm=encoder.largest_norm,
        random_state=2,
    ).partial_fit(found.X, found.y)
    rows = [{"x": {"a": a, "colour": b}, "y": c} for a, b, c in zip(*cells.values(), strict=True)]
    client.send("classes", rows[:1])
    client.send("classes", rows[1:])
    stream = client.stream("classes")
    assert stream["decision"]["coefficients"] == model.coef_.tolist()
    assert stream["classes"] == ["x", "y", "z"]
    answer = client.predict("classes", [{"a": 0.5, "colour": "red"}])
    assert (
        answer["predictions"]
        == model.predict(
            encoder.encode({"a": [0.5], "colour": ["red"]}, 1, labels=False).X
        ).tolist()
    )
    assert np.sum(answer["probabilities"]) == pytest.approx(1.0)


def test_a_running_total(service: Service) -> None:
    client = service.client()
    schema = {"columns": {"a": {"type": "number", "bounds": [0, 4]}, "b": {"type": "boolean"}}}
    client.create({"name": "sums", "kind": "total", "schema": schema, "budget": BUDGET, "seed": 9})
    rows = [{"x": {"a": k % 5, "b": k % 2 == 0}} for k in range(40)]
    V = np.array([[row["x"]["a"] / 2 - 1, 2.0 * row["x"]["b"] - 1] for row in rows])
    total = sums.Correlated(
        2, None, budget=reticent.Budget(1.0, 1e-6, window=64), norm=np.sqrt(2.0), seed=9
    )
    noisy = total.run(V)
    client.send("sums", rows[:7])
    client.send("sums", rows[7:])
    assert client.decision("sums", 1)["decision"]["totals"] == noisy[6].tolist()
    decision = client.stream("sums")["decision"]
    assert decision["totals"] == noisy[-1].tolist()
    assert decision["standard_deviation"] == total.error(40)
    # in units of the columns: a sum of a, and a count of b
    assert decision["sums"]["a"] == pytest.approx(2.0 * (noisy[-1, 0] + 40))
    assert decision["sums"]["b"] == pytest.approx(0.5 * (noisy[-1, 1] + 40))
    with pytest.raises(Problem, match="can predict"):
        client.predict("sums", [{"a": 1, "b": True}])


def test_a_bandit_is_asked_and_told(service: Service) -> None:
    client = service.client()
    client.create(
        {
            "name": "prices",
            "kind": "bandit",
            "budget": {"epsilon": 1.0, "delta": 1e-6},
            "seed": 6,
            "set": {"kind": "Simplex", "dim": 3},
            "lipschitz": 1.0,
            "values": [0, 1],
            "patience": 5,
        }
    )
    twin = bandit.ProjectionFreeBandit(
        sets.Simplex(3), reticent.Budget(1.0, 1e-6), 1.0, values=(0, 1), patience=5, seed=6
    )
    first = client.ask("prices", key="the first")
    assert first == client.ask(
        "prices", key="the first"
    )  # a repeat: the same point, the same ticket
    tickets = [first] + [client.ask("prices") for _ in range(20)]
    points = [twin.ask() for _ in range(21)]
    assert [t["point"] for t in tickets] == [point.tolist() for point in points]
    assert [t["ticket"] for t in tickets] == list(range(1, 22))
    told = client.tell("prices", 20, 0.25)
    assert (told["accepted"], told["repeated"]) == (1, 0)
    assert client.tell("prices", 20, 0.25)["repeated"] == 1
    with pytest.raises(Problem) as caught:
        client.tell("prices", 20, 0.5)
    assert caught.value.status == 409
    for ticket, value, status in (
        (3, 0.5, 409), (99, 0.5, 409), (21, "nan", 422), (-1, 0.5, 422), (21, 10**400, 422),
    ):  # fmt: skip
        with pytest.raises(Problem) as caught:
            client.call("POST", "/v1/streams/prices/tell", {"ticket": ticket, "value": value})
        assert caught.value.status == status
    client.tell("prices", 21, None)
    twin.tell(0.25, 20)
    twin.tell(None, 21)
    for _ in range(30):
        mine, theirs = client.ask("prices"), twin.ask()
        assert mine["point"] == theirs.tolist()
        client.tell("prices", mine["ticket"], 0.5)
        twin.tell(0.5, theirs)
    with pytest.raises(Problem, match="bandit"):
        client.send("prices", records(0, 1))
    with pytest.raises(Problem, match="bandit"):
        client.create(specification("learner"))
        client.ask("learner")


def test_the_key_of_a_question_is_not_that_of_a_ticket(service: Service) -> None:
    client = service.client()
    client.create(
        {"name": "keyed", "kind": "bandit", "budget": {"epsilon": 1, "delta": 1e-6}, "values": [0, 1],
         "set": {"kind": "Simplex", "dim": 3}, "patience": 5}
    )  # fmt: skip
    asked = client.ask("keyed", key="ticket 1")
    assert asked["ticket"] == 1
    assert client.tell("keyed", 1, 0.25)["accepted"] == 1
    assert client.ask("keyed", key="ticket 1") == asked
    assert client.tell("keyed", 1, 0.25)["repeated"] == 1
    assert client.ask("keyed", key="ticket 2")["ticket"] == 2


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"kind": "NuclearBall", "shape": [10_000, 10_000]}, "100,000,000 dimensions"),
        ({"kind": "Birkhoff", "n": 100}, "lies in a hyperplane"),
        ({"kind": "Simplex", "dim": 2_001}, "lies in a hyperplane"),
        ({"kind": "Product", "sets": [{"kind": "L2Ball", "dim": 6_000}] * 2}, "12,000 dimensions"),
        ({"kind": "Product", "sets": [{"kind": "L2Ball", "dim": 60_000}]}, "larger than a service"),
        ({"kind": "Product", "sets": [{"x": 1}]}, r"set.sets must be like"),
        ({"kind": "Polytope", "vertices": json.loads("[" * 700 + "]" * 700)}, "nested too deeply"),
        # a function of the library instead of a set
        ({"kind": "Product", "sets": [{"part": {"place": "losses", "kind": "check", "arguments": {}}}]},
         r"set.sets must be like"),
    ],
)  # fmt: skip
def test_a_set_that_would_exhaust_the_memory_is_refused_at_once(
    service: Service, wanted: dict[str, Any], words: str
) -> None:
    asked = {
        "name": "vast",
        "kind": "bandit",
        "budget": {"epsilon": 1, "delta": 1e-6},
        "set": wanted,
    }
    with pytest.raises(Problem, match=words) as caught:
        service.client(patience=0, timeout=20).estimate(asked)
    assert caught.value.status == 422


def test_a_set_may_be_made_of_sets(service: Service) -> None:
    disc = {"kind": "L2Ball", "dim": 2}
    for inner in (disc, {"part": {"place": "sets", "kind": "L2Ball", "arguments": {"dim": 2}}}):
        asked = {
            "name": "pair", "kind": "bandit", "budget": {"epsilon": 1, "delta": 1e-6}, "values": [0, 1],
            "set": {"kind": "Product", "sets": [inner, disc]},
        }  # fmt: skip
        assert len(service.client().dummy(asked, records=3)["decision"]["point"]) == 4


def test_every_record_can_be_published(service: Service) -> None:
    client = service.client()
    client.create(specification("every", seed=8, publish="every"))
    client.create(specification("single", seed=8))
    assert client.send("every", records(0, 12))["decision_number"] == 12
    for row in records(0, 12):
        client.send("single", [row])
    for number in range(13):
        assert (
            client.decision("every", number)["decision"]
            == client.decision("single", number)["decision"]
        )


def test_arrow_batches(service: Service) -> None:
    client, rows = service.client(), records(0, 60)
    client.create(specification("arrow", seed=8))
    client.create(specification("numbered", seed=8))
    client.create(specification("lines", seed=8))
    client.send("lines", rows)
    body = arrow_body(rows)
    done = client.send_arrow("arrow", body, key="one")
    assert (done["accepted"], done["decision_number"]) == (60, 1)
    again = client.send_arrow("arrow", body, key="one")
    assert (again["accepted"], again["repeated"], again["decision_number"]) == (0, 60, 1)
    assert client.stream("arrow")["decision"] == client.stream("lines")["decision"]
    with pytest.raises(Problem) as caught:
        client.send_arrow("arrow", arrow_body(rows[:9]), key="one")
    assert caught.value.status == 409

    half = [arrow_body(rows[:30]), arrow_body(rows[30:])]
    client.send_arrow("numbered", half[0], producer="p", sequence=0)
    assert client.send_arrow("numbered", half[0], producer="p", sequence=0)["repeated"] == 30
    with pytest.raises(Problem, match="expected"):
        client.send_arrow("numbered", half[1], producer="p", sequence=2)
    with pytest.raises(Problem, match="another body"):
        client.send_arrow("numbered", half[1], producer="p", sequence=0)
    client.send_arrow("numbered", half[1], producer="p", sequence=1)
    old = client.send_arrow("numbered", half[0], producer="p", sequence=0)
    assert (old["accepted"], old["refused"]) == (0, 30)
    assert (
        client.stream("numbered")["decision"]["coefficients"]
        == client.stream("lines")["decision"]["coefficients"]
    )


def test_bad_arrow_is_refused_and_changes_nothing(service: Service) -> None:
    pa = pytest.importorskip("pyarrow")
    client, rows = service.client(), records(0, 6)
    client.create(specification("bad-arrow", seed=8))
    whole = arrow_body(rows)

    def with_a(values: Any) -> bytes:
        table = pa.table({"a": values, "b": [0.0] * 6, "y": [True] * 6})
        out = io.BytesIO()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
        return out.getvalue()

    bodies = {
        b"": 422,
        b"nonsense": 422,
        whole[:-40]: 422,
        whole[: len(whole) // 2]: 422,
        arrow_body(rows, compression="zstd"): 415,
        arrow_body([row | {"x": row["x"] | {"c": 1.0}} for row in rows]): 422,
        arrow_body([row | {"x": {"a": 0.5}} for row in rows]): 422,
        arrow_body([row | {"y": "perhaps"} for row in rows]): 422,
        with_a([0.0] * 5 + [float("nan")]): 422,
        with_a([0.0] * 5 + [float("inf")]): 422,
        with_a(["x"] * 6): 422,
        with_a([[1.0]] * 6): 422,
    }
    for body, status in bodies.items():
        with pytest.raises(Problem) as caught:
            client.send_arrow("bad-arrow", body, key="k")
        assert caught.value.status == status, caught.value.detail
    with pytest.raises(Problem, match="key"):
        client.call("POST", "/v1/streams/bad-arrow/records", whole, kind=ARROW)
    assert client.stream("bad-arrow")["steps"] == 0
    assert client.send_arrow("bad-arrow", with_a([0.0] * 5 + [None]), key="k")["accepted"] == 6


def test_events_come_in_order_and_can_be_resumed(service: Service) -> None:
    client = service.client()
    client.create(specification("events", seed=1))
    for k in range(3):
        client.send("events", records(k, 1))

    def listen(last: str | None, count: int) -> list[dict[str, Any]]:
        connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=30)
        headers = {"Authorization": f"Bearer {service.token}"}
        headers |= {} if last is None else {"Last-Event-ID": last}
        connection.request("GET", "/v1/streams/events/events", headers=headers)
        response = connection.getresponse()
        assert response.headers["Content-Type"].startswith("text/event-stream")
        found: list[dict[str, Any]] = []
        while len(found) < count:
            line = response.fp.readline()
            if line.startswith(b"data: "):
                found.append(json.loads(line[6:]))
                if len(found) == 1:
                    client.send("events", records(10, 1))
        connection.close()
        return found

    assert [event["number"] for event in listen(None, 2)] == [3, 4]
    events = listen("0", 4)
    assert [event["number"] for event in events] == [1, 2, 3, 4]
    assert events[1] == client.decision("events", 2)["decision"]


def test_costs_and_dry_runs_create_nothing(service: Service) -> None:
    client = service.client()
    before = len(client.streams()), len(client.ledgers())
    cost = client.estimate(specification("planned"))
    assert cost["fits"]
    assert cost["guarantee"]["epsilon"] == pytest.approx(1.0, rel=1e-3)
    for asked in (
        specification("planned", seed=1),
        {"name": "t", "kind": "total", "schema": SCHEMA, "budget": BUDGET},
        {
            "name": "b",
            "kind": "bandit",
            "set": {"kind": "L2Ball", "dim": 2},
            "budget": {"epsilon": 1, "delta": 1e-6},
            "values": [0, 1],
        },
    ):
        dry = client.dummy(asked, records=50)
        assert dry["made_up"]
        assert dry["steps"] == 50
        assert dry["decision"]
    with pytest.raises(Problem, match="records"):
        client.dummy(specification("planned"), records=10**9)
    with pytest.raises(Problem, match="50 records do not fit: 10 of the horizon are left"):
        client.dummy(specification("planned", horizon=10), records=50)
    assert (len(client.streams()), len(client.ledgers())) == before

    client.call(
        "POST",
        "/v1/ledgers",
        {"name": "shared", "budget": {"epsilon": 1.2, "delta": 1e-6, "window": 64}},
    )
    client.create(specification("first-on-shared", ledger="shared"))
    second = specification("second-on-shared", ledger="shared")
    assert not client.estimate(second)["fits"]
    for granted in ({"role": "writer"}, {"role": "reader", "streams": ["another"]}):
        token = client.call("POST", "/v1/tokens", granted)["token"]
        service.client(token).estimate({k: v for k, v in second.items() if k != "ledger"})
        with pytest.raises(
            Problem
        ) as refused:  # what is left of a ledger is for those who may read it
            service.client(token).estimate(second)
        assert refused.value.status == 403
    with pytest.raises(Problem, match="budget") as caught:
        client.create(second)
    assert caught.value.status == 409
    (shared,) = [ledger for ledger in client.ledgers() if ledger["name"] == "shared"]
    assert [entry["what"] for entry in shared["entries"]] == ["stream first-on-shared"]


def test_persons_are_protected_where_the_stream_says_so(service: Service) -> None:
    client = service.client()
    asked = specification(
        "shoppers",
        seed=5,
        max_records=2,
        min_gap=3,
        horizon=100,
        budget={"epsilon": 1.0, "delta": 1e-6},
    )
    assert client.create(asked)["guarantee"]["unit"] == "person"
    rows = [row | {"person": f"p{k % 4}"} for k, row in enumerate(records(0, 40))]
    with pytest.raises(Problem, match="name its person"):
        client.send("shoppers", records(0, 3))
    client.send("shoppers", rows[:13])
    client.send("shoppers", rows[13:])
    X = np.array([[row["x"]["a"], row["x"]["b"]] for row in rows])
    model = reticent.OnlineLogisticRegression(
        1.0, 1e-6, classes=["false", "true"], feature_norm=np.sqrt(2.0), random_state=5, max_records=2, min_gap=3,
        horizon=100,
    )  # fmt: skip
    model.partial_fit(
        X, [str(row["y"]).lower() for row in rows], person=[row["person"] for row in rows]
    )
    assert client.stream("shoppers")["decision"]["coefficients"] == model.coef_.tolist()
    # where records are protected, a person may be named and changes nothing
    client.create(specification("named", seed=5))
    client.create(specification("nameless", seed=5))
    client.send("named", rows)
    client.send("nameless", records(0, 40))
    assert client.stream("named")["decision"] == client.stream("nameless")["decision"]


def test_a_bandit_that_is_told_whose_value_it_is(service: Service) -> None:
    client = service.client()
    common = {
        "kind": "bandit",
        "budget": {"epsilon": 1.0, "delta": 1e-6},
        "seed": 6,
        "set": {"kind": "Simplex", "dim": 3},
        "values": [0, 1],
    }
    made = client.create({"name": "people", "max_records": 2, "min_gap": 3} | common)
    assert made["guarantee"]["unit"] == "person"
    twin = bandit.ProjectionFreeBandit(
        sets.Simplex(3), reticent.Budget(1.0, 1e-6), values=(0, 1), seed=6,
        participation=Participation(2, 3),
    )  # fmt: skip
    for turn in range(60):
        asked, point = client.ask("people"), twin.ask()
        assert asked["point"] == point.tolist()
        person = None if turn % 10 == 9 else turn % 7
        client.tell("people", asked["ticket"], None if person is None else 0.3, person)
        twin.tell(None if person is None else 0.3, person=None if person is None else str(person))
    asked = client.ask("people")
    with pytest.raises(Problem) as caught:
        client.tell("people", asked["ticket"], 0.5)
    assert caught.value.status == 422
    assert client.tell("people", asked["ticket"], 0.5, "ann")["accepted"] == 1
    with pytest.raises(Problem):
        client.tell("people", asked["ticket"], 0.5, "bob")  # the same ticket, another body
    client.create({"name": "records"} | common)
    ticket = client.ask("records")["ticket"]
    assert client.tell("records", ticket, 0.5, "ann")["accepted"] == 1


def test_a_full_table_of_persons_does_not_say_how_many_it_knows(service: Service) -> None:
    client = service.client()
    rule = {"max_records": 2, "max_persons": 3}
    client.create(specification("full", **rule))
    rows = [row | {"person": f"p{k % 2}"} for k, row in enumerate(records(0, 4))]
    client.send("full", rows)
    client.create(
        {"name": "full-bandit", "kind": "bandit", "budget": {"epsilon": 1, "delta": 1e-6}, "values": [0, 1],
         "set": {"kind": "L2Ball", "dim": 2}, "patience": 9, **rule}
    )  # fmt: skip
    for k in range(3):
        client.tell("full-bandit", client.ask("full-bandit")["ticket"], 0.5, person=f"p{k}")
    more = [row | {"person": f"q{k}"} for k, row in enumerate(records(10, 4))]
    for refused in (
        lambda: client.send("full", more),
        lambda: client.tell("full-bandit", client.ask("full-bandit")["ticket"], 0.5, person="q"),
    ):
        with pytest.raises(Problem, match="more persons than the stream has room for") as caught:
            refused()
        assert "known" not in caught.value.detail
        assert re.findall(r"\d+", caught.value.detail) == ["3"]
    client.send("full", more[:1])


def test_a_schema_with_persons_needs_a_rule(service: Service) -> None:
    client = service.client()
    columns = {
        "who": {"type": "person"},
        "x": {"type": "number", "bounds": [0, 1]},
        "y": {"type": "boolean"},
    }
    asked = {
        "name": "ruled", "kind": "logistic", "budget": {"epsilon": 1.0, "delta": 1e-6},
        "schema": {"target": "y", "columns": columns},
    }  # fmt: skip
    with pytest.raises(Problem, match="max_records or min_gap"):
        client.create(asked)
    assert client.create(asked | {"max_records": 2})["guarantee"]["unit"] == "person"
    with pytest.raises(Problem, match="single records"):
        client.create(asked | {"name": "ruled-sums", "kind": "total"})


def test_a_leader_of_sparse_records_is_not_offered() -> None:
    asked = specification("sparse", seed=3, learner="sparse-leader")
    with pytest.raises(Problem, match="records of a service are dense"):
        runners.start(Specification.from_dict(asked))
    # earlier versions ran the dense leader under that name, and such a stream can be adopted
    plain = runners.start(Specification.from_dict(specification("sparse", seed=3)))
    state, decision = plain.state(), plain.decision()
    new = runners.renew(Specification.from_dict(asked), state, decision)
    assert new.decision() == decision
    assert new.guarantee.epsilon(1e-6) == pytest.approx(plain.guarantee.epsilon(1e-6))
