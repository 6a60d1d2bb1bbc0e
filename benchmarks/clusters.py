"""Fits on a Dask cluster of processes: what the cluster costs beside memory, and time against the number of records.

    python benchmarks/clusters.py overhead --records 5e7     # the same table by threads of one process, and by workers
    python benchmarks/clusters.py blocks --records 1e6 1e7   # blocks that workers generate anew in every pass
    python benchmarks/clusters.py picture                    # docs/pictures, of all that was measured so far

A local cluster of processes of one thread (``--workers``, two by default), beside as many threads of one process.
Processor time is that of client and workers together, so that others on the same cores do not count; the wall clock is
beside it. The picture has the fits of benchmarks/devices.py too. ``--peer`` fits dask-ml's LogisticRegression
(lbfgs, not private) on the same blocks, in an environment that has it. Generated records: a stretch of one stored
table, turned by the number of the block, so that generating them costs little. What was measured is kept in
benchmarks/results/clusters.json.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask.array as da
import drawing
import numpy as np
from distributed import Client, LocalCluster

RESULTS = Path(__file__).parent / "results" / "clusters.json"
WIDE, NARROW = 50, 10
CHUNK = 2**20


@cache
def stored(columns: int) -> tuple[np.ndarray, np.ndarray]:
    """One table, which every process makes once, twice over: a stretch that begins in its first half needs no copy."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((CHUNK, columns), dtype=np.float32) / np.float32(np.sqrt(columns))
    w = 2.0 * rng.standard_normal(columns)
    y = (rng.random(CHUNK) < 1.0 / (1.0 + np.exp(-(X @ w)))).astype(np.int8)
    return np.concatenate([X, X]), np.concatenate([y, y])


def rows_of(columns: int, block_info: Any = None) -> np.ndarray:
    """The stored rows from a place that depends on the block's number."""
    (start, stop), *_ = block_info[None]["array-location"]
    return stretch(columns, start, stop)[0]


def labels_of(columns: int, block_info: Any = None) -> np.ndarray:
    ((start, stop),) = block_info[None]["array-location"]
    return stretch(columns, start, stop)[1]


def stretch(columns: int, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    turn = (start // CHUNK * 7919) % CHUNK
    X, y = stored(columns)
    return X[turn : turn + stop - start], y[turn : turn + stop - start]


def sizes_of(count: int) -> tuple[int, ...]:
    return tuple(min(CHUNK, count - start) for start in range(0, count, CHUNK))


def table(count: int, columns: int) -> tuple[Any, Any]:
    sizes = sizes_of(count)
    X = da.map_blocks(rows_of, columns, chunks=(sizes, (columns,)), dtype=np.float32)
    return X, da.map_blocks(labels_of, columns, chunks=(sizes,), dtype=np.int8)


def write(folder: Path, count: int) -> None:
    X = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (count, WIDE))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.int8, (count,))
    for start in range(0, count, CHUNK):
        stop = min(count, start + CHUNK)
        X[start:stop], y[start:stop] = stretch(WIDE, start, stop)


def part_of(path: str, block_info: Any = None) -> np.ndarray:
    (start, stop), *_ = block_info[None]["array-location"]
    return np.load(path, mmap_mode="r")[start:stop]


def shared_table(folder: Path, count: int) -> tuple[Any, Any]:
    """Chunks that workers read where they lie, in memory that all processes share."""
    sizes = sizes_of(count)
    X = da.map_blocks(part_of, str(folder / "x.npy"), chunks=(sizes, (WIDE,)), dtype=np.float32)
    return X, da.map_blocks(part_of, str(folder / "y.npy"), chunks=(sizes,), dtype=np.int8)


def timed(client: Client | None, work: Callable[[], Any]) -> dict[str, float]:
    def processor() -> float:
        workers = [] if client is None else client.run(time.process_time).values()
        return time.process_time() + sum(workers)

    before, clock = processor(), time.perf_counter()
    work()
    return {"processor": processor() - before, "clock": time.perf_counter() - clock}


