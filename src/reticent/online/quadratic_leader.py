"""The quadratic leader: online linear regression from private sufficient statistics.

[online], Algorithm 4 (PQFTL): x = (t alpha I + V)^-1 u from noisy running totals of v v' and y v, with corrected
bounds, one joint account for both totals, symmetric noise and a safe solution of the system. Derivation:
docs/algorithms/quadratic-leader.md.

It does not use the loop of :mod:`reticent.online.kernels`: what a record adds does not depend on the decision and has
d (d + 3) / 2 entries in place of d, and the total becomes a decision only every ``refresh`` records.

V and u are one total, not two with half the budget each: one record moves both together and, under replacement, by
less than twice its largest joint norm.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from reticent import checks
from reticent.losses import Loss, Squared
from reticent.noise import door, lattice
from reticent.online import quadratic_kernels as k
from reticent.online import records, totals
from reticent.online.base import FloatArray, check_horizon
from reticent.online.ftrl import needs_projection
from reticent.online.learner import Restored, TotalLearner
from reticent.privacy import Budget, Participation, prescribed
from reticent.sets import ConvexSet, WholeSpace
from reticent.sums import Mechanism, RunningTotal
from reticent.trace.play import pages_of

_NOTHING = np.zeros(0)
_LARGEST_RATIO = 64.0  # bound on a node's noise divided by (one record's move) / mu, for any total


class QuadraticLeader(TotalLearner):
    """The quadratic leader (PQFTL), for squared losses; its regret grows with the logarithm of the horizon.

    Parameters
    ----------
    set : ConvexSet or int
        The set of decisions, onto which they are projected; or just the dimension, for the whole space.
    loss : Squared, optional
        A squared loss with its bounds on features and labels, and its ridge. Without a ridge the set must be bounded.
    budget : Budget
        What may be spent in the learner's whole life. All of it is spent when the learner is built.
    horizon : int, optional
        Upper bound on the number of records. By default there is none; the running total may set one.
    weight : float, optional
        Weight of y v relative to v v' in the joint total. By default it minimises the error of a decision that maps the
        longest features to the largest label.
    damping : float, optional
        A regulariser (damping/2) ||x||^2 from the start, against the noise of early totals. By default it balances
        that noise with its own pull; 0 is the plain algorithm.
    refresh : int
        Number of records after which a new decision is computed; in between it stays the same.
    participation : Participation, optional
        How many records of one person count, and how far apart; if given, persons are protected. By default single
        records are.
    total : str, Mechanism, class, callable or RunningTotal
        The running total that carries the noise: ``"auto"`` (the default), ``"correlated"``, ``"tree"``,
        ``"window-tree"`` or ``"independent"``; a description of `reticent.sums` for the same dimension, norm and
        budget, or the class of one; a fresh running total like that; or a function that makes one.
    seed : int, optional
        Seed of the noise, for experiments only; the guarantee says so.
    noise_precision : {"lattice", "float"}
        ``"float"`` is faster but for simulations only; the guarantee says so.
    calibration : str
        ``"exact"``, or the name of a calibration that prescribes the noise (`reticent.privacy.prescribed`); the
        guarantee reports what that noise really gives.

    See Also
    --------
    FollowTheApproximateLeader : For other strongly convex losses.

    Examples
    --------
    >>> import numpy as np
    >>> import reticent
    >>> from reticent import losses, online
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 2)) / np.sqrt(2)
    >>> y = X @ [0.5, -0.25] + 0.01 * rng.standard_normal(20_000)
    >>> learner = online.QuadraticLeader(
    ...     2,
    ...     losses.Squared(ridge=1e-3),
    ...     budget=reticent.Budget(1.0, 1e-6),
    ...     horizon=20_000,
    ...     seed=0,
    ... )
    >>> play = learner.run(X, y)
    >>> bool(np.abs(learner.decision - [0.5, -0.25]).max() < 0.1)
    True
    """

    def __init__(
        self,
        set: ConvexSet | int,
        loss: Loss | None = None,
        *,
        budget: Budget,
        horizon: int | None = None,
        weight: float | None = None,
        damping: float | None = None,
        refresh: int = 1,
        participation: Participation | None = None,
        total: Any = "auto",
        seed: int | None = None,
        noise_precision: str = "lattice",
        calibration: str = "exact",
    ) -> None:
        if not isinstance(set, ConvexSet):
            set = WholeSpace(checks.integer(set, "set", low=1))
        super().__init__(set, Squared() if loss is None else loss, budget)
        if not isinstance(self.loss, Squared):
            raise TypeError(
                f"loss must be a losses.Squared, got {loss!r}: this learner is for squared losses; for "
                "others use FollowTheApproximateLeader"
            )
        needs_projection(set)
        self.horizon = check_horizon(horizon)
        self.participation = participation
        self.refresh = checks.integer(refresh, "refresh", low=1)
        self.calibration = prescribed.check(calibration)
        self.noise_precision = noise_precision
        F, Y, ridge = self.loss.feature_norm, self.loss._largest_label, self.loss.ridge
        if not Y > 0.0:
            raise ValueError("label_bounds of the loss must allow labels other than 0")
        # The leader of exact totals is never farther from the origin: ||(t a + V)^-1 u|| <= F Y / a, and
        # <= Y/(2 sqrt(a)), since the sum of squares bounds both V and u.
        self.radius = float(set.norm_bound)
        if ridge > 0.0:
            self.radius = min(self.radius, F * Y / ridge, Y / (2.0 * math.sqrt(ridge)))
        if not math.isfinite(self.radius):
            raise ValueError(
                "without a ridge the set must be bounded; use Squared(ridge=...), or a bounded set"
            )
        # The size of decision to tune for: one that maps the longest features to the largest label.
        self._typical = min(self.radius, Y / F)
        self.weight = self._weight(weight, F, Y)
        self.damping = None if damping is None else checks.number(damping, "damping", low=0.0)
        self._start(total, seed)

    def _weight(self, given: float | None, F: float, Y: float) -> float:
        if self.calibration != "exact":
            if given is not None:
                raise ValueError(
                    f"calibration={self.calibration!r} fixes the weight; leave out weight, got {given!r}"
                )
            found = prescribed.prescribe(
                self.calibration,
                "quadratic-leader",
                self.budget,
                horizon=self.horizon,
                largest=max(F, Y),
            )
            # the noise of V and of u; the weight makes them equal in the joint total
            of_squares, of_labels = np.ravel(found.scale)[:2]
            return float(of_squares / of_labels)
        if given is not None:
            return checks.positive(given, "weight")
        # This minimises (F^4 + w^2 F^2 Y^2) (r^2/2 + 1/w^2), the noise of V x and of u at ||x|| = r.
        return math.sqrt(math.sqrt(2.0) * F / (self._typical * Y))

    def _choose_total(self, total: Any, seed: int | None) -> Mechanism | RunningTotal:
        assert isinstance(self.loss, Squared)
        d, F, Y = self.dim, self.loss.feature_norm, self.loss._largest_label
        dim = d * (d + 1) // 2 + d
        norm = self._norm(F, Y)
        needs: dict[str, Any] = {
            "dim": dim,
            "horizon": self.horizon,
            "budget": self.budget,
            "norm": norm,
            "seed": seed,
            "noise_precision": self.noise_precision,
        }
        if self.participation is not None:
            needs["participation"] = self.participation
        if self.budget.neighbours == "replace" and isinstance(total, str):
            moved = self._moved(F, Y, dim, norm)
            needs["sensitivity"] = min(moved, self.budget.sensitivity(norm))
        if self.calibration == "exact":
            return totals.choose(total, **needs)
        return totals.prescribed(
            total,
            "tree",
            self.calibration,
            "quadratic-leader",
            facts={"largest": max(F, Y)},
            estimator="plain",
            **needs,
        )

    def _norm(self, F: float, Y: float) -> float:
        """The largest norm of the joint vector of one record."""
        return F * math.hypot(F, self.weight * Y)

    def _moved(self, F: float, Y: float, dim: int, norm: float) -> float:
        """How far replacing one record by another moves the joint total.

        Two records at an angle with cosine c move it by the root of F^4 (2 (1 - c^2) + 2 q (1 + c)), where q is the
        weight of u relative to V; the worst angle has c = q/2. A joint vector of maximal length may be shortened
        slightly, or not, and truncation to the lattice adds at most one step in each coordinate.
        """
        q = (self.weight * Y / F) ** 2
        square = 2.0 + 2.0 * q + 0.5 * q * q if q <= 2.0 else 4.0 * q
        moved = F * F * math.sqrt(square) * (1.0 + 1e-12) + 4.0 * door.shortening(dim) * norm
        if self.noise_precision == "float":
            return moved
        pure = self.budget.delta == 0.0
        level = self.budget.epsilon if pure else self.budget.mu
        fine = _LARGEST_RATIO * moved / level / (lattice.GAMMA_STEPS if pure else lattice.STEPS)
        longest = max(self.horizon or 2**40, 2 * (self.budget.window or 1), 2**17)
        return moved + math.sqrt(dim) * (fine + norm * longest * 2.0**-59)

    def _begin(self) -> None:
        assert isinstance(self.loss, Squared)
        d, total = self.dim, self.mechanism
        noise = total.error(2**20 if self.horizon is None else self.horizon)
        if self.damping is None:
            self.damping = self._balanced(noise)
        self._knobs = np.zeros(k.KNOBS)
        self._knobs[k.RIDGE] = self.loss.ridge
        self._knobs[k.DAMPING] = self.damping
        self._knobs[k.WEIGHT] = self.weight
        self._knobs[k.RADIUS] = self.radius
        # The largest eigenvalue of the noise is about sqrt(2 d) standard deviations.
        self._knobs[k.SAFE] = 3.0 * noise * math.sqrt(2.0 * d)
        self._knobs[k.REFRESH] = self.refresh
        self._noisy = np.zeros(total.dim)
        self._matrix = np.zeros((d, d))
        self._vector = np.zeros(d)
        self._work = np.zeros(2 * d)
        self._room = np.zeros(d + 2 * total.dim)
        self._bounds = np.array(records.bounds(self.loss, d))
        self._decision = np.array(self.set.project(np.zeros(d)), dtype=np.float64)
        self._target = self._decision.copy()  # before it is projected
        kernel = self.set.kernel
        set_kind, set_params = (-1, ()) if kernel is None else kernel
        loss_kind, self._loss_params = self.loss.kernel
        self._kinds = (loss_kind, set_kind)
        self._set_params = np.array(set_params, dtype=np.float64)

    def _balanced(self, noise: float) -> float:
        """The damping A that balances its pull A r^2/2 with the noise of all decisions.

        The noise in a decision has the variance v = s^2 (r^2/2 + 1/w^2) in each coordinate, divided by (a t + A)^2,
        and costs as much as the curvature b = a d + F^2 of one loss: b v/(2 a A) in all, and at most T b v/(2 A^2).
        Each of these has its own optimal A, and the smaller one is enough.
        """
        assert isinstance(self.loss, Squared)
        a, F, r = self.loss.ridge, self.loss.feature_norm, self._typical
        v = noise**2 * (0.5 * r * r + 1.0 / self.weight**2)
        b = a * self.dim + F * F
        T = float(self.horizon or 2**20)
        flat = (2.0 * T * b * v / r**2) ** (1.0 / 3.0)
        return flat if a == 0.0 else min(flat, math.sqrt(b * v / a) / r)

    # ------------------------------------------------------------------ what users call

    @property
    def _point(self) -> FloatArray:
        return self._decision

    def update(self, gradient: ArrayLike | None, person: Any = None) -> FloatArray:
        if gradient is not None:
            raise TypeError(
                "QuadraticLeader learns from records, not from gradients; pass the record: observe((a, y)). "
                "update(None) is a gap"
            )
        return self.observe(None)

    def _observe_record(self, a: FloatArray, label: float | None) -> None:
        self._play(records.one(a, label), 1, 1, self._vector[:0].reshape(0, 1), losses=_NOTHING)

    def _observe_gap(self) -> None:
        self._play(records.gap(self.dim), 1, 1, self._vector[:0].reshape(0, 1), losses=_NOTHING)

    def _play(
        self,
        chunk: records.Chunk,
        wait: int,
        every: int,
        pages: FloatArray,
        losses: FloatArray | None = None,
    ) -> FloatArray:
        losses = np.empty(len(chunk.A)) if losses is None else losses
        self._check_finished()
        total, knobs = self.total, self._knobs
        one_by_one = self._kinds[1] < 0
        where = self._target if one_by_one else self._decision
        done = written = 0
        count = len(chunk.A)
        while done < count:
            total._ready()
            knobs[k.LIMIT], knobs[k.PER_STEP] = total._limit, total._per_step
            knobs[k.STEP] = total._noise.step
            end = min(count, done + len(total._block) - total._row)
            if one_by_one:
                end = done + 1
            row = total._row
            self._target[:] = self._decision
            # a projection that is not compiled may fail, and then the record must not be passed again
            self._unfinished = one_by_one
            total._advance(end - done)
            k.play(*self._kinds)(
                chunk.A[done:end], chunk.labels[done:end], chunk.gaps[done:end], self._bounds,
                self._loss_params, knobs, self._set_params, total._total,
                total._block[row:], total._base, self._noisy, where,
                self._matrix, self._vector, self._work, self._room, wait, every, pages[written:],
                losses[done:end],
            )  # fmt: skip
            if one_by_one:
                self._finish()
            if len(pages):
                turned, wait = pages_of(end - done, wait, every)
                written += turned
            done = end
        return losses

    def _decide(self) -> None:
        point = np.reshape(self.set.project(self._target), -1)
        self._decision[:] = checks.vector(point, "what project returned", self.dim)

    # ------------------------------------------------------------------ saved states

    def _facts(self) -> dict[str, Any]:
        return {
            "arguments": {
                "horizon": self.horizon,
                "weight": self.weight if self.calibration == "exact" else None,
                "damping": self.damping,
                "refresh": self.refresh,
                "noise_precision": self.noise_precision,
                "calibration": self.calibration,
            },
            "decision": self._decision.copy(),
            "target": self._target.copy(),
            "unfinished": self._unfinished,
            "knobs": self._knobs.copy(),
            "total": self.total._facts(),
        }

    @classmethod
    def _from_facts(
        cls, state: dict[str, Any], set: Any, loss: Any, total: Any = None, **given: Any
    ) -> Self:
        restored = totals.restore(state["total"], total)
        learner = cls(
            set,
            loss,
            budget=restored.budget,
            total=Restored(restored),
            participation=restored.mechanism.participation,
            **state["arguments"],
            **given,
        )
        # A user-defined loss is known by name only, so compare its bounds with those of the total.
        known = learner.loss
        assert isinstance(known, Squared)
        if learner._norm(known.feature_norm, known._largest_label) != restored.norm:
            raise ValueError(
                f"loss must have the bounds that the state was saved with, got {loss!r}; the "
                "guarantee depends on them"
            )
        learner._decision[...] = state["decision"]
        learner._target[...] = state.get("target", state["decision"])
        learner._unfinished = bool(state.get("unfinished", False))
        learner._knobs[...] = state["knobs"]
        return learner
