"""Every estimator at its defaults on real tables, beside its other solvers, private baselines and what is not private.

    python benchmarks/accuracy.py regression | classification [--seeds 10] [--epsilons .1,.5,1,4,8] [--tables NAME,...]
                                  [--jobs 2] [--into FOLDER] [--seconds 480] [--lean] [--ours]
    python benchmarks/accuracy.py collect FOLDER
    python benchmarks/accuracy.py picture

The first measures, one file for each table and seed; without --into these go into benchmarks/results/accuracy.json at
once, else `collect` does that later. `picture` draws the top of docs/benchmarks.md from it. diffprivlib runs in
this interpreter if it is installed here, else in its own environment (benchmarks/peers), with and without an intercept;
it has no delta. `--peers opacus` asks Opacus as well. The other baselines are those of baselines.py. Of an entrant with
several settings each measure is that of the setting that is best in it on average over the splits of a table, which
nobody knows without the test records. `--lean` leaves out our own variants; `--ours` leaves out all others, of which
`collect` keeps what is stored, on the same splits.

Three quarters of the records are learnt from, the rest is for testing; a new split and new noise for each seed.
Features are scaled from declared ranges (`real_tables`) to rows of norm at most one, for every entrant alike. Means
over tables are in excess.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import baselines
import drawing
import numpy as np
import real_tables
from excess import PICTURE, RESULTS, SHOWN, excesses
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

import reticent

DELTA = 1e-6
PEERS = Path(__file__).parent / "peers"

Found = dict[str, Any]
"""Of each entrant its measures; of one with several settings, a list of them."""
LEAN, OPACUS, OURS = "lean", "opacus", "ours"


class Diffprivlib:
    """The peer in this interpreter, or in its own environment; without either it is left out."""

    def __init__(self) -> None:
        self._worker: Any = None
        self._peer: Any = None
        self._opacus: Any = None
        self._folder = tempfile.TemporaryDirectory(prefix="accuracy-")
        try:
            sys.path.insert(0, str(PEERS))
            import worker_diffprivlib

            self._worker = worker_diffprivlib
        except ImportError:
            with contextlib.suppress(RuntimeError, OSError):
                from peers.client import Peer

                self._peer = Peer("diffprivlib")

    def __bool__(self) -> bool:
        return not (self._worker is None and self._peer is None)

    def opacus(
        self, table: real_tables.RealTable, X: np.ndarray, seed: int, epsilon: float
    ) -> Iterator[Any]:
        """Probabilities of Opacus itself, one array for each setting of `baselines.SETTINGS`; one batch of all."""
        from peers.client import Peer

        if self._opacus is None:
            self._opacus = Peer("opacus")
        for steps, rate, clip in baselines.SETTINGS:
            made = self._opacus.ask(
                "probabilities", data=self._data(table, X, seed), epsilon=epsilon, delta=DELTA, rate=1.0,
                steps=steps, lr=rate, clip=clip, intercept=True, seed=seed, train="0",
            )  # fmt: skip
            yield np.array(made["sure"])

    def _data(self, table: real_tables.RealTable, X: np.ndarray, seed: int) -> str:
        path = Path(self._folder.name) / f"{table.name}-{seed}.npz"
        if not path.exists():
            train, test = table.split(seed)
            np.savez(path, X=X, y=within(table), train0=train, test0=test)
        return str(path)

    def ask(self, task: str, table: real_tables.RealTable, X: np.ndarray, seed: int,
            epsilon: float) -> Iterator[dict[str, Any]]:  # fmt: skip
        """Its answers on one split, with an intercept and without; labels of a regression within [-1, 1]."""
        given: dict[str, Any] = {
            "data": self._data(table, X, seed),
            "epsilon": epsilon,
            "seed": seed,
        }
        for on in (True, False):
            if self._worker is not None:
                yield getattr(self._worker, task)(**given, intercept=on)
            else:
                yield self._peer.ask(task, **given, intercept=on)


def within(table: real_tables.RealTable) -> np.ndarray:
    """Labels as a peer reads them."""
    y = table.y.astype(float)
    if table.label_bounds is None:
        return y
    low, high = table.label_bounds
    return (y - low) / (high - low) * 2.0 - 1.0


def regression(table: real_tables.RealTable, seed: int, X: np.ndarray, peer: Diffprivlib,
               epsilons: list[float], how: frozenset[str]) -> Iterator[Found]:  # fmt: skip
    train, test = table.split(seed)
    model = reticent.PrivateLinearRegression
    common: dict[str, Any] = {"feature_norm": 1.0, "label_bounds": table.label_bounds}
    common |= {"random_state": seed, "noise_precision": "float"}
    y = within(table)

    def scored(guess: np.ndarray) -> dict[str, float]:
        loss = float(np.sum((y[test] - guess) ** 2) / np.sum((y[test] - y[test].mean()) ** 2))
        return {"R2": 1.0 - loss, "loss": loss}

    plain = scored(LinearRegression().fit(X[train], y[train]).predict(X[test]))
    for epsilon in epsilons:
        entrants = {
            "ours": model(epsilon, DELTA, **common),
            "ours, not scaled": model(epsilon, DELTA, scaling="none", **common),
            "AdaSSP": model(epsilon, DELTA, solver="adassp", scaling="none", **common),
            "ours, delta = 0": model(epsilon, 0.0, **common),
        }
        if LEAN in how:
            del entrants["ours, not scaled"]
        found: Found = {"not private": plain}
        for name, entrant in entrants.items():
            loss = 1.0 - float(entrant.fit(X[train], table.y[train]).score(X[test], table.y[test]))
            found[name] = {"R2": 1.0 - loss, "loss": loss}
        if OURS in how:
            yield found
            continue
        tries = baselines.boosts(X[train], y[train], X[test], reticent.Budget(epsilon, DELTA), seed)
        found["boosted AdaSSP, tuned"] = list(map(scored, tries))
        if peer:
            asked = [each["R2"] for each in peer.ask("linear_scores", table, X, seed, epsilon)]
            found["diffprivlib"] = [{"R2": each, "loss": 1.0 - each} for each in asked]
        yield found


def classification(table: real_tables.RealTable, seed: int, X: np.ndarray, peer: Diffprivlib,
                   epsilons: list[float], how: frozenset[str]) -> Iterator[Found]:  # fmt: skip
    train, test = table.split(seed)
    model = reticent.PrivateLogisticRegression
    common: dict[str, Any] = {"feature_norm": 1.0, "classes": [0, 1], "random_state": seed}
    common |= {"noise_precision": "float"}
    y, rate = table.y[test], float(np.mean(table.y[train]))

    def learnt(entrant: Any) -> dict[str, float]:
        return scores(y, entrant.fit(X[train], table.y[train]).predict_proba(X[test])[:, 1])

    def each(tries: Any) -> list[dict[str, float]]:
        return [scores(y, np.array(sure)) for sure in tries]

    same: Found = {
        "not private": learnt(LogisticRegression(C=1e4, max_iter=300)),
        "base rate": {
            "accuracy": max(float(np.mean(y)), 1.0 - float(np.mean(y))), "AUC": 0.5,
            "AP": float(np.mean(y)), "ECE": abs(rate - float(np.mean(y))),
            "loss": float(log_loss(y, np.full(len(y), rate), labels=[0, 1])),
        },
    }  # fmt: skip
    for epsilon in epsilons:
        found = dict(same)
        found["ours"] = learnt(model(epsilon, DELTA, **common))
        found["ours, delta = 0"] = learnt(model(epsilon, 0.0, **common))
        if LEAN not in how:
            found["ours, not scaled"] = learnt(model(epsilon, DELTA, scaling="none", **common))
            found["ours, influence 0.75"] = learnt(model(epsilon, DELTA, influence=0.75, **common))
        if OURS in how:
            yield found
            continue
        budget = reticent.Budget(epsilon, DELTA)
        tries = baselines.descents(X[train], table.y[train], X[test], budget, seed)
        found["DP-SGD, tuned"] = each(tries)
        if OPACUS in how:
            found["Opacus, tuned"] = each(peer.opacus(table, X, seed, epsilon))
        if peer:
            asked = peer.ask("probabilities", table, X, seed, epsilon)
            found["diffprivlib"] = each(one["sure"] for one in asked)
        yield found


def scores(y: np.ndarray, sure: np.ndarray) -> dict[str, float]:
    """Of probabilities of the second class."""
    return {
        "accuracy": float(np.mean((sure > 0.5) == y)),
        "AUC": float(roc_auc_score(y, sure)),
        "AP": float(average_precision_score(y, sure)),
        "ECE": calibration_error(y, sure),
        "loss": float(log_loss(y, np.clip(sure, 1e-9, 1.0 - 1e-9), labels=[0, 1])),
    }


def calibration_error(y: np.ndarray, sure: np.ndarray, bins: int = 15) -> float:
    """Expected calibration error: mean distance of rates from probabilities over equal bins of probability."""
    place = np.minimum((sure * bins).astype(int), bins - 1)
    gaps = [abs(float(np.sum(y[place == k] - sure[place == k]))) for k in range(bins)]
    return float(np.sum(gaps) / len(y))


TASKS: dict[str, tuple[Callable[..., Iterator[Found]], dict[str, Any], tuple[str, ...]]] = {
    "regression": (regression, real_tables.REGRESSION, ("R2",)),
    "classification": (
        classification, real_tables.CLASSIFICATION, ("accuracy", "AUC", "AP", "ECE", "loss")
    ),
}  # fmt: skip


_peers: dict[int, Diffprivlib] = {}  # by process: a forked one must not talk to its parent's


def job(
    task: str, name: str, seed: int, epsilons: list[float], how: frozenset[str]
) -> dict[str, Any] | None:
    """One table and one seed, at every epsilon; None where the table's file is not there."""
    warnings.simplefilter("ignore")
    if os.getpid() not in _peers:
        _peers[os.getpid()] = Diffprivlib()
    try:
        table = real_tables.table(name)
    except FileNotFoundError:
        return None
    X = table.unit() / np.sqrt(table.X.shape[1])
    made = list(TASKS[task][0](table, seed, X, _peers[os.getpid()], epsilons, how))
    return {
        "task": task, "table": name, "seed": seed, "size": [len(table.y), table.X.shape[1]],
        "found": {f"{e:g}": each for e, each in zip(epsilons, made, strict=True)}, "ours": OURS in how,
    }  # fmt: skip


