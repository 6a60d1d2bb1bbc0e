"""Checks of the arguments of the bandits.

A missing budget does not mean no privacy; that has to be requested explicitly, by ``private=False``.
"""

from __future__ import annotations

from typing import Any

from reticent import checks
from reticent.bandit.mirror import KNOWN, Mirror
from reticent.privacy import Budget, Participation
from reticent.privacy.participation import check_participation
from reticent.sets import ConvexSet


def values_of(values: Any) -> tuple[float, float] | None:
    if values is None:
        return None
    try:
        low, high = values
    except (TypeError, ValueError):
        raise ValueError(f"values must be a pair (low, high), got {values!r}") from None
    low, high = checks.number(low, "values[0]"), checks.number(high, "values[1]")
    if not low < high:
        raise ValueError(
            f"values must be a pair (low, high) with low < high, got ({low:g}, {high:g})"
        )
    return low, high


def budget_of(budget: Any, private: Any) -> Budget | None:
    if not checks.flag(private, "private"):
        if budget is not None:
            raise ValueError(
                "private=False spends no budget; leave out budget, or leave out private=False"
            )
        return None
    if budget is None:
        raise ValueError(
            "budget is missing: pass reticent.Budget(epsilon, delta), or private=False for a baseline without "
            "privacy"
        )
    if not isinstance(budget, Budget):
        raise TypeError(f"budget must be a reticent.Budget, got {budget!r}")
    if budget.window is not None:
        raise ValueError(
            f"budget.window must be None for a bandit, got {budget.window}; a budget with "
            f"fade=[({budget.window}, {budget.epsilon:g})] asks for the same, with ages counted in rounds of plays"
        )
    return budget


def participation_of(participation: Any, budget: Budget | None) -> Participation | None:
    if participation is None:
        return None
    rule = check_participation(participation)
    if budget is None:
        raise ValueError(
            "participation cannot be combined with private=False, which protects nobody; leave out one of them"
        )
    return rule


def mirror_of(mirror: Any, convex: ConvexSet) -> Mirror:
    if isinstance(mirror, str):
        made: Mirror = KNOWN[checks.choice(mirror, "mirror", tuple(KNOWN))]()
    elif isinstance(mirror, Mirror):
        made = mirror
    else:
        raise TypeError(
            f"mirror must be one of {', '.join(KNOWN)}, or a reticent.bandit.Mirror, got {mirror!r}"
        )
    made.check(convex)
    return made


def smoothing_of(smoothing: Any, inner_radius: float, shrinks: bool) -> float | None:
    if smoothing is None:
        return None
    radius = checks.positive(smoothing, "smoothing")
    if shrinks and radius >= inner_radius:
        raise ValueError(
            f"smoothing must be below the set's inner radius {inner_radius:.6g} if feasibility='shrink', "
            f"got {radius:g}; use less, or feasibility='overflow' if losses are defined outside the set"
        )
    return radius
