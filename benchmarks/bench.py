"""Side by side with peers: every question, every table, as data and as a page.

    python benchmarks/bench.py                   # some 20 minutes on two idle cores
    python benchmarks/bench.py --full            # hours: all data, the whole grid of DP-SGD, ten seeds
    python benchmarks/bench.py --question 3      # the tables of one question
    python benchmarks/bench.py --table fits      # one table
    python benchmarks/bench.py --page            # only write the page from the data that is there
    python benchmarks/bench.py --into DIR        # a run apart: its data go to DIR, and the page stays
    python benchmarks/bench.py --compare DIR     # whether the data in DIR agree with those of the page

Each table is made by a process of its own, with peers of its own. Where times are measured there are several such
processes, in turns with those of the other tables, and their medians count: where things lie in memory and who shares
the machine changes from process to process and from minute to minute, which no process can see by itself.

Peers are installed from the package index into environments of their own on first use. A table is written to
``benchmarks/results/tables`` as soon as its processes are done; the pages ``docs/benchmarks.md`` and
``docs/benchmark-tables.md`` are made of these files and of nothing else.

The page may mix runs. Each table says which command made it, how loaded the machine was and when; a
ratio compares times of the same minute.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import traceback
from importlib.metadata import version
from pathlib import Path

for variable in ("OPENBLAS", "MKL", "OMP", "RAYON"):
    os.environ.setdefault(f"{variable}_NUM_THREADS", "1")

import compare  # noqa: E402
import page  # noqa: E402
import table  # noqa: E402
from questions import TABLES, TITLES, Run, maker, timed  # noqa: E402
from timing import MOST_PROCESSES, PROCESSES  # noqa: E402


def facts(run: Run, before: float, seconds: float) -> dict[str, object]:
    """Under what circumstances a table was made."""
    versions = {name: version(name) for name in ("reticent", "numpy", "numba", "scikit-learn")}
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


def make_here(name: str, full: bool, into: Path) -> None:
    """One table, by this process."""
    before, begun = os.getloadavg()[0], time.perf_counter()
    run = Run(full)
    try:
        made = maker(name)(run)
        made.facts = facts(run, before, time.perf_counter() - begun) | made.facts
    finally:
        run.close()
    made.save(into)


def make_apart(name: str, full: bool) -> table.Table:
    """One table, by a fresh process, with fresh peers."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        command = [sys.executable, __file__, "--here", "--table", name, "--into", folder]
        subprocess.run([*command, *(["--full"] if full else [])], check=True)
        (made,) = table.load(Path(folder))
    return made


def make_all(names: list[str], full: bool, into: Path) -> list[str]:
    """Make the tables and write them; the names of those that failed."""
    begun = time.perf_counter()
    parts: dict[str, list[table.Table]] = {name: [] for name in names}
    waiting, failed = list(names), []
    done, planned = 0, sum(PROCESSES if timed(name) else 1 for name in names)
    for turn in range(1, MOST_PROCESSES + 1):
        for name in list(waiting):
            done += 1
            planned = max(planned, done)
            minutes, seconds = divmod(int(time.perf_counter() - begun), 60)
            words = f"{name}, process {turn}" if timed(name) else name
            print(f"\n[{minutes}:{seconds:02d}] {done} of {planned}: {words}", flush=True)
            try:
                parts[name].append(make_apart(name, full))
                whole = table.pooled(parts[name])
            except (subprocess.CalledProcessError, ValueError):
                traceback.print_exc()
                failed.append(name)
                waiting.remove(name)
                continue
            if timed(name) and turn < PROCESSES:
                continue
            whole.save(into)
            if whole.loose:
                print(f"{whole.loose} ratios have not settled within the limit: marked (!)")
            if timed(name) and whole.loose and turn < MOST_PROCESSES:
                continue
            waiting.remove(name)
            print(table.render(whole), flush=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--question", type=int, action="append", choices=list(TITLES))
    parser.add_argument("--table", action="append", help="by name; --list shows the names")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--into", type=Path, metavar="DIR")
    parser.add_argument("--compare", type=Path, metavar="DIR", help="status 1 if a ratio differs")
    parser.add_argument(
        "--here", action="store_true", help="by this process, once: what the others are made of"
    )
    options = parser.parse_args()
    home = table.FULL if options.full else table.RESULTS
    options.into = options.into or home
    if options.compare:
        if not options.compare.is_dir():
            parser.error(f"--compare: there is no folder {options.compare}; --into makes one")
        return not compare.report(options.compare, options.into)
    if options.list:
        print("\n".join(f"{question}  {name}" for name, (question, _) in TABLES.items()))
        return 0
    unknown = set(options.table or ()) - set(TABLES)
    if unknown:
        parser.error(f"--table: there is no {', '.join(sorted(unknown))}; --list shows the names")
    chosen = [
        name
        for name, (question, _) in TABLES.items()
        if not options.page
        and (not options.question or question in options.question)
        and (not options.table or name in options.table)
    ]
    if options.here:
        if options.into == home:
            parser.error("--here: one process alone is no result; --into says where to put it")
        for name in chosen:
            make_here(name, options.full, options.into)
        return 0
    failed = make_all(chosen, options.full, options.into)
    if options.into == home:
        print(f"wrote {page.write()}")
    if failed:
        print(f"FAILED: {', '.join(failed)}")
    return len(failed) > 0


if __name__ == "__main__":
    sys.exit(main())
