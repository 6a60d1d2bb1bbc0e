"""What persons with several records cost: noise of ours beside naive group privacy, and regret.

`python benchmarks/persons.py` prints two tables; docs/benchmarks.md holds what it printed. Seeds are fixed.
The naive way protects one record at epsilon over the number of records (for Gaussian noise: mu over it).
"""

from __future__ import annotations

import numpy as np

import reticent
from reticent import losses, online, sets, sums
from reticent.privacy import Participation

BUDGET = reticent.Budget(1.0, 1e-6)
LENGTH = 65_536
PATTERNS = ((4, 16_384), (16, 4096), (64, 1024), (16, 1))
T, DIM, REPEATS = 4096, 5, 4


def noise() -> None:
    one = sums.CorrelatedMechanism(1, LENGTH, budget=BUDGET).error(LENGTH)
    print(f"noise of a running total of {LENGTH:,} records, in units of that for one record")
    print("records of a person, steps apart | naive | ours")
    for k, b in PATTERNS:
        rule = Participation(k, b)
        ours = sums.CorrelatedMechanism(1, LENGTH, budget=BUDGET, participation=rule).error(LENGTH)
        print(f"{k}, {b:,} | {k} | {ours / one:.2f}")


def stream(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, DIM))
    X /= np.linalg.norm(X, axis=1)[:, None]
    w = np.arange(1.0, DIM + 1.0) / DIM
    y = np.where(rng.random(T) < 1 / (1 + np.exp(-4 * X @ w)), 1.0, -1.0)
    return X, y


def regret(seed: int, **more: object) -> float:
    """Average regret on a stream in which a person's records, all of which count, are evenly spread."""
    X, y = stream(seed)
    rule = more.get("participation")
    learner = online.FollowTheRegularizedLeader(
        sets.L2Ball(DIM, 4.0), losses.Logistic(), seed=seed, **more
    )  # type: ignore[arg-type]
    persons = None
    if isinstance(rule, Participation):
        persons = np.arange(T) % (T // (rule.max_records or 1))
    return learner.run(X, y, person=persons).regret() / T


def regrets() -> None:
    print(
        f"average regret over {T:,} records (FTRL, logistic loss, dimension {DIM}, {REPEATS} repeats)"
    )
    print("epsilon | not private | one record | k | persons, ours | persons, naive")
    for epsilon in (1.0, 4.0):
        budget = reticent.Budget(epsilon, 1e-6)
        free = np.mean(
            [regret(s, budget=reticent.Budget(1e4, 0.5), horizon=T) for s in range(REPEATS)]
        )
        one = np.mean([regret(s, budget=budget, horizon=T) for s in range(REPEATS)])
        for k in (1, 4, 16):
            rule = Participation(k, T // k)
            ours = np.mean(
                [regret(s, budget=budget, horizon=T, participation=rule) for s in range(REPEATS)]
            )
            weak = reticent.privacy.gaussian.epsilon(1e-6, budget.mu / k)
            naive = np.mean(
                [regret(s, budget=reticent.Budget(weak, 1e-6), horizon=T) for s in range(REPEATS)]
            )
            print(f"{epsilon:g} | {free:.2e} | {one:.2e} | {k} | {ours:.2e} | {naive:.2e}")


def unknown_horizon() -> None:
    """Known and unknown horizon, each beside the same learner with next to no noise."""
    print(
        "excess of the average regret over not private, horizon unknown over known; ratio of the noises"
    )
    for epsilon in (1.0, 4.0):
        budget, none = reticent.Budget(epsilon, 1e-6), reticent.Budget(1e4, 0.5)
        excess = []
        for horizon in (T, None):
            gaps = [
                regret(s, budget=budget, horizon=horizon) - regret(s, budget=none, horizon=horizon)
                for s in range(REPEATS)
            ]
            excess.append(float(np.mean(gaps)))
        errors = [sums.CorrelatedMechanism(1, n, budget=budget).error(T) for n in (T, None)]
        print(
            f"epsilon {epsilon:g}: {excess[1]:.2e} over {excess[0]:.2e} = {excess[1] / excess[0]:.2f}; "
            f"{errors[1] / errors[0]:.2f}"
        )


if __name__ == "__main__":
    noise()
    regrets()
    unknown_horizon()
