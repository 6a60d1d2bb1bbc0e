"""``make audit-museum``: plant every bug in turn, two at a time, and list those that were not caught.

With ``--out`` each result is kept as soon as it is there, with the version of the sources, and what that version has
already is not planted again: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from museum import bugs, planting


def version() -> str:
    """The commit that changed sources or planted bugs last, marked if files differ from it."""
    root = planting.PACKAGE.parents[1]
    found, changed = (
        subprocess.run(["git", *words, "--", "src", "tests/museum"], capture_output=True, text=True, cwd=root).stdout
        for words in (("log", "-1", "--format=%h", "--abbrev=8"), ("status", "--porcelain"))
    )  # fmt: skip
    return (found.strip() or "unknown") + (", changed" if changed else "")


class Results:
    """What was found on one version of the sources, by the name of the bug."""

    def __init__(self, place: Path | None) -> None:
        self._place, self.version = place, version()
        self.found: dict[str, dict[str, Any]] = {}
        if place is not None and place.exists():
            stored = json.loads(place.read_text())
            if stored["version"] == self.version:
                self.found = {result["name"]: result for result in stored["found"]}

    def add(self, result: dict[str, Any]) -> None:
        self.found[result["name"]] = result
        if self._place is None:
            return
        rows = [self.found[bug.name] for bug in bugs.BUGS if bug.name in self.found]
        listed = [{"name": bug.name, "why": bug.why} for bug in bugs.UNCAUGHT]
        lines = ",\n".join(json.dumps(row) for row in rows)
        self._place.write_text(
            f'{{"version": {json.dumps(self.version)}, "listed": {json.dumps(listed)}, "found": [\n{lines}\n]}}\n'
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="which bugs; by default all of them")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--out", type=Path, help="JSON file to keep results in, and to go on from")
    parser.add_argument("--minutes", type=float, help="begin with no further bug after so long")
    given = parser.parse_args()
    chosen = [bugs.find(name) for name in given.names] or list(bugs.BUGS)
    results, began = Results(given.out), time.perf_counter()

    def plant(bug: planting.Bug) -> dict[str, Any] | None:
        late = given.minutes is not None and time.perf_counter() - began > 60.0 * given.minutes
        return None if late else planting.run(bug)

    with ThreadPoolExecutor(given.jobs) as pool:
        for result in pool.map(plant, [bug for bug in chosen if bug.name not in results.found]):
            if result is None:
                continue
            results.add(result)
            mark = "caught" if result["caught"] else "MISSED"
            words = "; ".join(f"{v['verdict']}: {v['how']}" for v in result["lines"])
            print(f"{mark}  {result['seconds']:6.1f} s  {result['name']}  "
                  f"{result.get('error', words)}", flush=True)  # fmt: skip
    found = [results.found[bug.name] for bug in chosen if bug.name in results.found]
    missed = [result["name"] for result in found if not result["caught"]]
    print(f"{len(found) - len(missed)} of {len(chosen)} bugs were caught, {len(missed)} missed, "
          f"{len(chosen) - len(found)} not planted yet, in {time.perf_counter() - began:.0f} s; "
          f"{len(bugs.UNCAUGHT)} are known to escape")  # fmt: skip
    return 1 if missed or len(found) < len(chosen) else 0


if __name__ == "__main__":
    raise SystemExit(main())
