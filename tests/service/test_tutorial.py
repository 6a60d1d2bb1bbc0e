"""The tutorial as written: its commands run in a shell, against a real service, and print what the page says."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_tutorial_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("starlette", reason="the service needs its extra")
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("the page's commands need bash and curl")
    spec = importlib.util.spec_from_file_location(
        "follow_page", ROOT / "scripts" / "follow_page.py"
    )
    assert spec is not None
    assert spec.loader is not None
    follow_page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(follow_page)
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, words in (("reticent", "-m reticent"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (folder / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("RETICENT_ANCHORS", str(tmp_path / "anchors"))
    said = follow_page.scripted(ROOT / "docs" / "tutorials" / "service.md")
    assert int(said.split()[0]) >= 10
