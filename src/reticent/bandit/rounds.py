"""The rounds of a bandit: in each a decision, a batch of records, a private total, and a response.

This is NOISYOCO of [bandit] (Algorithm 2): the response to the running total of the rounds so far is the decision of
the next one. Without a horizon, epochs of doubling length follow each other, each with constants of its own. With
correlated noise one endless total runs through them; with a tree each epoch has its own total, and earlier epochs
enter only through what they released.

The number of plays determines the end of a round, never values. So neighbouring streams of records have the same
rounds, and a record is in one of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from reticent import checks
from reticent.bandit import arguments, kernels, plan, totals
from reticent.bandit.centring import Centring
from reticent.bandit.geometry import Geometry, survey
from reticent.bandit.mirror import Mirror
from reticent.bandit.responses import Response
from reticent.checks import FloatArray
from reticent.noise import Source
from reticent.online.totals import MECHANISMS
from reticent.privacy import Budget, Guarantee, Participation, Release, curves, prescribed
from reticent.privacy.guarantee import with_details
from reticent.sets import ConvexSet
from reticent.state.persons import Persons
from reticent.sums import Mechanism, RunningTotal

_NUMBERS = 32768


class Directions:
    """Random unit vectors drawn ahead in blocks: ``inner`` in coordinates of the hull, ``outer`` in the space.

    Directions are not noise: a played point reveals its direction. The guarantee relies only on directions being
    independent of the records.
    """

    def __init__(self, geometry: Geometry, seed: int | None) -> None:
        self._geometry = geometry
        self._source = Source(seed)
        self._begun_with = self._source.state()
        self._rows = max(1, _NUMBERS // geometry.center.size)
        self._set(np.empty((0, geometry.dim)))

    def _set(self, inner: FloatArray) -> None:
        self.inner = inner
        self.outer = np.ascontiguousarray(self._geometry.lift(inner))
        self.row = 0

    def ready(self) -> int:
        """Number of directions available from ``row`` on, at least one."""
        left = len(self.inner) - self.row
        if left:
            return left
        self._draw(self._rows)
        return self._rows

    def _draw(self, rows: int) -> None:
        self._begun_with = self._source.state()
        self._source.ratchet()
        fresh = np.empty((rows, self._geometry.dim))
        self._source.normals(fresh)
        kernels.normalise(fresh)
        self._set(fresh)

    def state(self) -> dict[str, Any]:
        if self.row == len(self.inner):
            return {"source": self._source.state(), "block": [0, 0]}
        return {"source": self._begun_with, "block": [len(self.inner), self.row]}

    def restore(self, state: dict[str, Any]) -> None:
        self._source = Source.from_state(state["source"])
        self._set(self.inner[:0])
        rows, used = state["block"]
        if used:
            self._draw(rows)
            self.row = used


FEASIBILITY = ("shrink", "overflow")
CENTRING = ("adaptive", "middle")


class Rounds(ABC):
    """What happens between plays; `Bandit` adds the plays."""

    def __init__(
        self,
        set: ConvexSet,
        *,
        budget: Budget | None,
        lipschitz: float,
        horizon: int | None,
        values: tuple[float, float] | None,
        private: bool,
        total: str,
        noise: str | None,
        smoothing: float | None,
        feasibility: str,
        step: float | None,
        stale: bool,
        centring: str,
        calibration: str,
        mirror: str | Mirror,
        patience: int,
        participation: Participation | None,
        seed: int | None,
        noise_precision: str,
    ) -> None:
        if not isinstance(set, ConvexSet):
            raise TypeError(f"set must be a reticent.sets.ConvexSet, got {set!r}")
        self.set = set
        self.lipschitz = checks.positive(lipschitz, "lipschitz")
        self.horizon = None if horizon is None else checks.integer(horizon, "horizon", low=1)
        self.values = arguments.values_of(values)
        self.calibration = prescribed.check(calibration)
        self.private, self.budget = bool(private), arguments.budget_of(budget, private)
        self.stale = bool(stale)
        self.centring = checks.choice(centring, "centring", CENTRING)
        self._watches = self.centring == "adaptive" and self.calibration == "exact"
        self.feasibility = checks.choice(feasibility, "feasibility", FEASIBILITY)
        self._shrinks = self.feasibility == "shrink"
        self._step = None if step is None else checks.positive(step, "step")
        self.mirror = arguments.mirror_of(mirror, set)
        self.patience = checks.integer(patience, "patience", low=1)
        self.noise_precision = checks.choice(
            noise_precision, "noise_precision", ("lattice", "float")
        )
        if self.calibration != "exact" and self.horizon is None:
            raise ValueError(
                f"calibration={self.calibration!r} needs a horizon; set horizon=, or use calibration='exact'"
            )
        self._total_word, self._noise = "clean", "none"
        if self.budget is not None:
            self._total_word, self._noise = totals.check(
                total, noise, self.calibration, self.budget
            )
        self.participation = arguments.participation_of(participation, self.budget)
        self._endless = self.horizon is None and self._total_word == "correlated"
        if self.participation is not None and self.horizon is None and not self._endless:
            raise ValueError(
                f"total={self._total_word!r} without a horizon has one total per epoch, and a person may have "
                "records in several epochs; set a horizon, or use delta > 0 and total='correlated'"
            )
        self._geometry = survey(set, self._shrinks)
        self._smoothing = arguments.smoothing_of(
            smoothing, self._geometry.inner_radius, self._shrinks
        )
        self._response = self._make_response()
        self._seed = None if seed is None else checks.integer(seed, "seed", low=0)
        first, second = _child_seeds(self._seed)
        self._directions = Directions(self._geometry, first)
        self._total: Any = None
        self._centring: Centring
        self._epoch: int
        self._plan: plan.EpochPlan
        self._error: float
        self._last: FloatArray
        self._enter_epoch(0, 0.0, second)
        self._guarantee = self._make_guarantee()
        self._begin()

    def _begin(self) -> None:
        """Start over, with the total of the first epoch as it was made."""
        if self._epoch > 0:
            self._total = None
            self._enter_epoch(0, 0.0, None)
        self._sum_of_gradients = np.zeros(self._geometry.dim)
        self._start_epoch(self._epoch, self._plan, self._total, self._error)
        self._response.reset()
        self._point = self._geometry.center.copy()
        self._rebase()

    # What a learner provides -----------------------------------------------------------------------

    rounds_are_long: ClassVar[bool]
    """Whether a round has many plays, so that there are few rounds."""

    @abstractmethod
    def _layout(self, plays: int) -> tuple[int, int]:
        """The number of rounds and their length, for this number of plays."""

    @abstractmethod
    def _make_response(self) -> Response:
        """The object that turns totals into decisions."""

    # The life of a learner -------------------------------------------------------------------------

    def _enter_epoch(self, epoch: int, before: float, seed: int | None) -> None:
        """Make the plan and the total of an epoch; earlier epochs enter only through what they released."""
        plays = self.horizon if self.horizon is not None else plan.FIRST_EPOCH << epoch
        rounds, batch = self._layout(plays)
        goes_on = self._endless and self._total is not None
        if self._endless and batch > plan.LARGEST_BATCH:
            raise ValueError(
                f"the next epoch would have rounds of {batch:,} plays, more than {plan.LARGEST_BATCH:,}, and the "
                f"learner ends after {plays - plan.FIRST_EPOCH:,} plays; build a new one"
            )
        # the last sums are not released if no decision would use them
        spare = 0 if self.horizon is None else (2 if self.stale else 1)
        sums = max(1, rounds - spare)
        made = plan.make(
            self._geometry,
            self.mirror,
            plays=plays,
            rounds=rounds,
            batch=batch,
            sums=sums,
            shrinks=self._shrinks,
            stale=self.stale,
            lipschitz=self.lipschitz,
            values=self.values,
            smoothing=self._smoothing,
            step=self._step,
            relative_error=lambda: self._error_of(sums, plays),
            before=before,
            unit=self._plan.unit if goes_on else None,
            watches=self._watches,
            prescribed=self._prescribed(plays),
        )
        total: Any = self._total if goes_on else totals.Clean(self._width)
        if self.budget is not None and not goes_on:
            # the learner itself is charged, for all epochs together
            source = Source(seed) if self._total is None else self._total._source
            mechanism = self._describe(self.budget, sums, plays, made.norm)
            total = RunningTotal._paid(mechanism, source)
        self._start_epoch(epoch, made, total, total.error(total.steps + sums))

    def _start_epoch(self, epoch: int, made: plan.EpochPlan, total: Any, error: float) -> None:
        before = None
        if epoch > 0 and self._watches:
            before = self._centring
        centring = Centring(made, error, before, self._endless)
        last = self._last if epoch > 0 and self._endless else np.zeros(self._width)
        pending, gauge = total._blank(), total._gauge
        length = min(made.batch, made.plays)
        # No calls from here on, because an interrupt must not leave records clipped to the norm of one epoch
        # that would then enter the total of another.
        self._epoch, self._plan, self._total, self._error = epoch, made, total, error
        self._centring, self._pending, self._gauge, self._last = centring, pending, gauge, last
        self._sums_in_total, self._round, self._in_round, self._length = 0, 1, 0, length

    @property
    def _width(self) -> int:
        """Length of a record's vector: the estimate, and the entries from which the baseline is learnt."""
        return self._geometry.dim + (2 if self._watches else 0)

    def _error_of(self, sums: int, plays: int) -> float:
        """Standard deviation of the noise in the last sum, for records of norm 1."""
        if self.budget is None:
            return 0.0
        if self._endless and self._total is not None:
            return float(self._total.error(self._total.steps + sums) / self._total.norm)
        return self._describe(self.budget, sums, plays, 1.0).error(sums)

    def _describe(self, budget: Budget, sums: int, plays: int, norm: float) -> Mechanism:
        """The total of an epoch, or of all of them: one addition per batch, with the sensitivity of one record."""
        facts: dict[str, Any] = {"noise": self._noise}
        if self.participation is not None:
            facts["participation"] = self.participation
        if self._endless and self.rounds_are_long:
            facts["longest"] = plan.LONGEST
        if self.calibration != "exact":
            known = {"plays": plays, "lipschitz": self.lipschitz}
            rule = prescribed.Calibration(self.calibration, "bandit", tuple(known.items()))
            facts |= {"estimator": "plain", "calibration": rule}
        elif self.horizon is None and self._noise != "gaussian":
            # every epoch must have the same guarantee, and only a pure one is the same for all lengths
            budget = budget.with_(delta=0.0)
        return MECHANISMS[self._total_word](
            self._width,
            None if self._endless else sums,
            budget=budget,
            norm=norm,
            noise_precision=self.noise_precision,
            # including late values of earlier epochs; an endless total has room for one batch at a time
            records=(plan.LARGEST_BATCH if self._endless else plays) + self.patience,
            **facts,
        )

    def _prescribed(self, plays: int) -> tuple[float, float] | None:
        """Smoothing radius and step, if the calibration prescribes them."""
        if self.calibration == "exact":
            return None
        found: tuple[float, float] = prescribed.find(self.calibration, "bandit-constants")(
            plays=plays,
            dim=self._geometry.dim,
            diameter=self._geometry.diameter,
            lipschitz=self.lipschitz,
        )
        return found

    def _make_guarantee(self) -> Guarantee:
        if self.budget is None:
            return Guarantee.none("the learner was built with private=False, a baseline")
        made, budget = self._total.guarantee, self.budget
        details: tuple[str, ...] = (
            f"a value less its baseline is clipped, to +-{self._plan.half:g} at most; a null record adds nothing",
            "a record enters one batch; directions and the ends of batches do not depend on records",
            "an output is a released total, one after each round of plays; ages count these",
        )
        if self.participation is not None:
            details += (
                f"{self.participation}; steps are rounds, in each of which one record counts",
            )
        releases = with_details(made, details).releases
        if self.horizon is None and not self._endless:
            gaussian = self._noise == "gaussian"
            curve = curves.Gaussian(budget.mu) if gaussian else curves.Pure(budget.epsilon)
            releases = (
                Release(
                    made.releases[0].mechanism,
                    curve,
                    None,
                    f"{self._noise.capitalize()}, calibrated in each epoch to its length",
                    1,
                    ("epochs of doubling length on disjoint records: a record is in one of them",)
                    + details[1:2],
                ),
            )
        return Guarantee.of(
            budget,
            releases,
            seeded=self._seed is not None,
            lattice=made.lattice,
            caveats=made.caveats,
            unit=made.unit,
        )

    @property
    def _persons(self) -> Persons | None:
        """The table of persons, which the total keeps; its steps are rounds."""
        return None if self.budget is None else self._total._persons

    def _set_round(self, number: int, done: int) -> None:
        made = self._plan
        self._round, self._in_round = number, done
        self._length = min(made.batch, made.plays - (number - 1) * made.batch)

    def _prepare_play(self) -> int:
        """Make the next play possible, and return how many plays are left in its round."""
        if self._in_round == self._length:
            if self.horizon is not None and self._round == self._plan.rounds:
                raise ValueError(
                    f"the horizon of {self.horizon} plays has been reached; build the learner with a larger horizon, "
                    "or with horizon=None for epochs of doubling length"
                )
            self._close_round()
        if not self.stale and self._response.is_busy:
            self._point = self._response.finish()
            self._rebase()
        return self._length - self._in_round

    def _close_round(self) -> None:
        """Release the batch's sum if it is needed, and go on to the next round or epoch."""
        if self.stale:
            self._point = self._response.finish()  # first, because a user-defined set may fail
            self._rebase()
        made = self._plan
        if self._round <= made.sums and self._sums_in_total < self._round:
            self._read(self._total._absorb(self._pending))
            self._sums_in_total = self._round
        if self._round < made.rounds:
            self._set_round(self._round + 1, 0)
        else:
            self._enter_epoch(self._epoch + 1, self._centring.spread(made.rounds), None)
            self._rebase()
        if (self._sums_in_total or self._epoch) and self._is_worth_it():
            step = self._centring.step(self._sums_in_total)
            slope = step * self._geometry.lift(self._sum_of_gradients)
            self._response.start(slope, self._plan.batch)

    def _read(self, released: FloatArray) -> None:
        """Update the sum of gradients, the baseline and the clip from a released total."""
        n, grown = self._geometry.dim, released - self._last
        self._last = released
        gain = self._centring.gain * self._plan.scale
        self._sum_of_gradients = self._sum_of_gradients + gain * grown[:n]
        if self._watches:
            weight = self._centring.update(grown[n], grown[n + 1], self._length)
            self._sum_of_gradients *= weight

    def _is_worth_it(self) -> bool:
        """Whether a response that is started in this round will be played."""
        return self.horizon is None or not self.stale or self._round < self._plan.rounds

    def _rebase(self) -> None:
        center = self._geometry.center
        self._base = center + self._plan.shrink * (self._point - center)


def _child_seeds(seed: int | None) -> tuple[int | None, int | None]:
    """One seed for the directions and one for the noise."""
    if seed is None:
        return None, None
    words = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    return int(words[0]), int(words[1])
