"""Attacks that are not pairs of neighbours: on low-order bits of a release, and on one run with many canaries.

They use settings in which they have power: low-order bits leak most if epsilon is small, and one run reveals little
about a small epsilon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from reticent import erm, losses, online, sets, sums
from reticent.audit.canaries import few_runs
from reticent.audit.digits import numbers
from reticent.audit.finding import Finding
from reticent.audit.pairs_sums import side_by_side
from reticent.estimators import PrivateLinearSVC
from reticent.privacy import Budget, Guarantee

Attack = tuple[str, str, Callable[[float], Finding]]


def last_bits() -> Iterator[Attack]:
    """Attacks on the last bits of single totals on the lattice, at epsilons at which floating-point noise fails.

    As a control, the same attack has to refute the same total in floating point.
    """
    for noise, budget in (("laplace", Budget(0.1)), ("gaussian", Budget(1.0, 1e-6))):

        def attack(alarm: float, noise: str = noise, budget: Budget = budget) -> Finding:
            found, bare = (
                numbers(
                    partial(_single, noise, budget, precision),
                    claim=sums.IndependentMechanism(1, 1, budget=budget, noise=noise).guarantee,
                    false_alarm=alarm,
                )
                for precision in ("lattice", "float")
            )
            return found if bare.holds else replace(found, control="floating point")

        yield "last bits", f"Independent, {noise}", attack


def _single(noise: str, budget: Budget, precision: str, value: float, size: int) -> Any:
    """Release many totals of one record each."""
    alone = sums.IndependentMechanism(1, 1, budget=budget, noise=noise, noise_precision=precision)
    return sums.RunningTotal(side_by_side(alone, size)).add(np.full(size, value))


def many_canaries() -> Iterator[Attack]:
    """A few runs of a solver, a learner and an estimator, with a canary in each coordinate."""
    budget = Budget(8.0, 1e-6)

    def descent(included: Any) -> erm.Fit:
        m = len(included)
        return erm.gradient_descent(
            losses.Linear(),
            sets.LinfBall(m, 1e9),
            _diagonal(included),
            budget=budget,
            steps=1,
            step_size=float(m),
        )

    def stream(included: Any) -> Any:
        learner = leader(len(included))
        return np.array([learner.update(row) for row in np.diag(included.astype(float))])

    def leader(count: int) -> online.Learner:
        return online.FollowTheRegularizedLeader(
            sets.LinfBall(count, 1e9),
            budget=budget,
            horizon=count,
            lipschitz=1.0,
            regularizer=1.0,
            total="independent",
        )

    def steps(decisions: Any) -> Any:
        # the decision is minus the noisy total; the score is what the canary's own step added to it
        moves = np.diff(np.vstack([np.zeros(decisions.shape[1]), decisions]), axis=0)
        return -np.diagonal(moves)

    # at the first decision a hinge has its largest slope, a logistic loss only half of its own
    def classifier(included: Any) -> PrivateLinearSVC:
        model = PrivateLinearSVC(
            epsilon=8.0, delta=1e-6, classes=[-1, 1], fit_intercept=False, regularizer=1000.0
        )
        return model.fit(_diagonal(included), np.ones(len(included)))

    two = np.ones(2, dtype=bool)
    runs: list[tuple[str, int, Any, Any, Guarantee]] = [
        ("erm.gradient_descent", 1000, descent, lambda fit: -np.ravel(fit.point),
         descent(two).guarantee),
        ("online.FollowTheRegularizedLeader", 256, stream, steps, leader(8).guarantee),
        ("PrivateLinearSVC", 200, classifier, lambda model: np.ravel(model.coef_),
         classifier(two).guarantee_),
    ]  # fmt: skip
    for name, count, train, score, claim in runs:

        def attack(
            alarm: float,
            count: int = count,
            train: Any = train,
            score: Any = score,
            claim: Guarantee = claim,
            name: str = name,
        ) -> Finding:
            return few_runs(train, score, count, claim=claim, false_alarm=alarm, name=name)

        yield "few runs", f"{name}, {count} canaries", attack


def _diagonal(included: Any) -> Any:
    """A canary in each coordinate; one that is left out is the null record."""
    rows = sparse.csr_matrix(sparse.diags(included.astype(float)))
    rows.eliminate_zeros()
    return rows
