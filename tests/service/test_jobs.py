"""Fits of tables: charged to the table's ledger, stored before they are seen, cancelled without a trace."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent.service.problems import Problem
from reticent.tables import Model

from .running import NUMBER, SCHEMA, Service

pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def holding(
    store: Callable[[], str | None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service that may read tables below one folder."""
    import pyarrow.parquet as pq

    home = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    for part in range(2):
        a, b = rng.uniform(-1, 1, (2, 1500))
        (home / "allowed" / "visits").mkdir(parents=True, exist_ok=True)
        pq.write_table(
            pa.table({"a": a, "b": b, "y": a - b > 0}),
            home / "allowed" / "visits" / f"{part}.parquet",
        )
    (home / "secret").mkdir()
    allowed = str(home / "allowed")
    service = Service(home / "data", "--tables", allowed, wait=False, database=store())
    service.home = home  # type: ignore[attr-defined]
    yield service
    service.kill()


def wait(client: Any, job: str) -> dict[str, Any]:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found: dict[str, Any] = client.call("GET", f"/v1/jobs/{job}")
        if found["status"] not in ("waiting", "running"):
            return found
        time.sleep(0.05)
    raise TimeoutError


def test_a_fit_is_charged_once_and_its_model_predicts(holding: Service) -> None:
    client = holding.client()
    home: Path = holding.home  # type: ignore[attr-defined]
    table = {"name": "visits", "path": str(home / "allowed" / "visits"), "schema": SCHEMA}
    client.call("POST", "/v1/tables", table | {"budget": {"epsilon": 1.5, "delta": 1e-6}})
    fit = {"kind": "logistic", "epsilon": 1.0}
    headers = {"Idempotency-Key": "the fit"}
    first = client.call("POST", "/v1/tables/visits/fits", fit, headers=headers)
    again = client.call("POST", "/v1/tables/visits/fits", fit, headers=headers)
    assert first["id"] == again["id"]
    with pytest.raises(Problem, match="a different job"):
        client.call("POST", "/v1/tables/visits/fits", fit | {"epsilon": 0.5}, headers=headers)
    done = wait(client, first["id"])
    assert done["status"] == "done", done["detail"]
    model = Model.from_dict(done["model"])
    assert model.records == 3000
    assert model.guarantee.epsilon(1e-6) <= 1.0 + 1e-9
    assert model.predict({"a": [0.9], "b": [-0.9]}).tolist() == ["true"]
    ledger = client.call("GET", "/v1/ledgers/visits")
    assert len(ledger["entries"]) == 1

    # what is left is not enough, and the refusal spends nothing
    second = wait(
        client,
        client.call("POST", "/v1/tables/visits/fits", {"kind": "logistic", "epsilon": 1.4})["id"],
    )
    assert second["status"] == "failed"
    assert "does not fit in what is left" in second["detail"]
    assert client.call("GET", "/v1/ledgers/visits")["entries"] == ledger["entries"]
    # after a crash the result is there, byte for byte
    holding.kill()
    holding.start(wait=False)
    assert holding.client().call("GET", f"/v1/jobs/{first['id']}")["model"] == done["model"]


def test_bad_tables_and_fits_are_refused(holding: Service) -> None:
    client = holding.client()
    home: Path = holding.home  # type: ignore[attr-defined]
    budget = {"epsilon": 1.0, "delta": 1e-6}
    table = {
        "name": "other",
        "path": str(home / "allowed" / "visits"),
        "schema": SCHEMA,
        "budget": budget,
    }
    for change in (
        {"path": str(home / "secret")},
        {"path": str(home / "allowed" / ".." / "secret")},
        {"path": str(home / "allowed" / "nothing")},
        {"path": 17},
        {"name": "a/b"},
        {"budget": budget | {"window": 10}},
        {"schema": {"columns": {"a": NUMBER | {"bounds": [1, 0]}}}},
        {"more": 1},
    ):
        with pytest.raises(Problem) as caught:
            client.call("POST", "/v1/tables", table | change)
        assert caught.value.status == 422, change
    client.call("POST", "/v1/tables", table)
    for fit in (
        {"kind": "logistic"},
        {"kind": "forest", "epsilon": 1},
        {"kind": "linear", "epsilon": 1},
        {"kind": "logistic", "epsilon": -1},
        {"kind": "logistic", "epsilon": 1, "options": {"epsilon": 9}},
        {"kind": "logistic", "epsilon": 1, "options": {"sheep": 9}},
        {"kind": "logistic", "epsilon": 1, "target": "nobody"},
    ):
        with pytest.raises(Problem) as caught:
            client.call("POST", "/v1/tables/other/fits", fit)
        assert caught.value.status == 422, fit
    with pytest.raises(Problem) as caught:
        client.call("POST", "/v1/tables/nobody/fits", {"kind": "logistic", "epsilon": 1})
    assert caught.value.status == 404
    assert client.call("GET", "/v1/ledgers/other")["entries"] == []


