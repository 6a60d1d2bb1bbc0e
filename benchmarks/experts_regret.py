"""The regret of `online.Experts` over records T, experts d and epsilon, beside its bound and other ways to choose.

    python benchmarks/experts_regret.py [--largest 1e8] [--seeds 3]

Three kinds of costs: one expert better by 2 sqrt(ln d/T), the gap that is hardest to find in time ("gap"); one expert
better by 0.2 ("easy"); and two experts that take turns, where a leader without noise is always wrong ("turns"). Costs
are 0 or 1. Cells with more than ``--largest`` costs (T times d) are left out. Regret reads the costs: not private.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import reticent
from reticent import losses, online, sets

DELTA = 1e-6
CHUNK = 2**22  # costs at a time


def stream(kind: str, T: int, d: int, seed: int):
    """Chunks of costs, 0 or 1."""
    rng = np.random.default_rng(seed)
    best = int(rng.integers(d))
    gap = 0.2 if kind == "easy" else min(0.5, 2.0 * math.sqrt(math.log(d) / T))
    rows = max(1, CHUNK // d)
    for start in range(0, T, rows):
        count = min(rows, T - start)
        level = np.full((count, d), 0.5, np.float32)
        if kind == "turns":
            turn = np.arange(start, start + count) % 2
            level[:] = 1.0
            level[np.arange(count), turn] = 0.0
            if start == 0:
                level[0] = rng.random(d) < 0.5  # half a turn ahead
        else:
            level[:, best] -= gap
        yield (rng.random((count, d), np.float32) < level).astype(float)


def bound(learner: online.Experts, T: int) -> float:
    """docs/algorithms/experts.md, for costs that do not depend on the noise."""
    spread, wide = math.log(learner.dim), math.sqrt(2.0 * math.log(learner.dim))
    # The first weights are uniform, as they are at the first temperature and noise, which count twice.
    first = learner.rule.temperature(1)
    moved = min(1 / (8 * first) if first else math.inf, wide / (4 * learner.total.error(1)), 1.0)
    edges = np.unique(np.round(np.geomspace(1, T, 200)).astype(int))
    for left, right in itertools.pairwise(edges):
        c, s = learner.rule.temperature(int(left)), learner.total.error(int(left))
        moved += (right - left) * min(1 / (8 * c) if c else math.inf, wide / (4 * s), 1.0)
    return learner.total.error(T) * wide + learner.rule.temperature(T) * spread + moved


def learners(T: int, d: int, epsilon: float, seed: int):
    common = {"budget": reticent.Budget(epsilon, DELTA), "horizon": T, "seed": seed}
    common["noise_precision"] = "float"
    yield "default", online.Experts(d, **common)
    yield "noisy leader", online.Experts(d, temperature=0.0, **common)
    yield "temperature", online.Experts(d, temperature=math.sqrt(T / 8 / math.log(d)), **common)
    yield "no horizon", online.Experts(d, **(common | {"horizon": None}))
    if T * d <= 10**7:
        yield (
            "FTRL",
            online.FollowTheRegularizedLeader(
                sets.Simplex(d), losses.Linear(feature_norm=math.sqrt(d)), **common
            ),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--largest", type=float, default=1e8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kinds", default="gap,easy,turns")
    parser.add_argument("--epsilons", default="1,8")
    given = parser.parse_args()
    begun = time.perf_counter()
    print("mean regret divided by T")
    names = ("default", "noisy leader", "temperature", "no horizon", "FTRL")
    print(f"{'costs':6}{'T':>9}{'d':>7}{'eps':>5}  " + "".join(f"{name:>13}" for name in names)
          + f"{'bound':>10}{'c':>8}")  # fmt: skip
    for kind in given.kinds.split(","):
        for T in (10**3, 10**4, 10**5, 10**6):
            for d in (10, 100, 1000, 10**4):
                if T * d > given.largest:
                    continue
                for epsilon in map(float, given.epsilons.split(",")):
                    total: dict[str, float] = {}
                    promised = warm = 0.0
                    for seed in range(given.seeds):
                        entrants = dict(learners(T, d, epsilon, seed))
                        promised = bound(entrants["default"], T) / T
                        warm = entrants["default"].rule.temperature(T)
                        costs = dict.fromkeys(entrants, 0.0)
                        cheapest = np.zeros(d)
                        for chunk in stream(kind, T, d, seed):
                            cheapest += chunk.sum(axis=0)
                            for name, learner in entrants.items():
                                play = learner.run(chunk, keep=1, keep_records=False)
                                costs[name] += float(play.losses.sum())
                        for name, cost in costs.items():
                            mean = (cost - cheapest.min()) / T / given.seeds
                            total[name] = total.get(name, 0.0) + mean
                    cells = "".join(
                        f"{total[name]:13.4f}" if name in total else f"{'-':>13}" for name in names
                    )
                    print(f"{kind:6}{T:9d}{d:7d}{epsilon:5g}  {cells}{promised:10.4f}{warm:8.1f}",
                          flush=True)  # fmt: skip
    print(f"{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
