"""Rules, which turn a noisy total of gradients into the next decision.

This is the last part of the method of [bandit], section 3. A rule sees only released numbers, so whatever it does is
post-processing and costs no privacy. The leaders here minimise, over the set,

    <total, x> + (ridge/2) t ||x||^2 + (m - ridge)/2 sum_tau ||x - x_tau||^2 + (anchor_t/2) ||x - center||^2

where m is the strong convexity that is used. Minimised exactly, by a projection, this is follow the regularised
leader (m = ridge; [chapter], Algorithm 4) or the approximate leader ([window], (9)); with one step of a local linear
minimiser it is [window], Algorithm 2. See docs/algorithms/ftrl.md and docs/algorithms/approximate-leader.md.

The total contains the part of the gradients that depends on the records. The ridge is public, so it needs no noise
and is added here, exactly.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.checks import FloatArray
from reticent.online import kernels
from reticent.sets import ConvexSet


@dataclass(frozen=True)
class OnlineProblem:
    """What a rule may derive its constants from; nothing in it was computed from data.

    Parameters
    ----------
    set : ConvexSet
        The set of decisions.
    lipschitz : float
        The norm to which gradients are clipped.
    ridge : float
        The ridge of the loss.
    smoothness : float
        Smoothness of the part of the loss that depends on the record; may be infinite.
    horizon : int or None
        Upper bound on the number of records.
    error : callable
        ``error(t)`` is the standard deviation of one coordinate of the noise in the t-th total.
    steepness : float
        The loss's own bound on its gradients, whatever they are clipped to.
    """

    set: ConvexSet
    lipschitz: float
    ridge: float
    smoothness: float
    horizon: int | None
    error: Callable[[int], float]
    steepness: float = math.inf

    @property
    def dim(self) -> int:
        """Length of a decision."""
        return self.set.dim

    @property
    def center(self) -> FloatArray:
        """Centre of the set, as a flat vector."""
        return np.asarray(self.set.center, dtype=np.float64).reshape(-1)

    @property
    def reach(self) -> float:
        """A bound on the distance of decisions from the centre."""
        bound = self.set.norm_bound + float(np.linalg.norm(self.center))
        return min(float(self.set.diameter), bound)

    @property
    def bend(self) -> float:
        """Curvature along a record; a kink counts as if it were spread over the whole set."""
        return self.smoothness if self.smoothness < math.inf else self.lipschitz / self.reach

    @property
    def noise(self) -> float:
        """Standard deviation of one coordinate of the noise at the horizon, or after 4,096 records without one.

        From 2^9 to 2^16 records this is within a quarter of the noise of an endless total. A tree has its worst
        totals just before a power of two.
        """
        last = 2**12 if self.horizon is None else self.horizon
        return max(self.error(last), self.error(max(1, 2 ** (last.bit_length() - 1) - 1)))


@dataclass(frozen=True)
class Released:
    """What has been released when a rule is called.

    Parameters
    ----------
    t : int
        Number of records.
    total : array
        The noisy total after them.
    previous : array
        The noisy total before the last record.
    decision : array
        The current decision.
    played : array
        The sum of all decisions so far, the current one included.
    """

    t: int
    total: FloatArray
    previous: FloatArray
    decision: FloatArray
    played: FloatArray


_COMPILED = ("step", "anchor_weight", "_gradient")
"""Methods of the rules here that the compiled loop does not call, but repeats."""


class Rule(ABC):
    """Base class of rules. For a learner of your own, subclass it and define ``step``.

    See Also
    --------
    Learner : Runs a rule.

    Examples
    --------
    Exponentiated gradients on the simplex, over a private total:

    >>> import numpy as np
    >>> import reticent
    >>> from reticent import losses, online, sets
    >>> class Exponentiated(online.Rule):
    ...     def step(self, moment):
    ...         weights = np.exp(-0.1 * (moment.total - moment.total.min()))
    ...         return weights / weights.sum()
    >>> learner = online.Learner(
    ...     sets.Simplex(3),
    ...     Exponentiated(),
    ...     budget=reticent.Budget(1.0, 1e-6),
    ...     lipschitz=1.0,
    ...     horizon=100,
    ...     seed=0,
    ... )
    >>> learner.update([0.0, 0.0, 1.0]).sum().round(12)
    np.float64(1.0)
    """

    kernel: int | None = None
    """The number by which the compiled loop identifies the rule; None runs ``step`` in a Python loop."""

    problem: OnlineProblem

    def is_compiled(self) -> bool:
        """Whether the compiled loop does what ``step`` does.

        It does not if a subclass of a compiled rule overrides a method that takes part in the step, but not
        ``kernel``.
        """
        if self.kernel is None or "kernel" in vars(self):
            return self.kernel is not None
        order = type(self).__mro__
        named = next(i for i, base in enumerate(order) if "kernel" in vars(base))
        return not any(name in vars(base) for base in order[:named] for name in _COMPILED)

    def prepare(self, problem: OnlineProblem) -> None:
        """Called once, before the first decision.

        Parameters
        ----------
        problem : OnlineProblem
            The public facts about the problem.
        """
        self.problem = problem

    def start(self) -> FloatArray:
        """The first decision, which must not depend on data."""
        return self.problem.center.copy()

    @abstractmethod
    def step(self, moment: Released) -> FloatArray:
        """The next decision, a flat vector.

        If it raises, the record of the step has been counted nevertheless, and the learner accepts no other record
        until :meth:`Learner.retry` has called this again with the same moment.

        Parameters
        ----------
        moment : Released
            What has been released so far.

        Returns
        -------
        array
            The decision.
        """

    def gain(self, t: int) -> float | FloatArray | None:
        """How far a unit of the t-th total moves the next decision, before the projection onto the set.

        Parameters
        ----------
        t : int
            Number of the total, counted from 1.

        Returns
        -------
        float, array or None
            An array if earlier totals move the decision too, the newest first. None (the default) if the decision is
            not a linear function of totals.
        """
        return None

    def knobs(self) -> dict[int, float]:
        """Constants for the compiled loop."""
        return {}

    def state(self) -> dict[str, Any]:
        """What the rule remembers beyond the moment: numbers and arrays."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:  # noqa: B027 - most keep nothing
        """Restore what the rule remembered.

        Parameters
        ----------
        state : dict
            What :meth:`state` returned.
        """


