"""The errata page: its figures are current, and every test that it names exists."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "errata.md"


@pytest.fixture(scope="module")
def script():
    path = ROOT / "scripts" / "errata_figures.py"
    specification = importlib.util.spec_from_file_location("errata_figures", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_figures_are_up_to_date(script, tmp_path, monkeypatch):
    found = script.figures()
    monkeypatch.setattr(script, "figures", lambda: found)
    assert script.main(["--check"]) == 0
    assert json.loads((ROOT / "docs" / "errata-figures.json").read_text("utf-8")) == found
    # a page whose figure was changed by hand is noticed, and mended
    page, data = tmp_path / "page.md", tmp_path / "figures.json"
    name, value = next(iter(found.items()))
    changed = PAGE.read_text("utf-8").replace(
        f"<!--={name}-->{value}<!--/-->", f"<!--={name}-->0<!--/-->"
    )
    page.write_text(changed, "utf-8")
    assert script.main(["--check"], page, data) == 1
    assert script.main([], page, data) == 0
    assert page.read_text("utf-8") == PAGE.read_text("utf-8")
    assert script.main(["--check"], page, data) == 0


def test_a_figure_without_a_place_or_a_place_without_a_figure_is_refused(script):
    with pytest.raises(SystemExit, match="not used there: \\['a'\\]"):
        script.filled("", {"a": "1"})
    with pytest.raises(SystemExit, match="unknown in the page: \\['b'\\]"):
        script.filled("<!--=b-->1<!--/-->", {})


def test_figures_are_short(script):
    assert [script.text(v) for v in (1.0, 0.12345, 12345.6, 2.46e9, 4.2e-10, 226.1)] == [
        "1", "0.123", "12300", "2.46e9", "4.2e-10", "226",
    ]  # fmt: skip


def test_every_test_that_the_page_names_exists():
    text = PAGE.read_text("utf-8")
    named = set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text))
    assert len(named) > 40
    for file, function in named:
        path = ROOT / file
        assert path.exists(), file
        assert not function or f"def {function}(" in path.read_text("utf-8"), (file, function)


def test_every_entry_says_where(script):
    entries = re.split(r"\n### (?=[WBOVC]\d+\.)", PAGE.read_text("utf-8"))[1:]
    assert len(entries) > 65
    for entry in entries:
        assert "**Where.**" in entry, entry.splitlines()[0]
        assert any(word in entry for word in ("**Correct.**", "**Why.**", "**Consequence.**"))


def test_no_two_entries_share_a_name():
    text = PAGE.read_text("utf-8")
    names = re.findall(r"^### ([WBOVC]\d+)\.", text, re.M) + re.findall(
        r"^\| ([WBOVC]\d+) \|", text, re.M
    )
    assert len(names) == len(set(names))
    assert len(names) > 90
