"""A site answers the server and nobody else, and says nothing of its data."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reticent.vertical import messages
from reticent.vertical.flare import site

RUN = bytes(range(16))


HELLO = messages.Hello(run=RUN, sequence=0).encode()


class Echo:
    def handle(self, request: bytes) -> bytes:
        return b"answered " + request


def a_site(monkeypatch: pytest.MonkeyPatch, caller: str = "server", party: Any = None) -> site.Site:
    monkeypatch.setattr(site, "collab", SimpleNamespace(caller=caller))
    made = site.Site()
    made._party = party
    made._largest = 1000
    return made


def test_a_site_answers_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    assert a_site(monkeypatch, party=Echo()).handle(HELLO) == b"answered " + HELLO


@pytest.mark.parametrize(
    ("caller", "party", "request_", "said"),
    [
        ("south", Echo(), HELLO, "only the server"),
        ("server", None, HELLO, "not ready"),
        ("server", Echo(), "text", "must be bytes"),
        ("server", Echo(), [1, 2], "must be bytes"),
        ("server", Echo(), bytes(1001), "may have 1000 bytes"),
    ],
)
def test_a_site_refuses(
    monkeypatch: pytest.MonkeyPatch, caller: str, party: Any, request_: Any, said: str
) -> None:
    answer = messages.decode(a_site(monkeypatch, caller, party).handle(request_))
    assert isinstance(answer, messages.Refusal)
    assert said in answer.text


def test_a_site_that_cannot_open_says_nothing_of_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    local = tmp_path / "local"
    local.mkdir()
    (local / "reticent.json").write_text(json.dumps({"data": "/secret/patients.csv"}))
    workspace = SimpleNamespace(get_site_config_dir=lambda: str(local))
    monkeypatch.setattr(
        site, "collab", SimpleNamespace(caller="server", workspace=workspace, site_name="north")
    )
    made = site.Site()
    made.open()
    answer = messages.decode(made.handle(HELLO))
    assert isinstance(answer, messages.Refusal)
    assert answer.run == RUN
    assert "secret" not in answer.text
    assert "lacks" in caplog.text
