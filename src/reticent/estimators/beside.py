"""What is released beside a fit, out of the same budget: how much the fit may still spend, and one promise for all.

A fit on an empty table of the same shape tells what the fit on the real one will cost, since that depends on public
numbers only. So everything is charged at once, before anything is drawn from the records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from reticent.erm import Fit
from reticent.erm.solver import rehearsing
from reticent.privacy import Budget, Guarantee, Release, gaussian

_TRIES = 40


class Rehearsed(Exception):
    """What a fit would cost; raised in place of fitting."""

    def __init__(self, guarantee: Guarantee) -> None:
        super().__init__("a rehearsal does not fit")
        self.guarantee = guarantee


def price(estimator: Any, X: Any, y: Any, groups: Any = None) -> Guarantee:
    """What ``estimator.fit(X, y, groups=groups)`` would promise; nothing is charged and nothing is drawn."""
    try:
        with rehearsing():
            estimator.fit(X, y, **({} if groups is None else {"groups": groups}))
    except Rehearsed as end:
        return end.guarantee
    raise TypeError(f"{type(estimator).__name__} cannot say beforehand what a fit costs")


def reserve(
    budget: Budget, releases: Sequence[Release], rehearse: Callable[[Budget], Fit]
) -> tuple[Budget, Guarantee]:
    """The largest budget for a fit beside these releases, and what all of it will cost.

    Parameters
    ----------
    budget : Budget
        For everything together.
    releases : sequence of Release
        What is released beside the fit; pure where delta = 0, else Gaussian.
    rehearse : callable
        ``rehearse(budget)`` is a fit on an empty table, of which only the guarantee is used.

    Returns
    -------
    tuple
        The budget of the fit, and the guarantee of everything together.
    """
    beside = Guarantee.of(budget, releases)
    pure = budget.delta == 0.0
    if pure:
        assert beside.pure is not None
        epsilon = budget.epsilon - beside.pure
    else:
        assert beside.gdp is not None
        epsilon = gaussian.epsilon(budget.delta, math.sqrt(budget.mu**2 - beside.gdp**2))
    before = None  # the last epsilon of the fit, and by how much the whole exceeded the budget
    for _ in range(_TRIES):
        rest = budget.with_(epsilon=epsilon * (1.0 - 2.0**-40))
        with rehearsing():
            fit = rehearse(rest)
        whole = Guarantee.of(
            budget,
            (*releases, *fit.guarantee.releases),
            lattice=fit.guarantee.lattice,
            caveats=fit.guarantee.caveats,
            unit=fit.guarantee.unit,
        )
        excess = whole.epsilon(budget.delta) - budget.epsilon
        if excess <= 1e-12 * budget.epsilon:
            return rest, whole
        # not all noise adds up like Gaussian noise: a little less for the fit, by the secant where there is one
        slope = 1.0 if before is None else (before[1] - excess) / (before[0] - epsilon)
        before = epsilon, excess
        epsilon -= max(1.01 * excess / min(max(slope, 0.1), 1.0), 1e-6 * budget.epsilon)
        if epsilon <= 0.0:
            break
    raise ValueError(
        f"the budget ({budget}) is too small to share between the fit and {releases[0].mechanism}; "
        "raise epsilon, or state what is to be found. Nothing was spent"
    )
