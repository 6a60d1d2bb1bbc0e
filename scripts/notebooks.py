"""Write the tutorials as notebooks: docs/notebooks/*.ipynb, from docs/tutorials/*.md.

    python scripts/notebooks.py

The build of the documentation does this too. The pages are run by the tests, so the notebooks' code is too. Text
becomes Markdown cells; the lines behind ``>>>`` become code cells, and what a page prints becomes their output.
"""

from __future__ import annotations

import doctest
import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTEBOOKS = DOCS / "notebooks"
PAGES = {
    "tutorials/table": "A table: scikit-learn estimators, pipelines, a ledger",
    "tutorials/unknown-table": "A table that you know nothing about: bounds, intervals",
    "tutorials/people": "People with several records each",
    "tutorials/stream": "A stream: a model that is always current",
    "tutorials/endless": "An endless stream: guarantees by age",
    "tutorials/pricing": "A bandit: only the revenue is seen",
    "algorithms/vertical": "Hospitals: columns with different owners, in one process",
    "tutorials/researcher": "A mechanism of your own, audited",
}
_BLOCK = re.compile(r"```python\n(>>>.*?)```\n?", re.DOTALL)


def cells(text: str, folder: str) -> list[dict[str, Any]]:
    """The cells of a page."""
    found: list[dict[str, Any]] = []
    at = 0
    for match in _BLOCK.finditer(text):
        _add_text(found, text[at : match.start()], folder)
        found += [_code(example) for example in _grouped(match[1])]
        at = match.end()
    _add_text(found, text[at:], folder)
    return found


def _grouped(block: str) -> list[tuple[str, str]]:
    """Source and output: examples that print nothing go with the next one that does."""
    found, source = [], ""
    for example in doctest.DocTestParser().get_examples(block):
        source += example.source
        if example.want:
            found.append((source, example.want))
            source = ""
    return [*found, (source, "")] if source else found


def _code(example: tuple[str, str]) -> dict[str, Any]:
    source, printed = example
    output = (
        [{"output_type": "stream", "name": "stdout", "text": _lines(printed)}] if printed else []
    )
    # Jupyter runs on behind a cell with this tag: what is refused is shown, and is no failure
    metadata = {"tags": ["raises-exception"]} if printed.startswith("Traceback") else {}
    return {
        "cell_type": "code", "execution_count": None, "metadata": metadata, "outputs": output,
        "source": _lines(source.rstrip("\n")),
    }  # fmt: skip


def _add_text(found: list[dict[str, Any]], text: str, folder: str) -> None:
    if text.strip():
        words = re.sub(r"\]\((?!http|#)([^)]+)\)", rf"](../{folder}/\1)", text.strip())
        found.append({"cell_type": "markdown", "metadata": {}, "source": _lines(words)})


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def notebook(page: Path) -> str:
    """A page as the text of a notebook."""
    made = cells(page.read_text("utf-8"), page.parent.name)
    for number, cell in enumerate(made):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def write() -> None:
    """All notebooks."""
    NOTEBOOKS.mkdir(exist_ok=True)
    for name in PAGES:
        path, text = NOTEBOOKS / f"{Path(name).name}.ipynb", notebook(DOCS / f"{name}.md")
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def gallery() -> str:
    """A line for each notebook, for `docs/gallery.md`."""
    rows = [
        f"| {words} | [notebook](notebooks/{Path(name).name}.ipynb) | [page]({name}.md) |"
        for name, words in PAGES.items()
    ]
    return "\n".join(["| about | | |", "|---|---|---|", *rows])


if __name__ == "__main__":
    write()
