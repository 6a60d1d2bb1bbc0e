"""PRIVATEBANDIT: convex bandits over sets that have no cheap projection, with privacy almost for free.

Ene, Nguyen and Vladu, "Projection-Free Bandit Optimization with Privacy Guarantees" ([bandit]),
Algorithm 1, with exact sensitivity; docs/algorithms/bandit.md.

With ``stale=True``, as in the paper, the decision of a round answers to all rounds but the last
two. That is what lets its oracle calls be spread, one to a play.
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
    """A private learner that sees only the loss of the point it played, and needs only a linear minimiser.

    Parameters
    ----------
    set : ConvexSet
        Where points live; a flat set is played in its affine hull.
    budget : Budget
        What may be spent in the learner's whole life. All of it is spent when the learner is built. The ages of a
        promise that fades count rounds of plays.
    lipschitz : float
        A bound on how fast losses change; it sets the range of values and the steps.
    horizon : int, optional
        How many points will be asked for. ``None``: no limit that matters (rounds of 2^20 plays); epochs of
        doubling length with constants of their own, and one endless total through all of them, or with a
        tree a total for each, on different records.
    values : (float, float), optional
        The range of losses; values outside are clipped. By default ``(0, lipschitz * diameter)``,
        that of a loss that is 0 somewhere on the set.
    total : {"correlated", "tree", "independent", "auto"}
        How the batches' sums are released: ``"auto"`` is correlated noise where delta allows it,
        else a tree.
    noise : {"gaussian", "gamma", "laplace"}, optional
        By default Gaussian where delta allows it, else Gamma.
    smoothing : float, optional
        Radius of the sphere on which points are played around the decision.
    feasibility : {"shrink", "overflow"}
        ``"shrink"`` pulls decisions toward the center of the inner ball, so that every point lies in
        the set. ``"overflow"``: losses are defined outside, and points may lie up to ``smoothing``
        from the set.
    batches : int, optional
        How many rounds the horizon (or an epoch) is cut into; by default its square root.
    step : float, optional
        A constant step; by default one that follows the noise so far.
    stale : bool
        Whether oracle calls are spread over the round, as in the paper, so that no ``ask`` is slow;
        otherwise all of a round's are made at its beginning, with all totals up to then.
    centring : {"adaptive", "middle"}
        What a value is compared with: a baseline that follows the losses, learnt from what is
        released, or the middle of the range. The first has far less variance and a little more
        privacy noise, and clips values that are far from the baseline though within the range.
    calibration : str
        ``"exact"``, or the name of prescribed noise and constants (`reticent.privacy.prescribed`); the
        guarantee reports the truth about that, too.
    mirror : {"euclidean", "entropy"} or Mirror
        What keeps decisions near the start; the entropy needs a simplex, and no oracle.
    private : bool
        ``False``, without a budget, is the baseline that is not private (Garber and Kretzu 2020).
    patience : int
        An open ticket is closed as a null record after so many further plays.
    participation : Participation, optional
        How often a person may be answered for (`reticent.privacy.Participation`): all values of a person are then
        protected together, and ``tell`` takes ``person``. Steps are rounds: in each of them one value of a
        person counts, and ``min_gap`` counts rounds. By default single values are protected.
    seed : int, optional
        Seed of the noise, for experiments only; the guarantee says so.
    noise_precision : {"lattice", "float"}
        ``"float"`` is faster but for simulations only; the guarantee says so.

    Attributes
    ----------
    clipped : int
        How many values were clipped so far. A diagnostic: it reads private data.

    Examples
    --------
    Prices for three goods whose sum is fixed; only the loss of the prices shown is seen.

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
