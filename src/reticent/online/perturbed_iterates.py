"""Perturbed iterates: a stable online algorithm runs on exact data, and every iterate is played with noise.

[online], Algorithms 2 (PIGD) and 3 (PGIGA) with corrected steps. The inner algorithms and their stability are in
:mod:`reticent.online.inner`; sensitivities, calibration and the guarantee in
:mod:`reticent.online.iterate_calibration`. Derivations: docs/algorithms/perturbed-iterates.md.

Privacy depends on the stability of the inner algorithm, which needs every loss to be strongly convex, that of the
null record too. So a gap in the stream keeps the regulariser's step; leaving the step out would move later iterates
by more than a record may.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from reticent import checks
from reticent.losses import GeneralizedLinear, Loss
from reticent.losses.checking import need_true_bounds
from reticent.noise.source import Source
from reticent.online import iterate_calibration, records, schedules
from reticent.online import iterate_kernels as k
from reticent.online.base import FloatArray, OnlineLearner, check_horizon
from reticent.online.ftrl import needs_projection
from reticent.online.inner import GradientDescent, ImplicitGradient, kind_of
from reticent.online.totals import warn_of
from reticent.privacy import Budget, Guarantee, Participation, charge
from reticent.privacy.participation import check_participation
from reticent.sets import ConvexSet
from reticent.sets.contract import need_exact_projection
from reticent.state.lease import Lease, claim
from reticent.state.persons import Persons
from reticent.trace.play import pages_of

_NOTHING = np.zeros(0)


class PerturbedIterates(OnlineLearner):
    """Perturbed iterates (PIGD and PGIGA), for generalised linear losses with a ridge.

    Parameters
    ----------
    set : ConvexSet
        The set of decisions. Its projection must be exact up to rounding, as that of a ball, a box, a simplex, a
        product of these and the whole space is.
    loss : Loss
        A generalised linear loss of `reticent.losses`. Privacy depends on its slope being monotone, which cannot be
        checked for a user-defined loss.
    inner : ImplicitGradient or GradientDescent, optional
        The algorithm whose iterates are perturbed; by default implicit gradient steps.
    schedule : str, optional
        How the noise is spread over time. ``"optimal"`` has the smallest total noise, ``"proportional"`` follows the
        sensitivity (the only one for a window), ``"horizon-free"`` needs no horizon; or the name of a calibration
        that prescribes the noise (`reticent.privacy.prescribed`). By default the first that the budget and the
        horizon allow.
    horizon : int, optional
        Upper bound on the number of records.
    added_regularizer : {None, "auto"} or float
        For losses without a ridge: the alpha of a term (alpha/sqrt(t)) ||x - center||^2 that is added to the t-th loss
        ([online], section 6.1).
    lipschitz : float, optional
        Bound on the gradient of the part that depends on the record, to which its slope is clipped; by default the
        loss's own on the set.
    participation : Participation, optional
        How often a person may contribute (`reticent.privacy.Participation`). All of a person's records are then
        protected together, records are given with ``person=``, and those beyond the limit count as null records. By
        default single records are protected.
    budget : Budget
        What may be spent in the learner's whole life. All of it is spent when the learner is built. Its delta must be
        above 0, because there is no pure version.
    seed : int, optional
        Seed of the noise, for experiments only; the guarantee says so.
    noise_precision : {"lattice", "float"}
        ``"float"`` is faster but for simulations only; the guarantee says so.

    See Also
    --------
    FollowTheApproximateLeader : For user-defined losses and sets.

    Examples
    --------
    >>> import numpy as np
    >>> import reticent
    >>> from reticent import losses, online, sets
    >>> learner = online.PerturbedIterates(
    ...     sets.L2Ball(3),
    ...     losses.Logistic(ridge=0.5),
    ...     inner=online.ImplicitGradient(),
    ...     budget=reticent.Budget(1.0, 1e-6),
    ...     horizon=1000,
    ...     seed=0,
    ... )
    >>> play = learner.run(np.tile([0.6, 0.0, 0.0], (1000, 1)), np.ones(1000))
    >>> round(learner.guarantee.gdp, 6)
    0.236704
    """

    def __init__(
        self,
        set: ConvexSet,
        loss: Loss,
        *,
        inner: ImplicitGradient | GradientDescent | None = None,
        budget: Budget,
        horizon: int | None = None,
        schedule: str | None = None,
        added_regularizer: str | float | None = None,
        lipschitz: float | None = None,
        participation: Participation | None = None,
        seed: int | None = None,
        noise_precision: str = "lattice",
    ) -> None:
        self._prepare(set, loss, inner, budget, horizon, schedule, added_regularizer, lipschitz,
                      participation, seed, noise_precision)  # fmt: skip
        warn_of(self._guarantee)
        charge(self._guarantee, f"PerturbedIterates of dimension {self.dim}")
        self._begin()

    def _prepare(self, set: ConvexSet, loss: Loss, inner: Any, budget: Budget, horizon: int | None,
                 schedule: str | None, added: str | float | None, lipschitz: float | None,
                 participation: Participation | None, seed: int | None, noise_precision: str) -> None:  # fmt: skip
        """Decide everything that is fixed before the first record, without charging for it."""
        super().__init__(set, loss, budget)
        if budget.fade is not None:
            raise ValueError(
                f"PerturbedIterates does not support a budget that fades (fade={budget.fade}); use "
                "FollowTheRegularizedLeader, or a budget without fade"
            )
        needs_projection(set)
        instead = (
            "FollowTheRegularizedLeader or FollowTheApproximateLeader, whose guarantee does not"
        )
        need_exact_projection(set, "PerturbedIterates", instead)
        self.horizon = check_horizon(horizon, schedules.LONGEST)
        self.inner = ImplicitGradient() if inner is None else inner
        self.noise_precision = checks.choice(
            noise_precision, "noise_precision", ("lattice", "float")
        )
        self.schedule = schedules.choose(schedule, budget, self.horizon)
        self._given_lipschitz = lipschitz
        self.participation = None if participation is None else check_participation(participation)
        self._table = None if participation is None else Persons(participation, budget.window)
        self._inner = kind_of(self.inner, loss)
        assert isinstance(loss, GeneralizedLinear)  # kind_of refuses others
        need_true_bounds(loss, set, "PerturbedIterates")
        known = self._constants = iterate_calibration.calibrate(
            set, loss, self._inner, budget, horizon=self.horizon, schedule=self.schedule,
            precision=self.noise_precision, lipschitz=lipschitz, added=added,
            participation=participation,
        )  # fmt: skip
        self.lipschitz, self.added_regularizer = known.lipschitz, known.added
        self._reach, self._plan = known.reach, known.plan
        self._noise = schedules.IterateNoise(
            Source(seed), self._plan, self._reach, self.horizon, self.dim, noise_precision
        )
        self._guarantee = self._make_guarantee()

    # ------------------------------------------------------------------ the life of a learner

    def _make_guarantee(self) -> Guarantee:
        return iterate_calibration.guarantee_of_iterates(
            self._constants,
            self.budget,
            seeded=self._noise.source.seeded,
            lattice=self.noise_precision == "lattice",
        )

    def _begin(self) -> None:
        assert isinstance(self.loss, GeneralizedLinear)
        self._steps = 0
        self._held = Lease()
        self._memory = np.zeros((k.MEMORY_ROWS, self.dim))
        center = np.asarray(self.set.center, dtype=np.float64).reshape(-1)
        for row in (k.DECISION, k.ITERATE, k.CENTER):
            self._memory[row] = center
        self._knobs = np.zeros(k.KNOBS)
        self._knobs[k.STRENGTH] = self._reach.start
        self._knobs[k.RIDGE] = self.loss.ridge
        self._knobs[k.ADDED] = self.added_regularizer
        self._knobs[k.SLOPE] = self._constants.slope
        self._knobs[k.SMOOTHNESS] = self.loss.data_smoothness
        loss_kind, self._loss_params = self.loss.kernel
        self._longest = self.loss.feature_norm**2 * (1.0 - 1e-12)
        self._bounds = np.array(records.bounds(self.loss, self.dim))
        kernel = self.set.kernel
        assert kernel is not None  # need_exact_projection refuses others
        self._kinds = (self._inner, loss_kind, kernel[0])
        self._set_params = np.array(kernel[1])

    def _ready(self) -> int:
        """Check that this object may continue the stream, and return for how many records there is noise."""
        if self._knobs[k.T] != self._steps:
            self._settle()
        if self._held.furthest != self._steps:
            self._held.check(self._steps, "learner")
        return self._noise.ready(self._steps, float(self._knobs[k.STRENGTH]))

    def _settle(self) -> None:
        """Count the steps that were taken, also in a piece that an interrupt or an error ended early.

        The exact iterate's own clock moves together with it, and the noise up to there has been played.
        """
        t = int(self._knobs[k.T])
        lease = self._held
        furthest = max(t, lease.furthest) if lease.furthest >= 0 else lease.furthest
        self._noise.row += t - self._steps
        self._steps, lease.furthest = t, furthest

    # ------------------------------------------------------------------ what users call

    @property
    def steps(self) -> int:
        return int(self._knobs[k.T])

    @property
    def guarantee(self) -> Guarantee:
        return self._guarantee

    @property
    def _persons(self) -> Persons | None:
        return self._table

    @property
    def _lease(self) -> Lease:
        return self._held

    @property
    def _point(self) -> FloatArray:
        return self._memory[k.DECISION]

    def deviation(self, t: int) -> float:
        """Standard deviation of one coordinate of the noise in a decision.

        Parameters
        ----------
        t : int
            Number of records after which the decision is shown, at least 1.
        """
        t = checks.integer(t, "t", low=1, high=self.horizon or schedules.LONGEST)
        strength, done = self._reach.start, 0
        while done < t:
            rows = min(t - done, 2**16)
            reaches, strength = self._reach.of(done, rows, strength)
            done += rows
        return float(self._plan.deviations(done - rows, reaches)[-1])

    def update(self, gradient: ArrayLike | None, person: Any = None) -> FloatArray:
        if gradient is not None:
            raise TypeError(
                "PerturbedIterates computes gradients at an iterate that must stay secret, so it cannot take a "
                "gradient; pass the record: observe((a, y)). update(None) is a gap"
            )
        return self.observe(None)

    def _check_room(self, count: int) -> None:
        most = schedules.LONGEST if self.horizon is None else self.horizon
        if self._steps + count > most:
            raise ValueError(
                f"{count} records do not fit: {most - self._steps} of the horizon of {most} are left; "
                "build the learner with a larger horizon"
            )

    def observe(self, loss: Any, person: Any = None) -> FloatArray:
        # Most records are a pair that needs no change, for which one compiled call is enough.
        if type(loss) is tuple and len(loss) == 2 and person is None and self._table is None:
            a, y = loss
            if (
                type(a) is np.ndarray
                and a.dtype == np.float64
                and a.shape == (self.dim,)
                and a.flags.c_contiguous
                and a.flags.writeable
            ):
                label = None if self._label is None else self._label(y, a)
                if label is not None:
                    with self._held.lock:
                        self._check_room(1)
                        self._ready()
                        try:
                            taken = k.observe(*self._kinds)(
                                a, label, self._longest, self._bounds, self._loss_params,
                                self._knobs, self._set_params, self._noise.rows, self._noise.grid,
                                self._noise.row, self._memory,
                            )  # fmt: skip
                        finally:
                            self._settle()
                        if taken:
                            return self.decision
        return super().observe(loss, person)

    observe.__doc__ = OnlineLearner.observe.__doc__

    def _observe_record(self, a: FloatArray, label: float | None) -> None:
        self._play(records.one(a, label), 1, 1, self._memory[:0], losses=_NOTHING)

    def _observe_gap(self) -> None:
        self._play(records.gap(self.dim), 1, 1, self._memory[:0], losses=_NOTHING)

    def _play(
        self,
        chunk: records.Chunk,
        wait: int,
        every: int,
        pages: FloatArray,
        losses: FloatArray | None = None,
    ) -> FloatArray:
        losses = np.empty(len(chunk)) if losses is None else losses
        done = written = 0
        while done < len(chunk):
            end = min(len(chunk), done + self._ready())
            some = chunk.rows(done, end)
            noise, grid = self._noise.rows[self._noise.row :], self._noise.grid[self._noise.row :]
            try:
                k.play(*self._kinds)(
                    some.A, some.labels, some.gaps, self._bounds, self._loss_params, self._knobs,
                    self._set_params, noise, grid, self._memory, wait, every, pages[written:],
                    losses[done:end],
                )  # fmt: skip
            finally:
                self._settle()
            turned, wait = pages_of(end - done, wait, every)
            written, done = written + turned, end
        return losses

    # ------------------------------------------------------------------ saved states

    def _facts(self) -> dict[str, Any]:
        self._held.refuse_copies("learner")
        if self._knobs[k.T] != self._steps:
            self._settle()
        self._held.publish(self, "learner")
        return {
            "arguments": {
                "horizon": self.horizon,
                "schedule": self.schedule,
                "added_regularizer": self.added_regularizer or None,
                "lipschitz": self._given_lipschitz,
                "noise_precision": self.noise_precision,
            },
            "inner": [type(self.inner).__name__, getattr(self.inner, "projected", None)],
            "budget": dataclasses.asdict(self.budget),
            "persons": None if self._table is None else self._table.state(),
            "memory": self._memory[: k.WORK].copy(),
            "knobs": self._knobs.copy(),
            "bounds": iterate_calibration.bounds(self._constants, self._knobs),
            "noise": self._noise.state(),
        }

    @classmethod
    def _from_facts(cls, state: dict[str, Any], set: Any, loss: Any, **given: Any) -> Self:
        lease = claim(state["id"], state["steps"], "learner")
        name, projected = state["inner"]
        inner: Any = GradientDescent() if name == "GradientDescent" else ImplicitGradient(projected)
        if given:
            raise TypeError(f"from_state takes set= and loss= here, got {next(iter(given))}=")
        known = state["arguments"]
        table = None if state["persons"] is None else Persons.from_state(state["persons"])
        learner = cls.__new__(cls)
        learner._prepare(
            set, loss, inner, Budget(**state["budget"]), known["horizon"], known["schedule"],
            known["added_regularizer"], known["lipschitz"],
            None if table is None else table.participation, None, known["noise_precision"],
        )  # fmt: skip
        learner._begin()
        learner._table = table
        iterate_calibration.check_bounds(
            state, iterate_calibration.bounds(learner._constants, learner._knobs)
        )
        learner._held = lease
        lease.hold(learner)
        learner._noise.restore(state["noise"])
        learner._guarantee = learner._make_guarantee()
        learner._steps = int(state["steps"])
        learner._memory[: k.WORK] = state["memory"][: k.WORK]
        learner._knobs[...] = state["knobs"]
        return learner
