"""One private Frank-Wolfe step on sparse records: incremental gradients and few draws against the naive step.

The naive step computes the gradient of the squared loss from the CSR matrix (two products) and draws one Gumbel
number for each of the 2p corners. Ours keeps the gradient up to date and selects exactly by rejection from
blocks; both draw from the same law. The time is that of whole runs divided by their steps, set-up included.

The naive step has floating-point noise and no accounting of rounding, so it is compared at its
fastest, not at its safest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from table import Table
from timing import Measured, Ratio, measure

import reticent
from questions import Run
from questions.data import Missing, sparse
from reticent import erm, losses, sets

QUESTION = 3
BUDGET = reticent.Budget(1.0, 1e-6)


def naive(A: Any, y: np.ndarray, scale: float, steps: int) -> np.ndarray:
    dim = A.shape[1]
    rng = np.random.default_rng(0)
    x = np.zeros(dim)
    transposed = A.T.tocsr()
    for t in range(1, steps + 1):
        g = transposed @ (A @ x - y)
        best = int(np.argmax(np.concatenate([-g, g]) / scale + rng.gumbel(size=2 * dim)))
        x *= 1.0 - 2.0 / (t + 1.0)
        x[best % dim] += 2.0 / (t + 1.0) * (1.0 if best < dim else -1.0)
    return x


def made_up(count: int, dim: int, entries: int) -> tuple[Any, np.ndarray]:
    """Records with as many columns as text has, most of them rare."""
    rng = np.random.default_rng(0)
    columns = (dim * rng.random((count, entries)) ** 3).astype(int)
    rows = np.repeat(np.arange(count), entries)
    A = sp.csr_array((np.ones(count * entries), (rows, columns.ravel())), shape=(count, dim))
    A.data[:] = 1.0
    return A, np.where(rng.random(count) < 0.5, 1.0, -1.0)


def frank_wolfe(run: Run) -> Table:
    table = Table(
        "frank_wolfe",
        QUESTION,
        "A private Frank-Wolfe step on sparse records",
        ["data", "records", "columns", "entries", "naive, ms per step", "ours, ms per step", "naive / ours", "target"],
        "Squared loss on the l1 ball, ε = 1, δ = 10⁻⁶, time of a whole run divided by its number of "
        "steps; above 1 "
        "ours is faster.",
    )  # fmt: skip
    found: dict[str, tuple[Any, np.ndarray]] = {"made up": made_up(2000, 50_000, 100)}
    for name in ("farm_ads", "dorothea_valid"):
        try:
            found[name] = sparse(name)
        except Missing as missing:
            table.settings.append(f"{name} is left out: {missing}")
    steps = run.choose(100, 300)
    for name, (A, y) in found.items():
        count, dim = A.shape
        loss, where = losses.Squared(), sets.L1Ball(dim)

        def ours(A: Any = A, y: np.ndarray = y, loss: Any = loss, where: Any = where) -> Any:
            return erm.frank_wolfe(loss, where, A, y, budget=BUDGET, steps=steps, seed=0)

        scale = float(ours().guarantee.releases[0].noise.split()[-1])
        few = max(1, steps // 10)

        def plain(A: Any = A, y: np.ndarray = y, scale: float = scale, few: int = few) -> Any:
            return naive(A, y, scale, few)

        seconds = measure(
            {"ours": ours, "naive": plain}, [("naive", "ours")], seconds=run.choose(8, 30)
        )
        mine, other = seconds["ours"] / steps, seconds["naive"] / few
        table.add(
            name, count, dim, int(A.nnz), Measured.of(1e3 * other), Measured.of(1e3 * mine),
            Ratio.of(other, mine), 5.0,
        )  # fmt: skip
    return table
