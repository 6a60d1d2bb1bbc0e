"""The power of every line of the audit: compute it, keep it in docs/audit-lines.json, write it into docs/audit.md.

    python scripts/audit_table.py --run                    # all lines: exact ones in full, attacks in quick mode
    python scripts/audit_table.py --run white-box-erm ...  # some families or attacks, the others as they are stored
    python scripts/audit_table.py --missing                # the lines that are not stored
    python scripts/audit_table.py                          # rewrite the generated parts of the page from what is stored
    python scripts/audit_table.py --check                  # exit with 1 if the page or the list of lines is out of date

Seconds are of one processor, compiled code at hand.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from reticent.audit import summary, whitebox_cases

DOCS = Path(__file__).resolve().parents[1] / "docs"
STORED, PAGE = DOCS / "audit-lines.json", DOCS / "audit.md"
END = "<!-- end generated -->"

Row = dict[str, Any]


def present() -> dict[tuple[str, str], tuple[summary.Task, bool]]:
    """The lines that there are: how each is run here, and whether the quick mode has it."""
    quick = {summary.title(*task[:3]) for task in summary.planned(True)}
    tasks = [task for task in summary.planned(False) if task[0] == "exact"]
    tasks += [task for task in summary.planned(True) if task[0] != "exact"]
    found = {summary.title(*task[:3]): task for task in tasks}
    return {key: (task, key in quick) for key, task in found.items()}


def stored() -> list[Row]:
    """What was computed last."""
    rows: list[Row] = json.loads(STORED.read_text()) if STORED.exists() else []
    return rows


def compute(task: summary.Task, quick: bool) -> Row:
    """One line: the share of its claim that it reaches, and the least fault that it notices."""
    began = time.process_time()
    with np.errstate(all="ignore"):
        line = summary.run_line(*task)
    share = line.finding.tightness
    return {
        "name": line.name, "setting": line.setting, "exact": task[0] == "exact", "quick": quick,
        "share": None if share is None else round(share, 4),
        "notices": None if math.isinf(line.finding.fault) else round(max(line.finding.fault, 1.001), 3),
        "verdict": line.verdict, "seconds": round(time.process_time() - began, 2),
    }  # fmt: skip


def run(only: list[str], missing: bool) -> None:
    """Compute lines, some or all, and store them in the order of the audit."""
    lines = present()
    rows = {(row["name"], row["setting"]): row for row in stored()}
    for key, (task, quick) in lines.items():
        if (only and key[0] not in only) or (missing and key in rows):
            continue
        rows[key] = compute(task, quick)
        print("  ".join(str(value) for value in rows[key].values()), flush=True)
        kept = [json.dumps(rows[k]) for k in lines if k in rows]
        STORED.write_text("[\n" + ",\n".join(kept) + "\n]\n")


def _cell(row: Row) -> str:
    share = "" if row["share"] is None else f"{row['share']:.2f}"
    notices = "" if row["notices"] is None else f"{row['notices']:.3g}"
    words = "" if row["verdict"] == "holds" else row["verdict"]
    mode = "" if row["quick"] else "full"
    return f"| {row['setting'] or row['name']} | {share} | {notices} | {mode} | {words} |"


def _minutes(rows: list[Row]) -> str:
    return f"{sum(row['seconds'] for row in rows) / 60.0:.1f}"


def families(rows: list[Row]) -> str:
    """One row for each family of exact lines, and one for all attacks."""
    out = [
        "| lines | how many | median share | least share | reached by |",
        "|---|---|---|---|---|",
    ]
    groups = [(name, [r for r in rows if r["name"] == name]) for name in whitebox_cases.names()]
    groups.append(("attacks with chance, quick mode", [r for r in rows if not r["exact"]]))
    for name, mine in groups:
        known = [row for row in mine if row["share"] is not None]
        if known:
            least = min(known, key=lambda row: row["share"])
            middle = statistics.median(row["share"] for row in known)
            which = (
                f"{least['name']}, {least['setting']}" if not least["exact"] else least["setting"]
            )
            out.append(f"| {name} | {len(mine)} | {middle:.2f} | {least['share']:.2f} | {which} |")
    weak = [
        sum(r["verdict"] == "no power" for r in rows if r["exact"] == exact)
        for exact in (True, False)
    ]
    exact = [row for row in rows if row["exact"]]
    quick = [row for row in rows if row["quick"]]
    out += [
        "",
        f'{weak[0]} of {len(exact)} exact lines say "no power", and {weak[1]} of {len(rows) - len(exact)} '
        f"attacks with the runs of the quick mode. The quick mode has {len(quick)} lines and takes "
        f"{_minutes(quick)} minutes of processor time, compiled code at hand; all exact lines take {_minutes(exact)}.",
    ]
    return "\n".join(out)


def every(rows: list[Row]) -> str:
    """All lines, by family."""
    out: list[str] = []
    for name in dict.fromkeys(row["name"] for row in rows):
        out += [
            f"**{name}**",
            "",
            "| setting | share | notices noise / | mode | |",
            "|---|---|---|---|---|",
        ]
        out += [*(_cell(row) for row in rows if row["name"] == name), ""]
    return "\n".join(out).rstrip()


def written(text: str, rows: list[Row]) -> str:
    """The page with its generated parts."""
    for name, part in (("families", families(rows)), ("every line", every(rows))):
        begin = f"<!-- generated: {name} -->"
        before, rest = text.split(begin, 1)
        text = f"{before}{begin}\n{part}\n{END}{rest.split(END, 1)[1]}"
    return text


def problems() -> list[str]:
    """Why page, stored lines and present lines do not agree; nothing where they do."""
    rows, lines = stored(), present()
    mine = {(row["name"], row["setting"]): row["quick"] for row in rows}
    found = [f"not stored: {key}" for key in lines if key not in mine]
    found += [f"stored, and gone: {key}" for key in mine if key not in lines]
    found += [
        f"of another mode: {key}" for key in mine if key in lines and lines[key][1] != mine[key]
    ]
    if PAGE.read_text() != written(PAGE.read_text(), rows):
        found.append("docs/audit.md is not what is stored; run scripts/audit_table.py")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--run", nargs="*", metavar="NAME", help="compute these lines, by default all"
    )
    parser.add_argument("--missing", action="store_true", help="compute what is not stored")
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args()
    if given.check:
        print("\n".join(problems()))
        return 1 if problems() else 0
    if given.run is not None or given.missing:
        run(given.run or [], given.missing)
    PAGE.write_text(written(PAGE.read_text(), stored()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
