"""Running totals: time a number beside the bare drawing of its noise, and beside jax_privacy on the same CPU.

Jax_privacy draws in floating point, so it stands beside our floating-point path; the lattice is
what we ship, and has a column of its own.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from table import Table
from timing import Measured, Ratio, measure

from questions import Run
from questions.totals import BUDGET, HORIZON, bare, totals, whole_blocks
from reticent import sums

QUESTION = 3
TARGETS = {"float": {10: 2.4, 54: 2.0, 512: 2.0}, "lattice": dict.fromkeys((10, 54, 512), 1.3)}


def floor_of_totals(run: Run) -> Table:
    table = Table(
        "floor_of_totals",
        QUESTION,
        "Running totals compared with drawing their noise alone",
        ["total", "dim", "precision", "ns per number", "ratio to the noise alone", "target"],
        "`run` on many rows: time of clipping, summing, correlating and adding the noise, divided by the "
        "time of merely drawing as much noise, the least that any private total can cost.",
    )  # fmt: skip
    for dim in run.choose((10, 54), (10, 54, 512)):
        steps = whole_blocks(run.choose(300_000, 2_000_000), dim)
        rows = np.random.default_rng(0).normal(size=(steps, dim)) / dim
        for precision in ("float", "lattice"):
            tasks = {
                name: partial(total.run, rows) for name, total in totals(precision, dim).items()
            }
            floor = {"bare": bare(precision, dim, steps)}
            pairs = [(name, "bare") for name in tasks]
            seconds = measure(floor | tasks, pairs, seconds=run.choose(6, 40))
            for name in tasks:
                target = None if name == "WindowTree" else TARGETS[precision][dim]
                each = Measured.of(1e9 / (steps * dim) * seconds[name])
                table.add(
                    name, dim, precision, each, Ratio.of(seconds[name], seconds["bare"]), target
                )
    return table


def totals_beside_jax(run: Run) -> Table:
    table = Table(
        "totals_beside_jax",
        QUESTION,
        "Correlated noise compared with jax_privacy on the CPU",
        ["dim", "jax_privacy's numbers", "jax_privacy, ns per number", "ours in floating point, ns",
         "jax_privacy / ours, float", "jax_privacy / ours, lattice"],
        "All noisy totals of a stream, one call; above 1 ours is faster.",
        settings=[
            "jax_privacy: `matrix_factorization_privatizer` with its BLT of 5 buffers inside one "
            "jitted `lax.scan`, compiled beforehand; in each cell the faster of its generators "
            "'threefry2x32' (default) and 'rbg'.",
        ],
    )  # fmt: skip
    peer = run.peer("jax_privacy")
    for dim in run.choose((54, 512), (10, 54, 512, 4096)):
        steps = max(200, run.choose(200_000, 2_000_000) // dim)
        rows = np.random.default_rng(0).normal(size=(steps, dim)) / dim
        tasks = {
            precision: partial(sums.Correlated(dim, HORIZON, budget=BUDGET, noise_precision=precision).run, rows)
            for precision in ("float", "lattice")
        }  # fmt: skip
        kinds = [
            (width, bits) for width in ("float32", "float64") for bits in ("threefry2x32", "rbg")
        ]
        for width, bits in kinds:
            tasks[f"{width} {bits}"] = partial(
                peer.clock,
                "totals",
                kind="blt",
                n=2**20,
                steps=steps,
                dim=dim,
                width=width,
                bits=bits,
            )
        pairs = [(f"{width} {bits}", "float") for width, bits in kinds]
        seconds = measure(tasks, pairs, seconds=run.choose(20, 80))
        for width in ("float32", "float64"):
            best = min(
                (seconds[f"{width} {bits}"] for bits in ("threefry2x32", "rbg")), key=np.median
            )
            each = [Measured.of(1e9 / (steps * dim) * s) for s in (best, seconds["float"])]
            table.add(
                dim,
                width,
                *each,
                Ratio.of(best, seconds["float"]),
                Ratio.of(best, seconds["lattice"]),
            )
    return table
