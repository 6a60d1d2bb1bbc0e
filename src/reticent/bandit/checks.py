"""Checks of the arguments of the bandits.

A missing budget is not a wish for no privacy; that has to be said, by ``private=False``.
"""

from __future__ import annotations

from typing import Any

from reticent import _checks
from reticent.bandit.mirror import KNOWN, Mirror
from reticent.privacy import Budget
from reticent.sets import ConvexSet


def values_of(values: Any) -> tuple[float, float] | None:
    if values is None:
        return None
    try:
        low, high = values
    except (TypeError, ValueError):
        raise ValueError(f"values must be a pair (low, high), got {values!r}") from None
    low, high = _checks.number(low, "values[0]"), _checks.number(high, "values[1]")
    if not low < high:
        raise ValueError(f"values must be a pair low < high, got ({low:g}, {high:g})")
    return low, high


def budget_of(budget: Any, private: Any) -> Budget | None:
    if not isinstance(private, bool):
        raise TypeError(f"private must be True or False, got {private!r}")
    if not private:
        if budget is not None:
            raise ValueError(
                "private=False spends no budget; leave budget out, or drop private=False"
            )
        return None
    if budget is None:
        raise ValueError(
            "a budget is needed: reticent.Budget(epsilon, delta); a baseline without privacy is asked "
            "for by private=False"
        )
    if not isinstance(budget, Budget):
        raise TypeError(f"budget must be a reticent.Budget, got {budget!r}")
    budget.must_be_for_ever("a bandit", "it protects every record for ever")
    return budget


def mirror_of(mirror: Any, convex: ConvexSet) -> Mirror:
    if isinstance(mirror, str):
        made: Mirror = KNOWN[_checks.choice(mirror, "mirror", tuple(KNOWN))]()
    elif isinstance(mirror, Mirror):
        made = mirror
    else:
        raise TypeError(f"mirror must be a word or a reticent.bandit.Mirror, got {mirror!r}")
    made.check(convex)
    return made


def smoothing_of(smoothing: Any, inner_radius: float, shrinks: bool) -> float | None:
    if smoothing is None:
        return None
    radius = _checks.number(smoothing, "smoothing", low=0.0, open_low=True)
    if shrinks and radius >= inner_radius:
        raise ValueError(
            f"smoothing must be below the inner radius {inner_radius:.6g} of the set where decisions are shrunk, "
            f"got {radius:g}; use less, or feasibility='overflow' if losses are defined outside the set"
        )
    return radius