class Leader(Rule):
    """The common part of the leaders: the problem that they minimise.

    Parameters
    ----------
    curvature : float
        The strong convexity m.
    anchor : float
        Constant part of the anchor's weight.
    growth : float
        Factor of the part of the anchor's weight that grows.
    power : float
        Power of the number of records with which that part grows.
    """

    def __init__(
        self, curvature: float, anchor: float, growth: float = 0.0, power: float = 0.5
    ) -> None:
        self.curvature = curvature
        self.anchor = anchor
        self.growth = growth
        self.power = power

    fresh = 1.0
    """Weight of the newest total in the average from which a decision is made; 1 if there is no average."""

    def anchor_weight(self, t: int) -> float:
        grown = math.sqrt(t) if self.power == 0.5 else float(t) ** self.power
        return self.anchor + (self.growth * grown if self.growth != 0.0 else 0.0)

    def knobs(self) -> dict[int, float]:
        return {
            kernels.CURVATURE: self.curvature,
            kernels.ANCHOR: self.anchor,
            kernels.ANCHOR_GROWTH: self.growth,
            kernels.ANCHOR_POWER: self.power,
            kernels.FRESH: self.fresh,
        }


class ProjectedLeader(Leader):
    """The exact minimiser, by one projection."""

    kernel = kernels.PROJECTION

    def prepare(self, problem: OnlineProblem) -> None:
        super().prepare(problem)
        self.mean = np.zeros(problem.dim)

    def gain(self, t: int) -> float | FloatArray | None:
        one = 1.0 / (self.curvature * t + self.anchor_weight(t))
        if self.fresh == 1.0:
            return one
        # Older totals have 1e-9 of the weight in all, which is assigned to the oldest of these.
        kept = min(t, math.ceil(math.log(1e-9) / math.log1p(-self.fresh)))
        weights = self.fresh * (1.0 - self.fresh) ** np.arange(kept)
        if kept < t:
            weights[-1] += (1.0 - self.fresh) ** kept
        return np.asarray(one * weights, dtype=np.float64)

    def step(self, moment: Released) -> FloatArray:
        weight = self.anchor_weight(moment.t)
        pull = weight * self.problem.center + (self.curvature - self.problem.ridge) * moment.played
        share = 1.0 / (self.curvature * moment.t + weight)
        mean = moment.total
        if self.fresh != 1.0:
            mean = self.mean + self.fresh * (moment.total - self.mean)
        point = (pull - mean) * share
        if self.problem.set.kernel is None:
            point = self.problem.set.project(point)
        else:
            kind, params = self.problem.set.kernel
            kernels.project(kind)(np.array(params), point, np.empty(2 * point.size))
        self.mean = mean  # set last, because a projection that fails is called again
        return point

    def state(self) -> dict[str, Any]:
        return {} if self.fresh == 1.0 else {"mean": self.mean}

    def restore(self, state: dict[str, Any]) -> None:
        self.mean = np.array(state.get("mean", self.mean))


