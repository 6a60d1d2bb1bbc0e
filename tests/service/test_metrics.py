"""Metrics, as Prometheus reads them, hold nothing of a record; docs/running.md relies on this."""

from __future__ import annotations

from typing import Any

import pytest

from .running import Service, records, specification
from .test_access import call

CELL, PERSON = 0.1234567890123, "patient-4711-of-ward-nine"


def metrics(text: str) -> dict[tuple[Any, ...], float]:
    """What /metrics says, as Prometheus reads it."""
    parser = pytest.importorskip("prometheus_client.parser", reason="reads what /metrics says")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_read_by_prometheus_and_hold_nothing_of_a_record(service: Service) -> None:
    before = metrics(call(service, service.token, "GET", "/metrics")[1].decode())
    client = service.client()
    client.create(specification("counted"))
    client.create(specification("other"))
    rows = [
        row | {"x": {"a": CELL, "b": CELL}, "id": f"{PERSON}{k}"}
        for k, row in enumerate(records(0, 8))
    ]
    client.send("counted", rows)
    token = client.call("POST", "/v1/tokens", {"role": "reader", "streams": ["counted"]})["token"]
    assert call(service, None, "GET", "/metrics")[0] == 401
    text = {}
    for name, key in (("all", service.token), ("some", token)):
        status, body = call(service, key, "GET", "/metrics")
        assert status == 200
        text[name] = body.decode()
    found = metrics(text["all"])
    assert found["reticent_stream_records_total", ("stream", "counted")] == 8
    assert found["reticent_stream_decisions_total", ("stream", "counted")] == 1
    assert found["reticent_ledger_spent_share", ("ledger", "counted")] == pytest.approx(1.0)
    assert found[("reticent_ready",)] == 1
    route = ("route", "/v1/streams/{name}/records")
    sent = ("reticent_requests_total", ("method", "POST"), route, ("status", "200"))
    assert found[sent] - before.get(sent, 0) == 1
    buckets = [value for (name, *labels), value in found.items()
               if name == "reticent_request_seconds_bucket" and route in labels]  # fmt: skip
    assert buckets == sorted(buckets)
    count = ("reticent_request_seconds_count", ("method", "POST"), route)
    assert max(buckets) == found[count] == before.get(count, 0) + 1
    commands = ("reticent_commands_total",)
    assert found[commands] - before.get(commands, 0) >= 3
    assert "other" not in text["some"]
    for word in (PERSON, str(CELL), service.token, "person", "clipped"):
        assert word not in text["all"]
