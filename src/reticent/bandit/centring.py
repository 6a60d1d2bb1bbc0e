"""The baseline from which values are subtracted, and the clip for the difference: both learnt from the released totals.

A one-point estimate n / zeta (value - baseline) u has the same mean for every baseline that does not depend on u, and
its variance is smallest for a baseline near the mean of the values. The noise that privacy needs grows with the
largest difference from it, the clip. So the private total has two more entries: the sum of the (clipped, scaled)
deviations, from which the next baseline is computed, and the sum of their squares, from which the next clip and the
step are computed. All of this is a function of what was released, and costs no privacy beyond the slightly longer
vector of a record (docs/algorithms/bandit.md).

Under zero-out neighbours it is private how many values came in a round, because a null record is a value that did not
come. Averages are over the plays, whose number is public.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from operator import itemgetter
from typing import Any

import numpy as np

from reticent.bandit.plan import EpochPlan

# The clip is REACH root mean squares of the deviations, whose square is first increased by SAFETY standard deviations
# of its noise. It changes only by at least the factor HYSTERESIS, and not below the share SMALLEST of half the range.
REACH = 1.5
SAFETY = 1.0
HYSTERESIS = 1.25
SMALLEST = 2.0**-10
# The share of all plays, the latest ones, from which baseline and clip are learnt; smaller if one total runs through
# epochs of doubling length, because decisions move most early on.
RECENT = 0.5
RECENT_EPOCHS = 0.25


class Centring:
    """Baseline and clip; at first the middle and half the width of the range of values.

    Parameters
    ----------
    plan : EpochPlan
        The plan of the epoch.
    error : float
        Standard deviation of the noise in one coordinate of the total.
    before : Centring, optional
        The baseline and clip of the previous epoch.
    goes_on : bool
        Whether the total of the previous epoch continues, and with it what was learnt from it.
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
        """The factor for the total's increments: the clip divided by its first value."""
        return self.clip / self._plan.half

    def spread(self, sums: int) -> float:
        """Squared size of what is in the total after this number of sums, noise included."""
        plan = self._plan
        squares = max(0.0, self._squares) if plan.watch else sums * plan.batch * plan.half**2
        known = self._inherited + plan.weight * squares + plan.drift * sums
        return known + plan.noise * self._loudness**2

    def step(self, sums: int) -> float:
        """The step after this number of sums of the epoch."""
        plan = self._plan
        if plan.constant is not None:
            return plan.constant
        return math.sqrt(plan.mirror_range / self.spread(sums))

    def update(self, deviations: float, squares: float, plays: int) -> float:
        """Take what the last round added to the two sums; return the weight that everything before it keeps.

        If the clip shrinks, earlier rounds have more privacy noise than later ones will have. They get less weight,
        so that this noise does not stay.
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
        # the mark only moves forward, so entries before it are not needed again
        del self._history[: bisect_left(self._history, mark, key=itemgetter(0)) - 1]
        then = self._history[0]
        span, total, energy = (
            now - past for now, past in zip(self._history[-1], then, strict=True)
        )
        noise = 2.0 * (self._error * self.clip / span) ** 2
        # the mean is weighted by its noise, relative to a prior deviation of a quarter of the range
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
        # the allowed privacy noise in the sum of gradients: that of the new clip, or as much as the variance of
        # the estimates themselves
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