def test_a_table_of_persons_says_nothing_of_the_number_of_their_records(holding: Service) -> None:
    """Nor does a model of it: how many records a person has is as private as what they say."""
    import pyarrow.parquet as pq

    client = holding.client()
    home: Path = holding.home  # type: ignore[attr-defined]
    place = home / "allowed" / "people"
    place.mkdir()
    rng = np.random.default_rng(0)
    count = 10_007
    a, b = rng.uniform(-1, 1, (2, count))
    who = [f"p{k}" for k in rng.integers(0, 700, count)]
    persons = len(set(who))
    pq.write_table(pa.table({"a": a, "b": b, "y": a - b > 0, "who": who}), place / "0.parquet")
    schema = SCHEMA | {"columns": SCHEMA["columns"] | {"who": {"type": "person"}}}  # type: ignore[operator]
    budget = {"epsilon": 1.5, "delta": 1e-6}
    table = {"name": "people", "path": str(place), "schema": schema, "budget": budget}
    client.call("POST", "/v1/tables", table)
    assert client.call("GET", "/v1/ledgers/people")["unit"] == "person"
    job = client.call("POST", "/v1/tables/people/fits", {"kind": "logistic", "epsilon": 1.0})["id"]
    done = wait(client, job)
    assert done["status"] == "done", done["detail"]
    model = Model.from_dict(done["model"])
    assert model.guarantee.unit == "person"
    assert model.records == persons
    assert model.learnt_from == f"{persons} persons"
    # as a number of its own: five digits may occur by chance within a coefficient or an id, which is noise or random
    assert not re.search(r"(?<![\w.])10[,_]?007(?!\w|\.0*[1-9])", str(done))


def test_why_a_fit_failed_is_for_data_holders(holding: Service) -> None:
    """Which record has no label is a fact about that record, and an administrator is promised none."""
    import pyarrow.parquet as pq

    client = holding.client()
    home: Path = holding.home  # type: ignore[attr-defined]
    place = home / "allowed" / "bad"
    place.mkdir()
    labels = [True, False, None] * 100
    numbers = np.linspace(-1, 1, 300)
    pq.write_table(pa.table({"a": numbers, "b": numbers, "y": labels}), place / "0.parquet")
    table = {"name": "bad", "path": str(place), "schema": SCHEMA}
    client.call("POST", "/v1/tables", table | {"budget": {"epsilon": 1.0, "delta": 1e-6}})
    job = client.call("POST", "/v1/tables/bad/fits", {"kind": "logistic", "epsilon": 1.0})["id"]
    failed = wait(client, job)
    assert failed["status"] == "failed"
    assert "a data holder can read it" in failed["detail"]
    listed = client.call("GET", "/v1/jobs")["jobs"]
    assert next(one for one in listed if one["id"] == job)["detail"] == failed["detail"]
    token = client.call("POST", "/v1/tokens", {"role": "data holder"})["token"]
    assert "record 3" in holding.client(token).call("GET", f"/v1/jobs/{job}")["detail"]
    assert client.call("GET", "/v1/ledgers/bad")["entries"] == []
    for option in ("random_state", "verbose"):
        with pytest.raises(Problem, match=f"no {option}"):
            fit = {"kind": "logistic", "epsilon": 1.0, "options": {option: 1}}
            client.call("POST", "/v1/tables/bad/fits", fit)
    # an error of the arithmetic is one of the options or of the records, not a bug of the service
    fine = home / "allowed" / "fine"
    fine.mkdir()
    pq.write_table(pa.table({"a": numbers, "b": numbers, "y": numbers > 0}), fine / "0.parquet")
    table = {"name": "fine", "path": str(fine), "schema": SCHEMA}
    client.call("POST", "/v1/tables", table | {"budget": {"epsilon": 1.0, "delta": 1e-6}})
    fit = {"kind": "logistic", "epsilon": 1.0, "options": {"class_weight": {"true": 1e308}}}
    job = client.call("POST", "/v1/tables/fine/fits", fit)["id"]
    assert "a data holder can read it" in wait(client, job)["detail"]
