"""Follow the regularised leader over a private running total: DP-FTRL.

[chapter], Algorithm 4, over any set and any running total: x = argmin over the set of <total, x> +
(regularizer/2) ||x - center||^2, plus the loss's own ridge, exactly. Derivation, the default
regulariser and the proof of privacy: docs/algorithms/ftrl.md.

The regulariser is chosen for the horizon, not for the data. It grows like the square root of the
horizon, or like its cube root where noise rules.
"""

from __future__ import annotations

import math
from typing import Any

from reticent import _checks
from reticent.losses import Loss
from reticent.online import totals
from reticent.online.learner import Learner
from reticent.online.rules import Problem, ProjectedLeader
from reticent.privacy import Budget, Participation, prescribed
from reticent.sets import ConvexSet
from reticent.sets.base import ProjectionUnavailable
from reticent.sums import Mechanism, RunningTotal


class FollowTheRegularizedLeader(Learner):
    """DP-FTRL: for any convex losses, over any set with a projection.

    Parameters
    ----------
    set : ConvexSet
        Where decisions live; it must have a projection.
    loss : Loss, optional
        What records cost; without it the learner takes gradients only.
    budget : Budget
        What may be spent, for the learner's whole life; it is spent at once.
    horizon : int, optional
        Upper bound on the number of records. Without one the running total decides how long it lasts.
    lipschitz : float, optional
        Gradients of the part that depends on the record are clipped to this norm; by default the
        loss's own constant on the set, which they never exceed.
    regularizer : float, optional
        Weight of (1/2) ||x - center||^2, the center being the set's. By default one that balances
        the Lipschitz constant, the size of the set, the noise and the horizon; without a horizon it
        grows with the stream.
    participation : Participation, optional
        How many records of one person count, and how far apart; given, the promise is about
        persons. By default one record is protected.
    total : str, Mechanism, class, callable or RunningTotal
        ``"auto"``, ``"correlated"``, ``"tree"``, ``"window-tree"``, ``"independent"``; or a description
        of `reticent.sums` that fits, or a class of these; or a fresh total that fits, or what makes one.
    seed : int, optional
        For experiments only; the guarantee says so.
    noise_precision : {"lattice", "float"}
        ``"float"`` is the fast path for simulations; the guarantee says so.
    calibration : str
        ``"exact"``, or the name of prescribed noise (`reticent.privacy.prescribed`); the guarantee
        reports the truth about that, too.

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
        participation: Participation | None = None,
        total: Any = "auto",
        seed: int | None = None,
        noise_precision: str = "lattice",
        calibration: str = "exact",
    ) -> None:
        needs_projection(set)
        self.calibration = prescribed.check(calibration)
        self.regularizer = (
            None
            if regularizer is None
            else _checks.number(regularizer, "regularizer", low=0.0, open_low=True)
        )
        ridge = 0.0 if loss is None else getattr(loss, "ridge", 0.0)
        super().__init__(
            set,
            _Regularized(ridge, self.regularizer),
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
            total, "tree", self.calibration, "ftrl", facts={}, estimator="plain",
            **self._for_total(seed),
        )  # fmt: skip

    def _arguments(self) -> dict[str, Any]:
        return super()._arguments() | {
            "regularizer": self.regularizer,
            "calibration": self.calibration,
        }

    @classmethod
    def _parts(cls, state: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        return given


class _Regularized(ProjectedLeader):
    def __init__(self, ridge: float, regularizer: float | None) -> None:
        super().__init__(curvature=ridge, anchor=0.0 if regularizer is None else regularizer)
        self._given = regularizer

    def prepare(self, problem: Problem) -> None:
        super().prepare(problem)
        if self._given is not None:
            return
        if not math.isfinite(problem.reach):
            raise ValueError(
                f"{problem.set!r} is unbounded, so there is no default regulariser; "
                "give regularizer=, or a bounded set"
            )
        self.anchor, self.growth, self.power = balanced(problem)


def balanced(problem: Problem, endless: bool = False) -> tuple[float, float, float]:
    """Weight, growth and power of the anchor that balances pull, movement and noise.

    With weight w, reach R, Lipschitz constant L, curvature b along a record and noise of standard
    deviation s in each coordinate, the regret over T records is about

        w R^2/2 (pull)  +  T L^2/(2 w) (movement)  +  T b s^2/(2 w^2) (noise),

    since to first order the noise averages out. The noise part has its best weight at
    (2 T b s^2/R^2)^(1/3). Movement is the worst case of gradients that never agree; half its best
    weight, L sqrt(T)/(2 R), costs a quarter more in that case and is better in any other.
    """
    L, R, b, s = problem.lipschitz, problem.reach, problem.bend, problem.noise
    if problem.horizon is not None and not endless:
        T = float(problem.horizon)
        return max(0.5 * L * math.sqrt(T) / R, (2.0 * T * b * (s / R) ** 2) ** (1 / 3)), 0.0, 0.5
    # L sqrt(t)/(2 R) overtakes the noise's t^(1/3) in the end; the constant is the most that it
    # is ever short of it.
    return 32.0 / 27.0 * b * (s / L) ** 2, 0.5 * L / R, 0.5


def needs_projection(set: Any) -> None:
    if isinstance(set, ConvexSet) and not set.can_project:
        raise ProjectionUnavailable(
            f"{set!r} has no cheap projection, which this learner needs at every step; use "
            'FollowTheApproximateLeader(step="local-linear")'
        )
