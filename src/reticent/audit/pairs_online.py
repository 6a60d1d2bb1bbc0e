"""Worst cases of the online learners.

Linear losses attain every sensitivity: the gradient of a record is the record itself, wherever the decision is. For
leaders over a running total the coordinates of a box are independent, so many runs are made side by side, as
:mod:`reticent.audit.pairs_sums` explains; the other learners are restarted or constructed again for each run.

The outputs of a learner are all of its decisions together, not only the last one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent import losses, online, sets
from reticent.audit.pairs_sums import again, side_by_side
from reticent.audit.registry import Pair, register
from reticent.audit.statistics import Classifier, Fisher
from reticent.checks import FloatArray
from reticent.privacy import Budget

World = tuple[FloatArray, FloatArray | None, NDArray[np.bool_]]

_FAR = 1e9  # a set so large that no decision reaches its border
_LARGE = 1e3  # a smaller one, for learners whose sensitivity includes rounding errors that grow with the set
_OVERLONG = 3.0
_RUNS = 20_000
BOTH = ({"neighbours": "zero-out"}, {"neighbours": "replace"})


def restart(learner: Any) -> None:
    """Restart a leader with fresh noise, which is far quicker than building a new one."""
    again(learner.total)
    learner._begin()


def learner_pair(
    name: str,
    build: Callable[[], online.OnlineLearner],
    world_a: World,
    world_b: World,
    *,
    delta: float,
    why: str,
) -> Pair:
    """The worst case of a learner that is run on records: features, labels, and which records are present."""
    kept = build()
    leads = hasattr(kept, "total")

    def run(world: World, size: int) -> FloatArray:
        X, y, present = world
        outputs = np.empty((size, len(X) * kept.dim))
        for k in range(size):
            learner = kept if leads else build()
            if leads:
                restart(learner)
            played = learner.run(X, y, present=present, keep=len(X), keep_records=False).decisions
            # the first decision comes before any record, the last after all of them
            after = [*np.asarray(played)[1:], learner.decision]
            outputs[k] = np.concatenate([np.ravel(point) for point in after])
        return outputs

    return Pair(
        name,
        run,
        world_a,
        world_b,
        claim=kept.guarantee,
        delta=delta,
        statistic=[Fisher(), Classifier()],
        batch=500,
        why=why,
        subject=kept,
        selection=0.4,
    )


def leader_pair(
    name: str,
    make: Callable[..., online.Learner],
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    neighbours: str = "zero-out",
    window: int | None = None,
    horizon: int = 8,
    record: int = 0,
) -> Pair:
    """The worst case of a leader over a running total, with many runs side by side.

    ``make(dim, budget=, horizon=, lipschitz=, total=)`` builds the learner.
    """
    budget = Budget(epsilon, delta, neighbours, window)
    ordinary = make(1, budget=budget, horizon=horizon, lipschitz=1.0, total="auto")
    end = horizon if window is None else min(horizon, record + window)
    gradients = 0.25 * np.cos(np.arange(end))

    def run(world: float | None, size: int) -> FloatArray:
        length = math.sqrt(size)
        wide = side_by_side(ordinary.total.mechanism, size)
        learner = make(size, budget=budget, horizon=horizon, lipschitz=length, total=wide)
        decisions = np.empty((end, size))
        for t in range(end):
            seen = gradients[t] if t != record else world
            decisions[t] = learner.update(None if seen is None else np.full(size, seen))
        return decisions.T

    return Pair(
        name,
        run,
        None if neighbours == "zero-out" else -_OVERLONG,
        _OVERLONG,
        claim=ordinary.guarantee,
        delta=delta,
        statistic=Fisher(),
        batch=_RUNS,
        why=f"the gradient of step {record + 1} is zero, or as long as allowed; {end} decisions are seen",
        subject=ordinary,
        selection=0.3,
    )


def _ftrl(dim: int, **given: Any) -> online.Learner:
    return online.FollowTheRegularizedLeader(sets.LinfBall(dim, _FAR), regularizer=1.0, **given)


def _approximate(dim: int, **given: Any) -> online.Learner:
    return online.FollowTheApproximateLeader(
        sets.LinfBall(dim, _FAR), strong_convexity=1.0, step="projection", **given
    )


@register("online-regularized-leader", variants=(*BOTH, {"window": 4}))
def regularized_leader(**changes: Any) -> Pair:
    return leader_pair("online-regularized-leader", _ftrl, **changes)


@register("online-approximate-leader", variants=(*BOTH, {"window": 4, "record": 2}))
def approximate_leader(**changes: Any) -> Pair:
    return leader_pair("online-approximate-leader", _approximate, **changes)


def _linear_worlds(
    dim: int, horizon: int, neighbours: str, norm: float = 1.0
) -> tuple[World, World]:
    """Two streams: their first record is one of full length, and the null record or its opposite."""
    X = np.zeros((horizon, dim))
    X[:, -1] = 0.25 * norm * np.cos(np.arange(horizon))
    there = np.ones(horizon, dtype=bool)
    first, second, missing = X.copy(), X.copy(), there.copy()
    second[0] = 0.0
    second[0, 0] = _OVERLONG * norm
    first[0] = -second[0]
    missing[0] = neighbours == "replace"
    return (first, None, missing), (second, None, there)


def _records(
    name: str,
    make: Callable[..., online.OnlineLearner],
    *,
    dim: int = 1,
    epsilon: float = 8.0,
    delta: float = 1e-6,
    neighbours: str = "zero-out",
    window: int | None = None,
    horizon: int = 6,
) -> Pair:
    budget = Budget(epsilon, delta, neighbours, window)
    worlds = _linear_worlds(dim, horizon if window is None else min(horizon, window), neighbours)
    return learner_pair(
        name,
        lambda: make(dim, budget=budget, horizon=horizon),
        *worlds,
        delta=delta,
        why="the first record is as long as allowed, or blanked, or reversed",
    )


def _of_records(
    name: str, make: Callable[..., online.OnlineLearner], *more: dict[str, Any], **options: Any
) -> None:
    @register(name, variants=(*BOTH, *more), **options)
    def build(**changes: Any) -> Pair:
        return _records(name, make, **changes)


_of_records(
    "online-regularized-leader-records",
    lambda dim, **given: online.FollowTheRegularizedLeader(
        sets.L2Ball(dim, _FAR), losses.Linear(), regularizer=1.0, **given
    ),
)
_of_records(
    "online-regularized-leader-pure",
    lambda dim, **given: online.FollowTheRegularizedLeader(
        sets.L2Ball(dim, _FAR), losses.Linear(), regularizer=1.0, **given
    ),
    {"window": 2, "horizon": 4},
    dim=2,
    epsilon=4.0,
    delta=0.0,
    horizon=2,
)
_of_records(
    "online-local-linear-leader",
    lambda dim, **given: online.FollowTheApproximateLeader(
        sets.Simplex(dim), losses.Linear(ridge=1.0), step="local-linear", **given
    ),
    dim=3,
    epsilon=16.0,
)
_of_records(
    "online-perturbed-implicit",
    lambda dim, **given: online.PerturbedIterates(
        sets.L2Ball(dim, _LARGE), losses.Linear(ridge=1.0), inner=online.ImplicitGradient(), **given
    ),
    {"window": 4},
    epsilon=16.0,
)
_of_records(
    "online-perturbed-gradient",
    lambda dim, **given: online.PerturbedIterates(
        sets.L2Ball(dim, _LARGE), losses.Linear(ridge=1.0), inner=online.GradientDescent(), **given
    ),
    epsilon=16.0,
)


@register("online-quadratic-leader", variants=BOTH)
def quadratic_leader(
    *,
    epsilon: float = 8.0,
    delta: float = 1e-6,
    neighbours: str = "zero-out",
    window: int | None = None,
    horizon: int = 4,
) -> Pair:
    """The quadratic leader: two records at the angle at which replacing one by the other moves both totals most."""
    budget = Budget(epsilon, delta, neighbours, window)

    def build() -> online.OnlineLearner:
        return online.QuadraticLeader(
            sets.L2Ball(2, 10.0), losses.Squared(ridge=1.0), budget=budget, horizon=horizon
        )

    weight = build().weight  # type: ignore[attr-defined]
    cosine = min(1.0, 0.5 * weight**2)
    X, y = np.zeros((horizon, 2)), np.zeros(horizon)
    X[1:, 1], y[1:] = 0.5, 0.25
    there = np.ones(horizon, dtype=bool)
    first, second, other, missing = X.copy(), X.copy(), y.copy(), there.copy()
    first[0], y[0] = (_OVERLONG, 0.0), 1.0
    second[0] = _OVERLONG * np.array([cosine, math.sqrt(1.0 - cosine**2)])
    other[0] = -1.0
    missing[0] = neighbours == "replace"
    return learner_pair(
        "online-quadratic-leader",
        build,
        (second, other, missing),
        (first, y, there),
        delta=delta,
        why="two records at the angle at which replacing one by the other moves both totals most",
    )
