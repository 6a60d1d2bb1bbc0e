"""Time and memory of a logistic fit against the number of records, in memory and from files, beside scikit-learn.

Every measurement runs in a process of its own with one BLAS thread. Times are processor time, so that another
process on the same cores does not count, and the wall clock. Memory is the peak resident set during ``fit`` less
what the process held before it.

    python benchmarks/scale.py --most 1e6
    python benchmarks/scale.py --most 5e6 --picture docs/pictures/scale.svg
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = 50
WAYS = ("reticent", "reticent, from a file", "scikit-learn")
_CHUNK = 100_000


def write(folder: Path, count: int) -> None:
    """Standard normal features in single precision and labels of a logistic model, as NumPy files."""
    rng = np.random.default_rng(0)
    w = 2.0 * rng.standard_normal(COLUMNS)
    X = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (count, COLUMNS))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.int8, (count,))
    for start in range(0, count, _CHUNK):
        stop = min(count, start + _CHUNK)
        some = rng.standard_normal((stop - start, COLUMNS), dtype=np.float32) / np.sqrt(COLUMNS)
        X[start:stop] = some
        y[start:stop] = rng.random(stop - start) < 1.0 / (1.0 + np.exp(-(some @ w)))
    X.flush()
    y.flush()


def peak() -> int:
    """The largest resident set since the last reset, in bytes (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def measure(way: str, folder: Path) -> dict[str, float]:
    """One fit, after a small one that compiles what there is to compile."""
    warnings.simplefilter("ignore")
    from sklearn.linear_model import LogisticRegression

    from reticent import PrivateLogisticRegression, tables

    def model() -> Any:
        if way == "scikit-learn":
            return LogisticRegression()
        return PrivateLogisticRegression(classes=[0, 1], feature_norm=2.0, random_state=0)

    X, y = np.load(folder / "x.npy", mmap_mode="r"), np.load(folder / "y.npy")
    size = X.nbytes
    if way == "reticent, from a file":
        small = folder / "small"
        small.mkdir(exist_ok=True)
        np.save(small / "x.npy", X[:1000])
        np.save(small / "y.npy", y[:1000])
        model().fit(*tables.open(small / "x.npy", target=small / "y.npy"))
        X, y = tables.open(folder / "x.npy", target=folder / "y.npy")
    else:
        X = np.array(X)
        model().fit(X[:1000], y[:1000])
    made = model()
    Path("/proc/self/clear_refs").write_text("5")
    before, processor, clock = peak(), time.process_time(), time.perf_counter()
    made.fit(X, y)
    return {
        "processor": time.process_time() - processor,
        "clock": time.perf_counter() - clock,
        "memory": (peak() - before) / 2**20,
        "share": (peak() - before) / size,
    }


def picture(found: dict[str, dict[int, dict[str, float]]], path: Path) -> None:
    """Processor time and memory against the number of records."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6))
    for axis, name, words in zip(
        axes,
        ("processor", "memory"),
        ("processor time [s]", "peak memory above the process [MiB]"),
        strict=True,
    ):
        for way, sizes in found.items():
            axis.loglog(
                list(sizes), [max(one[name], 1e-2) for one in sizes.values()], "o-", label=way
            )
        axis.set(xlabel=f"records of {COLUMNS} columns, single precision", ylabel=words)
        axis.grid(alpha=0.3)
    axes[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Print a table, one line for each number of records and way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=float, default=1e6, help="the largest number of records")
    parser.add_argument("--picture", type=Path, help="where to draw what was measured")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one[0], Path(given.one[1]))))
        return
    sizes = sorted(
        {n for n in (10**4, 10**5, 10**6, 10**7, 10**8) if n <= given.most} | {int(given.most)}
    )
    found: dict[str, dict[int, dict[str, float]]] = {way: {} for way in WAYS}
    single = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    print(
        f"{'records':>10}  {'':<22} {'processor s':>11} {'clock s':>8} {'MiB':>8} {'of input':>8}"
    )
    for count in sizes:
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), count)
            for way in WAYS:
                command = [sys.executable, __file__, "--one", way, name]
                done = subprocess.run(
                    command, env=single, check=True, capture_output=True, text=True
                )
                one = json.loads(done.stdout)
                found[way][count] = one
                print(
                    f"{count:>10}  {way:<22} {one['processor']:>11.2f} {one['clock']:>8.2f} "
                    f"{one['memory']:>8.0f} {one['share']:>8.3f}",
                    flush=True,
                )
    if given.picture:
        picture(found, given.picture)


if __name__ == "__main__":
    main()
