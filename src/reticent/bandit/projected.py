"""A private bandit with projections, as a baseline: it releases a total and projects after every play.

Thakurta and Smith (2013), "(Nearly) Optimal Algorithms for Private Online Learning in Full-information and Bandit
Settings", section 4: one-point gradients enter a private running total, and the regularised leader is found by
projection. Rounds, sensitivity and noise are those of `ProjectionFreeBandit`.

It releases a total for each play, not for each batch, so its noise is that of a longer stream, larger by a
logarithmic factor. In return there is no staleness and no error of the conditional gradient.
"""

from __future__ import annotations

from typing import Any

from reticent.bandit.base import Bandit
from reticent.bandit.responses import Projection, Response
from reticent.privacy import Budget, Participation
from reticent.sets import ConvexSet


class ProjectedBandit(Bandit):
    """A private bandit on a set that has a projection.

    Parameters
    ----------
    set : ConvexSet
        The set of points; it must have a projection.
    budget : Budget, optional
        What may be spent in the learner's whole life. All of it is spent when the learner is built. Required unless
        ``private=False``. The ages of a budget that fades count plays.
    lipschitz : float
        A bound on how fast losses change; it sets the range of values and the steps.
    horizon : int, optional
        Upper bound on the number of points that will be asked for; see `ProjectionFreeBandit`.
    values : (float, float), optional
        The range of losses, to which values are clipped. By default ``(0, lipschitz * diameter)``, that of a loss
        that is 0 somewhere on the set.
    total : {"correlated", "tree", "independent", "auto"}
        The running total that carries the noise: ``"auto"`` is correlated noise if delta allows it, else a tree.
    noise : {"gaussian", "gamma", "laplace"}, optional
        Distribution of the noise; by default Gaussian if delta allows it, else Gamma.
    smoothing : float, optional
        Radius of the sphere around the decision on which points are played; by default from theory.
    feasibility : {"shrink", "overflow"}
        ``"shrink"`` moves decisions towards the centre of the inner ball, so that every point is in the set. With
        ``"overflow"`` points may be up to ``smoothing`` outside the set, where losses must be defined.
    step : float, optional
        A constant step; by default one that follows the noise so far.
    private : bool
        ``False``, without a budget, is a baseline without privacy.
    patience : int
        Number of further plays after which an open ticket is closed as a null record.
    participation : Participation, optional
        How often a person's value may count (`reticent.privacy.Participation`). All values of a person are then
        protected together, and ``tell`` takes ``person``. By default single values are protected.
    seed : int, optional
        Seed of the noise and of the directions, for experiments only; the guarantee says so.
    noise_precision : {"lattice", "float"}
        ``"float"`` is faster but for simulations only; the guarantee says so.

    Attributes
    ----------
    clipped : int
        Number of values that were clipped so far. A diagnostic: it reads private data.

    See Also
    --------
    ProjectionFreeBandit : For sets without a cheap projection.

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
