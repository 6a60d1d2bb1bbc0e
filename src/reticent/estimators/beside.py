"""Split a budget between a fit and what is released with it, such as bounds found privately or class counts.

The cost of a fit depends on public numbers only, so a rehearsal on an empty table of the same shape has the same
guarantee. Everything is therefore charged at once, before any noise is drawn.
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
    """Raised instead of fitting; carries the guarantee that the fit would have."""

    def __init__(self, guarantee: Guarantee) -> None:
        super().__init__("this was a rehearsal: nothing was fitted")
        self.guarantee = guarantee


def price(estimator: Any, X: Any, y: Any, groups: Any = None) -> Guarantee:
    """The guarantee that ``estimator.fit(X, y, groups=groups)`` would give; charges nothing and draws no noise."""
    try:
        with rehearsing():
            estimator.fit(X, y, **({} if groups is None else {"groups": groups}))
    except Rehearsed as end:
        return end.guarantee
    raise TypeError(f"{type(estimator).__name__} cannot state the cost of a fit in advance")


def reserve(
    budget: Budget, releases: Sequence[Release], rehearse: Callable[[Budget], Fit]
) -> tuple[Budget, Guarantee]:
    """The largest budget that these releases leave for a fit, and the guarantee of everything together.

    Parameters
    ----------
    budget : Budget
        Budget of the releases and the fit together.
    releases : sequence of Release
        The other releases: pure if the budget's delta is 0, else Gaussian.
    rehearse : callable
        ``rehearse(budget)`` returns a fit on an empty table; only its guarantee is used.

    Returns
    -------
    tuple
        The budget of the fit, and the guarantee of everything together.

    Raises
    ------
    ValueError
        If the releases leave too little for the fit.
    """
    beside = Guarantee.of(budget, releases)
    pure = budget.delta == 0.0
    if pure:
        assert beside.pure is not None
        epsilon = budget.epsilon - beside.pure
    else:
        assert beside.gdp is not None
        epsilon = gaussian.epsilon(budget.delta, math.sqrt(budget.mu**2 - beside.gdp**2))
    before = (
        None  # the epsilon tried last for the fit, and by how much the total exceeded the budget
    )
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
        # the fit need not be Gaussian, so the first guess can overshoot: lower epsilon by secant steps
        slope = 1.0 if before is None else (before[1] - excess) / (before[0] - epsilon)
        before = epsilon, excess
        epsilon -= max(1.01 * excess / min(max(slope, 0.1), 1.0), 1e-6 * budget.epsilon)
        if epsilon <= 0.0:
            break
    raise ValueError(
        f"the budget ({budget}) is too small to share between the fit and {releases[0].mechanism}; "
        "raise epsilon, or state the bounds that would be found privately. Nothing was spent"
    )
