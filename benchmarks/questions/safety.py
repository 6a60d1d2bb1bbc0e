"""What safety costs: the lattice against floating point, the secure generator against PCG64, exact accounting.

The last table is about noise, not time: exact accounting costs milliseconds once and saves noise on
every step.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from table import Table
from timing import Measured, Ratio, measure

import reticent
from questions import Run
from questions.totals import BUDGET, HORIZON, bare, draw_normals, totals, turns, whole_blocks
from reticent import losses, online, papers, sets, sums
from reticent.noise.source import Source
from reticent.privacy import calibration

QUESTION = 5


def lattice_against_float(run: Run) -> Table:
    table = Table(
        "lattice_against_float",
        QUESTION,
        "Noise on a lattice compared with noise in floating point",
        ["what", "dim", "lattice / float"],
        "The same call with `noise_precision` set either way; the first row only draws the noise.",
    )
    for dim in run.choose((54,), (10, 54, 512)):
        steps = whole_blocks(run.choose(300_000, 2_000_000), dim)
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(steps, dim)) / dim
        labels = np.where(rng.random(steps) < 0.5, 1.0, -1.0)
        tasks, names = {}, []
        for precision in ("float", "lattice"):
            made = {"drawing the noise alone": bare(precision, dim, steps)}
            made |= {
                f"{name}.run": partial(total.run, rows)
                for name, total in totals(precision, dim).items()
            }
            learner = online.FollowTheRegularizedLeader(
                sets.L2Ball(dim, 5.0), losses.Logistic(), budget=BUDGET, horizon=HORIZON, noise_precision=precision
            )  # fmt: skip
            made["FollowTheRegularizedLeader.run"] = partial(learner.run, rows, labels)
            names = list(made)
            tasks |= {f"{precision} {name}": task for name, task in made.items()}
        pairs = [(f"lattice {name}", f"float {name}") for name in names]
        seconds = measure(tasks, pairs, seconds=run.choose(10, 60))
        for name, (a, b) in zip(names, pairs, strict=True):
            table.add(name, dim, Ratio.of(seconds[a], seconds[b]))
    return table


def secure_generator(run: Run) -> Table:
    table = Table(
        "secure_generator",
        QUESTION,
        "The secure generator compared with PCG64",
        ["what", "AES counter, ns", "PCG64, ns", "AES counter / PCG64"],
        "The generator is keyed by the operating system unless a seed is given; NumPy's PCG64 can "
        "be predicted from its outputs.",
    )  # fmt: skip
    count = run.choose(200_000, 2_000_000)
    generators = {
        "AES": turns(lambda: Source().generator),
        "PCG64": turns(lambda: np.random.default_rng(0)),
    }
    out = np.empty(count)
    kinds = {
        "64 random bits": lambda generator: generator.bit_generator.random_raw(count),
        "a normal number, in a compiled loop": lambda generator: draw_normals(generator, out),
        "a normal number, by NumPy": lambda generator: generator.standard_normal(count),
    }
    for name, draw in kinds.items():
        tasks = {k: (lambda draw=draw, v=v: draw(v())) for k, v in generators.items()}
        seconds = measure(tasks, [("AES", "PCG64")], seconds=run.choose(4, 20))
        each = [Measured.of(1e9 / count * seconds[k]) for k in ("AES", "PCG64")]
        table.add(name, *each, Ratio.of(seconds["AES"], seconds["PCG64"]))
    return table


def accounting(run: Run) -> Table:
    table = Table(
        "accounting",
        QUESTION,
        "Exact accounting compared with published formulas",
        ["mechanism", "exact, ms", "published, ms", "noise of the published / exact", "true ε of the published"],
        "ε = 1, δ = 10⁻⁶. Time to compute the noise from scratch, and its standard deviation at one node "
        "or step. The published formulas claim ε = 1 under replacement of a record; the exact "
        "calibration and the true ε are for the same relation.",
    )  # fmt: skip
    budget = reticent.Budget(1.0, 1e-6, "replace")
    horizon, window = 2**16, 1024
    cases = {
        "one Gaussian": (
            lambda: calibration.gaussian(budget, 2.0),
            None,
        ),
        "tree, 2^16 steps (PrivateSum)": (
            lambda: calibration.gaussian(budget, 2.0 * np.ones(horizon.bit_length())),
            lambda: papers.private_sum(1.0, 1e-6, horizon=horizon),
        ),
        "window tree, W = 1024": (
            lambda: calibration.gaussian(budget, 2.0 * np.ones(window.bit_length())),
            lambda: papers.window_tree_gaussian(1.0, 1e-6, window=window),
        ),
        "tree aggregation of the bandit, 2^16": (
            lambda: calibration.gaussian(budget, 2.0 * np.ones(horizon.bit_length())),
            lambda: papers.tree_aggregation_gaussian(1.0, 1e-6, horizon=horizon),
        ),
    }
    for name, (exact, paper) in cases.items():
        tasks = {"exact": exact} | ({} if paper is None else {"published": paper})
        pairs = [] if paper is None else [("exact", "published")]
        seconds = measure(tasks, pairs, seconds=2)
        first = Measured.of(1e3 * seconds["exact"])
        if paper is None:
            table.add(name, first, None, None, None)
            continue
        printed = paper()
        table.add(
            name, first, Measured.of(1e3 * seconds["published"]),
            Ratio.exact(float(printed.scale) / exact()), printed.true_epsilon(neighbours="replace"),
        )  # fmt: skip
    seconds = measure({"build": lambda: sums.Correlated(54, horizon, budget=BUDGET)}, [], seconds=2)
    built = Measured.of(1e3 * seconds["build"])
    table.add("Correlated, 2^16 steps, built and calibrated", built, None, None, None)
    return table
