"""What a play of the private bandit costs: ask and tell together, beside the oracle call it makes.

    python benchmarks/bandit_speed.py

A play makes one call of the set's linear minimiser, so the least it can cost is that call; sets whose
minimiser is compiled are called within the loop and cost less than one call from Python. It also
draws a direction, whose cost grows with the square of the dimension on flat sets. Times are
amortised over a whole horizon, the ends of rounds included; the slowest of a hundred asks is shown.
Repeats are interleaved with the bare oracle calls, so that a slow moment of the machine hits both.

    python benchmarks/bandit_speed.py --save      # also writes results/bandit_speed.json

Times are of the processor, not of the wall clock, so that whatever else the machine is busy with is
left out; a play is one thread that waits for nothing. The slowest asks are by the wall clock, since
that is what somebody waits for.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402
from bandit_regret import graph, two_lanes  # noqa: E402
from timing import interleaved, ratio  # noqa: E402

import reticent  # noqa: E402
from reticent import bandit, sets  # noqa: E402

BUDGET = reticent.Budget(1.0, 1e-6)
MICROSECONDS, RATIO = 20.0, 1.5
RESULTS = Path(__file__).parent / "results" / "bandit_speed.json"


def case(convex: sets.ConvexSet, plays: int) -> tuple[float, float, float, float]:
    """Microseconds a play, microseconds an oracle call, their ratio, the slowest ask in microseconds."""
    directions = np.random.default_rng(0).standard_normal((64, convex.dim))

    def play() -> None:
        learner = bandit.ProjectionFreeBandit(convex, budget=BUDGET, lipschitz=1.0, horizon=plays)
        begun = time.process_time()
        for _ in range(plays):
            learner.ask()
            learner.tell(0.3)
        took.append(time.process_time() - begun)

    def oracle() -> None:
        begun = time.process_time()
        for t in range(plays):
            convex.linear_minimizer(directions[t & 63])
        bare.append(time.process_time() - begun)

    took: list[float] = []
    bare: list[float] = []
    interleaved({"play": play, "oracle": oracle}, rounds=7)
    learner = bandit.ProjectionFreeBandit(convex, budget=BUDGET, lipschitz=1.0, horizon=plays)
    worst = []
    for _ in range(plays):
        begun = time.perf_counter()
        learner.ask()
        worst.append(time.perf_counter() - begun)
        learner.tell(0.3)
    share, _ = ratio(np.array(took[1:]), np.array(bare[1:]))
    slow = float(np.quantile(worst, 0.99))
    return 1e6 * min(took) / plays, 1e6 * min(bare) / plays, share, 1e6 * slow


def main() -> int:
    cases = {
        "l1 ball, n = 10": (sets.L1Ball(10), 16384),
        "simplex, n = 10": (sets.Simplex(11), 16384),
        "simplex, n = 50": (sets.Simplex(51), 8192),
        "unit flow, n = 10": (two_lanes(10), 8192),
        "unit flow, n = 50": (two_lanes(50), 8192),
        "spanning trees, n = 10": (graph(10), 8192),
        "spanning trees, n = 50": (graph(50), 8192),
        "nuclear ball, 20 x 20": (sets.NuclearBall((20, 20)), 1024),
    }
    print(f"{'':28}{'play':>9}{'oracle':>9}{'ratio':>8}{'99 %':>9}{'target':>14}")
    print(f"{'':28}{'us':>9}{'us':>9}{'':>8}{'ask, us':>9}")
    missed, rows = 0, []
    for name, (convex, plays) in cases.items():
        each, oracle, share, slow = case(convex, plays)
        first = name == "l1 ball, n = 10"
        fine = each <= MICROSECONDS if first else share <= RATIO
        missed += not fine
        target = f"<= {MICROSECONDS:g} us" if first else f"ratio <= {RATIO:g}"
        rows.append({"case": name, "play": each, "oracle": oracle, "ratio": share, "ask99": slow})
        print(f"{name:28}{each:9.2f}{oracle:9.2f}{share:8.2f}{slow:9.1f}{target:>14}")
    print(f"{missed} targets missed")
    if "--save" in sys.argv[1:]:
        RESULTS.parent.mkdir(exist_ok=True)
        data = {"command": "python benchmarks/bandit_speed.py --save", "microseconds": rows}
        RESULTS.write_text(json.dumps(data, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
