"""``python -m reticent.audit``: attack everything, print the table, exit with 1 if a claim falls.

The one thing a reader would get wrong: exit status 0 says that no claim was refuted, not that all
claims were proved; the proofs are in docs/algorithms/.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from reticent.audit.summary import run_all


def main(arguments: list[str] | None = None) -> int:
    """Run the audit and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m reticent.audit", description="Attack our own claims."
    )
    parser.add_argument("--full", action="store_true", help="a million runs of each world; long")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="worst cases to attack, by name")
    parser.add_argument("--runs", type=int, help="runs of each world, whatever they cost")
    parser.add_argument("--json", metavar="PATH", help="also write the report as JSON")
    parser.add_argument("--progress", action="store_true", help="show how far it is")
    options = parser.parse_args(arguments)
    report = run_all(
        quick=not options.full, names=options.only, runs=options.runs, progress=options.progress
    )
    print(report)
    if options.json:
        Path(options.json).write_text(json.dumps(report.to_dict(), indent=1), encoding="utf-8")
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
