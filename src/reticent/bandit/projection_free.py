"""PRIVATEBANDIT: convex bandits over sets without a cheap projection, with privacy at little cost in regret.

Ene, Nguyen and Vladu, "Projection-Free Bandit Optimization with Privacy Guarantees" ([bandit]), Algorithm 1, with
exact sensitivity; docs/algorithms/bandit.md.

With ``stale=True``, as in the paper, the decision of a round responds to all rounds but the last two. This allows its
calls of the linear minimiser to be spread, one per play.
"""

from __future__ import annotations

from typing import Any

from reticent import checks
from reticent.bandit import plan
from reticent.bandit.base import Bandit
from reticent.bandit.mirror import Mirror
from reticent.bandit.responses import Response, respond
from reticent.privacy import Budget, Participation
from reticent.sets import ConvexSet


class ProjectionFreeBandit(Bandit):
    """A private bandit learner that sees only the loss of the point it played, and needs only a linear minimiser.

    Parameters
    ----------
    set : ConvexSet
        The set of points; a flat set is played in its affine hull.
    budget : Budget, optional
        What may be spent in the learner's whole life. All of it is spent when the learner is built. Required unless
        ``private=False``. The ages of a budget that fades count rounds of plays.
    lipschitz : float
        A bound on how fast losses change; it sets the range of values and the steps.
    horizon : int, optional
        Upper bound on the number of points that will be asked for. Without one there are epochs of doubling length
        with constants of their own: one endless total runs through all of them (up to rounds of 2^20 plays) or, with
        a tree, each has a total of its own, on different records.
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
    batches : int, optional
        Number of rounds into which the horizon (or an epoch) is divided; by default its square root.
    step : float, optional
        A constant step; by default one that follows the noise so far.
    stale : bool
        Whether calls of the linear minimiser are spread over the round, as in the paper, so that no ``ask`` is slow.
        Otherwise all calls of a round are made at its beginning, with all totals up to then.
    centring : {"adaptive", "middle"}
        What is subtracted from a value: a baseline that follows the losses, learnt from what is released, or the
        middle of the range. The former has far less variance and slightly more privacy noise, and clips values that
        are far from the baseline although they are within the range.
    calibration : str
        ``"exact"``, or the name of a calibration that prescribes the noise and constants
        (`reticent.privacy.prescribed`); the guarantee reports what that noise really gives.
    mirror : {"euclidean", "entropy"} or Mirror
        What keeps decisions near the start. The entropy needs a simplex, and no linear minimiser.
    private : bool
        ``False``, without a budget, is the baseline without privacy (Garber and Kretzu 2020).
    patience : int
        Number of further plays after which an open ticket is closed as a null record.
    participation : Participation, optional
        How often a person's value may count (`reticent.privacy.Participation`). All values of a person are then
        protected together, and ``tell`` takes ``person``. Steps are rounds: one value of a person counts in each
        round, and ``min_gap`` counts rounds. By default single values are protected.
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
    ProjectedBandit : A baseline for sets with a projection.

    Examples
    --------
    Prices for three goods whose sum is fixed; only the loss of the prices that were shown is seen.

    >>> import numpy as np
    >>> import reticent
    >>> from reticent import bandit, sets
    >>> learner = bandit.ProjectionFreeBandit(
    ...     sets.Simplex(3),
    ...     budget=reticent.Budget(1.0, 1e-6),
    ...     lipschitz=1.0,
    ...     values=(0.0, 1.0),
    ...     horizon=20_000,
    ...     seed=0,
    ... )
    >>> best = np.array([0.1, 0.2, 0.7])
    >>> for _ in range(20_000):
    ...     point = learner.ask()
    ...     learner.tell(0.5 * np.sum((point - best) ** 2))
    >>> bool(np.linalg.norm(learner.decision - best) < 0.3)
    True
    """

    rounds_are_long = True

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
        batches: int | None = None,
        step: float | None = None,
        stale: bool = True,
        centring: str = "adaptive",
        calibration: str = "exact",
        mirror: str | Mirror = "euclidean",
        private: bool = True,
        patience: int = 65536,
        participation: Participation | None = None,
        seed: int | None = None,
        noise_precision: str = "lattice",
    ) -> None:
        self.batches = None if batches is None else checks.integer(batches, "batches", low=1)
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
            stale=stale,
            centring=centring,
            calibration=calibration,
            mirror=mirror,
            patience=patience,
            participation=participation,
            seed=seed,
            noise_precision=noise_precision,
        )

    def _layout(self, plays: int) -> tuple[int, int]:
        return plan.layout(plays, self.batches)

    def _make_response(self) -> Response:
        return respond(self.set, self._geometry, self.mirror)

    def _arguments(self) -> dict[str, Any]:
        return self._common_arguments() | {
            "batches": self.batches,
            "stale": self.stale,
            "mirror": self.mirror.name or type(self.mirror).__name__,
        }
