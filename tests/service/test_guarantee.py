"""What keeps the promise over a service's life: key changes, and keys that are too old."""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path
from typing import Any

from .running import Service, on_folder, records, specification


def test_keys_are_changed_and_old_ones_open_nothing(tmp_path: Path) -> None:
    folder, new = tmp_path / "data", tmp_path / "new.key"
    service = Service(folder, wait=False)
    service.client().create(specification("visits", seed=3))
    service.client().send("visits", records(0, 10))
    running = on_folder(folder, "rotate", "--new-key-file", str(new))
    assert running.returncode == 2
    assert "another `reticent serve`" in running.stderr
    service.stop()
    old = (folder / "service.key").read_text().strip()
    assert on_folder(folder, "rotate", "--new-key-file", str(new)).returncode == 0
    assert new.stat().st_mode & 0o077 == 0
    refused = on_folder(folder)
    assert refused.returncode == 2
    assert "another key" in refused.stderr
    assert old not in refused.stderr
    (folder / "service.key").unlink()
    missing = on_folder(folder)
    assert missing.returncode == 2
    assert "key" in missing.stderr
    service = Service(folder, "--key-file", str(new), wait=False, token=service.token)
    client = service.client()
    assert client.send("visits", records(0, 10))["repeated"] == 10
    assert client.send("visits", records(10, 1))["accepted"] == 1
    service.kill()


def timed_key(seconds: float) -> str:
    """A UUID of version 7 that was made at a given time."""
    number = int.from_bytes(os.urandom(10)) | int(seconds * 1000) << 80
    return str(uuid.UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 7 << 76 | 2 << 62))


def test_a_key_that_is_older_than_what_is_remembered_is_refused(service: Service) -> None:
    client = service.client()
    client.create(specification("old", remember=3600))
    now = time.time()
    row = records(0, 1)[0]
    fresh, stale = timed_key(now - 600), timed_key(now - 7200)
    done = client.send("old", [row | {"id": fresh}, row | {"id": stale}])
    assert (done["accepted"], done["refused"]) == (1, 1)
    assert client.stream("old")["steps"] == 1
    assert client.send("old", [row | {"id": fresh}])["repeated"] == 1
    assert client.send("old", [row | {"id": stale}])["refused"] == 1


def test_what_was_forgotten_stays_refused_when_the_clock_is_set_back(tmp_path: Path) -> None:
    """In process, for its clock: forgetting moves a mark that no clock moves back."""
    from reticent.service import runners, streams
    from reticent.service.engine import Engine
    from reticent.service.keys import Keys
    from reticent.service.records import Reader
    from reticent.service.sealing import Ring
    from reticent.service.specification import Specification
    from reticent.service.sqlite import SqliteStore

    clock = [1.8e9]
    store = SqliteStore(tmp_path / "service.sqlite")
    engine = Engine(store, Ring([bytes(32)]), clock=lambda: clock[0])
    asked = Specification.from_dict(specification("s", remember=3600))
    engine.call(streams.Create(asked))
    reader = Reader(runners.encoder_of(asked), Keys(bytes(32)))

    def send(key: str) -> dict[str, Any]:
        line = json.dumps({"id": key, "x": {"a": 0, "b": 0}, "y": True})
        return dict(engine.call(streams.Send("s", reader.lines(line.encode()))))

    key, plain = timed_key(clock[0]), "a key without a time"
    assert send(key)["accepted"] == send(plain)["accepted"] == 1
    clock[0] += 86400
    assert engine.call(streams.Forget("s")) == 1
    clock[0] -= 86400
    assert send(key) == {
        "accepted": 0,
        "repeated": 0,
        "refused": 1,
        "decision_number": 2,
        "steps": 2,
    }
    assert send(plain)["repeated"] == 1
    engine.stop()
    store.close()
