"""The rules by which a ledger counts: what is left fits, more does not, and a greedy adversary gains nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reticent.privacy import (
    BoundedRange,
    Budget,
    BudgetExceeded,
    Gaussian,
    Guarantee,
    Laplace,
    Ledger,
    Pure,
    Release,
    ZeroConcentrated,
    gaussian,
)
from reticent.privacy.composition import Composition, Filter


def of(curve, count: int = 1, **options) -> Guarantee:
    return Guarantee([Release("sum", curve, 1.0, "some", count)], **options)


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("first", [Gaussian(0.1), BoundedRange(0.05), Pure(0.1), Laplace(0.3)])
def test_mixtures_never_exceed_composition(first, adaptive: bool) -> None:
    budget = Budget(1.0, 1e-6)
    ledger = Ledger(budget, adaptive=adaptive)
    ledger.spend(of(first), "first")
    for k in range(200):
        curve = [Gaussian(0.05), BoundedRange(0.04), Pure(0.03)][k % 3]
        try:
            ledger.spend(of(curve), f"entry {k}")
        except BudgetExceeded:
            break
    else:
        pytest.fail("the ledger never refused")
    assert ledger.spent.meets(budget)
    assert len(ledger.entries) > 5
    if not adaptive:  # and it refused only what exceeds
        assert not (ledger.spent + of(curve)).meets(budget)


def test_no_entry_is_lost_in_rounding() -> None:
    """A cost far below the last digit of what is spent is counted, for there may be millions like it."""
    planned = Composition(Budget(1.0, 1e-6))
    planned.add(Gaussian(0.2))
    planned.add(Gaussian(1e-12))
    assert planned.total.gdp > 0.2
    adaptive = Filter(Budget(1.0, 1e-6))
    adaptive.add(Gaussian(0.2))
    spent = adaptive._used
    adaptive.add(Gaussian(1e-12))
    assert adaptive._used > spent
    pure = Filter(Budget(1.0))
    pure.add(Pure(0.5))
    pure.add(Pure(1e-18))
    assert pure._pure > 0.5


def test_what_is_left_fits_and_more_does_not() -> None:
    for adaptive in (False, True):
        for first in (Gaussian(0.1), BoundedRange(0.2), Pure(0.5), ZeroConcentrated(0.01)):
            tally = (Filter if adaptive else Composition)(Budget(1.0, 1e-6))
            tally.add(first)
            assert tally.fits(Gaussian(tally.room * (1 - 1e-9)))
            assert not tally.fits(Gaussian(tally.room * 1.001))


def test_adaptive_rules_against_a_greedy_adversary() -> None:
    """A two-armed adversary that looks at the loss so far and takes the worse continuation.

    The first release is Gaussian; then, as the ledger allows, either one more Gaussian one or pure
    ones, whichever hurts more at the loss that was reached. Exact by integration over the first.
    """
    budget = Budget(1.0, 1e-6)
    first = 0.7 * budget.mu
    for make, honest in [(lambda: Filter(budget), True), (lambda: Composition(budget), False)]:
        tally = make()
        tally.add(Gaussian(first))
        mu = tally.room
        pure = 0.0  # the largest single pure release that fits
        for k in range(400, 0, -1):
            if tally.fits(Pure(k / 400)):
                pure = k / 400
                break
        z = np.linspace(-10, 12, 40_001)
        left = budget.epsilon - (first * z + first**2 / 2)  # what epsilon is left at each loss
        sticks = np.exp(gaussian.log_delta_at(np.abs(left) / mu - mu / 2, mu))
        by_gaussian = np.where(left >= 0, sticks, -np.expm1(left) + np.exp(left) * sticks)
        p = 1 / (1 + math.exp(-pure))
        by_pure = sum(
            w * np.maximum(-np.expm1(left - s), 0) for w, s in ((p, pure), (1 - p, -pure))
        )
        worst = np.maximum(by_gaussian, by_pure)
        delta = float((worst * np.exp(-z * z / 2)).sum() * (z[1] - z[0]) / math.sqrt(2 * math.pi))
        if honest:
            assert delta <= budget.delta * (1 + 1e-6)
        else:
            # plain composition is not meant for this adversary, and would be wrong by this much
            assert budget.delta < delta < 2 * budget.delta
