"""Running totals of every kind, and the bare drawing of their noise: the floor that each is measured against."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
from numba import njit

import reticent
from reticent import sums
from reticent.noise import lattice
from reticent.noise.source import Source
from reticent.sums.mechanism import _BLOCK

BUDGET = reticent.Budget(1.0, 1e-6)
HORIZON = 2**30  # beyond what any number of rounds can use up
WINDOWED = BUDGET.with_(window=1024)
BLOCK = _BLOCK  # as many numbers as the totals draw at a time


def totals(precision: str, dim: int) -> dict[str, sums.RunningTotal]:
    common = {"budget": BUDGET, "noise_precision": precision}
    windowed = {"budget": WINDOWED, "noise_precision": precision}
    return {
        "Correlated": sums.Correlated(dim, HORIZON, **common),
        "Correlated, window 1024": sums.Correlated(dim, **windowed),
        "Tree, Honaker": sums.Tree(dim, HORIZON, **common),
        "Tree, plain": sums.Tree(dim, HORIZON, estimator="plain", **common),
        "WindowTree": sums.WindowTree(dim, **windowed),
    }


@njit(nogil=True)
def draw_normals(generator, out):
    for i in range(out.size):
        out[i] = generator.standard_normal()


def turns(make: Callable[[], Any], count: int = 8) -> Callable[[], Any]:
    """One after the other of several, since some generators are a fifth slower for where they lie in memory."""
    made = cycle([make() for _ in range(count)])
    return lambda: next(made)


def bare(precision: str, dim: int, steps: int) -> Callable[[], None]:
    """As many numbers of the noise as ``steps`` vectors need, drawn in blocks and thrown away."""
    sources = turns(Source)
    rows = max(1, BLOCK // dim)
    blocks = max(1, steps // rows)
    if precision == "float":
        floats = np.empty(rows * dim)

        def draw() -> None:
            for _ in range(blocks):
                draw_normals(sources().generator, floats)

        return draw
    whole = np.empty((rows, dim), np.int64)
    scales = np.full(rows, 1.5 * lattice.STEPS)

    def draw_lattice() -> None:
        for _ in range(blocks):
            lattice.gaussian(sources(), scales, whole)

    return draw_lattice


def whole_blocks(numbers: int, dim: int) -> int:
    """Steps that make about ``numbers`` numbers and fill whole blocks, so that the floor draws as many."""
    rows = max(1, BLOCK // dim)
    return max(1, numbers // (rows * dim)) * rows
