"""How flat the optimum is around the rule of the online regulariser: its factors changed one at a time.

    python benchmarks/regulariser.py [--seeds 2] [--records 6000] [--epsilons 0.1,1,8]

The noise term of the rule (docs/algorithms/ftrl.md), the averaging and the influence of the online estimators
are changed one at a time, on every stream of two classes and of numbers of questions/prequential.py. A loss
is relative: less that of the same learner with next to no noise, divided by that of the best constant
prediction less the same; so 0 is not private, and 1 as bad as a constant. Streams on which learning gains
less than 2 % without noise are left out. "Left out" is the mean over streams of what a stream loses with the
factor that is best, on average, for all other streams. Diagnostics that read the data: not private.
"""

from __future__ import annotations

import argparse
import os
import warnings
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from questions.prequential import NUMBERS, ORDERED, SHUFFLED, stream

import reticent
from reticent import losses, online, sets
from reticent.online import ftrl, kernels

DELTA, QUIET = 1e-6, 1e4
NORM = float(np.hypot(1.0, 0.3)) * (1.0 + 2.0**-30)
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
RULE = {"noise": 1.0, "averaging": 1.0, "influence": 0.5}
CHANGES = {"noise": FACTORS, "averaging": (0.0, *FACTORS), "influence": (0.25, 0.5, 0.75, 1.0)}


class Changed(online.FollowTheRegularizedLeader):
    """The learner with the terms of its rule multiplied."""

    def __init__(self, factors: tuple[float, float], *given: Any, **more: Any) -> None:
        self._factors = factors
        super().__init__(*given, **more)

    def _begin(self) -> None:
        noise, averaging = self._factors
        real = ftrl.against_noise
        ftrl.against_noise = lambda problem: noise * real(problem)
        try:
            super()._begin()
        finally:
            ftrl.against_noise = real
        rule = self.rule
        rule.fresh = 1.0 / (1.0 + averaging * (1.0 / rule.fresh - 1.0))
        self._knobs[kernels.FRESH] = rule.fresh


def loss_of(name: str, most: int, seed: int, epsilon: float, rule: dict[str, float]) -> float:
    X, y = stream(name)
    A = np.column_stack([X[:most], np.full(len(X[:most]), 0.3)])
    number = name in NUMBERS
    what = losses.Huber if number else losses.Logistic
    labels = y[:most] if number else np.where(y[:most] == np.unique(y)[1], 1.0, -1.0)
    learner = Changed(
        (rule["noise"], rule["averaging"]), sets.L2Ball(A.shape[1], 16.0 if number else 50.0),
        what(feature_norm=NORM), budget=reticent.Budget(epsilon, DELTA), horizon=len(A), seed=seed,
        lipschitz=rule["influence"] * NORM, noise_precision="float", averaging=True,
    )  # fmt: skip
    return float(learner.run(A, labels, keep=1, keep_records=False).mean_loss)


def constant(name: str, most: int) -> float:
    y = stream(name)[1][:most]
    if name in NUMBERS:
        away = np.abs(y - np.median(y))
        return float(np.mean(np.where(away < 1.0, 0.5 * (y - y.mean()) ** 2, away - 0.5)))
    q = np.unique(y, return_counts=True)[1] / len(y)
    return float(-(q * np.log(q)).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--records", type=int, default=6000)
    parser.add_argument("--epsilons", default="0.1,1,8")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    names, quiet = [], {}
    for name in ORDERED + SHUFFLED + NUMBERS:
        if name in NUMBERS or len(np.unique(stream(name)[1])) == 2:
            free = RULE | {"influence": 1.0}
            quiet[name] = loss_of(name, given.records, 0, QUIET, free)
            if quiet[name] < 0.98 * constant(name, given.records):
                names.append(name)
    print(f"{len(names)} streams: {', '.join(names)}")
    for epsilon in map(float, given.epsilons.split(",")):
        for what, factors in CHANGES.items():
            table = np.empty((len(factors), len(names)))
            for i, factor in enumerate(factors):
                for j, name in enumerate(names):
                    found = [
                        loss_of(name, given.records, seed, epsilon, RULE | {what: factor})
                        for seed in range(given.seeds)
                    ]
                    span = constant(name, given.records) - quiet[name]
                    table[i, j] = (np.mean(found) - quiet[name]) / span
            row = ", ".join(
                f"{factor:g}: {mean:.3f} (worst {worst:.2f})"
                for factor, mean, worst in zip(
                    factors, table.mean(axis=1), table.max(axis=1), strict=True
                )
            )
            others = (table.sum(axis=1, keepdims=True) - table).argmin(axis=0)
            out = float(table[others, np.arange(len(names))].mean())
            print(f"epsilon {epsilon:g}, {what}: {row}; left out {out:.3f}", flush=True)


if __name__ == "__main__":
    main()
