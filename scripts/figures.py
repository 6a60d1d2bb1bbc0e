"""Run the papers' figures afresh and compare them with the numbers that the documentation shows.

    python scripts/figures.py                   # exit with 1 if a number has changed
    python scripts/figures.py --store [NAME...] # store the new numbers and pictures, and write the tables of the page

The sentences of `docs/reproduce.md` are a person's; those that hold numbers are checked by tests/papers/test_page.py.
Figures whose real data are not there (RETICENT_DATA) are left out.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path

from reticent.cli.reproduce import tables
from reticent.papers.figures import store
from reticent.papers.figures.draw import picture
from reticent.papers.figures.figure import CATALOGUE, Figure, load
from reticent.papers.figures.produce import produce

DOCS = Path(__file__).resolve().parent.parent / "docs"
STORED = DOCS / "pictures" / "reproduce"
TOLERANCE = 1e-6  # of a number: sums in another order move the last digits


def changed(before: store.Result, after: store.Result) -> list[str]:
    """The numbers that are not what they were."""
    if len(before.rows) != len(after.rows):
        return [f"{len(after.rows)} numbers where there were {len(before.rows)}"]
    found = []
    for old, new in zip(before.rows, after.rows, strict=True):
        if abs(new.value - old.value) > TOLERANCE * abs(old.value):
            where = f"{old.panel}, {old.variant}, {old.x}, seed {old.seed}"
            found.append(f"{where}: {new.value:.6g}, stored {old.value:.6g}")
    return found


def said(figure: Figure, result: store.Result) -> dict[tuple[str, ...], str]:
    """What the page may show of a result: tables and findings, each under what does not change of it."""
    words = [f"- {line}" for line in figure.findings(store.summarise(result.rows))]
    parts = tables(figure, result).split("\n\n") + words
    return {name(part): part for part in parts}


def name(part: str) -> tuple[str, ...]:
    """Titles, which hold no measured number, tell parts of the page apart."""
    if part.startswith("- "):
        return (part.split(":")[0],)
    return tuple(line.split("  ")[0] for line in part.split("\n")[:2])


def write(figure: Figure, result: store.Result, page: str) -> str:
    """The page with the tables of one figure as they are now."""
    parts = said(figure, result)

    def block(match: re.Match[str]) -> str:
        shown = match[1]
        if shown.startswith("- "):
            return (
                "```text\n" + "\n".join(parts[name(line)] for line in shown.split("\n")) + "\n```"
            )
        return (
            "```text\n" + "\n\n".join(parts[name(part)] for part in shown.split("\n\n")) + "\n```"
        )

    head, section = page.split(f"\n## {figure.name}:")
    section, mark, rest = section.partition("\n## ")
    section = re.sub(r"```text\n(.*?)\n```", block, section, flags=re.DOTALL)
    return f"{head}\n## {figure.name}:{section}{mark}{rest}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="Figures to run.  [default: all]")
    parser.add_argument("--store", action="store_true", help="Store what has changed.")
    parser.add_argument(
        "--from", dest="folder", type=Path, help="Folder with results of `reticent reproduce`."
    )
    options = parser.parse_args()
    status = 0
    for one in options.names or CATALOGUE:
        figure, before = load(one), store.read(STORED / f"{one}.json")
        settings = json.loads(json.dumps(figure.settings(False)))
        if settings != before.settings:
            print(f"{one}: left out: its data are not there, or its settings have changed")
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.folder or Path(temporary)
            after, _ = produce(figure, settings, folder, one, shown=sys.stderr.isatty())
        differences = changed(before, after)
        print(f"{one}: {len(differences)} of {len(after.rows)} numbers have changed")
        for line in differences[:5]:
            print(f"  {line}")
        status |= bool(differences)
        if options.store and differences:
            store.write(after, STORED, one)
            (STORED / f"{one}.csv").unlink()
            picture(figure, after, CATALOGUE[one].title, STORED / f"{one}.svg")
            page = DOCS / "reproduce.md"
            page.write_text(write(figure, after, page.read_text(encoding="utf-8")), "utf-8")
            status = 0
    return status


if __name__ == "__main__":
    sys.exit(main())
