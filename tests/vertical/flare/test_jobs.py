"""A job holds names and terms, and no code."""

from __future__ import annotations

import json
from pathlib import Path

from reticent.vertical.flare import jobs, kits

from .deployment import PARTIES, needs_engine, terms


def test_a_job_holds_names_and_terms_and_no_code(tmp_path: Path) -> None:
    needs_engine()
    job = jobs.write_job(terms(), PARTIES, tmp_path)
    files = sorted(path.name for path in job.rglob("*") if path.is_file())
    assert files == ["config_fed_client.json", "config_fed_server.json", "meta.json"]
    client = json.loads((job / "app/config/config_fed_client.json").read_text())
    assert client["components"] == [{"id": "_client", "path": kits.SITE_CLASS, "args": {}}]
    leader = json.loads((job / "app/config/config_fed_server.json").read_text())
    assert leader["components"][0]["path"] == kits.SERVER_CLASS
    assert leader["components"][0]["args"]["terms"] == terms()
    assert json.loads((job / "meta.json").read_text())["mandatory_clients"] == list(PARTIES)
