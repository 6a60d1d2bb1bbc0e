"""The reference shows every public name, and docstrings name every parameter of the signature, one by one."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parents[1]
_REFERENCE = _ROOT / "docs" / "reference"
_SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", re.DOTALL | re.MULTILINE)
_RETURNS = re.compile(r"^(?:Returns|Yields)\n-+\n([^\n]*)$", re.MULTILINE)
_PACKAGES = [
    "audit", "bandit", "devices", "erm", "estimators", "losses", "noise", "online", "papers", "plots", "privacy",
    "report", "sets", "state", "sums", "tables", "trace", "vertical",
]  # fmt: skip

pytest.importorskip("latex2mathml", reason="the pages' hook needs the docs group")
sys.path.insert(0, str(_ROOT / "scripts"))
pages = importlib.import_module("pages")
sys.path.pop(0)


def _things() -> list[Any]:
    found = {}
    for package in _PACKAGES:
        module = importlib.import_module(f"reticent.{package}")
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found[f"{package}.{name}"] = thing
    return [pytest.param(thing, id=name) for name, thing in sorted(found.items())]


@pytest.mark.parametrize("package", _PACKAGES)
def test_every_package_is_shown(package: str) -> None:
    text = "".join(path.read_text() for path in _REFERENCE.glob("*.md"))
    assert f"{{{{ reticent.{package} }}}}" in text


def test_the_hook_shows_functions_whose_module_has_the_same_name() -> None:
    text = pages.on_page_markdown("{{ reticent.erm }}")
    assert "::: reticent.erm.gradient_descent.gradient_descent" in text.splitlines()


def test_the_hook_removes_roles() -> None:
    page = "<p>See :class:<code>reticent.Budget</code>.</p>"
    assert pages.on_page_content(page) == "<p>See <code>reticent.Budget</code>.</p>"


@pytest.mark.parametrize("thing", _things())
def test_what_is_returned_begins_with_its_type(thing: Any) -> None:
    section = _RETURNS.search(inspect.getdoc(thing) or "")
    if section is not None:  # a sentence there is printed as code, its roles and backticks with it
        assert not section[1].rstrip().endswith(".")


@pytest.mark.parametrize("thing", _things())
def test_a_docstring_names_the_parameters_of_the_signature(thing: Any) -> None:
    text = inspect.getdoc(thing)
    assert text, "no docstring"
    section = _SECTION.search(text)
    if section is None or (inspect.isclass(thing) and thing.__doc__ is None):
        return
    named = [
        line.split(" : ")[0].strip().lstrip("*")
        for line in section[1].splitlines()
        if line.strip() and not line.startswith(" ")
    ]
    grouped = [name for name in named if "," in name]
    assert not grouped, f"one parameter per line, not {grouped}"
    taken = [name for name in inspect.signature(thing).parameters if name != "self"]
    assert sorted(named) == sorted(taken)
