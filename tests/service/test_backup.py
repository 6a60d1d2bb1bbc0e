"""Backups are taken while records come, and damaged ones are refused; docs/running.md relies on this."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from reticent.service import doctor
from reticent.service.backup import backup, restore
from reticent.service.folder import Options
from reticent.service.looking import verify
from reticent.service.store import StoreError

from .running import Service, anchor_in, command, records, specification


@pytest.mark.slow
def test_a_backup_is_taken_while_records_come_and_must_be_adopted(tmp_path: Path) -> None:
    service = Service(tmp_path / "data")
    client = service.client()
    client.create(specification("kept"))
    client.send("kept", records(0, 10))
    done = threading.Event()

    def load() -> None:
        busy, k = service.client(), 100
        while not done.is_set():
            busy.send("kept", records(k, 5))
            k += 5

    thread = threading.Thread(target=load)
    thread.start()
    found = command(
        service, "backup", "--data", str(service.folder), "--to", str(tmp_path / "backups" / "one")
    )
    done.set()
    thread.join(60)
    assert found.returncode == 0, found.stderr
    assert "the backup does not contain the key" in found.stdout
    assert sorted(path.name for path in (tmp_path / "backups" / "one").iterdir()) == [
        "backup.json",
        "service.sqlite",
    ]
    options = Options(service.folder)
    with pytest.raises(StoreError, match="exists already"):
        backup(options, tmp_path / "backups" / "one")
    client.send("kept", records(50, 5))
    before = client.stream("kept")["steps"]
    service.stop()

    shutil.copy(service.folder / "service.key", tmp_path / "key")
    with pytest.raises(StoreError, match="holds a service"):
        restore(tmp_path / "backups" / "one", options)
    shutil.rmtree(service.folder)
    words = ("restore", "--source", str(tmp_path / "backups" / "one"), "--data", str(service.folder))  # fmt: skip
    assert "the key of this folder is missing" in command(service, *words).stderr
    assert not (service.folder / "service.sqlite").exists()
    (tmp_path / "wrong").write_text("ab" * 32)
    assert "another key" in command(service, *words, "--key-file", str(tmp_path / "wrong")).stderr
    found = command(service, *words, "--key-file", str(tmp_path / "key"))
    assert found.returncode == 0, found.stderr
    assert "adopt" in found.stdout
    keyed = ("--data", str(service.folder), "--key-file", str(tmp_path / "key"))
    assert "restored from a backup" in command(service, *keyed, "--port", "0").stderr
    assert any(one.level == doctor.BROKEN and one.what == "anchor" for one in doctor.examine(
        Options(service.folder, key_file=tmp_path / "key", anchor=anchor_in(tmp_path))))  # fmt: skip
    assert command(service, "adopt", *keyed).returncode == 0
    again = Service(service.folder, "--key-file", str(tmp_path / "key"), token=service.token)
    there = again.client().stream("kept")
    assert 10 <= there["steps"] < before
    assert there["epochs"] == 2
    acts = [one["act"] for one in again.client().call("GET", "/v1/log")["acts"]]
    assert acts[0] == "adopt"
    again.client().send("kept", records(500, 5))
    again.stop()
    assert verify(Options(service.folder)).wrong == []


@pytest.mark.slow
def test_damaged_backups_are_refused(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", wait=False)
    service.stop()
    manifest = backup(Options(service.folder), tmp_path / "good")
    assert manifest["bytes"] == (tmp_path / "good" / "service.sqlite").stat().st_size
    where = Options(tmp_path / "new", key_file=service.folder / "service.key")
    shutil.copytree(tmp_path / "good", tmp_path / "bad")
    with open(tmp_path / "bad" / "service.sqlite", "r+b") as file:
        file.seek(5000)
        file.write(b"damage")
    with pytest.raises(StoreError, match="damaged"):
        restore(tmp_path / "bad", where)
    with pytest.raises(StoreError, match="is no backup"):
        restore(tmp_path / "nothing", where)
    with pytest.raises(StoreError, match="there is no service"):
        backup(Options(tmp_path / "nothing"), tmp_path / "two")
    with pytest.raises(StoreError, match="pg_dump"):
        backup(Options(None, database="postgresql:///x"), tmp_path / "two")
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "two").exists()
