"""How a ledger counts its entries: by composition, or by a rule that holds under full adaptivity.

Composition lets each release depend on the outputs of earlier ones, as long as *how private* each one is does not. If
that too is chosen along the way, three rules still hold: pure epsilons may be added (Rogers, Roth, Ullman and Vadhan,
*Privacy odometers and filters*); squared mu may be added (Smith and Thakurta, *Fully adaptive composition for
Gaussian differential privacy*); and Rényi divergences of one order that was fixed in advance may be added (Feldman
and Zrnic, *Individual privacy accounting via a Rényi filter*).

Using at each moment whichever rule looks best is not a valid rule, because every rule that may end a run needs a
share of delta of its own. So the first entry that needs delta settles the rule: squared mu if the entry is Gaussian,
else divergences of the order at which the most copies of it would fit. Pure epsilons spent before that are taken off
the budget first. The rule of pure epsilons stays available throughout, because it spends no delta.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from reticent.privacy import gaussian
from reticent.privacy.budget import Budget
from reticent.privacy.compose import compose
from reticent.privacy.curves import Curve, Gaussian, Pure, allowance, best_order

_SLACK = 1.0 + 1e-12


def meets(curve: Curve, budget: Budget, epsilon: float | None = None) -> bool:
    """Whether this curve is at least as private as the budget asks.

    ``epsilon`` is what the curve proves at the budget's delta, if that has been computed.
    """
    enough = budget.epsilon * _SLACK
    if curve._proves(enough, budget.delta) if epsilon is None else epsilon <= enough:
        return True
    if budget.delta == 0.0:
        return False
    # Ask again in terms of delta: where delta is large and epsilon small, rounding in the last digit of
    # delta changes many digits of epsilon.
    return curve.delta(budget.epsilon) <= budget.delta * _SLACK


class Composition:
    """Count entries by composition, for entries whose privacy is fixed in advance.

    Parameters
    ----------
    budget : Budget
        What all entries may spend together.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.total: Curve = Pure(0.0)

    def fits(self, curve: Curve) -> bool:
        """Whether one more release with this cost may be made."""
        return curve.pure == 0.0 or meets(compose([self.total, curve]), self.budget)

    def add(self, curve: Curve) -> None:
        """Count a release that has been made."""
        self.total = compose([self.total, curve])

    @property
    def room(self) -> float:
        """The largest mu of Gaussian releases that still fit; 0 if none does."""
        if self.budget.delta == 0.0:
            return 0.0
        largest = self.budget.mu
        if self.total.gdp is not None:
            return math.sqrt(max(0.0, largest**2 - self.total.gdp**2))

        def excess(mu: float) -> float:
            epsilon = compose([self.total, Gaussian(mu)]).epsilon(self.budget.delta)
            return min(epsilon, 1e9) - self.budget.epsilon

        if excess(0.0) >= 0.0:
            return 0.0
        if excess(largest) <= 0.0:
            return largest
        # Use few evaluations: one may take a second where sampling is involved.
        step = 1e-5 * largest
        mu = float(brentq(excess, 0.0, largest, xtol=step))
        while mu > 0.0 and not self.fits(Gaussian(mu)):
            mu, step = max(0.0, mu - step), 2.0 * step
        return mu

    @property
    def pure_room(self) -> float:
        """The largest pure epsilon that still fits by adding epsilons; 0 if none does."""
        spent = self.total.pure
        return 0.0 if spent is None else max(0.0, self.budget.epsilon - spent)


def _more(total: float, cost: float) -> float:
    """The total with one more cost, which is never lost in rounding."""
    return max(total + cost, math.nextafter(total, math.inf)) if cost > 0.0 else total


class Filter:
    """Count entries by a rule that holds even if the privacy of each entry depends on earlier outputs.

    Parameters
    ----------
    budget : Budget
        What all entries may spend together.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._pure = 0.0  # sum over all entries; infinite once one of them is not pure
        self._left = budget.epsilon  # what the rule below may spend; decreases until it is settled
        self._rule: str | None = None
        self._order = 2.0
        self._used = 0.0  # squared mu, or divergence

    def _by_addition(self, curve: Curve) -> bool:
        pure = math.inf if curve.pure is None else curve.pure
        return self._pure + pure <= self.budget.epsilon * _SLACK

    def _order_for(self, curve: Curve) -> tuple[float, float]:
        """The order at which the most copies fit in what is left, and their number."""
        if self.budget.delta == 0.0:
            return 2.0, 0.0
        log_delta = math.log(self.budget.delta)

        def cost(alpha: float) -> float:
            allowed = allowance(alpha, self._left, log_delta)
            return -allowed / max(curve.rdp(alpha), 1e-300) if allowed > 0.0 else math.inf

        order, value = best_order(cost)
        return order, max(0.0, -value)

    def _settles(self, curve: Curve) -> bool:
        """Whether this first entry is better counted by a rule that spends delta."""
        if not self._by_addition(curve):
            return True
        if not curve.pure:
            return False
        # It must be clearly better: at huge orders divergences allow slightly more copies than addition.
        return self._order_for(curve)[1] > 1.1 * self._left / curve.pure

    def _allowance(self) -> float:
        if self._rule == "mu":
            return gaussian.mu(self._left, self.budget.delta) ** 2
        return allowance(self._order, self._left, math.log(self.budget.delta))

    def _price(self, curve: Curve) -> float:
        return curve.gdp_bound**2 if self._rule == "mu" else curve.rdp(self._order)

    def fits(self, curve: Curve) -> bool:
        """Whether one more release with this cost may be made."""
        if curve.pure == 0.0 or self._by_addition(curve):
            return True
        if self.budget.delta == 0.0:
            return False
        if self._rule is None:
            left = self._left
            return left > 0.0 and meets(curve, self.budget.with_(epsilon=left))
        return self._used + self._price(curve) <= self._allowance() * _SLACK

    def add(self, curve: Curve) -> None:
        """Count a release that has been made."""
        if curve.pure == 0.0:
            return
        if self._rule is None and self._settles(curve):
            self._rule = "divergence" if curve.gdp is None else "mu"
            self._order = self._order_for(curve)[0]
        self._pure = _more(self._pure, math.inf if curve.pure is None else curve.pure)
        if self._rule is None:
            self._left = self.budget.epsilon - self._pure
        else:
            self._used = _more(self._used, self._price(curve))

    @property
    def room(self) -> float:
        """The largest mu of Gaussian releases that still fit; 0 if none does."""
        if self.budget.delta == 0.0 or self._left <= 0.0:
            return 0.0
        if self._rule is None:
            return gaussian.mu(self._left, self.budget.delta)
        left = max(0.0, self._allowance() - self._used)
        return math.sqrt(left if self._rule == "mu" else 2.0 * left / self._order)

    @property
    def pure_room(self) -> float:
        """The largest pure epsilon that still fits by adding epsilons; 0 if none does."""
        return max(0.0, self.budget.epsilon - self._pure)
