"""The runs of the harness that were kept, and the tables of docs/service.md that are made from them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reticent.version import __version__

_ROOT = Path(__file__).resolve().parents[2]
STORED, PAGE = _ROOT / "benchmarks" / "results" / "faults.json", _ROOT / "docs" / "service.md"
_BEGIN, _END = "<!-- generated: faults -->", "<!-- end generated -->"
_HEAD = (
    "| fault | version | seed | times | requests | records, each counted once | "
    "decisions equal to the replay | outputs that clients saw | wrong |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)
_COUNTS = ("count", "requests", "records", "decisions", "seen")


def version() -> str:
    """Which sources a run is made on: a commit, marked if files differ from it."""
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty=, changed", "--abbrev=8", "--exclude=*"],
        capture_output=True, text=True, cwd=_ROOT,
    )  # fmt: skip
    return found.stdout.strip() if found.returncode == 0 else __version__


def stored() -> list[dict[str, Any]]:
    """The runs that were kept, in the order in which they were made."""
    runs: list[dict[str, Any]] = json.loads(STORED.read_text()) if STORED.exists() else []
    return runs


def keep(rows: list[dict[str, Any]]) -> None:
    """Add runs to those that were kept."""
    lines = ",\n".join(json.dumps(row) for row in [*stored(), *rows])
    STORED.write_text(f"[\n{lines}\n]\n")


def written(page: str, runs: list[dict[str, Any]], words: Mapping[str, str]) -> str:
    """The page with its generated part made anew.

    Parameters
    ----------
    page : str
        The page as it is.
    runs : list of dict
        What was kept.
    words : mapping
        What each scenario is called, in the order of the table.
    """
    lines = []
    for name, called in words.items():
        mine = [run for run in runs if run["scenario"] == name]
        lines += [_line(called, run) for run in mine]
        if len(mine) > 1:
            total = {key: sum(run[key] for run in mine) for key in _COUNTS}
            wrong = [one for run in mine for one in run["wrong"]]
            lines.append(
                _line(f"**{called}, all**", {**total, "wrong": wrong, "version": "", "seed": ""})
            )
    before, _, rest = page.partition(_BEGIN)
    after = rest.partition(_END)[2]
    return f"{before}{_BEGIN}\n\n{_HEAD}{''.join(lines)}\n{_END}{after}"


def _line(called: str, run: Mapping[str, Any]) -> str:
    counts = " | ".join(f"{run[key]:,}" for key in _COUNTS)
    return f"| {called} | {run['version']} | {run['seed']} | {counts} | {len(run['wrong'])} |\n"
