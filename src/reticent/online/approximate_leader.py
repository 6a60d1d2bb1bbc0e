"""Follow the approximate leader: strongly convex losses, with or without projections, with or without a window.

[window], Algorithms 1 (WDP-COCOP) and 2 (WDP-COCOL): each loss is replaced by the parabola that touches it from
below, and the sum of these is minimised, exactly by a projection or approximately by one step of a local linear
minimiser. With a full window and Gamma noise the former is PFTAL (Thakurta and Smith 2013). The self-certified radius
and its proof: docs/algorithms/approximate-leader.md.

The strong convexity of a ridge needs no noise. If there is no other, this learner is FTRL with a regulariser that
grows by the ridge with each record.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from reticent import checks
from reticent.losses import Loss
from reticent.online import ftrl, totals
from reticent.online.ftrl import needs_projection
from reticent.online.learner import Learner
from reticent.online.rules import (
    FixedLocalLinearLeader,
    Leader,
    LocalLinearLeader,
    OnlineProblem,
    ProjectedLeader,
)
from reticent.privacy import Budget, Participation, prescribed
from reticent.sets import ConvexSet
from reticent.sets.base import LocalLinearMinimizerUnavailable
from reticent.sums import Mechanism, RunningTotal

STEPS = ("projection", "local-linear")


class FollowTheApproximateLeader(Learner):
    """Follow the approximate leader (WDP-COCOP, WDP-COCOL and PFTAL), for strongly convex losses.

    Parameters
    ----------
    set : ConvexSet
        The set of decisions.
    loss : Loss, optional
        The loss of a record; without it the learner accepts gradients only.
    budget : Budget
        What may be spent in the learner's whole life. All of it is spent when the learner is built. With a window the
        stream may be endless, and the noise stays bounded.
    step : {"projection", "local-linear"}
        How the leader is computed. ``"local-linear"`` makes one call of the set's local linear minimiser instead of a
        projection.
    constants : str
        Radius and length of a local linear step: ``"certified"`` (the default) computes them from what was released;
        the name of a calibration uses the ones it prescribes (`reticent.privacy.prescribed`).
    horizon : int, optional
        Upper bound on the number of records. By default there is none; the running total may set one.
    lipschitz : float, optional
        Norm to which gradients of the part that depends on the record are clipped; by default the loss's own constant
        on the set, which they never exceed.
    strong_convexity : float, optional
        The m of (m/2) ||x - x_t||^2; by default the loss's own. A value above the loss's own invalidates the bound on
        the regret, not the guarantee.
    anchor : float, optional
        Weight of (1/2) ||x - center||^2 from the start (the C_0 of [window], (17), times m). By default it balances
        the noise of the first decisions; 0 is the plain algorithm.
    added_regularizer : {None, "auto"} or float
        For losses without strong convexity: the alpha of a term (alpha/sqrt(t)) ||x - center||^2 that is added to the
        t-th loss ([online], section 6.1). ``"auto"`` balances it as FTRL does.
    failure : float
        Probability with which prescribed constants may be too small for the noise.
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
    FollowTheRegularizedLeader : For losses that are not strongly convex.

    Examples
    --------
    >>> import numpy as np
    >>> import reticent
    >>> from reticent import losses, online, sets
    >>> rng = np.random.default_rng(0)
    >>> X = 0.5 * rng.dirichlet(np.ones(4), size=5000)
    >>> learner = online.FollowTheApproximateLeader(
    ...     sets.Simplex(4),
    ...     losses.Quadratic(),
    ...     step="local-linear",
    ...     budget=reticent.Budget(1.0, 1e-6, window=64),
    ...     seed=0,
    ... )
    >>> play = learner.run(X)
    >>> bool(np.abs(learner.decision - 0.25).max() < 0.01)
    True
    >>> print(learner.guarantee.window)
    64
    """

    def __init__(
        self,
        set: ConvexSet,
        loss: Loss | None = None,
        *,
        budget: Budget,
        step: str = "projection",
        constants: str = "certified",
        horizon: int | None = None,
        lipschitz: float | None = None,
        strong_convexity: float | None = None,
        anchor: float | None = None,
        added_regularizer: str | float | None = None,
        failure: float = 0.05,
        participation: Participation | None = None,
        total: Any = "auto",
        seed: int | None = None,
        noise_precision: str = "lattice",
        calibration: str = "exact",
    ) -> None:
        self.step = checks.choice(step, "step", STEPS)
        self.constants = checks.choice(
            constants, "constants", ("certified", *prescribed.names()[1:])
        )
        self.calibration = prescribed.check(calibration)
        self.failure = checks.number(failure, "failure", low=0.0, high=1.0, open_low=True)
        self.anchor = None if anchor is None else checks.number(anchor, "anchor", low=0.0)
        self.added_regularizer = _added(added_regularizer)
        self.strong_convexity = _convexity(strong_convexity, loss, self.added_regularizer)
        if step == "projection":
            needs_projection(set)
        elif isinstance(set, ConvexSet) and set.rho is None:
            raise LocalLinearMinimizerUnavailable(
                f"{set!r} has no local linear minimiser with a proved constant, which "
                'step="local-linear" needs; use step="projection" if it has a projection'
            )
        super().__init__(
            set,
            self._make_rule(budget, horizon, getattr(set, "dim", 1)),
            loss,
            budget=budget,
            horizon=horizon,
            lipschitz=lipschitz,
            participation=participation,
            total=total,
            seed=seed,
            noise_precision=noise_precision,
        )

    def _make_rule(self, budget: Budget, horizon: int | None, dim: int) -> Leader:
        m = self.strong_convexity
        if self.step == "local-linear" and self.constants != "certified":
            if m == 0.0 or self.added_regularizer is not None:
                raise ValueError(
                    f"constants={self.constants!r} needs a strongly convex loss and no added_regularizer; "
                    "give the loss a ridge, or use constants='certified'"
                )
            formula = prescribed.find(self.constants, "local-linear-step")
            facts = {"horizon": horizon, "dim": dim, "failure": self.failure}
            return FixedLocalLinearLeader(m, functools.partial(formula, budget, **facts))
        kind = _Projected if self.step == "projection" else _LocalLinear
        return kind(m, self.anchor, self.added_regularizer)

    def _choose_total(self, total: Any, seed: int | None) -> Mechanism | RunningTotal:
        if self.calibration == "exact":
            return super()._choose_total(total, seed)
        if self.budget.window is None:
            raise ValueError(
                f"calibration={self.calibration!r} prescribes the noise of a window tree; use a budget "
                "with a window (for protection for ever, a window as long as the horizon)"
            )
        facts = {"strong_convexity": self.strong_convexity, "diameter": float(self.set.diameter)}
        return totals.prescribed(
            total,
            "window-tree",
            self.calibration,
            "window-tree",
            facts=facts,
            **self._for_total(seed),
        )

    def _arguments(self) -> dict[str, Any]:
        return super()._arguments() | {
            "step": self.step,
            "constants": self.constants,
            "strong_convexity": self.strong_convexity,
            "anchor": self.anchor,
            "added_regularizer": self.added_regularizer,
            "failure": self.failure,
            "calibration": self.calibration,
        }

    @classmethod
    def _parts(cls, state: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        return given


class _Balanced(Leader):
    """A leader whose anchor is set once the noise is known."""

    def __init__(self, m: float, anchor: float | None, added: str | float | None) -> None:
        super().__init__(m, 0.0 if anchor is None else anchor)
        self._given = anchor
        self._added = added

    def prepare(self, problem: OnlineProblem) -> None:
        super().prepare(problem)
        if self._given is None and self.curvature > 0.0:
            self.anchor = balanced(problem, self.curvature)
        if isinstance(self._added, float):
            # the derivative in x of (alpha/sqrt(t)) ||x - center||^2, added up over t
            self.growth = 4.0 * self._added
        elif self._added == "auto":
            weight, self.growth = ftrl.balanced(problem)
            self.anchor = max(self.anchor, weight)


class _Projected(_Balanced, ProjectedLeader):
    pass


class _LocalLinear(_Balanced, LocalLinearLeader):
    pass


def balanced(problem: OnlineProblem, m: float) -> float:
    """The anchor A that balances its own pull with the movement and the noise of early decisions.

    It minimises A R^2/2 + sum over t of L^2/(2 (m t + A)) and of (b + m d) s^2/(2 (m t + A)^2), where d is the
    dimension in which the parabolas themselves are curved. With a horizon and a bounded set, the optimum without
    strong convexity (`reticent.online.ftrl.balanced`) is always enough.
    """
    L, s = problem.lipschitz, problem.noise
    if problem.horizon is None and problem.error(2**10) < 0.9 * s:
        # Protected for ever without a horizon: the noise keeps growing, and is large from the first decision on
        # relative to what it becomes. The factor was found by experiment for streams that start from an
        # earlier release; with a smaller one they lose much of what was learnt before in their first steps.
        s *= 2.4
    # The best decision for losses with a ridge m around the centre is at most L/m away from it.
    R = min(problem.reach, L / m)
    movement = L**2 / m
    bend = problem.bend + m * problem.dim
    best = (movement + math.sqrt(movement**2 + 4.0 * bend * (R * s) ** 2 / m)) / (2.0 * R**2)
    if problem.horizon is None or not math.isfinite(problem.reach):
        return best
    enough, growth = ftrl.balanced(problem)
    return min(best, enough + growth * math.sqrt(problem.horizon))


def _added(value: Any) -> str | float | None:
    if value is None or value == "auto":
        return value
    if isinstance(value, str):
        raise ValueError(
            f"added_regularizer must be None, 'auto' or a number above 0, got {value!r}"
        )
    return checks.positive(value, "added_regularizer")


def _convexity(given: float | None, loss: Any, added: str | float | None) -> float:
    if given is None:
        given = 0.0 if loss is None else getattr(loss, "strong_convexity", 0.0)
    m = checks.number(given, "strong_convexity", low=0.0)
    if m == 0.0 and added is None:
        what = (
            "there is no loss to read it from"
            if loss is None
            else f"{loss!r} is not strongly convex"
        )
        raise ValueError(
            f"strong_convexity must be above 0, but {what}; give the loss a ridge, or "
            "strong_convexity=, or added_regularizer='auto', or use FollowTheRegularizedLeader"
        )
    return m
