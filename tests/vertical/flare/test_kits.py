"""Start-up kits: closed to code, readable by their owners only, and never overwritten."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from reticent.vertical import flare
from reticent.vertical.flare import commands, kits

from .deployment import PARTIES


def test_kits_are_closed(made: dict[str, Path]) -> None:
    for name in ("server", *PARTIES):
        local = made[name] / "local"
        permissions = json.loads((local / "authorization.json").read_text())["permissions"]
        assert set(permissions) == {"project_admin", "org_admin", "lead", "member"}
        for rights in permissions.values():
            assert {rights[right] for right in ("byoc", "shell_commands", "operate")} == {"none"}
        resources = json.loads((local / "resources.json").read_text())
        assert resources["class_list_enforcement_mode"] == "enforce"
        assert len(resources["class_allow_list"]) == 2
        mine = kits.SERVER_CLASS if name == "server" else kits.SITE_CLASS
        assert mine in resources["class_allow_list"]
        if name != "server":
            assert resources["allow_log_streaming"] is False
            assert "site_log_streamer" not in json.dumps(resources)


def test_a_sites_terms_stay_out_of_what_the_engine_forwards(made: dict[str, Path]) -> None:
    for party in PARTIES:
        for path in made[party].rglob("*"):
            if path.is_file() and path.name != "reticent.json":
                assert f"{party}.csv" not in path.read_text(errors="replace")
    key = (made["north"] / "local" / "alignment.key").read_bytes()
    assert len(key) == 32
    assert key == (made["west"] / "local" / "alignment.key").read_bytes()
    assert not (made["server"] / "local" / "alignment.key").exists()


def test_kits_and_the_authority_are_for_their_owner_only(made: dict[str, Path]) -> None:
    root = made["server"].parent
    for path in (root / "authority", *(root / "authority").rglob("*"), *made["west"].rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_keys_are_never_overwritten(made: dict[str, Path]) -> None:
    before = (made["server"] / "startup" / "server.key").read_bytes()
    with pytest.raises(FileExistsError, match="new folder"):
        commands.provision(made["server"].parent, PARTIES)
    assert (made["server"] / "startup" / "server.key").read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        {"parties": ("north", "north")},
        {"parties": ()},
        {"parties": ("server",)},
        {"parties": ("../x",)},
        {"host": "bad host"},
        {"port": 0},
        {"scheme": "carrier-pigeon"},
        {"analyst": "nobody"},
        {"name": "a: b"},
    ],
)
def test_bad_federations_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))[:5]):
        flare.Federation(**{"name": "trial", "parties": PARTIES, **change})
