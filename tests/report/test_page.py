"""A page stands alone: well-formed, nothing fetched, nothing executed, everything escaped."""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from reticent import Budget, sums
from reticent.plots import COLOURS, axes, error_over_time
from reticent.plots.over_time import over_time
from reticent.plots.tradeoff import claimed_misses
from reticent.report import Page, inline_svg
from reticent.report.page import least_misses
from reticent.report.style import SHEET

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Balance(HTMLParser):
    """Open elements must close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def page() -> Page:
    page = Page("A <b>title</b> & more", "sub")
    page.heading("First")
    page.text("1 < 2 & so on")
    page.facts({"records": "10"})
    page.table(["name", "value"], [["<script>alert(1)</script>", "1.5"], ["b", "2e-06"]], "two")
    ax = over_time([1, 10, 100], {"a": np.ones((3, 3)), "b": [1, 2, 3]}, measure="x")
    page.figure(ax, "a <picture>", kind="private")
    page.figure(error_over_time([1, 2], {"tree": [1.0, 2.0]}), "another")
    page.guarantee(sums.Tree(2, 64, budget=Budget(1.0, 1e-6), seed=0).guarantee)
    page.privacy(["the model"], ["the rest"])
    page.command("reticent learn 'a file.csv' --epsilon 1")
    return page


def test_the_page_is_well_formed_and_escaped(page: Page) -> None:
    text = page.html()
    parser = Balance()
    parser.feed(text)
    assert parser.open == []
    assert "script" not in parser.tags
    assert "&lt;script&gt;" in text
    assert "<b>title" not in text
    assert parser.tags.count("svg") == 2


def test_nothing_is_fetched(page: Page) -> None:
    text = page.html()
    assert "default-src 'none'" in text
    links = set(re.findall(r"https?://[^\"' )]+", text))
    assert links <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"@import|<link|<img|src=|url\((?!#)", text)


def test_names_within_drawings_are_unique_and_resolve(page: Page) -> None:
    text = page.html()
    names = re.findall(r'\bid="([^"]+)"', text)
    assert len(names) == len(set(names))
    used = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)
    assert used
    assert {a or b for a, b in used} <= set(names)


def test_drawings_take_their_colours_from_the_page() -> None:
    ax = over_time([1, 2, 3], {f"line {k}": [k, k, k] for k in range(7)}, measure="x")
    text = inline_svg(ax, "one", 'say "hi" & <go>')
    ElementTree.fromstring(text)
    for k, colour in enumerate(COLOURS):
        assert f"var(--c{k})" in text
        assert colour.lower() not in text.lower()
        assert SHEET.count(f"--c{k}:") == 2  # light and dark
    assert "#000000" not in text
    assert "#ffffff" not in text
    assert text == inline_svg(ax, "one", 'say "hi" & <go>')
    with pytest.raises(ValueError, match="name must be"):
        inline_svg(ax, "not a name")


def _luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_text_and_lines_have_contrast(mode: int) -> None:
    """WCAG 2: 4.5 to 1 for text, 3 to 1 for graphics, on the card that they stand on."""

    def colour(name: str) -> str:
        return re.findall(rf"--{name}: (#[0-9a-f]{{6}})", SHEET)[mode]

    def ratio(a: str, b: str) -> float:
        high, low = sorted((_luminance(colour(a)), _luminance(colour(b))), reverse=True)
        return (high + 0.05) / (low + 0.05)

    for name in ("ink", "muted"):
        assert ratio(name, "card") >= 4.5, name
        assert ratio(name, "paper") >= 4.5, name
    assert ratio("private", "private-paper") >= 4.5
    assert ratio("look", "look-paper") >= 4.5
    for k in range(len(COLOURS)):
        assert ratio(f"c{k}", "card") >= 3.0, k


def test_a_page_with_diagnostics_is_its_owners(page: Page, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        path = page.write(tmp_path / "deep" / "public.html")
        assert path.stat().st_mode & 0o777 == 0o644
        assert "Do not publish" not in path.read_text()
        page.figure(axes(), "accuracy", kind="diagnostic")
        path.chmod(0o666)
        page.write(path)
        assert path.stat().st_mode & 0o777 == 0o600
        assert "Do not publish" in path.read_text()
    finally:
        os.umask(before)
    with pytest.raises(ValueError, match="kind must be one of"):
        page.figure(axes(), "accuracy", kind="secret")


def test_the_guarantee_is_told_in_words_and_its_warnings_are_seen(page: Page) -> None:
    text = page.html()
    assert "one record is blanked" in text
    assert "one who guesses blindly, for about 500" in text
    assert "an experiment, not a release" in text


def test_least_misses_against_the_other_computation() -> None:
    guarantee = sums.Tree(2, 64, budget=Budget(2.0, 1e-6)).guarantee
    x = np.linspace(0.0, 1.0, 21)
    other = claimed_misses(guarantee.delta, x)
    assert least_misses(guarantee.epsilon, x) == pytest.approx(other, abs=2e-3)
