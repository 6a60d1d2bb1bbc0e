"""A private bandit with projections, the baseline: a total after every play, and a projection.

Thakurta and Smith (2013), "(Nearly) Optimal Algorithms for Private Online Learning in Full-information
and Bandit Settings", section 4: one-point gradients into a private running total, and the regularised
leader by projection. Here with the same frame, sensitivity and noise as `ProjectionFreeBandit`.

It releases a total a play, not a batch, so its noise is that of a longer stream, by a logarithm;
what it saves is staleness and the error of the conditional gradient.
"""

from __future__ import annotations

from typing import Any

from reticent.bandit.base import Bandit
from reticent.bandit.responses import Projection, Response
from reticent.privacy import Budget, Participation
from reticent.sets import ConvexSet


class ProjectedBandit(Bandit):
    """A private bandit on a set that has a projection; arguments as in `ProjectionFreeBandit`.

    Examples
    --------
    >>> import reticent
    >>> from reticent import bandit, sets
    >>> learner = bandit.ProjectedBandit(
    ...     sets.L2Ball(2), budget=reticent.Budget(1.0, 1e-6), lipschitz=1.0, horizon=1000
    ... )
    >>> point = learner.ask()
    >>> learner.tell(0.5)
    >>> learner.set.contains(point)
    True
    """

    rounds_are_long = False

    def __init__(
        self,
        set: ConvexSet,
        budget: Budget | None = None,
        lipschitz: float = 1.0,
        horizon: int | None = None,
        *,
        values: tuple[float, float] | None = None,
        total: str = "auto",
        noise: str | None = None,
        smoothing: float | None = None,
        feasibility: str = "shrink",
        step: float | None = None,
        private: bool = True,
        patience: int = 65536,
        participation: Participation | None = None,
        seed: int | None = None,
        noise_precision: str = "lattice",
    ) -> None:
        if isinstance(set, ConvexSet) and not set.can_project:
            raise ValueError(
                f"{set!r} has no projection; use bandit.ProjectionFreeBandit, which needs none"
            )
        super().__init__(
            set,
            budget=budget,
            lipschitz=lipschitz,
            horizon=horizon,
            values=values,
            private=private,
            total=total,
            noise=noise,
            smoothing=smoothing,
            feasibility=feasibility,
            step=step,
            stale=False,
            centring="middle",
            calibration="exact",
            mirror="euclidean",
            patience=patience,
            participation=participation,
            seed=seed,
            noise_precision=noise_precision,
        )

    def _layout(self, plays: int) -> tuple[int, int]:
        return plays, 1

    def _make_response(self) -> Response:
        return Projection(self.set, self._geometry)

    def _arguments(self) -> dict[str, Any]:
        mine = self._common_arguments()
        del mine["calibration"], mine["centring"]
        return mine
