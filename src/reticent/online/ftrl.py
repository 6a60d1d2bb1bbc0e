"""Follow the regularised leader over a private running total: DP-FTRL.

[chapter], Algorithm 4, over any set and any running total: x = argmin over the set of <total, x> + (regularizer/2)
||x - center||^2, plus the loss's own ridge, exactly. Derivation, the default regulariser and the proof of privacy:
docs/algorithms/ftrl.md.

The default regulariser is computed from public numbers only: the noise, the dimension and the curvature of the loss.
"""

from __future__ import annotations

import math
from typing import Any

from reticent import checks
from reticent.losses import Loss
from reticent.online import totals
from reticent.online.learner import Learner
from reticent.online.rules import OnlineProblem, ProjectedLeader
from reticent.privacy import Budget, Participation, prescribed
from reticent.sets import ConvexSet
from reticent.sets.base import ProjectionUnavailable
from reticent.sums import Mechanism, RunningTotal


class FollowTheRegularizedLeader(Learner):
    """DP-FTRL: for any convex losses, over any set with a projection.

    Parameters
    ----------
    set : ConvexSet
        The set of decisions; it must have a projection.
    loss : Loss, optional
        The loss of a record; without it the learner accepts gradients only.
    budget : Budget
        What may be spent in the learner's whole life. All of it is spent when the learner is built.
    horizon : int, optional
        Upper bound on the number of records. By default there is none; the running total may set one.
    lipschitz : float, optional
        Norm to which gradients of the part that depends on the record are clipped; by default the loss's own constant
        on the set, which they never exceed.
    regularizer : float, optional
        Weight of (1/2) ||x - center||^2, where the centre is the set's. By default it balances the noise, the size of
        the set, the dimension and the movement of decisions, and grows with the stream.
    averaging : bool
        Whether decisions use an average of recent totals (with exponential weights) over as many records as the noise
        slows the learner by; it needs the default regulariser. This reduces the noise on streams that change slowly,
        and delays decisions on streams that change within that many records.
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
    FollowTheApproximateLeader : For strongly convex losses, and for sets without a projection.

    Examples
    --------
    >>> import numpy as np
    >>> import reticent
    >>> from reticent import losses, online, sets
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((20_000, 5)) / 3
    >>> y = np.where(X @ [1, -1, 1, 0, 0] + 0.1 * rng.standard_normal(20_000) > 0, 1, -1)
    >>> learner = online.FollowTheRegularizedLeader(
    ...     sets.L2Ball(5, radius=5.0),
    ...     losses.Logistic(),
    ...     budget=reticent.Budget(1.0, 1e-6),
    ...     horizon=20_000,
    ...     seed=0,
    ... )
    >>> play = learner.run(X, y)
    >>> bool(np.mean(np.sign(X @ learner.decision) == y) > 0.9)
    True
    >>> round(learner.guarantee.epsilon(1e-6), 6)
    1.0
    """

    rule: ProjectedLeader

    def __init__(
        self,
        set: ConvexSet,
        loss: Loss | None = None,
        *,
        budget: Budget,
        horizon: int | None = None,
        lipschitz: float | None = None,
        regularizer: float | None = None,
        averaging: bool = False,
        participation: Participation | None = None,
        total: Any = "auto",
        seed: int | None = None,
        noise_precision: str = "lattice",
        calibration: str = "exact",
    ) -> None:
        needs_projection(set)
        self.calibration = prescribed.check(calibration)
        self.regularizer = (
            None if regularizer is None else checks.positive(regularizer, "regularizer")
        )
        self.averaging = bool(averaging)
        if self.averaging and self.regularizer is not None:
            raise ValueError(
                "averaging=True needs the default regulariser, which determines how many totals to average; "
                f"leave out regularizer, got {regularizer!r}"
            )
        ridge = 0.0 if loss is None else getattr(loss, "ridge", 0.0)
        super().__init__(
            set,
            _Regularized(ridge, self.regularizer, self.averaging),
            loss,
            budget=budget,
            horizon=horizon,
            lipschitz=lipschitz,
            participation=participation,
            total=total,
            seed=seed,
            noise_precision=noise_precision,
        )

    def _choose_total(self, total: Any, seed: int | None) -> Mechanism | RunningTotal:
        if self.calibration == "exact":
            return super()._choose_total(total, seed)
        return totals.prescribed(
            total,
            "tree",
            self.calibration,
            "ftrl",
            facts={},
            estimator="plain",
            **self._for_total(seed),
        )

    def _arguments(self) -> dict[str, Any]:
        return super()._arguments() | {
            "regularizer": self.regularizer,
            "averaging": self.averaging,
            "calibration": self.calibration,
        }

    @classmethod
    def _parts(cls, state: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        return given


class _Regularized(ProjectedLeader):
    def __init__(self, ridge: float, regularizer: float | None, averaging: bool) -> None:
        super().__init__(curvature=ridge, anchor=0.0 if regularizer is None else regularizer)
        self._given = regularizer
        self._averaging = averaging

    def prepare(self, problem: OnlineProblem) -> None:
        super().prepare(problem)
        if self._given is not None:
            return
        if not math.isfinite(problem.reach):
            raise ValueError(
                f"{problem.set!r} is unbounded, so there is no default regulariser; "
                "set regularizer=, or use a bounded set"
            )
        self.anchor, self.growth = balanced(problem)
        if self._averaging and self.anchor > 0.0:
            self.fresh = quiet(problem) / self.anchor


def balanced(problem: OnlineProblem) -> tuple[float, float]:
    """The weight of the anchor, and the factor by which it grows with the root of the number of records."""
    return quiet(problem) + against_noise(problem), 0.5 * problem.lipschitz / problem.reach


def quiet(problem: OnlineProblem) -> float:
    """The weight with which no step corrects more than a quarter of its own record's error."""
    return 4.0 * problem.bend


def against_noise(problem: OnlineProblem) -> float:
    """The weight that balances pull and noise: sqrt(2) s/u, with noise s and a coordinate u of the best decision.

    No coordinate needs to be larger than R/sqrt(d), with which the norm of all of them is R, nor than half of (bound
    on the slope)/(curvature), at which the slope along a record reaches its bound. Losses with little curvature are
    hardly affected by noise: for them the weight is what b s^2 requires at the worst number of records. The
    derivation is in docs/algorithms/ftrl.md.
    """
    s, b = problem.noise, problem.bend
    size = max(math.sqrt(problem.dim) / problem.reach, 2.0 * b / problem.steepness)
    return min(math.sqrt(2.0) * s * size, 32.0 / 27.0 * b * (s / problem.lipschitz) ** 2)


def needs_projection(set: Any) -> None:
    if isinstance(set, ConvexSet) and not set.can_project:
        raise ProjectionUnavailable(
            f"{set!r} has no cheap projection, which this learner needs at every step; use "
            'FollowTheApproximateLeader(step="local-linear")'
        )
