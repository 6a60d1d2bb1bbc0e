"""The power of every line of the audit: compute it, keep it in docs/audit-lines.json, write it into docs/audit.md.

    python scripts/audit_table.py --run                    # all lines: exact ones in full, attacks in quick mode
    python scripts/audit_table.py --run white-box-erm ...  # some families or attacks, the others as they are stored
    python scripts/audit_table.py --missing                # the lines that are not stored
    python scripts/audit_table.py --full [--jobs 2]        # attacks in full mode, those that are not stored
    python scripts/audit_table.py --time quick             # the whole command by the clock: no compiled code, then all
    python scripts/audit_table.py --time full              # likewise, compiled code at hand
    python scripts/audit_table.py                          # rewrite the generated parts of the page from what is stored
    python scripts/audit_table.py --check                  # exit with 1 if the page or the list of lines is out of date

Seconds of lines are of one processor, compiled code at hand; those of the whole command are by the clock, on as many
cores as --jobs says.
The page also has what benchmarks/audit_nulls.py and the museum of planted bugs have kept in benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

from reticent.audit import everything, whitebox_cases

ROOT = Path(__file__).resolve().parents[1]
RESULTS, DOCS = ROOT / "benchmarks" / "results", ROOT / "docs"
STORED, PAGE = DOCS / "audit-lines.json", DOCS / "audit.md"
TIMES = RESULTS / "audit_times.json"
END = "<!-- end generated -->"

Row = dict[str, Any]


def present() -> dict[tuple[str, str], tuple[everything.Task, bool]]:
    """The lines that there are: how each is run here, and whether the quick mode has it."""
    quick = {everything.title(*task[:3]) for task in everything.planned(True)}
    tasks = [task for task in everything.planned(False) if task[0] == "exact"]
    tasks += [task for task in everything.planned(True) if task[0] != "exact"]
    found = {everything.title(*task[:3]): task for task in tasks}
    return {key: (task, key in quick) for key, task in found.items()}


def stored() -> list[Row]:
    """What was computed last."""
    rows: list[Row] = json.loads(STORED.read_text()) if STORED.exists() else []
    return rows


def measure(task: everything.Task) -> Row:
    """One line: the share of its claim that it reaches, the least fault that it notices, its runs and its time."""
    began = time.process_time()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        line = everything.run_line(*task)
    found = line.finding
    share, control = found.tightness, getattr(found, "control", "")
    notices = None if math.isinf(found.fault) else round(max(found.fault, 1.001), 3)
    runs = {} if task[0] == "exact" else {"runs": line.finding.runs}
    return {
        "share": None if share is None else round(share, 4),
        "notices": control or notices,
        "verdict": line.verdict, **runs, "seconds": round(time.process_time() - began, 2),
    }  # fmt: skip


def compute(task: everything.Task, quick: bool) -> Row:
    """One line, as it is stored."""
    name, setting = everything.title(*task[:3])
    return {"name": name, "setting": setting, "exact": task[0] == "exact", "quick": quick,
            **measure(task)}  # fmt: skip


def keep(rows: Iterable[Row], place: Path = STORED) -> None:
    """Store rows, one a line."""
    place.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


def run(only: list[str], missing: bool) -> None:
    """Compute lines, some or all, and store them in the order of the audit."""
    lines = present()
    rows = {(row["name"], row["setting"]): row for row in stored()}
    for key, (task, quick) in lines.items():
        if (only and key[0] not in only) or (missing and key in rows):
            continue
        rows[key] = compute(task, quick)
        print("  ".join(str(value) for value in rows[key].values()), flush=True)
        keep(rows[k] for k in lines if k in rows)


def run_full(minutes: float | None, jobs: int) -> None:
    """Attacks with the runs of the full mode, those that are not stored yet; none begins after so many minutes."""
    began, lines = time.monotonic(), present()
    tasks = {
        everything.title(*task[:3]): task
        for task in everything.planned(False)
        if task[0] != "exact"
    }
    rows = {(row["name"], row["setting"]): row for row in stored()}
    todo = [key for key in tasks if key in rows and "full" not in rows[key]]
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(measure, tasks[key]): key for key in todo}
        for made in as_completed(waiting):
            if made.cancelled():
                continue
            key = waiting[made]
            rows[key]["full"] = made.result()
            print(*key, rows[key]["full"], flush=True)
            keep(rows[k] for k in lines if k in rows)
            if minutes is not None and time.monotonic() - began > 60.0 * minutes:
                pool.shutdown(wait=False, cancel_futures=True)


def time_whole(mode: str, cores: int) -> None:
    """The command by the clock, with an empty folder of compiled code and with what the first run left there."""
    found = json.loads(TIMES.read_text()) if TIMES.exists() else []
    with tempfile.TemporaryDirectory() as kernels:
        environment = {**os.environ, "NUMBA_CACHE_DIR": kernels}
        command = [sys.executable, "-W", "ignore", "-m", "reticent", "audit", "--json"]
        command += ["--jobs", str(cores)]
        for compiled in (False, True):
            if mode == "full" and not compiled:
                environment.pop("NUMBA_CACHE_DIR")
                continue
            began, used = time.perf_counter(), os.times()
            words = [*command, "--full"] if mode == "full" else command
            answer = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True)
            seconds, now = time.perf_counter() - began, os.times()
            processor = now.children_user + now.children_system
            processor -= used.children_user + used.children_system
            report = json.loads(answer.stdout)
            row = {"mode": mode, "compiled": compiled, "cores": cores, "seconds": round(seconds, 1),
                   "processor": round(processor, 1),
                   "lines": len(report["lines"]), "holds": report["holds"]}  # fmt: skip
            found = [r for r in found if (r["mode"], r["compiled"]) != (mode, compiled)] + [row]
            keep(found, TIMES)
            print(row, flush=True)


def _cell(row: Row) -> str:
    share = "" if row["share"] is None else f"{row['share']:.2f}"
    notices = row["notices"] or ""
    notices = notices if isinstance(notices, str) else f"{notices:.3g}"
    words = "" if row["verdict"] == "holds" else row["verdict"]
    mode = "" if row["quick"] else "full"
    first = f"| {row['setting'] or row['name']} | {share} | {notices} |"
    if row["exact"]:
        return f"{first} {mode} | {words} |"
    more = row.get("full", {})
    again = f"{more['share']:.2f}" if more.get("share") is not None else ""
    return f"{first} {words} | {again} | {'' if more.get('verdict') == 'holds' else more.get('verdict', '')} |"


def _minutes(rows: list[Row]) -> str:
    return f"{sum(row['seconds'] for row in rows) / 60.0:.1f}"


def families(rows: list[Row]) -> str:
    """One row for each family of exact lines, and one for all attacks."""
    out = [
        "| lines | number | median share | lowest share | line with the lowest share |",
        "|---|---|---|---|---|",
    ]
    groups = [(name, [r for r in rows if r["name"] == name]) for name in whitebox_cases.names()]
    groups.append(("randomised attacks, quick mode", [r for r in rows if not r["exact"]]))
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
        f'{weak[0]} of {len(exact)} exact lines say "no power", and so do {weak[1]} of {len(rows) - len(exact)} '
        f"attacks in quick mode. The quick mode has {len(quick)} lines and takes {_minutes(quick)} minutes of "
        f"processor time once the code is compiled; all exact lines together take {_minutes(exact)} minutes.",
        *full_mode(rows),
        *whole(),
    ]
    return "\n".join(out)


def full_mode(rows: list[Row]) -> Iterable[str]:
    """How long the full mode should take, by its lines one by one."""
    exact, attacks = ([row for row in rows if row["exact"] is kind] for kind in (True, False))
    timed = [row["full"] for row in attacks if "full" in row]
    if timed:
        seconds = [row["seconds"] for row in timed]
        # what was not timed is taken to be as long as the mean of what was
        whole = sum(row["seconds"] for row in exact) + sum(seconds) * len(attacks) / len(timed)
        words = (
            ""
            if len(timed) == len(attacks)
            else f" ({len(timed)} of them timed, the others estimated by their mean)"
        )
        yield (
            f"The full mode has {len(exact)} exact lines and {len(attacks)} attacks{words}, which take "
            f"{whole / 60.0:.0f} minutes of processor time. On two cores that is an estimated "
            f"{(whole / 2.0 + max(seconds)) / 60.0:.0f} minutes: half of it, plus the longest line."
        )


def whole() -> Iterable[str]:
    """How long the command takes by the clock."""
    for row in _stored("audit_times") or ():
        at_hand = "with" if row["compiled"] else "without"
        yield (
            f"`reticent audit{' --full' if row['mode'] == 'full' else ''}` on {row['cores']} cores, {at_hand} cached "
            f"compiled code, took {row['seconds'] / 60.0:.1f} minutes of wall time and {row['processor'] / 60.0:.1f} "
            f"minutes of processor time when it had {row['lines']} lines."
        )


def every(rows: list[Row]) -> str:
    """All lines, by family."""
    out: list[str] = []
    for name in dict.fromkeys(row["name"] for row in rows):
        mine = [row for row in rows if row["name"] == name]
        heads = "| mode | |" if mine[0]["exact"] else "| | share in full mode | |"
        out += [
            f"**{name}**",
            "",
            f"| setting | share | notices noise / {heads}",
            "|---" * (heads.count("|") + 2) + "|",
        ]
        out += [*(_cell(row) for row in mine), ""]
    return "\n".join(out).rstrip()


def _stored(name: str) -> Any:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def planted() -> str:
    """What the museum found, on one version of the sources."""
    kept = _stored("museum")
    if not kept:
        return "The museum has not been run completely."
    found = kept["found"]
    caught = {
        mode: sum(row["caught"] and row["mode"] == mode for row in found)
        for mode in ("quick", "full")
    }
    missed = ", ".join(row["name"] for row in found if not row["caught"]) or "none"
    minutes = sum(row.get("processor", row["seconds"]) for row in found) / 60.0
    return (
        f"The last complete run, on commit {kept['version']}, planted {len(found)} bugs: {caught['quick']} were "
        f"caught by lines of the quick mode, {caught['full']} only by lines of the full mode; missed: {missed}. "
        f"{len(kept['listed'])} more were listed. It took {minutes:.0f} minutes of processor time, including "
        f"compilation."
    )


def false_alarms() -> str:
    """Simulated nulls of every attack, two runs of the lines without chance, repeats of the others."""
    out = [
        "| attack | true claims | refuted | share | 95 % interval | allowed |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in _stored("audit_nulls").items():
        k, n = row["refuted"], row["claims"]
        low = float(beta.ppf(0.025, k, n - k + 1)) if k else 0.0
        high = float(beta.ppf(0.975, k + 1, n - k))
        out.append(
            f"| {name} | {n:,} | {k:,} | {k / n:.4f} | {low:.4f} to {high:.4f} | {row['allowed']} |"
        )
    exact, repeats = _stored("audit_exact"), _stored("audit_repeats")
    if exact:
        differ = exact["differ"]
        out += [
            "",
            f"On commit {exact['version']}, the {exact['lines']} deterministic lines of the quick mode were computed "
            f"in two processes: "
            + (
                "their output was identical, byte for byte."
                if not differ
                else f"{exact['lines'] - len(differ)} were identical, and {', '.join(differ)} were not."
            ),
        ]
    if repeats.get("repeats"):
        count, lines = len(repeats["repeats"]), repeats["lines"]
        refuted = sum(len(one["refuted"]) for one in repeats["repeats"])
        out += [
            "",
            f"On commit {repeats['version']}, the {lines} randomised lines of the quick mode were run completely "
            f"{count} times, with noise from the operating system: of {count * lines:,} attacks, "
            f"{refuted or 'none'} refuted a claim; "
            f"at most {repeats['false_alarm'] * count:g} were to be expected.",
        ]
    return "\n".join(out)


def tight(rows: list[Row]) -> str:
    """What attacks reach in full mode, by name."""
    out = ["| attack | lowest share | runs of each world |", "|---|---|---|"]
    attacks = [row for row in rows if not row["exact"] and "full" in row]
    if not attacks:
        return "No attack has been run in full mode since pairs and limits changed."
    for name in dict.fromkeys(row["name"] for row in attacks):
        mine = [row["full"] for row in attacks if row["name"] == name]
        runs = [row["runs"] for row in mine]
        span = f"{min(runs):,}" if min(runs) == max(runs) else f"{min(runs):,} to {max(runs):,}"
        shares = [row["share"] for row in mine if row["share"] is not None]
        out.append(
            f"| {name} | {min(shares):.2f} | {span} |" if shares else f"| {name} | | {span} |"
        )
    weak = sum(row["full"]["verdict"] == "no power" for row in attacks)
    lines = sum(not row["exact"] for row in rows)
    rest = (
        ""
        if len(attacks) == lines
        else f"; the other {lines - len(attacks)} have not been run in full mode"
    )
    out += ["", f'In full mode {weak} of {len(attacks)} attacks say "no power"{rest}.']
    return "\n".join(out)


def written(text: str, rows: list[Row]) -> str:
    """The page with its generated parts."""
    for name, part in (
        ("families", families(rows)),
        ("planted", planted()),
        ("false alarms", false_alarms()),
        ("tight", tight(rows)),
        ("every line", every(rows)),
    ):
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
    parser.add_argument("--full", action="store_true", help="compute attacks in full mode")
    parser.add_argument("--minutes", type=float, help="begin no attack of --full after so long")
    parser.add_argument("--jobs", type=int, default=2, help="processes of --full and --time")
    parser.add_argument("--time", choices=("quick", "full"), help="the whole command by the clock")
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args()
    if given.check:
        print("\n".join(problems()))
        return 1 if problems() else 0
    if given.run is not None or given.missing:
        run(given.run or [], given.missing)
    if given.full:
        run_full(given.minutes, given.jobs)
    if given.time is not None:
        time_whole(given.time, given.jobs)
    PAGE.write_text(written(PAGE.read_text(), stored()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
