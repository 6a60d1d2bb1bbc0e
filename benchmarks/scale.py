"""Time and memory of a logistic fit against the number of records, in memory and from files, beside scikit-learn.

Every measurement runs in a process of its own with one BLAS thread. Times are processor time, so that another
process on the same cores does not count, and the wall clock. Memory is the peak resident set during ``fit`` less
what the process held before it. A table that would take more than half of the memory that is free is fitted from
its file only.

    python benchmarks/scale.py --records 1e4 1e5 1e6 5e6
    python benchmarks/scale.py --records 1e8 --folder /somewhere/with/20GB    # the folder is kept, for another run
    python benchmarks/scale.py --records 1e8 --zeros                          # 20 GB that take no disk: a file of holes
    python benchmarks/scale.py --columns 10 --records 1e4 1e5 1e6 1e7 1e8     # few columns: 4 GB, which fit in memory
    python benchmarks/scale.py --columns 10 --picture docs/pictures/scale.svg # of all that was measured so far
    python benchmarks/scale.py --columns 10 --table                           # the same, as docs/scale.md has it

What was measured is kept in benchmarks/results/scale.json.
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

RESULTS = Path(__file__).parent / "results" / "scale.json"
FROM_A_FILE = "reticent, from a file"
WAYS = ("reticent", FROM_A_FILE, "scikit-learn")
_CHUNK = 100_000

Measured = dict[str, dict[str, dict[str, float]]]


def write(folder: Path, count: int, columns: int) -> None:
    """Standard normal features in single precision and labels of a logistic model, as NumPy files."""
    rng = np.random.default_rng(0)
    w = 2.0 * rng.standard_normal(columns)
    X = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (count, columns))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.int8, (count,))
    for start in range(0, count, _CHUNK):
        stop = min(count, start + _CHUNK)
        some = rng.standard_normal((stop - start, columns), dtype=np.float32) / np.sqrt(columns)
        X[start:stop] = some
        y[start:stop] = rng.random(stop - start) < 1.0 / (1.0 + np.exp(-(some @ w)))
    X.flush()
    y.flush()


def write_zeros(folder: Path, count: int, columns: int) -> None:
    """The same table with zeros for everything, as files of holes: memory is that of any table of the size."""
    for name, dtype, shape in (("x", np.float32, (count, columns)), ("y", np.int8, (count,))):
        np.lib.format.open_memmap(folder / f"{name}.npy", "w+", dtype, shape)


def peak() -> int:
    """The largest resident set since the last reset, in bytes (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def measure(way: str, folder: Path) -> dict[str, float]:
    """One fit, after small ones that compile what there is to compile, also where nothing is scaled."""
    warnings.simplefilter("ignore")
    from sklearn.linear_model import LogisticRegression

    from reticent import PrivateLogisticRegression, tables
    from reticent.compiling import compile_at_once

    compile_at_once()

    def model(**more: Any) -> Any:
        if way == "scikit-learn":
            return LogisticRegression()
        return PrivateLogisticRegression(classes=[0, 1], feature_norm=2.0, random_state=0, **more)

    def warm(X: Any, y: Any) -> None:
        model().fit(X, y)
        model(scaling="none").fit(X, y)

    X, y = np.load(folder / "x.npy", mmap_mode="r"), np.load(folder / "y.npy")
    size = X.nbytes
    if way == FROM_A_FILE:
        small = folder / "small"
        small.mkdir(exist_ok=True)
        np.save(small / "x.npy", X[:10_000])
        np.save(small / "y.npy", y[:10_000])
        warm(*tables.open(small / "x.npy", target=small / "y.npy"))
        X, y = tables.open(folder / "x.npy", target=folder / "y.npy")
    else:
        X = np.array(X)
        warm(X[:10_000], y[:10_000])
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


def free() -> int:
    """Memory that is free, in bytes (Linux)."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])


def run(count: int, columns: int, folder: Path, zeros: bool) -> dict[str, dict[str, float]]:
    """All ways of fitting one table, which is written first unless it is there."""
    single = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    if not (folder / "done").exists():
        (write_zeros if zeros else write)(folder, count, columns)
        (folder / "done").touch()
    fits = not zeros and 2 * 4 * count * columns < free()
    found = {}
    for way in WAYS:
        if way != FROM_A_FILE and not fits:
            continue
        command = [sys.executable, __file__, "--one", way, str(folder)]
        done = subprocess.run(command, env=single, check=True, capture_output=True, text=True)
        found[way] = one = json.loads(done.stdout)
        print(
            f"{count:>10}  {way:<22} {one['processor']:>11.2f} {one['clock']:>8.2f} {one['memory']:>8.0f} "
            f"{one['share']:>8.3f}",
            flush=True,
        )
    return found


def table(measured: Measured) -> None:
    """The lines of docs/scale.md."""
    for count, one in sorted(measured.items(), key=lambda pair: int(pair[0])):
        for way in one:
            found = one[way]
            print(
                f"| {int(count):,} | {way} | {found['processor']:.2f} | {found['memory']:,.0f} | "
                f"{found['share']:.2f} |"
            )


def picture(measured: Measured, columns: int, path: Path) -> None:
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
        for way in WAYS:
            points = sorted((int(n), one[way][name]) for n, one in measured.items() if way in one)
            axis.loglog(*zip(*[(n, max(v, 1e-2)) for n, v in points], strict=True), "o-", label=way)
        axis.set(xlabel=f"records of {columns} columns, single precision", ylabel=words)
        axis.grid(alpha=0.3)
    axes[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Print a table, one line for each number of records and way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--records", type=float, nargs="*", default=[], help="how many, several times"
    )
    parser.add_argument("--folder", type=Path, help="where the table is, or is to be kept")
    parser.add_argument("--columns", type=int, default=50, help="of the table")
    parser.add_argument("--zeros", action="store_true", help="a table of zeros, from its file only")
    parser.add_argument("--picture", type=Path, help="where to draw what was measured")
    parser.add_argument("--table", action="store_true", help="print what was measured")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one[0], Path(given.one[1]))))
        return
    every = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    measured: Measured = every.setdefault(str(given.columns), {})
    if given.records:
        print(
            f"{'records':>10}  {'':<22} {'processor s':>11} {'clock s':>8} {'MiB':>8} {'of input':>8}"
        )
    for count in map(int, given.records):
        with tempfile.TemporaryDirectory() as name:
            folder = given.folder or Path(name)
            folder.mkdir(exist_ok=True)
            found = run(count, given.columns, folder, given.zeros)
            measured[f"{count} zeros" if given.zeros else str(count)] = found
        RESULTS.write_text(json.dumps(every, indent=1) + "\n")
    real = {n: one for n, one in measured.items() if n.isdigit()}
    if given.picture:
        picture(real, given.columns, given.picture)
    if given.table:
        table(real)


if __name__ == "__main__":
    main()
