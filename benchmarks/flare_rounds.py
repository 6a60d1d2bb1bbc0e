"""A federated run of 1000 rounds between three site processes, against the same run in one process.

    python flare_rounds.py [--rounds 1000] [--folder FOLDER]

Prints milliseconds a round, with mutual TLS on the loopback device, and whether the two models are
the same to the last bit. A party writes its state to disk before each answer leaves, so the folder
matters: on a disk with slow flushes these cost more than the engine does; FOLDER may be in memory
(/dev/shm) to see what is left without them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import reticent
from reticent.compiling import compile_at_once
from reticent.vertical import Coordinator, InProcess, flare

compile_at_once()


PARTIES = ("north", "south", "west")
BUDGET = {"epsilon": 4.0, "delta": 1e-6}


def settings(folder: Path, rows: int, columns: int) -> dict[str, dict[str, object]]:
    rng = np.random.default_rng(0)
    outcome = np.zeros(rows)
    terms: dict[str, dict[str, object]] = {}
    for place, name in enumerate(PARTIES):
        block = rng.uniform(-1.0, 1.0, (rows, columns))
        outcome += block[:, 0] / len(PARTIES)
        table = {f"c{k}": block[:, k] for k in range(columns)}
        table |= {"who": np.arange(rows), "outcome": outcome.copy()}
        path = folder / f"{name}.npz"
        np.savez(path, **table)
        terms[name] = {
            "data": str(path), "id_column": "who", "label_column": "outcome", "epsilon": 100.0,
            "delta": 1e-6, "seed": place,
        }  # fmt: skip
    return terms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=800)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    print(f"{'variant':<10} {'federated':>14} {'one process':>14} {'ratio':>7}  same model")
    for variant in ("product", "ball"):
        with tempfile.TemporaryDirectory(dir=options.folder) as made:
            compare(Path(made), variant, options)


def compare(folder: Path, variant: str, options: argparse.Namespace) -> None:
    terms = settings(folder, options.rows, options.columns)
    asked = {"rounds": options.rounds, "seed": 1, "variant": variant}
    with flare.Rehearsal(folder, terms) as rehearsal:
        rehearsal.start("server", *PARTIES)
        outcome = rehearsal.run(variant, **BUDGET, **asked)
    parties = {
        name: flare.Settings.of(terms[name]).party(
            name, local=rehearsal.kits[name] / "local", folder=folder / name
        )
        for name in PARTIES
    }
    began = time.perf_counter()
    fit = Coordinator(InProcess(parties)).run(budget=reticent.Budget(**BUDGET), **asked)
    alone = 1000.0 * (time.perf_counter() - began) / options.rounds
    same = all(
        outcome["weights"][name] == {str(k): float(point[k]) for k in point.nonzero()[0]}
        for name, point in fit.points.items()
    )
    federated = outcome["milliseconds_per_round"]
    print(
        f"{variant:<10} {federated:>11.1f} ms {alone:>11.1f} ms {federated / alone:>7.2f}  {same}"
    )


if __name__ == "__main__":
    main()
