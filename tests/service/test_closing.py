"""Streams that are closed or deleted by an administrator."""

from __future__ import annotations

import pytest

from reticent.service.client import Problem

from .running import Service, records, specification


def test_a_closed_stream_keeps_its_decisions(service: Service) -> None:
    client = service.client()
    client.create(specification("closing"))
    client.send("closing", records(0, 5))
    before = client.decision("closing")
    for _ in range(2):  # the same again does nothing
        client.call("POST", "/v1/streams/closing/close")
    with pytest.raises(Problem, match="closed this stream") as caught:
        client.send("closing", records(5, 1))
    assert caught.value.status == 409
    assert client.decision("closing") == before
    assert client.stream("closing")["closed"]


def test_a_deleted_stream_leaves_its_name_and_its_charge(service: Service) -> None:
    client = service.client()
    client.create(specification("deleting", seed=3))
    client.send("deleting", records(0, 5))
    granted = client.call("POST", "/v1/tokens", {"role": "reader", "streams": ["deleting"]})
    charged = next(one for one in client.ledgers() if one["name"] == "deleting")
    client.call("DELETE", "/v1/streams/deleting")
    assert "deleting" not in [one["name"] for one in client.streams()]
    for act in (
        lambda: client.stream("deleting"),
        lambda: client.send("deleting", records(5, 1)),
        lambda: client.decision("deleting", 0),
        lambda: service.client(granted["token"]).stream("deleting"),
        lambda: client.call("DELETE", "/v1/streams/deleting"),
    ):
        with pytest.raises(Problem, match="deleted this stream") as caught:
            act()
        assert caught.value.status == 410
    with pytest.raises(Problem, match="choose another name"):
        client.create(specification("deleting", seed=3))
    assert next(one for one in client.ledgers() if one["name"] == "deleting") == charged
    service.restart()
    with pytest.raises(Problem, match="deleted this stream"):
        service.client().stream("deleting")
