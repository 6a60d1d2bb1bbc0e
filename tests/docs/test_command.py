"""The first session of docs/command.md prints what the page says."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "command.md"


def shown(words: str) -> str:
    """What the page prints below a command."""
    text = PAGE.read_text("utf-8").split(f"$ {words}\n")[1]
    return re.split(r"\n\$ |\n```", text)[0].strip()


def same(page: str, printed: str) -> bool:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(page + "\n", printed.strip() + "\n", flags)


@pytest.mark.slow
def test_the_first_session_prints_what_the_page_says(tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8")
    table = text.split("```python\n")[1].split("```")[0]
    schema = text.split("```toml\n")[1].split("```")[0]
    (tmp_path / "visits.toml").write_text(schema)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    common = {"cwd": tmp_path, "capture_output": True, "text": True, "env": environment}
    subprocess.run([sys.executable, "-c", table], check=True, **common)

    def reticent(words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "reticent", *words.split()], check=True, **common
        )
        return done.stdout + (done.stderr if "--score" in words else "")

    online = "learn visits.csv --schema visits.toml --epsilon 1 --out run"
    offline = "learn visits.csv --schema visits.toml --epsilon 1 --offline --out table"
    for words in (online, offline):
        assert same(shown(f"reticent {words}"), reticent(words)), words
    page, printed = shown("reticent explain run/model.json"), reticent("explain run/model.json")
    assert same(page + "\n...", printed), printed
    scored = reticent("predict run/model.json visits.csv --score --quiet")
    assert scored.count("\n") >= 100_000


def test_every_command_of_the_page_exists() -> None:
    from typer.main import get_command

    from reticent.cli.app import app

    command = get_command(app)
    for name in re.findall(r"^\| `reticent ([a-z]+)", PAGE.read_text("utf-8"), flags=re.MULTILINE):
        assert name in command.commands, name
