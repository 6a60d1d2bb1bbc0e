"""Side by side with peers: every question, every table, as data and as a page.

    python benchmarks/bench.py                   # some 20 minutes on two idle cores
    python benchmarks/bench.py --full            # hours: all data, the whole grid of DP-SGD, ten seeds
    python benchmarks/bench.py --question 3      # the tables of one question
    python benchmarks/bench.py --table fits      # one table
    python benchmarks/bench.py --page            # only write the page from the data that is there
    python benchmarks/bench.py --into DIR        # a run apart: its data go to DIR, and the page stays
    python benchmarks/bench.py --compare DIR     # whether the data in DIR agree with those of the page

Peers are installed from the package index into environments of their own on first use. A table that was made is
written to ``benchmarks/results/tables`` at once; the page ``docs/benchmarks.md`` is made of these files and of
nothing else.

The one thing a reader would get wrong: the page may mix runs. Each table says which command made it, how loaded the
machine was and when; a ratio compares times of the same minute.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from importlib.metadata import version
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import compare  # noqa: E402
import page  # noqa: E402
import table  # noqa: E402
from questions import TITLES, Run, maker, makers  # noqa: E402


def facts(run: Run, before: float, seconds: float) -> dict[str, object]:
    """Under what circumstances a table was made."""
    versions = {name: version(name) for name in ("tacit", "numpy", "numba", "scikit-learn")}
    named = {"diffprivlib": ("diffprivlib", "scikit-learn"), "opacus": ("opacus", "torch"),
             "jax_privacy": ("jax_privacy", "jax")}  # fmt: skip
    for name in sorted(run.used):
        pins = run.peer(name).versions
        versions |= {f"{name}'s {p}" if p != name else p: pins[p] for p in named[name]}
    return {
        "mode": "full" if run.full else "quick",
        "seconds": round(seconds, 1),
        "load": [round(before, 2), round(os.getloadavg()[0], 2)],
        "cores": os.cpu_count(),
        "processor": processor(),
        "python": sys.version.split()[0],
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        "versions": versions,
    }


def processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            names = [
                line.split(":", 1)[1].strip() for line in file if line.startswith("model name")
            ]
    except OSError:
        names = []
    return names[0] if names else "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--question", type=int, action="append", choices=list(TITLES))
    parser.add_argument("--table", action="append", help="by name; --list shows the names")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--into", type=Path, default=table.RESULTS, metavar="DIR")
    parser.add_argument("--compare", type=Path, metavar="DIR", help="status 1 if a ratio differs")
    options = parser.parse_args()
    if options.compare:
        if not options.compare.is_dir():
            parser.error(f"--compare: there is no folder {options.compare}; --into makes one")
        return not compare.report(options.compare, options.into)
    known = makers()
    if options.list:
        print("\n".join(f"{question}  {name}" for name, (question, _) in known.items()))
        return 0
    unknown = set(options.table or ()) - set(known)
    if unknown:
        parser.error(f"--table: there is no {', '.join(sorted(unknown))}; --list shows the names")
    chosen = [
        name
        for name, (question, _) in known.items()
        if not options.page
        and (not options.question or question in options.question)
        and (not options.table or name in options.table)
    ]
    run, failed = Run(options.full), []
    for name in chosen:
        print(f"\n{name} ...", flush=True)
        before, begun = os.getloadavg()[0], time.perf_counter()
        run.used.clear()
        try:
            made = maker(name)(run)
        except Exception:
            traceback.print_exc()
            failed.append(name)
            continue
        made.facts = facts(run, before, time.perf_counter() - begun) | made.facts
        made.save(options.into)
        print(table.render(made), flush=True)
        if made.loose:
            print(f"{made.loose} ratios did not settle within the limit: marked (!)")
    run.close()
    if options.into == table.RESULTS:
        print(f"wrote {page.write()}")
    if failed:
        print(f"FAILED: {', '.join(failed)}")
    return len(failed) > 0


if __name__ == "__main__":
    sys.exit(main())
