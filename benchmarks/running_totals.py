"""Running totals: what they cost beside the bare drawing of their noise, and how much noise they add for one promise.

    python benchmarks/running_totals.py

Ratios only: each against the thing it is compared with, in the same run. The targets stand beside
them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numba import njit
from timing import interleaved, ratio

import tacit
from tacit import sums
from tacit.noise import lattice
from tacit.noise.source import Source
from tacit.privacy import published

BUDGET = tacit.Budget(1.0, 1e-6)
HORIZON = 2**22
WINDOWED = tacit.Budget(1.0, 1e-6, window=1024)


@njit(nogil=True)
def draw_normals(generator, out):
    for i in range(out.size):
        out[i] = generator.standard_normal()


def totals(precision: str, dim: int, horizon: int):
    return {
        "Correlated": lambda: sums.Correlated(
            dim, horizon, budget=BUDGET, noise_precision=precision
        ),
        "Correlated, window 1024": lambda: sums.Correlated(
            dim, budget=WINDOWED, noise_precision=precision
        ),
        "Tree, Honaker": lambda: sums.Tree(dim, horizon, budget=BUDGET, noise_precision=precision),
        "Tree, plain": lambda: sums.Tree(
            dim, horizon, budget=BUDGET, estimator="plain", noise_precision=precision
        ),
        "WindowTree": lambda: sums.WindowTree(dim, budget=WINDOWED, noise_precision=precision),
    }


def speed_of_run() -> None:
    print("\nrun: time per number / time to draw as many numbers of its noise")
    print(f"{'':28}{'dim':>6}{'precision':>11}{'ratio':>8}{'spread':>8}{'target':>8}")
    source = Source()
    for dim, float_target in ((10, 2.4), (54, 2.0), (512, 2.0)):
        steps = 2_000_000 // dim
        rows = np.random.default_rng(0).normal(size=(steps, dim)) / dim
        block = np.empty((32768 // dim, dim))
        lattice_block = np.empty((32768 // dim, dim), np.int64)
        scales = np.full(len(lattice_block), 1.5 * lattice.STEPS)

        def bare_float(block=block, steps=steps):
            for _ in range(steps // len(block)):
                draw_normals(source.generator, block.reshape(-1))

        def bare_lattice(block=lattice_block, scales=scales, steps=steps):
            for _ in range(steps // len(block)):
                lattice.gaussian(source, scales, block)

        for precision, bare, target in (
            ("float", bare_float, float_target),
            ("lattice", bare_lattice, 1.3),
        ):
            built = totals(precision, dim, HORIZON)
            tasks = {name: partial(make().run, rows) for name, make in built.items()}
            seconds = interleaved({"bare": bare, **tasks}, rounds=9)
            for name in tasks:
                middle, spread = ratio(seconds[name], seconds["bare"])
                goal = "" if name == "WindowTree" else f"{target:8.1f}"
                print(f"{name:28}{dim:6}{precision:>11}{middle:8.2f}{spread:8.2f}{goal}")
            each = np.median(seconds["bare"]) / (steps * dim) * 1e9
            print(f"{'bare drawing, ns a number':28}{dim:6}{precision:>11}{each:8.1f}")


def speed_of_add() -> None:
    print("\nadd, one at a time, dim 54: microseconds a step (bare: its noise alone)")
    dim, steps = 54, 20_000
    v = np.full(dim, 0.1)
    source = Source()
    block = np.empty((32768 // dim, dim), np.int64)
    scales = np.full(len(block), 1.5 * lattice.STEPS)

    def bare():
        for _ in range(steps // len(block)):
            lattice.gaussian(source, scales, block)

    def loop(add):
        for _ in range(steps):
            add(v)

    tasks = {"bare lattice noise": bare}
    for precision in ("float", "lattice"):
        for name, make in totals(precision, dim, HORIZON).items():
            tasks[f"{name}, {precision}"] = partial(loop, make().add)
    for name, seconds in interleaved(tasks, rounds=5).items():
        print(f"{name:40}{np.median(seconds) / steps * 1e6:8.2f}")


def first_call() -> None:
    print("\nfirst call in a fresh process, seconds (target 1.0 after the caches are warm)")
    code = (
        "import time; s = time.perf_counter(); import numpy as np, tacit; "
        "t = tacit.sums.Correlated(54, 1024, budget=tacit.Budget(1.0, 1e-6)); t.add(np.zeros(54)); "
        "print(time.perf_counter() - s)"
    )
    for _ in range(3):
        print(f"{float(subprocess.check_output([sys.executable, '-c', code])):8.2f}")


def noise_for_one_promise() -> None:
    print(
        "\nstandard deviation at (1, 1e-6), window 1024, norm 1; ratio to Correlated (target 100 for the published)"
    )
    best = sums.Correlated(1, budget=WINDOWED)
    tree = sums.WindowTree(1, budget=WINDOWED)
    last = 10**6
    worst = max(tree.error(last + i) for i in range(1024))
    paper = published.window_tree_gaussian(1.0, 1e-6, window=1024, norm=1.0)
    nodes = (1024).bit_length()
    rows = {
        "published window tree": float(paper.scale) * np.sqrt(nodes),
        "window tree, exact": worst,
        "correlated": best.error(last),
    }
    for name, value in rows.items():
        print(f"{name:28}{value:10.1f}{value / rows['correlated']:8.1f}")


if __name__ == "__main__":
    start = time.perf_counter()
    noise_for_one_promise()
    speed_of_run()
    speed_of_add()
    first_call()
    print(f"\n{time.perf_counter() - start:.0f} s")
