"""Persons with several records in real streams: regret of ours, of naive group privacy, and of protecting records only.

    python benchmarks/persons_real.py [regret] [noise] [table]

`regret` streams diabetes130 (patients) and ujiindoorloc (users of a campus) in the order of time through
`FollowTheRegularizedLeader`. Regret is over all records, those that were blanked included, against the best fixed
decision. *Naive* protects one record at mu / k and keeps the first k records of a person; it needs no gap.
`noise` compares the noise of running totals with the filters that jax_privacy finds for the same pattern, in a
virtual environment of its own. `table` is the time and the memory of a million persons in `run`. Seeds are fixed.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import reticent
from reticent import losses, online, sets, sums
from reticent.losses import best_fixed
from reticent.privacy import Participation
from reticent.state.persons import Persons

DATA = Path(os.environ.get("RETICENT_DATA") or Path(__file__).parents[2] / "shared" / "data")
REPEATS = 4
RULES = {
    "diabetes130": ((1, 1), (4, 4096), (16, 1024)),
    "ujiindoorloc": ((1, 1), (4, 4096), (16, 1024)),
}
STEPS, PATTERNS = 256, ((4, 64), (16, 16), (4, 1))

Stream = tuple[np.ndarray, np.ndarray, np.ndarray]


def unit(columns: list[Any]) -> np.ndarray:
    X = np.column_stack([np.asarray(column, np.float64) for column in columns])
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]


def diabetes130() -> Stream:
    """Whether a patient comes back, from numbers with public ranges."""
    import pandas

    table = pandas.read_parquet(DATA / "diabetes130.parquet").sort_values("encounter_id")
    ranges = {
        "time_in_hospital": 14, "num_lab_procedures": 132, "num_procedures": 6, "num_medications": 81,
        "number_outpatient": 5, "number_emergency": 5, "number_inpatient": 5, "number_diagnoses": 16,
    }  # fmt: skip
    columns = [np.minimum(table[name] / top, 1.0) for name, top in ranges.items()]
    flags = [table["change"] == "Ch", table["diabetesMed"] == "Yes"]
    X = unit([*columns, *flags, np.full(len(table), 1.0)])
    y = np.where(table["readmitted"] == "NO", -1.0, 1.0)
    return X, y, table["patient_nbr"].to_numpy()


def ujiindoorloc() -> Stream:
    """Whether somebody is in the first building, from 20 fixed random sums of the strengths of 520 stations."""
    import pandas

    table = pandas.read_parquet(DATA / "ujiindoorloc.parquet").sort_values(
        "TIMESTAMP", kind="stable"
    )
    strength = table[[name for name in table.columns if name.startswith("WAP")]].to_numpy(float)
    seen = np.where(strength > 0.0, 0.0, (strength + 105.0) / 105.0)
    mixed = seen @ np.random.default_rng(0).choice([-1.0, 1.0], size=(520, 20)) / 5.0
    X = unit([*mixed.T, np.full(len(table), 1.0)])
    y = np.where(table["BUILDINGID"] == 0, 1.0, -1.0)
    return X, y, table["USERID"].to_numpy()


def regret(stream: Stream, seed: int, best: np.ndarray, present: Any = None, **more: Any) -> float:
    """Average loss on all records of the decisions, in order, less that of the best fixed one."""
    X, y, ids = stream
    loss = losses.Logistic()
    learner = online.FollowTheRegularizedLeader(
        sets.L2Ball(X.shape[1], 4.0), loss, horizon=len(X), seed=seed, **more
    )
    person = ids if more.get("participation") else None
    play = learner.run(X, y, present=present, person=person, keep=len(X))
    shown = np.asarray(play.decisions)[: len(X)]
    gaps = np.logaddexp(0.0, -y * np.einsum("ij,ij->i", X, shown)) - np.logaddexp(
        0.0, -y * (X @ best)
    )
    return float(gaps.mean())


def regrets() -> None:
    for name, load in (("diabetes130", diabetes130), ("ujiindoorloc", ujiindoorloc)):
        stream = load()
        X, y, ids = stream
        best = best_fixed(sets.L2Ball(X.shape[1], 4.0), losses.Logistic(), X, y).point
        free = regret(stream, 0, best, budget=reticent.Budget(1e4, 0.5))
        print(
            f"{name}: {len(X):,} records of {len(set(ids.tolist())):,} persons; not private {free:.4f}"
        )
        print("epsilon | records only | k, gap | records that count | naive | ours | ours / naive")
        for epsilon in (1.0, 4.0):
            budget = reticent.Budget(epsilon, 1e-6)
            single = np.mean([regret(stream, s, best, budget=budget) for s in range(REPEATS)])
            for k, gap in RULES[name]:
                rule, first = Participation(k, gap), Participation(k)
                table, plain = Persons(rule), Persons(first)
                kept = table.admit(table.digests(ids), 1)
                naive_kept = plain.admit(plain.digests(ids), 1)
                weak = reticent.Budget(reticent.privacy.gaussian.epsilon(1e-6, budget.mu / k), 1e-6)
                ours = np.mean(
                    [
                        regret(stream, s, best, budget=budget, participation=rule)
                        for s in range(REPEATS)
                    ]
                )
                naive = np.mean(
                    [regret(stream, s, best, naive_kept, budget=weak) for s in range(REPEATS)]
                )
                print(
                    f"{epsilon:g} | {single:.4f} | {k}, {gap:,} | {kept.sum():,} ({naive_kept.sum():,} naive) | "
                    f"{naive:.4f} | {ours:.4f} | {ours / naive:.2f}",
                    flush=True,
                )


def noise() -> None:
    from peers.client import Peer

    budget = reticent.Budget(1.0, 1e-6)
    one = sums.CorrelatedMechanism(1, STEPS, budget=budget).error(STEPS)
    peer = Peer("jax_privacy")
    print(f"noise of a running total of {STEPS:,} records, in units of ours for one record")
    print("records of a person, steps apart | naive | jax_privacy | ours | ours, horizon unknown")
    for k, gap in PATTERNS:
        rule = Participation(k, gap)
        ours = sums.CorrelatedMechanism(1, STEPS, budget=budget, participation=rule).error(STEPS)
        endless = sums.CorrelatedMechanism(1, None, budget=budget, participation=rule).error(STEPS)
        theirs = peer.ask("blt_of_persons", n=STEPS, buffers=3, records=k, gap=gap)["error"]
        print(
            f"{k}, {gap:,} | {k} | {theirs / budget.mu / one:.2f} | {ours / one:.2f} | {endless / one:.2f}",
            flush=True,
        )


def table() -> None:
    """A running total of a million records of a million persons: processor time, the best of three."""
    count = 1_000_000
    ids = np.random.default_rng(0).integers(0, 2**60, count)
    rows = np.full((count, 1), 0.5)
    seconds: dict[str, list[float]] = {"persons": [], "records": []}
    for _ in range(3):
        for words, rule in (("persons", Participation(4)), ("records", None)):
            total = sums.Correlated(1, budget=reticent.Budget(1.0, 1e-6), participation=rule)
            total.run(rows[:10], person=None if rule is None else ids[:10])
            begun = time.process_time()
            total.run(rows, person=None if rule is None else ids)
            seconds[words].append(time.process_time() - begun)
            if total._persons is not None:
                size = total._persons._keys.nbytes + total._persons._entries.nbytes
    persons, records = (1e6 * min(found) / count for found in seconds.values())
    print(
        f"a million new persons: {persons:.2f} us per record ({records:.2f} without); {size / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    for word in sys.argv[1:] or ["regret", "noise"]:
        {"regret": regrets, "noise": noise, "table": table}[word]()
