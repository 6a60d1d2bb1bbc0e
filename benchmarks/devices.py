"""What a device takes: passes beside reading the records once, whole fits, and running totals beside bare drawing.

    python benchmarks/devices.py [--out figures.json]

Needs an NVIDIA device, CuPy and PyTorch. Reading is timed as half of a copy on the device; times are medians. Whole
fits of 10 columns go up to 10^9 records, which are generated on the device (``sizes``); benchmarks/clusters.py draws
them beside those of a cluster.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
import warnings
from pathlib import Path

import cupy
import numpy as np
import torch

import reticent
from reticent import sums
from reticent.compiling import compile_at_once
from reticent.devices import DeviceTotal, OnDevice, totals
from reticent.erm import passes
from reticent.losses import CappedLogistic
from reticent.solve.blocks import Form, IsClass, summed

compile_at_once()


_AT_ONCE = 2_000_000


def milliseconds(work, repeats: int = 9, waits: bool = False) -> float:
    """The median, after a third of a second of the same work: clocks are low after a pause.

    Work that ``waits`` for the device itself is not waited for once more.
    """
    wait = (lambda: None) if waits else cupy.cuda.Device().synchronize
    begun = time.perf_counter()
    work()
    while time.perf_counter() < begun + 0.33:
        work()
        wait()
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        wait()
        taken.append(time.perf_counter() - start)
    return 1e3 * statistics.median(taken)


def records(count: int, columns: int):
    """Made-up records and labels, in PyTorch's arrays."""
    X = torch.empty((count, columns), device="cuda")
    y = torch.empty(count, dtype=torch.int8, device="cuda")
    truth = torch.randn(columns, device="cuda")
    for start in range(0, count, _AT_ONCE):
        some = X[start : start + _AT_ONCE]
        some.normal_().div_(math.sqrt(columns))
        y[start : start + _AT_ONCE] = some @ truth + 0.5 * torch.randn(len(some), device="cuda") > 0
    return X, y


def reading_once(X) -> float:
    seen = cupy.asarray(X)[: len(X) // 4]
    room = cupy.empty_like(seen)
    return 2.0 * milliseconds(lambda: cupy.copyto(room, seen))


def whole_fits(X, y, repeats: int) -> list[float]:
    taken = []
    for _ in range(repeats):
        model = reticent.PrivateLogisticRegression(classes=[0, 1], feature_norm=1.0)
        torch.cuda.synchronize()
        start = time.perf_counter()
        model.fit(X, y)
        taken.append(time.perf_counter() - start)
    return taken


def sizes(counts: tuple[int, ...], columns: int) -> dict[str, dict[str, float]]:
    """Whole fits, the first of which compiles what there is to compile."""
    found = {}
    for count in counts:
        X, y = records(count, columns)
        whole_fits(X[:100_000], y[:100_000], 1)
        found[str(count)] = {"clock": statistics.median(whole_fits(X, y, 3)), "bytes": X.nbytes}
        print(f"{count:,} x {columns}: {found[str(count)]['clock']:.3g} s", flush=True)
        del X, y
        torch.cuda.empty_cache()
    return found


def table(count: int, columns: int) -> dict[str, float]:
    X, y = records(count, columns)
    reading = reading_once(X)
    held = OnDevice(X, y, None, Form(1.0, 1.0, 0.4), IsClass(1))
    loss = passes.Scalar(*CappedLogistic(0.5).kernel, 0.5)
    x = np.random.default_rng(0).standard_normal(columns + 1)
    gradient = milliseconds(lambda: summed(held.map(passes.SlopeSum(loss, x))), 51)
    fits = whole_fits(X, y, 5)
    small = min(count, 200_000)
    options = {"classes": [0, 1], "feature_norm": 1.0, "random_state": 0, "regularizer": 1e4}
    there = reticent.PrivateLogisticRegression(**options).fit(X[:small], y[:small])
    here = reticent.PrivateLogisticRegression(**options).fit(
        X[:small].cpu().numpy(), y[:small].cpu().numpy()
    )
    return {
        "records": count,
        "columns": columns,
        "reading, ms": reading,
        "gradient pass, ms": gradient,
        "pass / reading": gradient / reading,
        "whole fit, s": statistics.median(fits),
        "largest difference from the host": float(np.abs(there.coef_ - here.coef_).max()),
    }


def total(dim: int, block: int) -> dict[str, float]:
    mechanism = sums.CorrelatedMechanism(
        dim, 2**20, budget=reticent.Budget(1.0, 1e-6), noise_precision="float", buffers=5
    )
    running = DeviceTotal(mechanism)
    buffers = len(mechanism.parameters.gap)
    rows = cupy.random.standard_normal((block, dim), dtype=cupy.float32)
    out = cupy.empty_like(rows)
    rate = 2.0 * rows.nbytes / (1e-3 * milliseconds(lambda: cupy.copyto(out, rows)))
    # buffers and the total (64 bits) read and written, record, output
    traffic = 4.0 * dim * (2 * buffers + 4 + 1 + 1)
    one = torch.empty(dim, device="cuda")
    drawing = milliseconds(lambda: [one.normal_() for _ in range(block)]) / block
    first = rows[0]
    adding = milliseconds(lambda: running.add(first), 1001, waits=True)
    several = milliseconds(lambda: running.run(rows)) / block
    _, _, ours = totals._module(running.mechanism.parameters, 4, True)
    keys = cupy.zeros((block, 8), dtype=cupy.uint32)
    blocks = -(-dim // 2048)
    arguments = (keys, np.int64(block), np.int64(dim), np.float32(1.0), out)
    own = milliseconds(lambda: ours((blocks,), (128,), arguments)) / block
    return {
        "dimension": dim,
        "buffers": buffers,
        "add, ms": adding,
        "its memory traffic, ms": 1e3 * traffic / rate,
        "add / traffic": adding / (1e3 * traffic / rate),
        "run, ms a step": several,
        "bare normals of PyTorch, ms": drawing,
        "bare normals of ours, ms": own,
        "run / bare normals of PyTorch": several / drawing,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    found = [table(50_000_000, 50), table(20_000_000, 500), total(10_000_000, 64)]
    fits = sizes((10**6, 10**7, 10**8, 10**9), 10)
    for figures in found:
        for name, value in figures.items():
            print(f"{name:36s}{value:,.4g}")
        print()
    if chosen.out is not None:
        told = {"device": torch.cuda.get_device_name(), "figures": found, "sizes": fits}
        chosen.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