def measure(given: argparse.Namespace, into: Path) -> None:
    """Run all jobs, seed by seed, so that an early end leaves every table with about as many seeds."""
    names = given.tables.split(",") if given.tables else list(TASKS[given.task][1])
    epsilons = [float(each) for each in given.epsilons.split(",")]
    begun = time.perf_counter()
    how = frozenset(given.peers.split(",") if given.peers else ())
    how |= {name for name, on in ((LEAN, given.lean), (OURS, given.ours)) if on}
    todo = [(seed, name) for seed in range(given.seeds) for name in names]
    todo = [pair for pair in todo if not _file(into, given.task, *pair).exists()]
    job(given.task, names[-1], 0, epsilons[-1:], how - {OPACUS})  # compiles, once for all processes
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(given.jobs, mp_context=context) as pool:
        waiting = {
            pool.submit(job, given.task, name, seed, epsilons, how): (name, seed)
            for seed, name in todo
        }
        try:
            for done in as_completed(waiting, timeout=given.seconds):
                name, seed = waiting[done]
                made = done.result()
                if made is None:
                    print(f"{name} is not in the folder of RETICENT_DATA and is left out")
                    continue
                _file(into, given.task, seed, name).write_text(json.dumps(made) + "\n")
                print(f"{name} {seed} {time.perf_counter() - begun:.0f} s", flush=True)
        except TimeoutError:
            print(f"stopped after {given.seconds} s")
            running = list(pool._processes.values())  # which a pool forgets when it is shut down
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                process.terminate()


