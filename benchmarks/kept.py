"""Runs of benchmarks that were kept, each with the version that it was made on, and parts of pages made from them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from reticent.version import __version__

ROOT = Path(__file__).resolve().parents[1]
RESULTS, DOCS = ROOT / "benchmarks" / "results", ROOT / "docs"
_END = "<!-- end generated -->"


def version() -> str:
    """Which sources a run is made on: the commit that changed them last, marked if files differ from it."""
    found, changed = (
        subprocess.run(["git", *words, "--", "src"], capture_output=True, text=True, cwd=ROOT)
        for words in (("log", "-1", "--format=%h", "--abbrev=8"), ("status", "--porcelain"))
    )
    if found.returncode or not found.stdout:
        return __version__
    return found.stdout.strip() + (", changed" if changed.stdout else "")


def stored(name: str) -> list[dict[str, Any]]:
    """The runs of a benchmark that were kept, in the order in which they were made."""
    path = RESULTS / f"{name}.json"
    runs: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return runs


def keep(name: str, run: dict[str, Any]) -> None:
    """Add a run to those that were kept."""
    lines = ",\n".join(json.dumps(row) for row in [*stored(name), run])
    (RESULTS / f"{name}.json").write_text(f"[\n{lines}\n]\n")


def written(page: str, name: str, part: str) -> str:
    """A page with its generated part of this name made anew."""
    begin = f"<!-- generated: {name} -->"
    if begin not in page:
        raise ValueError(f"the page has no line {begin}")
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{part}\n{_END}{rest.partition(_END)[2]}"


def span(values: list[float], form: str = ",.0f") -> str:
    """The least and the most of some numbers, once if they are written alike."""
    low, high = (format(number, form) for number in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
