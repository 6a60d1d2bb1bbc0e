"""The doctor finds what is wrong with a folder; docs/running.md relies on this."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from reticent.service import doctor
from reticent.service.folder import Options
from reticent.service.store import StoreError

from .running import Service, anchor_in, command, specification


@pytest.mark.slow
def test_the_doctor_finds_what_is_wrong(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", wait=False)
    service.client().create(specification("ill"))
    found = command(service, "doctor", "--data", str(service.folder))
    assert found.returncode == 0, found.stdout + found.stderr
    assert "it is being served" in found.stdout
    assert "look   key       it lies beside the database" in found.stdout
    assert "all hashes are correct" in found.stdout
    service.stop()
    anchor = anchor_in(tmp_path)

    def broken(**more: Any) -> set[str]:
        options = Options(service.folder, **{"anchor": anchor} | more)
        return {one.what for one in doctor.examine(options) if one.level == doctor.BROKEN}

    assert broken() == set()
    assert broken(anchor=tmp_path / "none") == {"anchor"}
    (tmp_path / "wrong").write_text("ab" * 32)
    (tmp_path / "wrong").chmod(0o600)
    assert broken(key_file=tmp_path / "wrong") == {"key"}
    (service.folder / "service.key").chmod(0o644)
    assert broken() == {"key"}
    (service.folder / "service.key").chmod(0o600)
    os.rename(service.folder / "service.key", tmp_path / "away")
    assert broken() == {"key"}
    assert broken(key_file=tmp_path / "away") == set()
    with open(service.folder / "service.sqlite", "r+b") as file:
        file.seek(8200)
        file.write(os.urandom(3000))
    assert broken(key_file=tmp_path / "away")
    with pytest.raises(StoreError, match="there is no service"):
        doctor.examine(Options(tmp_path))