def model(peer: bool) -> Any:
    if peer:
        from dask_glm import algorithms
        from dask_ml.linear_model import LogisticRegression

        # dask-glm hands SciPy an argument that its newest releases do not have any more
        minimise = algorithms.fmin_l_bfgs_b
        if "iprint" not in inspect.signature(minimise).parameters:
            algorithms.fmin_l_bfgs_b = lambda *given, iprint=0, **named: minimise(*given, **named)
        return LogisticRegression(solver="lbfgs")
    from reticent import PrivateLogisticRegression

    return PrivateLogisticRegression(
        classes=[0, 1], feature_norm=2.0, random_state=0, scaling="none"
    )


def overhead(client: Client, count: int, folder: Path) -> dict[str, Any]:
    """The same records, in memory that client and workers share: by passes of this process, and of the workers."""
    write(folder, count)
    X, y = np.load(folder / "x.npy", mmap_mode="r"), np.load(folder / "y.npy", mmap_mode="r")
    rows, labels = client.persist(shared_table(folder, count))
    model(False).fit(X[:70_000], y[:70_000])
    # some of every chunk, so that every worker loads what is compiled
    model(False).fit(rows[::64], labels[::64])
    found = []
    for _ in range(3):
        there = timed(client, lambda: model(False).fit(rows, labels))
        here = timed(None, lambda: model(False).fit(X, y))
        found.append((there, here))
        print(json.dumps(found[-1]), flush=True)
    middle = sorted(found, key=lambda pair: pair[0]["processor"] / pair[1]["processor"])[1]
    ratios = {name: sorted(a[name] / b[name] for a, b in found) for name in ("processor", "clock")}
    return {"bytes": X.nbytes, "cluster": middle[0], "memory": middle[1], "ratios": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["overhead", "blocks", "picture"])
    parser.add_argument("--records", type=float, nargs="*", default=[5e6])
    parser.add_argument("--workers", type=int, default=2, help="processes of the cluster")
    parser.add_argument(
        "--folder", default="/dev/shm", help="where the shared table lies: in memory, by default"
    )
    parser.add_argument("--peer", action="store_true", help="dask-ml in place of reticent")
    given = parser.parse_args()
    measured = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if given.what == "picture":
        device = json.loads(RESULTS.with_name("devices.json").read_text())
        picture(measured["blocks"], device)
        return
    warnings.simplefilter("ignore")
    os.environ["RETICENT_THREADS"] = str(given.workers)
    # no limit: pages that all processes share would count against each of them
    cluster = LocalCluster(
        n_workers=given.workers, threads_per_worker=1, dashboard_address=None, memory_limit=0
    )
    with cluster, Client(cluster) as client, TemporaryDirectory(dir=given.folder) as folder:
        for count in map(int, given.records):
            if given.what == "overhead":
                found = overhead(client, count, Path(folder))
                measured.setdefault("overhead", {})[str(count)] = found
            else:
                peer = "dask-ml" if given.peer else "reticent"
                rows, labels = table(count, NARROW)
                model(given.peer).fit(*table(100_000, NARROW))
                found = timed(client, lambda r=rows, y=labels: model(given.peer).fit(r, y))
                measured.setdefault("blocks", {}).setdefault(peer, {})[str(count)] = found
            found["workers"] = given.workers
            print(given.what, f"{count:,}", json.dumps(found), flush=True)
            RESULTS.write_text(json.dumps(measured, indent=1) + "\n")


def picture(blocks: dict[str, dict[str, dict[str, float]]], device: dict[str, Any]) -> None:
    """Time by the clock against the number of records, on the cluster and on a device."""
    lines = {f"reticent, one {device['device']}": device["sizes"]}
    for who, sizes in blocks.items():
        (workers,) = {one["workers"] for one in sizes.values()}
        note = ", not private" if who == "dask-ml" else ""
        lines[f"{who} on Dask, {workers} processes{note}"] = sizes

    def make(pyplot: Any, ink: str) -> Any:
        figure, axis = pyplot.subplots(figsize=(5.5, 3.6))
        for words, sizes in lines.items():
            points = sorted((int(n), one["clock"]) for n, one in sizes.items())
            axis.loglog(*zip(*points, strict=True), "o-", label=words)
        axis.set(xlabel=f"generated records of {NARROW} columns", ylabel="time of a fit [s]")
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
        figure.tight_layout()
        return figure

    drawing.draw("clusters", make)


if __name__ == "__main__":
    main()
