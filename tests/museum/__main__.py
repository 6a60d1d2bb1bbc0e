"""``make audit-museum``: plant every bug in turn, two at a time, and list those that were not caught."""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from museum import bugs, planting


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="which bugs; by default all of them")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--out", type=Path, help="where to write what was found, as JSON")
    given = parser.parse_args()
    chosen = [bugs.find(name) for name in given.names] or list(bugs.BUGS)
    began = time.perf_counter()
    with ThreadPoolExecutor(given.jobs) as pool:
        found = []
        for result in pool.map(planting.run, chosen):
            found.append(result)
            mark = "caught" if result["caught"] else "MISSED"
            words = "; ".join(f"{v['verdict']}: {v['how']}" for v in result["lines"])
            print(f"{mark}  {result['seconds']:6.1f} s  {result['name']}  "
                  f"{result.get('error', words)}", flush=True)  # fmt: skip
    missed = [result["name"] for result in found if not result["caught"]]
    print(f"{len(found) - len(missed)} of {len(found)} bugs were caught "
          f"in {time.perf_counter() - began:.0f} s; {len(bugs.UNCAUGHT)} are known to escape")  # fmt: skip
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
