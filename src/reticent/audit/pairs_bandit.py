"""Worst cases of the bandits.

On a simplex with two corners the response to a total is a logit, so anyone who sees decisions sees the noisy totals
themselves; the projection onto a wide interval shows them unchanged. The record is the value of the first play, far
beyond the range of values, so that it is clipped and changes its batch by as much as any record can
(docs/algorithms/bandit.md). The attacker knows the direction of its probe, since that was played.

A record may also arrive late. It then enters a later batch, and still only one; under replacement the two worlds may
even differ in when it arrives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from reticent import bandit, sets
from reticent.audit.pairs_sums import BOTH, again
from reticent.audit.registry import Pair, register
from reticent.audit.statistics import Fisher, GaussianRatio, Statistic
from reticent.checks import FloatArray
from reticent.privacy import Budget
from reticent.sums import matrices

World = tuple[float | None, int]
"""The value of the first play (None: the null record), and after how many plays it is told."""

_FAR = 5.0  # values are in [-1, 1]
# All other values are in the middle of the range. An attacker who knows them, and the directions, could
# subtract what they add to a batch; so they add nothing.
_ORDINARY = 0.0
_SMALL = 1e-3  # a step so small that no decision comes near the border of the set
_EPOCHS = (256, 768)  # the first plays of the second epoch and of the third


def _logit(point: FloatArray) -> float:
    return math.log(point[0] / point[1])


def _first(point: FloatArray) -> float:
    return float(point[0])


def restart(learner: bandit.Bandit) -> None:
    """Restart a learner with fresh noise, which is far quicker than building a new one."""
    learner._begin()  # comes first: after several epochs it makes the total of the first epoch again
    again(learner.total)


def played(
    learner: bandit.Bandit,
    world: World,
    looks: tuple[int, ...],
    see: Callable[[FloatArray], float],
) -> list[float]:
    """One run: the totals that can be read from the decisions at some plays."""
    value, when = world
    first = learner.ask()
    side, done = math.copysign(1.0, see(first)), 1
    seen = []
    for t in sorted({*looks, when}):
        if t > done:
            learner.run(np.full((t - done, first.size), _ORDINARY), keep=1)
        if t > 0:
            learner.ask()
            done = t + 1
            learner.tell(_ORDINARY)
        if t in looks:
            seen.append(side * see(learner.decision))
        if t == when and value is not None:
            learner.tell(value, first)
    return seen


def bandit_pair(
    name: str,
    make: Callable[..., bandit.Bandit],
    see: Callable[[FloatArray], float],
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    neighbours: str = "zero-out",
    horizon: int | None = 4,
    late: int = 0,
    **options: Any,
) -> Pair:
    """The worst case of a bandit: each play is a round of its own, or without a horizon each epoch is.

    Parameters
    ----------
    late
        After how many further plays the record is told in the second world; under replacement it
        is told at once in the first.
    """
    learner = make(
        budget=Budget(epsilon, delta, neighbours),
        horizon=horizon,
        lipschitz=1.0,
        values=(-1.0, 1.0),
        step=_SMALL,
        **options,
    )
    # earlier decisions depend on no record
    looks = _EPOCHS if horizon is None else tuple(range(2 if learner.stale else 1, horizon))

    def run(world: World, size: int) -> FloatArray:
        outputs = np.empty((size, len(looks)))
        for k in range(size):
            restart(learner)
            outputs[k] = played(learner, world, looks, see)
        return outputs

    return Pair(
        name,
        run,
        (None if neighbours == "zero-out" else -_FAR, 0),
        (_FAR, late),
        claim=learner.guarantee,
        delta=delta,
        statistic=_statistics(learner, len(looks)),
        batch=1000,
        why="the value of the first play is as far from the middle of its range as can count, or missing",
        subject=learner,
        selection=0.15 if learner.guarantee.gdp and horizon is not None else 0.35,
    )


def _statistics(learner: bandit.Bandit, looks: int) -> list[Statistic]:
    """The likelihood ratio where it is known, and a learnt score; totals appear with a minus sign."""
    if learner.horizon is None or not learner.guarantee.gdp:
        return [Fisher()]
    covariance = matrices.mix(learner.total.mechanism, looks).covariance()
    return [GaussianRatio(-np.ones(looks), covariance), Fisher()]


def _projection_free(*, horizon: int | None, **given: Any) -> bandit.Bandit:
    chosen = {"centring": "middle", "batches": horizon, "smoothing": 0.3} | given
    return bandit.ProjectionFreeBandit(sets.Simplex(2), horizon=horizon, mirror="entropy", **chosen)


def _projected(**given: Any) -> bandit.Bandit:
    return bandit.ProjectedBandit(sets.Box([-1.0], [1.0]), smoothing=0.3, **given)


def _register(
    name: str,
    make: Callable[..., bandit.Bandit],
    see: Callable[[FloatArray], float],
    *more: dict[str, Any],
    **options: Any,
) -> None:
    @register(name, variants=(*BOTH, *more), **options)
    def build(**changes: Any) -> Pair:
        return bandit_pair(name, make, see, **changes)


_register(
    "bandit-projection-free",
    _projection_free,
    _logit,
    {"centring": "adaptive"},
    {"stale": False},
    {"total": "tree"},
    {"late": 1},
    {"neighbours": "replace", "late": 1},
    epsilon=8.0,
)
# in one dimension Gamma noise is Laplace noise, drawn by another method
for _noise in ("laplace", "gamma"):
    _register(
        f"bandit-{_noise}",
        _projection_free,
        _logit,
        noise=_noise,
        delta=0.0,
        horizon=3,
    )
# Every epoch is one round, and the record comes within the first or, late, within the second one.
_register(
    "bandit-doubling",
    _projection_free,
    _logit,
    {"late": 300},
    {"neighbours": "replace", "late": 300},
    epsilon=4.0,
    delta=0.0,
    horizon=None,
    batches=1,
    stale=False,
)
_register("bandit-projected", _projected, _first, epsilon=8.0)
