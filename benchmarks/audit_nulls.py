"""False alarms of the audit: how often a claim that is true is refuted.

    python benchmarks/audit_nulls.py [--nulls 10000] [--only TEXT]   # true and tight claims, each attack by itself
    python benchmarks/audit_nulls.py --exact                         # lines without chance, twice: are they equal?
    python benchmarks/audit_nulls.py --repeats 20 [--jobs 2]         # all lines with chance of the quick mode, so often

In the first, every attack is told to be wrong with probability 0.05 at most, on a mechanism whose privacy is exactly
what it claims; so at most one in twenty may be refuted. In the last, all lines together are told to be wrong with
probability a millionth, and noise comes from the operating system. Results are kept in benchmarks/results/, repeats of
one version of the sources go on where they were stopped, and scripts/audit_table.py writes them into docs/audit.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

import kept
import numpy as np
from numpy.typing import NDArray

from reticent import audit
from reticent.audit import canaries, everything
from reticent.audit.bets import Bets
from reticent.audit.statistics import Classifier, Fisher
from reticent.privacy import Curve, Gaussian, Laplace, Pure, compose

ALARM = 0.05
RUNS = 128  # of each world, in one attack

Array = NDArray[np.float64]
Null = Callable[[np.random.Generator], bool]


def gaussian(rng: np.random.Generator, world: float, size: int) -> Array:
    return rng.normal(size=(size, 1)) + world


def laplace(rng: np.random.Generator, world: float, size: int) -> Array:
    return rng.laplace(size=(size, 1)) + world


def vector(rng: np.random.Generator, world: float, size: int) -> Array:
    """Two numbers, moved together by a vector of length 1."""
    return rng.normal(size=(size, 2)) + world * np.array([0.6, 0.8])


def label(rng: np.random.Generator, world: float, size: int) -> NDArray[np.int64]:
    """Randomised response among two, at epsilon = 1."""
    chance = 1.0 / (1.0 + math.exp(1.0 if world == 0.0 else -1.0))
    return (rng.random(size) < chance).astype(np.int64)[:, None]


def grid(rng: np.random.Generator, world: float, size: int) -> Array:
    """Laplace noise in multiples of 2^-10, at epsilon = 1: last bits tell nothing more."""
    return np.round(rng.laplace(size=(size, 1)) * 1024.0) / 1024.0 + world


def counted(
    draw: Callable[..., Array], claim: Curve, delta: float, statistic: object = None
) -> Null:
    """One event, chosen on some of the runs and counted on the others."""

    def null(rng: np.random.Generator) -> bool:
        found = audit.mechanism(
            lambda world, size: draw(rng, world, size), 0.0, 1.0, runs=RUNS, delta=delta, claim=claim,
            statistic=statistic() if callable(statistic) else statistic, false_alarm=ALARM, batch=RUNS,
        )  # fmt: skip
        return not found.holds

    return null


def bet(draw: Callable[..., Array], claim: Curve, delta: float) -> Null:
    """Bets at several deltas, events and stakes chosen anew after every batch, looked at each time."""

    def null(rng: np.random.Generator) -> bool:
        bets = Bets(claim, delta, np.ones(1))
        a, b = (draw(rng, world, 32)[:, 0].astype(float) for world in (0.0, 1.0))
        for size in (64, 128):
            bets.choose(a, b, 1.0)
            fresh = [draw(rng, world, size)[:, 0].astype(float) for world in (0.0, 1.0)]
            bets.play(*fresh)
            a, b = np.concatenate([a, fresh[0]]), np.concatenate([b, fresh[1]])
        return bets.share(ALARM) >= 1.0

    return null


def last_bits(rng: np.random.Generator) -> bool:
    found = audit.numbers(
        lambda value, size: grid(rng, value, size), claim=1.0, runs=RUNS, false_alarm=ALARM
    )
    return not found.holds


def guesses(rng: np.random.Generator) -> bool:
    """One run with 100 canaries, each answered by randomised response at epsilon = 1."""
    found = audit.one_run(
        lambda included: np.where(rng.random(100) < 1.0 / (1.0 + math.exp(-1.0)), included, ~included),
        lambda answers: answers + 1e-9 * rng.random(100), 100, claim=1.0, false_alarm=ALARM,
        seed=int(rng.integers(2**62)),
    )  # fmt: skip
    return not found.holds


def guesses_of_a_curve(rng: np.random.Generator) -> bool:
    """Eight runs with 50 canaries, each hidden by Gaussian noise, against the whole trade-off curve."""
    doubt = canaries._Doubt(Gaussian(1.0), 50)
    doubt._limits = _LIMITS  # they depend on the claim and the number of canaries alone
    for _ in range(8):
        included = rng.random(50) < 0.5
        order = np.argsort(included + rng.normal(size=50), kind="stable")
        doubt.look(canaries._right(included, order, 50))
    return doubt.share(ALARM) >= 1.0


_LIMITS: dict[int, Array] = {}

NULLS: dict[str, Null] = {
    "counted event, Gaussian": counted(gaussian, Gaussian(1.0), 1e-6),
    "counted event, Laplace": counted(laplace, Pure(1.0), 0.0),
    "counted event, labels": counted(label, Pure(1.0), 0.0),
    "counted event, learnt linear score": counted(vector, Gaussian(1.0), 1e-6, Fisher),
    "counted event, learnt classifier": counted(vector, Gaussian(1.0), 1e-6, Classifier),
    "last bits": last_bits,
    "bets, Gaussian": bet(gaussian, Gaussian(1.0), 1e-6),
    "bets, Laplace": bet(laplace, Pure(1.0), 0.0),
    "bets, labels": bet(label, Pure(1.0), 0.0),
    "bets, a claim that is neither": bet(laplace, compose([Laplace(1.0), Gaussian(1e-3)]), 1e-3),
    "one run, many canaries": guesses,
    "few runs, many canaries": guesses_of_a_curve,
}


def alarms(name: str, count: int) -> int:
    """How many of so many true claims are refuted; the same ones every time."""
    rng = np.random.default_rng([len(name), count])
    return sum(NULLS[name](rng) for _ in range(count))


def stored(name: str) -> dict[str, Any]:
    """What is kept under a name; nothing yet is an empty dictionary."""
    path = kept.RESULTS / f"audit_{name}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def keep(name: str, values: dict[str, Any]) -> None:
    (kept.RESULTS / f"audit_{name}.json").write_text(json.dumps(values, indent=1) + "\n")


def simulate(only: str, count: int) -> None:
    """True claims, each attack by itself."""
    for name in NULLS:
        if only not in name:
            continue
        began = time.process_time()
        found = alarms(name, count)
        row = {"claims": count, "refuted": found, "allowed": ALARM, "version": kept.version(),
               "seconds": round(time.process_time() - began, 1)}  # fmt: skip
        keep("nulls", {**stored("nulls"), name: row})
        print(name, row, flush=True)


def digests() -> dict[str, str]:
    """For every line of the quick mode without chance a digest of all that it says but its time."""
    found = {}
    for task in everything.planned(True):
        if task[0] != "exact":
            continue
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = {**everything.run_line(*task).to_dict(), "seconds": 0.0}
        text = json.dumps(said, sort_keys=True, default=repr)
        found[": ".join(everything.title(*task[:3]))] = hashlib.sha256(text.encode()).hexdigest()
    return found


def twice() -> None:
    """Lines without chance in two processes, whose hashes of strings differ."""
    first, second = (
        json.loads(
            subprocess.run(
                [sys.executable, "-W", "ignore", __file__, "--digests"], check=True, stdout=subprocess.PIPE, text=True,
                env={**os.environ, "PYTHONHASHSEED": seed},
            ).stdout
        )
        for seed in ("1", "2")
    )  # fmt: skip
    differ = sorted(name for name in first if first[name] != second[name])
    keep("exact", {"lines": len(first), "differ": differ, "version": kept.version()})
    print(f"{len(first)} lines, {len(differ)} differ: {differ}")


def lines_with_chance() -> list[Any]:
    return [task for task in everything.planned(True) if task[0] != "exact"]


def one_repeat() -> dict[str, Any]:
    """All lines with chance of the quick mode, once."""
    began, refuted = time.process_time(), []
    for task in lines_with_chance():
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            line = everything.run_line(*task)
        if not line.holds:
            refuted.append(f"{line.name}: {line.setting}")
    return {"refuted": refuted, "seconds": round(time.process_time() - began, 1)}


def repeat(count: int, minutes: float | None, jobs: int) -> None:
    """All lines with chance of the quick mode, so often; no repeat begins after so many minutes."""
    began, version, lines = time.monotonic(), kept.version(), len(lines_with_chance())
    done = stored("repeats")
    if done.get("version") != version or done.get("lines") != lines:
        done = {"version": version, "lines": lines, "false_alarm": 1e-6, "repeats": []}
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = [pool.submit(one_repeat) for _ in range(count - len(done["repeats"]))]
        for made in as_completed(waiting):
            if made.cancelled():
                continue
            done["repeats"].append(made.result())
            keep("repeats", done)
            print(len(done["repeats"]), done["repeats"][-1], flush=True)
            if minutes is not None and time.monotonic() - began > 60.0 * minutes:
                pool.shutdown(wait=False, cancel_futures=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nulls", type=int, default=10_000, help="how many for each attack")
    parser.add_argument("--only", default="", help="attacks whose name contains this")
    parser.add_argument(
        "--exact", action="store_true", help="compare two runs of lines without chance"
    )
    parser.add_argument("--digests", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--repeats", type=int, help="repeats of all lines with chance")
    parser.add_argument("--minutes", type=float, help="begin no repeat after so long; go on later")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the repeats")
    given = parser.parse_args()
    if given.digests:
        print(json.dumps(digests()))
    elif given.exact:
        twice()
    elif given.repeats:
        repeat(given.repeats, given.minutes, given.jobs)
    else:
        simulate(given.only, given.nulls)


if __name__ == "__main__":
    main()
