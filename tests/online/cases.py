"""One of each learner, small, for the tests that must hold for all of them."""

from __future__ import annotations

import numpy as np

import reticent
from reticent import losses, online, sets

DIM = 4
BUDGET = reticent.Budget(1.0, 1e-6)

LEARNERS = {
    "ftrl": lambda **k: online.FollowTheRegularizedLeader(
        sets.L2Ball(DIM, 2.0), losses.Logistic(ridge=0.01), budget=BUDGET, horizon=3000, **k
    ),
    "ftrl, epochs": lambda **k: online.FollowTheRegularizedLeader(
        sets.L1Ball(DIM, 2.0), losses.Hinge(), budget=BUDGET, **k
    ),
    "ftrl, pure": lambda **k: online.FollowTheRegularizedLeader(
        sets.Box(-1, 1, dim=DIM), losses.Logistic(), budget=reticent.Budget(1.0), horizon=3000, **k
    ),
    "projection, window": lambda **k: online.FollowTheApproximateLeader(
        sets.L2Ball(DIM, 2.0), losses.Logistic(ridge=0.1), budget=BUDGET.with_(window=32), **k
    ),
    "local linear, pure window": lambda **k: online.FollowTheApproximateLeader(
        sets.Simplex(DIM), losses.Logistic(ridge=0.1), budget=reticent.Budget(1.0, window=32),
        step="local-linear", **k,
    ),
    "local linear, python": lambda **k: online.FollowTheApproximateLeader(
        sets.HyperSimplex(DIM, 2), losses.Logistic(ridge=0.1), budget=BUDGET.with_(window=32),
        step="local-linear", **k,
    ),
    "implicit": lambda **k: online.PerturbedIterates(
        sets.L2Ball(DIM, 2.0), losses.Logistic(ridge=0.1), budget=BUDGET, horizon=3000, **k
    ),
    "implicit, endless": lambda **k: online.PerturbedIterates(
        sets.L1Ball(DIM, 2.0), losses.Hinge(ridge=0.1), budget=BUDGET, **k
    ),
    "gradient": lambda **k: online.PerturbedIterates(
        sets.Box(-1, 1, dim=DIM), losses.Logistic(), inner=online.GradientDescent(),
        added_regularizer=1.0, budget=BUDGET, horizon=3000, **k,
    ),
    "experts": lambda **k: online.Experts(DIM, budget=BUDGET, horizon=3000, **k),
    "quadratic": lambda **k: online.QuadraticLeader(
        DIM, losses.Squared(ridge=0.1), budget=BUDGET, horizon=3000, **k
    ),
    "quadratic, replace": lambda **k: online.QuadraticLeader(
        sets.L2Ball(DIM), losses.Squared(), refresh=3,
        budget=BUDGET.with_(window=32, neighbours="replace"), **k,
    ),
}  # fmt: skip


def records(steps, seed=0, dim=DIM):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((steps, dim))
    A /= np.maximum(1.0, np.linalg.norm(A, axis=1) * 1.001)[:, None]
    y = np.where(A @ np.ones(dim) + 0.3 * rng.standard_normal(steps) > 0, 1.0, -1.0)
    return A, y
