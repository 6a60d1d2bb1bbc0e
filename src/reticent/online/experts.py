"""Prediction with expert advice: exponentiated gradients on the simplex over a private running total of costs.

The weights of the experts are proportional to exp(-total/temperature), where total is the noisy sum of their costs.
The regret due to the noise grows only with its largest coordinate, about sqrt(2 ln d) standard deviations. Noise also
keeps the leader from changing too often, as the temperature does: if there is enough of it, the temperature is 0 and
the noisy leader is followed.

Derivation and proof of the regret bound: docs/algorithms/experts.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent import checks
from reticent.losses import Costs, Loss
from reticent.online import kernels
from reticent.online.learner import Learner
from reticent.online.rules import FloatArray, OnlineProblem, Released, Rule
from reticent.privacy import Budget, Participation
from reticent.sets import ConvexSet, Simplex

_FAR = 2**40  # no stream is longer


class Experts(Learner):
    """A distribution over experts that follows the cheapest of them.

    Parameters
    ----------
    set : int or Simplex
        The number of experts, or the simplex of distributions over them.
    loss : Costs, optional
        The loss of a distribution; by default costs within [0, 1] for each expert, which is rarely worth changing.
    budget : Budget
        What may be spent in the learner's whole life. All of it is spent when the learner is built.
    horizon : int, optional
        Upper bound on the number of records. Without one the default noise is at most 1.25 times larger after 2^8 to
        2^30 records (for delta > 0 and no window).
    temperature : float, optional
        Weights are proportional to exp(-total/temperature); 0 follows the noisy leader. By default sqrt(t/(4 ln d))
        after t records for d experts, and 0 while the standard deviation of the noise is at least sqrt(t)/2.
    participation : Participation, optional
        How often a person may contribute; by default single records are protected.
    total : str, class, callable or RunningTotal
        The running total that carries the noise: ``"auto"`` (the default), ``"correlated"``, ``"tree"``,
        ``"window-tree"`` or ``"independent"``; a class of `reticent.sums`, or a function with the same arguments; or
        a fresh running total of norm sqrt(d)/2.
    seed : int, optional
        Seed of the noise, for experiments only; the guarantee says so.
    noise_precision : {"lattice", "float"}
        ``"float"`` is faster but for simulations only; the guarantee says so.

    See Also
    --------
    FollowTheRegularizedLeader : For any convex loss over any set with a projection.

    Examples
    --------
    >>> import numpy as np
    >>> import reticent
    >>> from reticent import online
    >>> rng = np.random.default_rng(0)
    >>> costs = rng.random((20_000, 10))
    >>> costs[:, 3] *= 0.8
    >>> learner = online.Experts(10, budget=reticent.Budget(1.0, 1e-6), horizon=20_000, seed=0)
    >>> play = learner.run(costs)
    >>> int(learner.decision.argmax()), bool(play.regret() < 0.02 * 20_000)
    (3, True)
    >>> round(learner.guarantee.epsilon(1e-6), 6)
    1.0
    """

    rule: Exponentiated

    def __init__(
        self,
        set: ConvexSet | int,
        loss: Loss | None = None,
        *,
        budget: Budget,
        horizon: int | None = None,
        temperature: float | None = None,
        participation: Participation | None = None,
        total: Any = "auto",
        seed: int | None = None,
        noise_precision: str = "lattice",
    ) -> None:
        if not isinstance(set, ConvexSet):
            set = Simplex(checks.integer(set, "set", low=2))
        if not isinstance(set, Simplex) or set.mass != 1.0 or set.dim < 2:
            raise ValueError(
                f"set must be a number of experts or a Simplex of mass 1 with two corners or more, got {set!r}; "
                "for other sets use FollowTheRegularizedLeader"
            )
        loss = Costs(feature_norm=math.sqrt(set.dim)) if loss is None else loss
        if not isinstance(loss, Costs) or loss.ridge != 0.0:
            raise TypeError(
                f"loss must be a losses.Costs without a ridge, got {loss!r}: the costs of experts are between 0 and "
                "1; for other losses use FollowTheRegularizedLeader"
            )
        self.temperature = (
            None if temperature is None else checks.number(temperature, "temperature", low=0.0)
        )
        super().__init__(
            set,
            Exponentiated(self.temperature),
            loss,
            budget=budget,
            horizon=horizon,
            lipschitz=math.sqrt(set.dim) / 2.0,
            participation=participation,
            total=total,
            seed=seed,
            noise_precision=noise_precision,
        )

    def update(self, gradient: ArrayLike | None, person: Any = None) -> FloatArray:
        """Learn from the costs of all experts, and return the next distribution.

        Parameters
        ----------
        gradient : array of length dim, or None
            Costs within [0, 1]; values outside are clipped. ``None`` is the null record, a gap in the stream.
        person : int, str or bytes, optional
            Id of the person whose record it is, if persons are protected.

        Returns
        -------
        array
            The weights of the experts, which sum to one.
        """
        return self.observe(None if gradient is None else np.asarray(gradient), person)

    def _see(self, a: FloatArray, label: float | None) -> FloatArray:
        centred = a.copy()
        kernels.centre(centred)
        return centred

    def _arguments(self) -> dict[str, Any]:
        known = super()._arguments() | {"temperature": self.temperature}
        del known["lipschitz"]
        return known

    @classmethod
    def _parts(cls, state: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        return given


class Exponentiated(Rule):
    """Weights proportional to exp(-total/temperature) from the step ``begins`` on, and the leader before it.

    Parameters
    ----------
    temperature : float or None
        A constant temperature; None for the default one.
    """

    kernel = kernels.EXPONENTIATED

    def __init__(self, temperature: float | None) -> None:
        self._given = temperature
        self.constant = 0.0 if temperature is None else temperature
        self.growth = 0.0
        self.begins = 0.0

    def prepare(self, problem: OnlineProblem) -> None:
        super().prepare(problem)
        if self._given is None:
            self.growth, self.begins = balanced(problem)

    def temperature(self, t: int) -> float:
        """The temperature after t records."""
        if t < self.begins:
            return 0.0
        return self.constant + (self.growth * float(t) ** 0.5 if self.growth != 0.0 else 0.0)

    def knobs(self) -> dict[int, float]:
        return {
            kernels.ANCHOR: self.constant,
            kernels.ANCHOR_GROWTH: self.growth,
            kernels.ANCHOR_POWER: 0.5,
            kernels.RADIUS: self.begins,
        }

    def step(self, moment: Released) -> FloatArray:
        weights = np.empty(moment.total.size)
        kernels.exponentiate(moment.total, self.temperature(moment.t), weights)
        return weights


def balanced(problem: OnlineProblem) -> tuple[float, float]:
    """The temperature's growth with sqrt(t), and the step from which it is used, that minimise the regret bound.

    With noise of standard deviation s and at temperature c, one record costs at most the smaller of 1/(8 c) and
    sqrt(2 ln d)/(4 s) for moving the weights, and c itself costs c ln d. With c = g sqrt(t) the total is g sqrt(T) ln
    d + sqrt(T)/(4 g), smallest at g = 1/(2 sqrt(ln d)). While s exceeds sqrt(t)/2, the noise alone limits the
    movement of the weights more than that, and c = 0 costs nothing.
    """
    last = problem.horizon or _FAR
    begins = 1
    while begins < last and problem.error(begins) >= 0.5 * math.sqrt(begins):
        begins = min(2 * begins, last)
    if problem.error(begins) >= 0.5 * math.sqrt(begins):
        return 0.0, 0.0
    return 0.5 / math.sqrt(math.log(problem.dim)), float(begins)