def _file(into: Path, task: str, seed: int, name: str) -> Path:
    return into / f"{task}-{name.replace(' ', '_')}-{seed}.json"


def on_splits(cells: list[Any], key: str) -> list[float]:
    """One measure of an entrant on every split: of several settings, the one that is best on average."""
    if not isinstance(cells[0], list):
        return [round(each[key], 5) for each in cells]
    tries = [[round(each[key], 5) for each in settings] for settings in zip(*cells, strict=True)]
    sign = 1.0 if key in ("loss", "ECE") else -1.0
    return min(tries, key=lambda made: sign * float(np.mean(made)))


def collect(folder: Path) -> None:
    """Put what was measured into the results, and say what came out."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    parts: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for file in sorted(folder.glob("*.json")):
        made = json.loads(file.read_text())
        parts.setdefault((made["task"], made["table"]), []).append(made)
    for (task, name), runs in parts.items():
        runs.sort(key=lambda made: made["seed"])
        place = known.setdefault(task, {}).setdefault(name, {})
        for epsilon in runs[0]["found"]:
            cells = [made["found"][epsilon] for made in runs]
            everywhere = [name for name in cells[0] if all(name in each for each in cells)]
            kept = place.get(epsilon, {}) if runs[0].get("ours") else {}
            if kept and {len(one["loss"]) for one in kept.values()} != {len(runs)}:
                raise ValueError(f"{name} is stored for other splits than the {len(runs)} measured")
            place[epsilon] = kept | {
                entrant: {
                    key: on_splits([each[entrant] for each in cells], key)
                    for key in np.ravel(cells[0][entrant])[0]
                }
                for entrant in everywhere
            }
            row = [
                f"{entrant} "
                + "/".join(f"{np.mean(place[epsilon][entrant][k]):.3f}" for k in TASKS[task][2])
                for entrant in place[epsilon]
            ]
            size = " x ".join(map(str, runs[0]["size"]))
            print(f"{name:13} {size:12} eps {epsilon:4} " + "; ".join(row), flush=True)
    RESULTS.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n")


def picture() -> None:
    known = json.loads(RESULTS.read_text())

    def make(plt: Any, ink: str) -> Any:
        figure, axes = plt.subplots(
            1, len(known), figsize=(4.6 * len(known), 3.8), layout="constrained"
        )
        for axis, (task, tables) in zip(np.atleast_1d(axes), sorted(known.items()), strict=True):
            for entrant in SHOWN:
                made = excesses(tables, entrant)
                if made:
                    means, errors = zip(*made.values(), strict=True)
                    axis.errorbar(
                        list(made), means, yerr=errors, label=entrant, marker="o", ms=4, capsize=2
                    )
            axis.set(xscale="log", xlabel="epsilon", title=f"{task}, {len(tables)} tables")
            axis.set_ylabel("excess loss relative to not private")
            axis.axhline(0.0, color=ink, lw=0.8)
            axis.grid(alpha=0.3)
            axis.legend(fontsize=8, frameon=False)
        return figure

    drawing.draw(PICTURE, make)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=(*TASKS, "collect", "picture"))
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epsilons", default="0.1,0.5,1,4,8")
    parser.add_argument("--tables", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--into", type=Path)
    parser.add_argument("--peers", default="", help="opacus")
    parser.add_argument("--lean", action="store_true", help="without our own variants")
    parser.add_argument(
        "--ours", action="store_true", help="without others, whose results are kept"
    )
    parser.add_argument("--seconds", type=float)
    given = parser.parse_args()
    if given.task == "picture":
        picture()
    elif given.task == "collect":
        collect(given.folder)
    elif given.into is not None:
        given.into.mkdir(parents=True, exist_ok=True)
        measure(given, given.into)
    else:
        with tempfile.TemporaryDirectory() as folder:
            measure(given, Path(folder))
            collect(Path(folder))


if __name__ == "__main__":
    main()
