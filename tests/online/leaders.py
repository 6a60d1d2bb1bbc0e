"""Problems on which both leaders are compared with their references, and the noise that they see."""

from __future__ import annotations

import numpy as np

import reticent
from reticent import losses, sets, sums

from . import reference

BUDGET = reticent.Budget(1.0, 1e-6)
STEPS = 2000
DIM = 6


def records(dim=DIM, steps=STEPS, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((steps, dim))
    A /= np.maximum(1.0, np.linalg.norm(A, axis=1) * 1.001)[:, None]
    y = np.where(A @ np.ones(dim) + 0.3 * rng.standard_normal(steps) > 0, 1.0, -1.0)
    return A, y


SETS = {
    "l2": (sets.L2Ball(DIM, 2.0), reference.l2_ball(2.0)),
    "l1": (sets.L1Ball(DIM, 1.5), reference.l1_ball(1.5)),
    "box": (sets.Box(-0.3, 1.0, dim=DIM), reference.box(-0.3, 1.0)),
    "simplex": (sets.Simplex(DIM), reference.simplex()),
    "space": (sets.WholeSpace(DIM), lambda x: x),
}
LOSSES = {
    "logistic": (losses.Logistic(), reference.logistic_slope),
    "ridge": (losses.Logistic(ridge=0.05), reference.logistic_slope),
    "hinge": (losses.Hinge(), reference.hinge_slope),
    "squared": (losses.Squared(ridge=0.1), reference.squared_slope),
}


def reference_of(learner, A, y, slope, project, noise, **more):
    rule = learner.rule
    return reference.leader(
        A, y, slope, project, noise, m=rule.curvature, ridge=learner.loss.ridge,
        anchor=rule.anchor_weight, center=np.ravel(learner.set.center), **more,
    )  # fmt: skip


def bare(learner, cls=sums.Correlated, **more):
    """The same total as the learner's, fresh, to read its noise off."""
    return cls(
        learner.dim, learner.horizon, budget=learner.budget, norm=learner.lipschitz, seed=7,
        noise_precision=learner.noise_precision, **more,
    )  # fmt: skip
