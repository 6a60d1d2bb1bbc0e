"""What the documentation's build does to its pages: the whole public interface, and formulas without a script.

A line ``{{ reticent.erm }}`` in a page of the reference stands for every name in ``reticent.erm.__all__``, so that none
can be forgotten. Roles such as ``:class:`` in docstrings become plain code. Formulas become MathML:
no script, no network.
"""

from __future__ import annotations

import html
import importlib
import importlib.util
import inspect
import os
import re
import types
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

_PACKAGE = re.compile(r"^\{\{ (reticent[\w.]*) \}\}$", re.MULTILINE)
_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):<code>~?([^<]+)</code>")
_PRIME = re.compile(r"<msup>(<mi>[^<]*</mi>)<mi>&#x02032;</mi></msup>")
"""The sign is raised in most fonts; a superscript raises it out of the line."""
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def public(package: str) -> list[str]:
    """Where each public name of a package is defined, in the order of ``__all__``.

    A solver's module has the name of its function, so the package's own name for it would show the module.
    """
    module = importlib.import_module(package)
    found = []
    for name in module.__all__:
        thing = getattr(module, name)
        is_defined = inspect.isclass(thing) or isinstance(thing, types.FunctionType)
        found.append(
            f"{thing.__module__}.{thing.__qualname__}" if is_defined else f"{package}.{name}"
        )
    return found


def on_config(config: Any, **_: Any) -> Any:
    """Called by mkdocs first: every page says which version it describes, and mike's builds let readers choose one."""
    version: dict[str, str] = {}
    exec((Path(__file__).parents[1] / "src/reticent/version.py").read_text(), version)
    config.copyright = f"Reticent {version['__version__']}, Apache-2.0"
    if "MIKE_DOCS_VERSION" in os.environ:
        config.extra["version"] = {"provider": "mike"}
    return config


def on_pre_build(**_: Any) -> None:
    """Called by mkdocs before it looks for files."""
    _notebooks().write()


def _notebooks() -> Any:
    path = Path(__file__).with_name("notebooks.py")
    spec = importlib.util.spec_from_file_location("notebooks", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for the text of each page."""
    if "{{ notebooks }}" in markdown:
        markdown = markdown.replace("{{ notebooks }}", _notebooks().gallery())
    return _PACKAGE.sub(
        lambda match: "\n\n".join(f"::: {path}" for path in public(match[1])), markdown
    )


def on_page_content(content: str, **_: Any) -> str:
    """Called by mkdocs for the HTML of each page."""

    def formula(match: re.Match[str]) -> str:
        display = "block" if match[2] == "[" else "inline"
        made = convert(html.unescape(match[3]), display=display)
        made = _PRIME.sub(r'\1<mo lspace="0" rspace="0">&#x02032;</mo>', made)
        if "\\" in made:
            raise ValueError(f"a command is left in the formula {match[3]}: write it otherwise")
        return f'<{match[1]} class="formula">{made}</{match[1]}>'

    return _FORMULA.sub(formula, _ROLE.sub(r"<code>\1</code>", content))
