"""The first session of docs/command.md prints what the page says."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "command.md"


@pytest.fixture
def follow_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The script that does what pages say, in a new folder with the page's table and schema."""
    spec = importlib.util.spec_from_file_location("follow_page", ROOT / "scripts/follow_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "reticent").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reticent "$@"\n')
    (folder / "reticent").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    module.write_visits(PAGE)
    return module


@pytest.mark.slow
def test_the_first_session_prints_what_the_page_says(follow_page) -> None:
    assert int(follow_page.command_page(PAGE).split()[0]) >= 8


def test_promises_are_those_of_the_page(follow_page) -> None:
    """The sentence that `learn` prints, online and offline, without waiting for reports."""
    from reticent.cli import learn
    from reticent.cli.options import LearnOptions
    from reticent.tables import Model

    shown = re.findall(r"^guarantee  (.*)$", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    assert len(shown) == 2
    for online, promise in zip((True, False), shown, strict=True):
        out = Path("online" if online else "offline")
        learn.learn(
            LearnOptions(
                data="visits.csv", schema=Path("visits.toml"), epsilon=1.0, online=online, out=out,
                report=False, diagnostics=False, quiet=True,
            )
        )  # fmt: skip
        assert str(Model.load(out / "model.json").guarantee) == promise


def test_every_command_of_the_page_exists() -> None:
    from typer.main import get_command

    from reticent.cli.app import app

    command = get_command(app)
    for name in re.findall(r"^\| `reticent ([a-z]+)", PAGE.read_text("utf-8"), flags=re.MULTILINE):
        assert name in command.commands, name
