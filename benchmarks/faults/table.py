"""The table of docs/service.md, from the runs of the harness that were kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_HEAD = (
    "| fault | version | seed | times | requests | records, each counted once | "
    "decisions equal to the replay | outputs that clients saw | wrong |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)
_COUNTS = ("count", "requests", "records", "decisions", "seen")


def table(runs: list[dict[str, Any]], words: Mapping[str, str]) -> str:
    """All runs, and their sums.

    Parameters
    ----------
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
            total |= {"wrong": wrong, "version": "", "seed": ""}
            lines.append(_line(f"**{called}, all**", total))
    return _HEAD + "".join(lines)


def _line(called: str, run: Mapping[str, Any]) -> str:
    counts = " | ".join(f"{run[key]:,}" for key in _COUNTS)
    return f"| {called} | {run['version']} | {run['seed']} | {counts} | {len(run['wrong'])} |\n"
