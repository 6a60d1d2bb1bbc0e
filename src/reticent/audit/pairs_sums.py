"""Worst cases of the private running totals.

A record that enters at step tau changes every later total by its contribution, clipped to the norm. It is hardest to
hide where the exact mu from linear algebra is largest; for pure noise that is the first record, which affects every
level of the tree (docs/algorithms/tree.md).

Many runs at once: the coordinates of Gaussian and Laplace noise are independent, so one total of dimension n is n
totals of dimension one, if it is told that a record changes each coordinate by the norm, instead of all of them
together. Spherical Gamma noise has no such coordinates and is run once per output.

The claim is that of an ordinary total of dimension one (two for Gamma noise), constructed as a user would, not that of
the wide total that makes the runs fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from reticent import sums
from reticent.audit.registry import Pair, register
from reticent.audit.statistics import Classifier, Fisher, GaussianRatio, SphericalRatio, Statistic
from reticent.checks import FloatArray
from reticent.privacy import Budget
from reticent.state.lease import Lease
from reticent.sums import matrices

_OVERLONG = 3.0
_GAMMA_DIM = 2
_NUMBERS = 2_000_000  # largest number of output values in memory at a time


def side_by_side(mechanism: sums.Mechanism, count: int) -> sums.Mechanism:
    """``count`` independent totals of dimension one in one description; not for Gamma noise."""
    moved = mechanism.record_sensitivity
    # Laplace noise is scaled to the 1-norm, which is taken to be sqrt(dim) times the Euclidean one
    moved = moved / math.sqrt(count) if mechanism.noise == "laplace" else moved
    return mechanism.with_(dim=count, norm=mechanism.norm * math.sqrt(count), sensitivity=moved)


def again(total: sums.RunningTotal) -> None:
    """Restart a total with fresh noise, which is far quicker than building a new one."""
    total._lease = Lease()
    total._begin()


def total_pair(
    name: str,
    kind: type[sums.Mechanism],
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    neighbours: str = "zero-out",
    window: int | None = None,
    horizon: int | None = 16,
    steps: int | None = None,
    record: int | None = None,
    norm: float = 1.0,
    **options: Any,
) -> Pair:
    """The worst case of a running total.

    Parameters
    ----------
    horizon
        Horizon of the total.
    steps
        Number of totals that the attacker sees, for a total without a horizon.
    record
        Step at which the record enters, counted from 0; by default the one at which it is hardest to hide.
    """
    noise = options.get("noise", "gaussian")
    pure = noise != "gaussian"
    budget = Budget(epsilon, 0.0 if pure else delta, neighbours, window)
    dim = _GAMMA_DIM if noise == "gamma" else 1
    ordinary = sums.RunningTotal(kind(dim, horizon, budget=budget, norm=norm, **options))
    seen = steps or horizon or 3 * (window or 8)
    found = matrices.mix(ordinary.mechanism, seen)
    tau = _hardest(found, pure, window) if record is None else record
    end = seen if window is None else min(seen, tau + window)
    found = matrices.Mix(found.matrix[:end], found.scales)
    # the other contributions do not matter; they only make the total less trivial
    background = 0.25 * norm * np.cos(np.arange(end))
    background[tau] = 0.0
    world_a = 0.0 if neighbours == "zero-out" else -_OVERLONG * norm
    world_b = _OVERLONG * norm
    reach = norm if neighbours == "zero-out" else 2.0 * norm
    center = np.cumsum(background) + (0.0 if neighbours == "zero-out" else -norm) * matrices.moved(
        end, tau
    )
    shift = reach * matrices.moved(end, tau)
    if noise == "gamma":
        run = _one_by_one(ordinary, background, tau)
        batch = 500
    else:
        run = _many(ordinary.mechanism, background, tau)
        batch = max(64, _NUMBERS // end)
    return Pair(
        name,
        run,
        world_a,
        world_b,
        claim=ordinary.guarantee,
        delta=0.0 if pure else delta,
        statistic=_statistics(found, center, shift, pure, dim),
        batch=batch,
        why=f"the record of step {tau + 1} moves the totals from there on; {end} of them are seen",
        subject=ordinary,
        selection=0.5 if noise == "gamma" else 0.2,
    )


def _hardest(found: matrices.Mix, pure: bool, window: int | None) -> int:
    # for pure noise the first record touches every level
    return 0 if pure else matrices.worst_gaussian(found, window)[1]


def _statistics(
    found: matrices.Mix, center: FloatArray, shift: FloatArray, pure: bool, dim: int
) -> list[Statistic]:
    """The likelihood ratio if it is known, and a learnt score in case the noise is not as designed."""
    used = np.flatnonzero(np.any(found.matrix != 0.0, axis=0))
    if not pure:
        return [GaussianRatio(shift, found.covariance()), Fisher()]
    if len(used) == len(found.matrix):
        # the record points along the first coordinate
        first = np.eye(1, dim)
        ratio = SphericalRatio(
            found.matrix[:, used],
            center[:, None] * first,
            shift[:, None] * first,
            found.scales[used],
        )
        return [ratio, Fisher()]
    # more draws than totals: the ratio has no closed form
    return [Fisher(), Classifier()]


def _many(
    mechanism: sums.Mechanism, background: FloatArray, tau: int
) -> Callable[[float, int], FloatArray]:
    def run(world: float, size: int) -> FloatArray:
        total = sums.RunningTotal(side_by_side(mechanism, size))
        rows = np.repeat(background[:, None], size, axis=1)
        rows[tau] = world
        return total.run(rows)[: len(background)].T

    return run


def _one_by_one(
    total: sums.RunningTotal, background: FloatArray, tau: int
) -> Callable[[float, int], FloatArray]:
    rows = np.zeros((len(background), total.dim))
    rows[:, 0] = background

    def run(world: float, size: int) -> FloatArray:
        mine = rows.copy()
        mine[tau, 0] = world
        outputs = np.empty((size, mine.size))
        for k in range(size):
            again(total)
            outputs[k] = total.run(mine).reshape(-1)
        return outputs

    return run


BOTH = ({"neighbours": "zero-out"}, {"neighbours": "replace"})


def _register(name: str, kind: type[sums.Mechanism], *more: dict[str, Any], **options: Any) -> None:
    @register(name, variants=(*BOTH, *more), **options)
    def build(**changes: Any) -> Pair:
        return total_pair(name, kind, **changes)


for _noise in ("gaussian", "laplace", "gamma"):
    # Gamma noise is run once per output, and if there are more draws than totals the best score is not known. At a
    # larger epsilon, and over fewer totals, fewer runs suffice.
    _pure = _noise != "gaussian"
    _level = {"noise": _noise, "epsilon": 4.0 if _noise == "gamma" else 1.0}
    _register(
        f"independent-{_noise}", sums.IndependentMechanism, {"window": 2}, **_level, horizon=2
    )
    _short = 2 if _noise == "gamma" else 4 if _pure else 8
    _honaker = _level | {"epsilon": 4.0 if _pure else 1.0, "horizon": _short}
    _register(f"tree-{_noise}-honaker", sums.TreeMechanism, **_honaker, estimator="honaker")
    _plain = _level | {"horizon": 4 if _noise == "gamma" else 8}
    _register(f"tree-{_noise}-plain", sums.TreeMechanism, **_plain, estimator="plain")
    # An endless total draws far ahead, which is wasteful if runs are made one by one. Besides the worst record, some
    # variants take one that enters later, while others expire.
    _late = ((4, 3), (3, 2)) if _pure else ((6, 4), (8, 6))
    _register(
        f"window-tree-{_noise}",
        sums.WindowTreeMechanism,
        *({"record": at, "window": window, "epsilon": 4.0} for at, window in _late),
        **_level,
        horizon=8 if _noise == "gamma" else None,
        window=4,
    )
_register("correlated", sums.CorrelatedMechanism, {"objective": "mean"}, horizon=16)
_register("correlated-window", sums.CorrelatedMechanism, {"record": 9}, horizon=None, window=8)
# A single epoch reveals less than the guarantee of all epochs allows; long epochs come closest.
_register("tree-epochs", sums.TreeMechanism, horizon=None, steps=64, epsilon=4.0)
_register("correlated-epochs", sums.CorrelatedMechanism, horizon=None, steps=64, epsilon=4.0)
