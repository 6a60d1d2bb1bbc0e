"""Compute the figures of docs/errata.md, and write them there and into docs/errata-figures.json.

    python scripts/errata_figures.py           # rewrite the figures
    python scripts/errata_figures.py --check   # exit with 1 if the page or the JSON is out of date

A figure stands in the page between two comments, ``<!--=W1.printed-->1096<!--/-->``; its name is the
entry's, and the calculation is in ``scripts/errata/``.

The table of true epsilons on the same page is written by another script, ``make_errata_table.py``;
neither touches the other's part.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from errata import bandit, chapter, online, vertical, window  # noqa: E402

PAGE = ROOT / "docs" / "errata.md"
DATA = ROOT / "docs" / "errata-figures.json"
MARK = re.compile(r"<!--=([\w.-]+)-->(.*?)<!--/-->")


def text(value: float) -> str:
    """Three digits: enough to compare, few enough to be the same on every machine."""
    if value == round(value) and abs(value) < 1e6:
        return f"{value:.0f}"
    short = f"{value:.3g}"
    if "e" not in short:
        return short
    if 1e3 <= abs(value) < 1e6:
        return f"{float(short):.0f}"
    mantissa, exponent = short.split("e")
    return f"{mantissa}e{int(exponent)}"


def figures() -> dict[str, str]:
    """All figures by name, as they are printed."""
    found: dict[str, float] = {}
    for module in (window, bandit, online, vertical, chapter):
        found |= module.figures()
    assert all(math.isfinite(value) for value in found.values())
    return {name: text(value) for name, value in sorted(found.items())}


def filled(page: str, found: dict[str, str]) -> str:
    """The page with every figure in its place; every name must be known, and every figure used."""
    used = {match.group(1) for match in MARK.finditer(page)}
    if used != set(found):
        raise SystemExit(
            f"unknown in the page: {sorted(used - set(found))}; "
            f"not used there: {sorted(set(found) - used)}"
        )
    return MARK.sub(lambda match: f"<!--={match[1]}-->{found[match[1]]}<!--/-->", page)


def main(arguments: list[str] | None = None, page: Path = PAGE, data: Path = DATA) -> int:
    """Write page and JSON, or with ``--check`` only say whether they are up to date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if out of date")
    options = parser.parse_args(arguments)
    found = figures()
    wanted = {
        page: filled(page.read_text(encoding="utf-8"), found),
        data: json.dumps(found, indent=1) + "\n",
    }
    stale = [
        path for path, new in wanted.items() if not path.exists() or path.read_text("utf-8") != new
    ]
    for path in stale:
        if options.check:
            print(f"{path} is out of date; run {Path(__file__).name}", file=sys.stderr)
        else:
            path.write_text(wanted[path], encoding="utf-8")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
