"""Figures for Ene, Nguyen and Vladu, projection-free bandit optimisation.

The sign of line 14 is judged without any private noise.
"""

from __future__ import annotations

import math

import numpy as np

from errata.common import FloatArray, onto_ball


def regret_of_sign(sign: float, horizon: int = 40_000, dim: int = 5, seed: int = 0) -> float:
    """Regret of Algorithm 1 without noise, on linear losses over the unit ball; sign = -1 is printed."""
    rng = np.random.default_rng(seed)
    rounds = math.isqrt(horizon)
    batch = horizon // rounds
    diameter, lipschitz = 2.0, 1.0
    eta = diameter / (horizon**0.75 * math.sqrt(dim) * lipschitz)
    zeta = diameter * math.sqrt(dim) / horizon**0.25
    slope = np.full(
        dim, 1.0 / math.sqrt(dim)
    )  # f(x) = <slope, x> + 1, at most 1-Lipschitz, 0 in the ball
    x = np.zeros(dim)
    totals = [np.zeros(dim)]
    paid = 0.0
    for _ in range(rounds):
        u = rng.normal(size=(batch, dim))
        u /= np.linalg.norm(u, axis=1)[:, None]
        values = (x + zeta * u) @ slope + 1.0
        paid += float(values.sum())
        totals.append(totals[-1] + dim / zeta * values @ u)
        # line 14 uses the total of the round before; its minimiser over the ball is a projection
        x = onto_ball(-sign * eta * totals[-2])
    return paid  # the best fixed point pays nothing


def gradient_estimate(dim: int = 4, zeta: float = 0.3, runs: int = 200_000) -> tuple[float, float]:
    """Size of E[f(x + zeta u) u] for a linear f of unit slope, and what n/zeta times it is."""
    rng = np.random.default_rng(1)
    slope = np.eye(dim)[0]
    u = rng.normal(size=(runs, dim))
    u /= np.linalg.norm(u, axis=1)[:, None]
    mean = ((zeta * u @ slope)[:, None] * u).mean(axis=0)
    return float(mean[0]), float(dim / zeta * mean[0])


def batch_norms(
    dim: int = 200, batch: int = 10_000, delta: float = 1e-6
) -> tuple[float, float, float]:
    """Lemma 10's bound on a batch's gradient in units of M, and two that occur: constant and chosen signs."""
    horizon = batch**2
    tail = math.log((dim + horizon) / delta)
    bound = tail + math.sqrt((1.0 + batch / dim) * tail)
    rng = np.random.default_rng(2)
    u = rng.normal(size=(batch, dim))
    u /= np.linalg.norm(u, axis=1)[:, None]
    constant = float(np.linalg.norm(u.sum(axis=0)))
    chosen = float(np.linalg.norm((np.sign(u[:, :1]) * u).sum(axis=0)))
    return bound, constant, chosen


def conditional_gradient_gap(steps: int, dim: int = 3) -> tuple[float, float]:
    """Largest gap seen after Frank-Wolfe on |x - p|^2 / 2 over the simplex, and 2 D^2 / (steps + 2)."""
    rng = np.random.default_rng(3)
    worst = 0.0
    for _ in range(50):
        p = rng.normal(size=dim)
        x = np.eye(dim)[0]
        for i in range(steps):
            gradient = x - p
            vertex = np.eye(dim)[int(np.argmin(gradient))]
            x = x + 2.0 / (i + 2.0) * (vertex - x)
        worst = max(worst, _gap(x, p))
    return worst, 2.0 * 2.0 / (steps + 2.0)


def _gap(x: FloatArray, p: FloatArray) -> float:
    ordered = np.sort(p)[::-1]
    excess = np.cumsum(ordered) - 1.0
    count = np.nonzero(ordered - excess / np.arange(1, p.size + 1) > 0)[0][-1]
    best = np.maximum(p - excess[count] / (count + 1), 0.0)
    return 0.5 * float((x - p) @ (x - p) - (best - p) @ (best - p))


def figures() -> dict[str, float]:
    """The numbers of the page, by entry."""
    found = {
        "B1.printed": regret_of_sign(-1.0),
        "B1.corrected": regret_of_sign(1.0),
        "B2.unit": gradient_estimate()[1],
        "B5.factor": 1.0 + math.sqrt(10) / (10**6) ** 0.25,
    }
    found["B4.bound"], found["B4.constant"], found["B4.chosen"] = batch_norms()
    # l1 sensitivity of a batch at T = 1e4, n = 5: one summand, not the whole batch
    horizon, dim = 10**4, 5
    found["B3.printed"] = math.sqrt(horizon) * dim
    found["B3.naive"] = horizon**0.75 * dim
    zeta = math.sqrt(dim) / horizon**0.25
    found["B3.true"] = math.sqrt(dim) * dim * (1.0 + zeta) / zeta
    found["B7.printed"] = math.log(10**6)
    found["B7.nodes"] = float((1000 - 2).bit_length())
    found["B11.gap"], found["B11.bound"] = conditional_gradient_gap(100)
    return found
