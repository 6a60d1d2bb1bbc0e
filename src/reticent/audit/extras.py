"""Attacks that are no pairs of neighbours: on the last bits of a release, and on one run with many canaries.

The one thing a reader would get wrong: these have a setting of their own, in which they can see something.
Last bits leak most where little is promised, and one run shows little of a small epsilon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from reticent import erm, losses, online, sets, sums
from reticent.audit.canaries import one_run
from reticent.audit.digits import numbers
from reticent.audit.finding import Finding
from reticent.audit.pairs_sums import side_by_side
from reticent.privacy import Budget

Attack = tuple[str, str, Callable[[float], Finding]]

_DELTA = 1e-13  # far below the false-alarm probability over the number of canaries


def last_bits() -> Iterator[Attack]:
    """The last bits of single totals on the lattice, at such epsilons as floating point would fail at."""
    for noise, budget in (("laplace", Budget(0.1)), ("gaussian", Budget(1.0, 1e-6))):

        def sample(value: float, size: int, noise: str = noise, budget: Budget = budget) -> Any:
            alone = sums.IndependentMechanism(1, 1, budget=budget, noise=noise)
            return sums.RunningTotal(side_by_side(alone, size)).add(np.full(size, value))

        def attack(
            alarm: float, sample: Any = sample, noise: str = noise, budget: Budget = budget
        ) -> Finding:
            claim = sums.IndependentMechanism(1, 1, budget=budget, noise=noise).guarantee
            return numbers(sample, claim=claim, false_alarm=alarm)

        yield "last bits", f"Independent, {noise}", attack


def one_runs() -> Iterator[Attack]:
    """One run of a solver and of a learner, with a canary in each coordinate."""
    budget = Budget(8.0, 1e-6)

    def descent(included: Any) -> erm.Fit:
        m = len(included)
        rows = sparse.csr_matrix(sparse.diags(included.astype(float)))
        rows.eliminate_zeros()
        return erm.gradient_descent(
            losses.Linear(), sets.LinfBall(m, 1e9), rows, budget=budget, steps=1, step_size=float(m)
        )

    def attack_descent(alarm: float) -> Finding:
        claim = descent(np.ones(2, dtype=bool)).guarantee
        return one_run(
            descent,
            lambda fit: -np.ravel(fit.point),
            5000,
            delta=_DELTA,
            claim=claim,
            false_alarm=alarm,
        )

    yield "one run", "erm.gradient_descent, 5000 canaries", attack_descent

    def leader(count: int) -> online.Learner:
        return online.FollowTheRegularizedLeader(
            sets.LinfBall(count, 1e9), budget=budget, horizon=count, lipschitz=1.0, regularizer=1.0
        )

    def stream(included: Any) -> Any:
        learner = leader(len(included))
        return np.array([learner.update(row) for row in np.diag(included.astype(float))])

    def score(decisions: Any) -> Any:
        # the decision is minus the noisy total; what the canary's own step added to it
        steps = np.diff(np.vstack([np.zeros(decisions.shape[1]), decisions]), axis=0)
        return -np.diagonal(steps)

    def attack_leader(alarm: float) -> Finding:
        claim = leader(8).guarantee
        return one_run(stream, score, 512, delta=_DELTA, claim=claim, false_alarm=alarm)

    yield "one run", "online.FollowTheRegularizedLeader, 512 canaries", attack_leader
