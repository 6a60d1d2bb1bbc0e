"""The private bandit in plain NumPy, straight from its description; nothing here comes from the package
except the noise and the directions, which are handed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import reticent
from reticent import bandit
from reticent.bandit import totals
from reticent.bandit.rounds import Directions, _child_seeds
from reticent.sums import RunningTotal

Array = NDArray[np.float64]
PLAYS = 300
SEED = 5
BUDGET = reticent.Budget(1.0, 1e-6)
PURE = reticent.Budget(1.0)


@dataclass
class Run:
    points: Array
    decisions: list[Array]
    totals: list[Array]


def frank_wolfe(
    lmo: Callable[[Array], Array], center: Array, slope: Array, start: Array, steps: int
) -> Array:
    """min 1/2 |x - center|^2 + <slope, x> by open-loop conditional gradient."""
    x = start.copy()
    for i in range(steps):
        v = lmo(x - center + slope)
        x = x + 2.0 / (i + 2.0) * (v - x)
    return x


def play(
    losses: Callable[[int, Array], float | None],
    *,
    plays: int,
    rounds: int,
    batch: int,
    center: Array,
    basis: Array,
    inner_radius: float,
    zeta: float,
    low: float,
    high: float,
    directions: Array,
    noise: Array,
    respond: Callable[[Array, Array], Array],
    eta: Callable[[int, float | None, float], float],
    stale: bool = True,
    watch: float = 0.0,
    error: float = 0.0,
    power: float = 0.0,
    weight: float = 0.0,
    sign: float = 1.0,
) -> Run:
    """The whole algorithm, one play after the other.

    ``noise[R - 1]`` is what the running total adds to its R-th sum, of standard deviation ``error``;
    ``power`` and ``weight`` are what that noise and a squared deviation count for in the step;
    ``sign=-1`` is the paper's line 14 as printed.
    """
    n = basis.shape[1]
    half, baseline = 0.5 * (high - low), 0.5 * (low + high)
    start, clip = baseline, half
    exact = np.zeros(n + (2 if watch else 0))
    last = np.zeros_like(exact)
    gradients = np.zeros(n)  # the sum of gradient estimates, from the increments of the noisy total
    decision = center.copy()  # played in this round
    coming = center.copy()  # stale: computed during this round, played in the next one
    points, decisions, sums = [], [], []
    history = [(0, 0.0, 0.0)]  # plays, sum of values, sum of squares
    squares, loudness = 0.0, 1.0
    t = 0
    for R in range(1, rounds + 1):
        length = min(batch, plays - t)
        decisions.append(decision)
        for _ in range(length):
            u = directions[t]
            x = center + (1.0 - zeta / inner_radius) * (decision - center) + zeta * basis @ u
            points.append(x)
            value = losses(t, x)
            if value is not None:
                w = float(np.clip((value - baseline) / clip, -1, 1))
                exact[:n] += n * half / zeta * w * u
                if watch:
                    exact[n:] += watch * np.array([w, w * w])
            t += 1
        if len(noise) >= R:
            released = exact + noise[R - 1]
            grown, last = released - last, released
            sums.append(released)
            gradients = gradients + clip / half * grown[:n]
            if watch:
                values = baseline * length + clip * grown[n] / watch
                square = clip**2 * grown[n + 1] / watch
                squares += square
                past = history[-1]
                history.append((past[0] + length, past[1] + values, past[2] + square))
                now, then = np.array(history[-1]), np.array(history[(R + 1) // 2 - 1])
                span, total, energy = now - then
                doubt = math.sqrt(2) * error / watch * clip / span
                trust = (half / 2) ** 2 / ((half / 2) ** 2 + doubt**2)
                baseline = float(np.clip(start + trust * (total / span - start), low, high))
                root = math.sqrt(max(energy / span, 0.0) + doubt * clip)
                wanted = min(half, max(half / 1024, 1.5 * root))
                if power > 0 and not clip / 1.25 < wanted < 1.25 * clip:
                    clip = wanted
                    own = math.sqrt(weight * max(squares, 0.0) / power)
                    keep = min(1.0, max(clip / half, own) / loudness)
                    loudness = max(keep * loudness, clip / half)
                    gradients = keep * gradients
                    squares *= keep**2
            slope = sign * eta(R, squares if watch else None, loudness) * (basis @ gradients)
            fresh = respond(slope, coming if stale else decision)
        else:
            fresh = coming if stale else decision
        if stale:
            decision, coming = coming, fresh
        else:
            decision = fresh
    return Run(np.array(points), decisions, sums)


def ingredients(learner: bandit.Bandit, seed: int, plays: int) -> dict[str, Any]:
    """Directions and noise that a seeded learner with a horizon will use, drawn apart from it."""
    first, second = _child_seeds(seed)
    geometry, plan = learner._geometry, learner._plan
    stream = Directions(geometry, first)
    rows: list[Array] = []
    while sum(map(len, rows)) < plays:
        stream.ready()
        rows.append(stream.inner.copy())
        stream.row = len(stream.inner)
    twin: Any = totals.Clean(learner._width)
    if learner.budget is not None:
        twin = RunningTotal(
            learner._describe(learner.budget, plan.sums, plan.plays, plan.norm), seed=second
        )
    noise = np.array([twin._absorb(twin._blank()) for _ in range(plan.sums)])
    n = geometry.dim
    return {
        "plays": plays,
        "rounds": plan.rounds,
        "batch": plan.batch,
        "center": geometry.center,
        "basis": np.eye(n) if geometry.basis is None else geometry.basis,
        "inner_radius": geometry.inner_radius,
        "zeta": plan.smoothing,
        "low": plan.low,
        "high": plan.high,
        "directions": np.concatenate(rows)[:plays],
        "noise": noise,
        "error": 0.0 if isinstance(twin, totals.Clean) else twin.error(plan.sums),
    }


def drive(
    learner: bandit.Bandit, losses: Callable[[int, Array], float | None], plays: int
) -> Array:
    """Ask and tell, one play after the other."""
    points = []
    for t in range(plays):
        x = learner.ask()
        points.append(np.array(x).reshape(-1))
        learner.tell(losses(t, points[-1]))
    return np.array(points)


def linear(dim: int, strength: float = 1.0):
    rng = np.random.default_rng(3)
    rows = strength * rng.standard_normal(dim) + rng.standard_normal((PLAYS, dim))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    return rows, lambda t, x: float(rows[t] @ x)
