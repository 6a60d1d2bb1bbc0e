"""One private Frank-Wolfe step on sparse records: incremental gradients and few draws against the naive step.

    python sparse_frank_wolfe.py [--steps 300] [--epsilon 1.0]

The naive step computes the gradient of the squared loss from the CSR matrix (two products) and draws
one Gumbel number for each of the 2p corners. Ours keeps the gradient up to date and selects exactly
by rejection from blocks; both draw from the same law. The time is that of whole runs divided by
their steps, set-up included, interleaved. Data is looked for in the folder TACIT_DATA, else
../shared/data beside the checkout.

The one thing a reader would get wrong: the naive step has floating-point noise and no accounting of
rounding, so it is compared at its fastest, not at its safest.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from timing import interleaved, ratio

import tacit
from tacit import erm, losses, sets
from tacit.erm._selection import Corners
from tacit.noise import Source

NAMES = ("farm_ads", "dorothea_valid")


def load(name: str) -> tuple[sp.csr_array, np.ndarray] | None:
    named = os.environ.get("TACIT_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    path = folder / f"{name}.npz"
    if not path.exists():
        print(f"{name}: skipped, no {path.name} in {folder}; set TACIT_DATA")
        return None
    z = np.load(path)
    A = sp.csr_array((z["data"].astype(float), z["indices"], z["indptr"]), shape=tuple(z["shape"]))
    return A, np.where(z["y"] > 0, 1.0, -1.0)


def naive(A: sp.csr_array, y: np.ndarray, scale: float, steps: int) -> np.ndarray:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    steps = arguments.steps
    budget = tacit.Budget(arguments.epsilon, 1e-6)
    print(
        f"{steps} steps, epsilon = {arguments.epsilon:g}, delta = 1e-6, zero-out, l1 ball of radius 1"
    )
    for name in NAMES:
        data = load(name)
        if data is None:
            continue
        A, y = data
        count, dim = A.shape
        loss, where = losses.Squared(), sets.L1Ball(dim)

        def ours(A=A, y=y, loss=loss, where=where):  # type: ignore[no-untyped-def]
            return erm.frank_wolfe(loss, where, A, y, budget=budget, steps=steps, seed=0)

        scale = float(ours().guarantee.releases[0].noise.split()[-1])

        def plain(A=A, y=y, scale=scale):  # type: ignore[no-untyped-def]
            return naive(A, y, scale, max(1, steps // 10))

        seconds = interleaved({"ours": ours, "naive": plain}, arguments.rounds)
        mine, other = seconds["ours"] / steps, seconds["naive"] / max(1, steps // 10)
        middle, spread = ratio(other, mine)
        chooser = Corners(dim, True, Source(0))
        g = A.T @ (-y)
        for _ in range(100):
            chooser.pick(g, scale)
        print(f"{name:15s} {count} x {dim}, {A.nnz} entries: naive {1e3 * np.median(other):.2f} ms a step, "
              f"ours {1e3 * np.median(mine):.3f} ms, {middle:.1f} times faster (spread {spread:.1f}); "
              f"{chooser.draws / 100:.0f} Gumbel numbers a choice instead of {2 * dim}")  # fmt: skip


if __name__ == "__main__":
    main()
