"""What a value is compared with, and how far it may lie from that: learnt from the released totals.

A one-point estimate n / zeta (value - baseline) u has the same mean for every baseline that does not
depend on u, and a variance that is least for a baseline near the mean of the values. The noise that
privacy asks for grows with how far a value may lie from it, the clip. So two more numbers ride along
in the private total: the sum of the (clipped, scaled) deviations, from which the next baseline
comes, and the sum of their squares, from which come the next clip and the step. All of it is a
function of what was released, and costs no privacy beyond the slightly longer vector of a record
(docs/algorithms/bandit.md).

How many values came in a round is private under zero-out neighbours, for a null record is one that
did not come. Averages are over the plays, which are public.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from operator import itemgetter
from typing import Any

import numpy as np

from reticent.bandit.plan import EpochPlan

# A clip of so many root mean squares of the deviations, which are taken to be so many standard
# deviations of the noise in them larger than they seem; it moves only when it would by this factor,
# and to no less than this share of half the range.
REACH = 1.5
SAFETY = 1.0
HYSTERESIS = 1.25
SMALLEST = 2.0**-10
# The share of all plays, the latest, that the baseline and the clip are learnt from; less where one total
# runs through epochs of doubling length, for decisions move most early on.
RECENT = 0.5
RECENT_EPOCHS = 0.25


class Centring:
    """Baseline and clip: the middle and half the width of the range at first.

    Parameters
    ----------
    plan : EpochPlan
        Of the epoch.
    error : float
        Standard deviation of the noise in one coordinate of the total.
    before : Centring, optional
        That of the epoch before.
    goes_on : bool
        Whether the total of the epoch before goes on, and with it what was learnt from it.
    """

    def __init__(
        self,
        plan: EpochPlan,
        error: float,
        before: Centring | None = None,
        goes_on: bool = False,
    ) -> None:
        middle = 0.5 * (plan.low + plan.high)
        self._plan = plan
        self._error = error / plan.watch if plan.watch else 0.0
        self.baseline: float = middle if before is None else before.baseline
        self.clip: float = plan.half if before is None else min(before.clip, plan.half)
        self._start = self.baseline
        self._inherited = plan.before
        self._loudness = self.gain
        self._squares = 0.0
        # after each round: plays so far, sum of values, sum of squared deviations
        self._history = [(0.0, 0.0, 0.0)]
        self._recent = RECENT
        if before is not None and goes_on:
            self._start, self._history, self._recent = (
                before._start,
                before._history,
                RECENT_EPOCHS,
            )

    @property
    def gain(self) -> float:
        """What the total's increments are to be multiplied with: the clip over its first value."""
        return self.clip / self._plan.half

    def spread(self, sums: int) -> float:
        """Squared size of what is in the total after so many sums, noise included."""
        plan = self._plan
        squares = max(0.0, self._squares) if plan.watch else sums * plan.batch * plan.half**2
        known = self._inherited + plan.weight * squares + plan.drift * sums
        return known + plan.noise * self._loudness**2

    def step(self, sums: int) -> float:
        """The step after so many sums of this epoch."""
        plan = self._plan
        if plan.constant is not None:
            return plan.constant
        return math.sqrt(plan.mirror_range / self.spread(sums))

    def update(self, deviations: float, squares: float, plays: int) -> float:
        """Take what the last round added to the two sums; returns the weight that all before it keeps.

        Where the clip shrinks, earlier rounds carry more privacy noise than later ones will; they are
        given less weight, so that it does not stay.
        """
        plan = self._plan
        deviations *= self.clip / plan.watch
        squares *= self.clip**2 / plan.watch
        self._squares += squares
        count, level, power = self._history[-1]
        self._history.append(
            (count + plays, level + self.baseline * plays + deviations, power + squares)
        )
        mark = (1.0 - self._recent) * (count + plays)
        # the mark only moves on, so that what lies before it is not needed again
        del self._history[: bisect_left(self._history, mark, key=itemgetter(0)) - 1]
        then = self._history[0]
        span, total, energy = (
            now - past for now, past in zip(self._history[-1], then, strict=True)
        )
        noise = 2.0 * (self._error * self.clip / span) ** 2
        # as much weight as the noise in the mean leaves it against a quarter of the range
        prior = (0.5 * plan.half) ** 2
        target = self._start + prior / (prior + noise) * (total / span - self._start)
        self.baseline = float(min(max(target, plan.low), plan.high))
        return self._shrink(max(energy / span, 0.0) + SAFETY * math.sqrt(noise) * self.clip)

    def _shrink(self, square: float) -> float:
        plan = self._plan
        wanted = min(plan.half, max(SMALLEST * plan.half, REACH * math.sqrt(square)))
        if plan.noise == 0.0 or 1.0 / HYSTERESIS < wanted / self.clip < HYSTERESIS:
            return 1.0
        self.clip = wanted
        # what the privacy noise in the sum of gradients may be: that of the new clip, or as much as
        # the estimates bring of their own
        allowed = max(self.gain, math.sqrt(self._own / plan.noise))
        weight = min(1.0, allowed / self._loudness)
        self._loudness = max(weight * self._loudness, self.gain)
        self._squares *= weight**2
        self._inherited *= weight**2
        return weight

    @property
    def _own(self) -> float:
        return self._inherited + self._plan.weight * max(0.0, self._squares)

    def state(self) -> dict[str, Any]:
        names = (
            "baseline",
            "clip",
            "_start",
            "_error",
            "_inherited",
            "_squares",
            "_loudness",
            "_recent",
        )
        return {name: getattr(self, name) for name in names} | {"history": np.array(self._history)}

    @classmethod
    def from_state(cls, state: dict[str, Any], plan: EpochPlan) -> Centring:
        self = cls(plan, 0.0)
        for name, value in state.items():
            if name != "history":
                setattr(self, name, float(value))
        self._history = [tuple(row) for row in state["history"].tolist()]
        return self