class LocalLinearLeader(Leader):
    """One step towards the minimiser by the local linear minimiser, with a radius that it certifies itself.

    ``certified`` bounds how far the last decision's value was from the minimum. Adding one loss moves the minimum by
    a known amount, so the new distance is bounded (h), the minimiser is within ``radius``, and a step of optimal
    length reduces the value again; the proof is in docs/algorithms/approximate-leader.md.
    """

    kernel = kernels.LOCAL_LINEAR

    def prepare(self, problem: OnlineProblem) -> None:
        super().prepare(problem)
        rho = problem.set.rho
        assert rho is not None
        self.rho = rho
        self.certified = 0.0

    def knobs(self) -> dict[int, float]:
        return super().knobs() | {kernels.RHO: self.rho, kernels.CERTIFIED: self.certified}

    def state(self) -> dict[str, Any]:
        return {"certified": self.certified}

    def restore(self, state: dict[str, Any]) -> None:
        self.certified = float(state["certified"])

    def _gradient(self, moment: Released) -> FloatArray:
        m, ridge = self.curvature, self.problem.ridge
        weight = self.anchor_weight(moment.t)
        return (
            moment.total
            + (m * moment.t + weight) * moment.decision
            - (m - ridge) * moment.played
            - weight * self.problem.center
        )

    def step(self, moment: Released) -> FloatArray:
        x, center = moment.decision, self.problem.center
        weight = self.anchor_weight(moment.t)
        strength = self.curvature * moment.t + weight
        grown = weight - self.anchor_weight(moment.t - 1)
        change = moment.total - moment.previous + self.problem.ridge * x
        moved = math.sqrt(kernels.dot(change, change))
        if grown != 0.0:
            away = x - center
            moved += grown * math.sqrt(kernels.dot(away, away))
        a = moved / math.sqrt(2.0 * strength)
        h = (a + math.sqrt(self.certified + a * a)) ** 2
        radius = math.sqrt(2.0 * h / strength)
        gradient = self._gradient(moment)
        toward = self.problem.set.local_linear_minimizer(x, radius, gradient) - x
        slope, square = kernels.dot(gradient, toward), kernels.dot(toward, toward)
        share, gain = kernels.line_search(slope, square, strength)
        self.certified = max(0.0, min((1.0 - 0.25 / self.rho**2) * h, h - gain))
        return x + share * toward


class FixedLocalLinearLeader(LocalLinearLeader):
    """One step towards the minimiser by the local linear minimiser, with constants fixed before the first record.

    Parameters
    ----------
    curvature : float
        The strong convexity, mu.
    constants : callable
        Returns anchor, share and radius, given ``rho``, ``curvature``, ``lipschitz`` and ``diameter``: the step goes
        ``share`` of the way to the minimiser within ``radius / (mu t + anchor)``.
    """

    kernel = kernels.LOCAL_LINEAR_FIXED

    def __init__(
        self, curvature: float, constants: Callable[..., tuple[float, float, float]]
    ) -> None:
        super().__init__(curvature, 0.0)
        self.constants = constants

    def prepare(self, problem: OnlineProblem) -> None:
        super().prepare(problem)
        self.anchor, self.share, self.radius = self.constants(
            rho=self.rho,
            curvature=self.curvature,
            lipschitz=problem.lipschitz + problem.ridge * problem.set.norm_bound,
            diameter=problem.set.diameter,
        )

    def knobs(self) -> dict[int, float]:
        return super().knobs() | {kernels.RADIUS: self.radius, kernels.SHARE: self.share}

    def step(self, moment: Released) -> FloatArray:
        x = moment.decision
        strength = self.curvature * moment.t + self.anchor
        radius = self.radius / strength
        point = self.problem.set.local_linear_minimizer(x, radius, self._gradient(moment))
        return x + self.share * (point - x)
