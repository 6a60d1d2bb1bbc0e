"""The server's part of a run: its transport, its name, and its farewell."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reticent.vertical import PartyLost
from reticent.vertical.flare import server

from .deployment import PARTIES, needs_engine, terms


def test_the_server_stays_until_the_parties_have_heard_of_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs_engine()
    from nvflare.apis.event_type import EventType
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.utils.event import fire_event_to_components

    handlers: list[Any] = []
    slept: list[float] = []
    monkeypatch.setattr(server.time, "sleep", slept.append)
    server._stay_for_farewell(
        SimpleNamespace(run_manager=SimpleNamespace(add_handler=handlers.append))
    )
    for event in (EventType.ABOUT_TO_END_RUN, EventType.END_RUN):
        assert not slept
        fire_event_to_components(event, handlers, FLContext())
    assert len(slept) == 1
    assert slept[0] > 1.0  # parties ask every half second


class FakeClients:
    """The engine's group calls, with failures to order."""

    def __init__(self, failing: dict[str, int]) -> None:
        self.failing = failing
        self.calls: list[tuple[tuple[str, ...], bytes]] = []
        self.clients = [SimpleNamespace(name=name) for name in PARTIES]

    def get_clients(self, names: list[str]) -> Any:
        def group(**options: Any) -> Any:
            def handle(request: bytes) -> Any:
                self.calls.append((tuple(names), request))
                failures = {}
                for name in names:
                    if self.failing.get(name, 0) > 0:
                        self.failing[name] -= 1
                        failures[name] = SimpleNamespace(cause=TimeoutError("too late"))
                good = [(name, request.upper()) for name in names if name not in failures]
                return Results(good, failures)

            return SimpleNamespace(handle=handle)

        return group


class Results:
    def __init__(self, good: list[tuple[str, bytes]], failures: dict[str, Any]) -> None:
        self.good, self.failures = good, failures

    def __iter__(self) -> Any:
        return iter(self.good)


def engine(monkeypatch: pytest.MonkeyPatch, **failing: int) -> FakeClients:
    fake = FakeClients(failing)
    monkeypatch.setattr(server, "collab", fake)
    return fake


def test_equal_requests_travel_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = engine(monkeypatch)
    carrier = server.FlareTransport(PARTIES)
    assert carrier.ask(dict.fromkeys(PARTIES, b"a")) == dict.fromkeys(PARTIES, b"A")
    assert carrier.ask({"west": b"w", "north": b"n"}) == {"west": b"W", "north": b"N"}
    assert fake.calls == [(PARTIES, b"a"), (("west",), b"w"), (("north",), b"n")]


def test_a_lost_answer_is_asked_for_again_with_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = engine(monkeypatch, south=1)
    carrier = server.FlareTransport(PARTIES)
    assert carrier.ask(dict.fromkeys(PARTIES, b"a"))["south"] == b"A"
    assert fake.calls[-1] == (("south",), b"a")


def test_a_party_that_stays_away_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    engine(monkeypatch, south=9)
    carrier = server.FlareTransport(PARTIES)
    with pytest.raises(PartyLost, match=r"south.*too late") as caught:
        carrier.ask(dict.fromkeys(PARTIES, b"a"))
    assert caught.value.name == "south"
    with pytest.raises(PartyLost, match="east"):
        server.FlareTransport(("north", "east"))


def test_a_run_has_a_safe_name(tmp_path: Path) -> None:
    for name in ("../up", "A", "", 3):
        with pytest.raises(ValueError, match="name must be"):
            server.Server(terms(name=name))._run(tmp_path)
    assert not list(tmp_path.iterdir())
