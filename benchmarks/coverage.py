"""Coverage of the 95 % intervals of ``PrivateLinearRegression(intervals=True).summary()``, well-specified data.

python benchmarks/coverage.py [simulations]: for n in {1e3, 1e4, 1e5} at epsilon = 1 and p in {2, 10, 50}, the share of
intervals that hold the true coefficient (a mean over coefficients, the intercept included), the least over
coefficients, and how much of the variance is privacy's. "refused" is the share of runs without intervals.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from reticent import PrivateLinearRegression
from reticent.estimators.summary import NoIntervals


def coverage(n: int, p: int, simulations: int) -> str:
    """One line of the table."""
    truth = np.append(0.5 * (-1.0) ** np.arange(p) / np.sqrt(np.arange(1, p + 1)), 0.1)
    hits, share, refused = np.zeros(p + 1), [], 0
    for seed in range(simulations):
        rng = np.random.default_rng([n, p, seed])
        X = rng.uniform(-1, 1, (n, p)) / math.sqrt(p)
        y = X @ truth[:p] + truth[p] + rng.uniform(-0.2, 0.2, n)
        model = PrivateLinearRegression(
            1.0, 1e-6, feature_norm=1.0, label_bounds=(-1, 1), intervals=True,
            noise_precision="float", random_state=seed,
        ).fit(X, y)  # fmt: skip
        try:
            found = model.summary()
        except NoIntervals:
            refused += 1
            continue
        low, high = found.interval.T
        hits += (low <= truth) & (truth <= high)
        share.append(float(np.mean((found.privacy_error / found.standard_error) ** 2)))
    done = simulations - refused
    if not done:
        return f"{n:>8,} {p:>3} {'refused: 100 %':>30}"
    return (
        f"{n:>8,} {p:>3} {hits.mean() / done:>9.1%} {hits.min() / done:>9.1%} "
        f"{np.mean(share):>9.1%} {refused / simulations:>9.1%}"
    )


if __name__ == "__main__":
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print(
        f"{'n':>8} {'p':>3} {'coverage':>9} {'least':>9} {'privacy':>9} {'refused':>9}  ({times} simulations)"
    )
    for n in (1_000, 10_000, 100_000):
        for p in (2, 10, 50):
            print(
                coverage(n, p, min(times, 2000 if n < 100_000 else max(50, times // 10))),
                flush=True,
            )
