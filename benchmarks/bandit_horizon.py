"""Bandits with the horizon known and unknown: `python benchmarks/bandit_horizon.py` prints a table.

Linear losses around a fixed direction and quadratic losses around a fixed point, dimension 5, eight seeds each.
"""

from __future__ import annotations

import numpy as np

import reticent
from reticent import bandit, losses, sets

DIM, REPEATS = 5, 8
SETS = {"l1": sets.L1Ball(DIM), "simplex": sets.Simplex(DIM)}


def average(name: str, kind: str, plays: int, seed: int, epsilon: float, known: bool) -> float:
    """Regret per play of one run."""
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(DIM)
    direction /= np.linalg.norm(direction)
    learner = bandit.ProjectionFreeBandit(
        SETS[name], budget=reticent.Budget(epsilon, 1e-6), lipschitz=1.0,
        values=(-1.0, 1.0) if kind == "linear" else (0.0, 1.0), horizon=plays if known else None,
        seed=seed, noise_precision="float",
    )  # fmt: skip
    noise = rng.standard_normal((plays, DIM))
    if kind == "linear":
        return learner.run(0.7 * direction + 0.3 * noise / np.sqrt(DIM)).regret() / plays
    center = np.abs(direction) / np.abs(direction).sum()
    return learner.run(center + 0.1 * noise, loss=losses.Quadratic()).regret() / plays


def main() -> None:
    print("| set, losses | plays | epsilon | known | unknown | ratio |")
    print("|---|---|---|---|---|---|")
    for name in SETS:
        for kind in ("linear", "quadratic"):
            for plays in (4096, 65_536):
                for epsilon in (0.2, 1.0):
                    known, unknown = (
                        np.mean([average(name, kind, plays, s, epsilon, k) for s in range(REPEATS)])
                        for k in (True, False)
                    )
                    print(
                        f"| {name}, {kind} | {plays:,} | {epsilon:g} | {known:.4f} | {unknown:.4f} | "
                        f"{unknown / known:.2f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
