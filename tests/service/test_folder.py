"""One process on a folder, and what is there after it was killed."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

from .running import Service, records, specification


def serve_once(folder: Path) -> subprocess.CompletedProcess[str]:
    """A `reticent serve` that is expected to be refused."""
    command = [sys.executable, "-m", "reticent", "serve", "--data", str(folder), "--port", "0"]
    env = os.environ | {"RETICENT_ANCHORS": str(folder.parent / "anchors")}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", wait=False)
    client = service.client()
    client.create(specification("visits", seed=3))
    client.send("visits", records(0, 100))
    seen = client.stream("visits")
    second = serve_once(tmp_path / "data")
    assert second.returncode == 2
    assert "another `reticent serve`" in second.stderr
    service.restart()
    client = service.client()
    assert client.stream("visits") == seen
    assert client.send("visits", records(0, 100))["repeated"] == 100
    client.send("visits", records(100, 50))
    # as if it had never been killed
    client.create(specification("calm", seed=3))
    client.send("calm", records(0, 150))
    assert (
        client.stream("calm")["decision"]["coefficients"]
        == client.stream("visits")["decision"]["coefficients"]
    )
    assert service.stop() == 0

    # a page in the middle is overwritten
    path = tmp_path / "data" / "service.sqlite"
    data = bytearray(path.read_bytes())
    data[4096:12288] = bytes(8192)
    path.write_bytes(data)
    refused = serve_once(tmp_path / "data")
    assert refused.returncode == 2
    assert "backup" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_no_state_lies_in_the_folder_in_the_clear(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", wait=False)
    service.client().create(specification("visits"))
    service.client().send("visits", records(0, 3))
    service.kill()
    store = sqlite3.connect(tmp_path / "data" / "service.sqlite")
    (sealed,) = store.execute("SELECT sealed FROM states").fetchone()
    store.close()
    for path in (tmp_path / "data").iterdir():
        assert path.stat().st_mode & 0o077 == 0
        data = path.read_bytes()
        assert b"unfinished" not in data  # as every state of a learner says
        assert service.token.encode() not in data
    assert b"steps" not in sealed
