"""Fits on a Dask cluster of processes: what the cluster costs beside memory, and time against the number of records.

    python benchmarks/clusters.py overhead [--records 5e6]   # the same table in memory and in the workers' memory
    python benchmarks/clusters.py blocks --records 1e6 1e7   # blocks that workers generate anew in every pass
    python benchmarks/clusters.py picture docs/pictures/clusters.svg

A local cluster of two processes of one thread. Times are processor time, of client and workers together, so that
others on the same cores do not count; the wall clock is beside it. ``--peer`` fits dask-ml's LogisticRegression
(lbfgs, not private) on the same blocks, in an environment that has it. Generated records: a stretch of one stored
table, turned by the number of the block, so that generating them costs little. What was measured is kept in
benchmarks/results/clusters.json.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

RESULTS = Path(__file__).parent / "results" / "clusters.json"
WIDE, NARROW = 50, 10
CHUNK = 2**20


@cache
def stored(columns: int, count: int = CHUNK) -> tuple[np.ndarray, np.ndarray]:
    """One table, which every process makes once."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((count, columns), dtype=np.float32) / np.sqrt(columns)
    w = 2.0 * rng.standard_normal(columns)
    return X, (rng.random(count) < 1.0 / (1.0 + np.exp(-(X @ w)))).astype(np.int8)


def rows_of(columns: int, block_info: Any = None) -> np.ndarray:
    """The stored rows from a place that depends on the block's number."""
    (start, stop), *_ = block_info[None]["array-location"]
    turn = (start // CHUNK * 7919) % CHUNK
    return np.roll(stored(columns)[0], turn, axis=0)[: stop - start]


def labels_of(columns: int, block_info: Any = None) -> np.ndarray:
    ((start, stop),) = block_info[None]["array-location"]
    turn = (start // CHUNK * 7919) % CHUNK
    return np.roll(stored(columns)[1], turn)[: stop - start]


def table(count: int, columns: int) -> tuple[Any, Any]:
    sizes = tuple(min(CHUNK, count - start) for start in range(0, count, CHUNK))
    X = da.map_blocks(rows_of, columns, chunks=(sizes, (columns,)), dtype=np.float32)
    return X, da.map_blocks(labels_of, columns, chunks=(sizes,), dtype=np.int8)


def timed(client: Client | None, work: Callable[[], Any]) -> dict[str, float]:
    def processor() -> float:
        workers = [] if client is None else client.run(time.process_time).values()
        return time.process_time() + sum(workers)

    before, clock = processor(), time.perf_counter()
    work()
    return {"processor": processor() - before, "clock": time.perf_counter() - clock}


def model(peer: bool) -> Any:
    if peer:
        from dask_ml.linear_model import LogisticRegression

        return LogisticRegression(solver="lbfgs")
    from reticent import PrivateLogisticRegression

    return PrivateLogisticRegression(
        classes=[0, 1], feature_norm=2.0, random_state=0, scaling="none"
    )


def overhead(client: Client, count: int) -> dict[str, Any]:
    """The same records in this process and in the workers' memory."""
    rows, labels = table(count, WIDE)
    X, y = rows.compute(), labels.compute()
    rows, labels = client.persist([rows, labels])
    model(False).fit(X[:70_000], y[:70_000])
    model(False).fit(rows[:70_000], labels[:70_000])
    found = []
    for _ in range(3):
        there = timed(client, lambda: model(False).fit(rows, labels))
        here = timed(None, lambda: model(False).fit(X, y))
        found.append((there, here))
    there, here = min(found, key=lambda pair: pair[0]["processor"] / pair[1]["processor"])
    ratios = sorted(a["processor"] / b["processor"] for a, b in found)
    return {"bytes": X.nbytes, "cluster": there, "memory": here, "ratios": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["overhead", "blocks", "picture"])
    parser.add_argument("path", nargs="?", type=Path, help="of the picture")
    parser.add_argument("--records", type=float, nargs="*", default=[5e6])
    parser.add_argument("--peer", action="store_true", help="dask-ml in place of reticent")
    given = parser.parse_args()
    measured = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if given.what == "picture":
        picture(measured["blocks"], given.path)
        return
    warnings.simplefilter("ignore")
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        for count in map(int, given.records):
            if given.what == "overhead":
                found = overhead(client, count)
                measured.setdefault("overhead", {})[str(count)] = found
            else:
                peer = "dask-ml" if given.peer else "reticent"
                rows, labels = table(count, NARROW)
                model(given.peer).fit(*table(100_000, NARROW))
                found = timed(client, lambda r=rows, y=labels: model(given.peer).fit(r, y))
                measured.setdefault("blocks", {}).setdefault(peer, {})[str(count)] = found
            print(given.what, f"{count:,}", json.dumps(found), flush=True)
            RESULTS.write_text(json.dumps(measured, indent=1) + "\n")


def picture(blocks: dict[str, dict[str, dict[str, float]]], path: Path) -> None:
    """Processor time against the number of records, and the line that goes on from the last of them."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(5.5, 3.6))
    for who, sizes in blocks.items():
        points = sorted((int(n), one["processor"]) for n, one in sizes.items())
        (line,) = axis.loglog(*zip(*points, strict=True), "o-", label=who)
        n, seconds = points[-1]
        if who == "reticent" and n < 10**9:
            axis.loglog(
                [n, 10**9], [seconds, seconds * 10**9 / n], ":", color=line.get_color(),
                label="in proportion (not measured)",
            )  # fmt: skip
    axis.set(xlabel=f"generated records of {NARROW} columns", ylabel="processor time [s]")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
