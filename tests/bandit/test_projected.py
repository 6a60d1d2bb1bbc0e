"""The bandit with projections against an independent NumPy loop: same noise and directions in, same points out."""

from __future__ import annotations

import numpy as np
import pytest

from reticent import bandit, sets

from .reference import PLAYS, PURE, SEED, drive, ingredients, linear, play


@pytest.mark.parametrize("convex", [sets.L1Ball(4), sets.Simplex(4), sets.L2Ball(3)], ids=repr)
def test_projected(convex):
    _, losses = linear(convex.dim)
    learner = bandit.ProjectedBandit(
        convex, budget=PURE, lipschitz=1.0, values=(-1.0, 1.0), horizon=PLAYS, seed=SEED,
        noise_precision="float", step=0.003,
    )  # fmt: skip
    data = ingredients(learner, SEED, PLAYS)
    assert (data["rounds"], data["batch"], len(data["noise"])) == (PLAYS, 1, PLAYS - 1)
    wanted = play(
        losses, **data, stale=False, eta=lambda R, squares, loudness: 0.003,
        respond=lambda slope, start: convex.project(data["center"] - slope),
    )  # fmt: skip
    points = drive(learner, losses, PLAYS)
    np.testing.assert_allclose(points, wanted.points, atol=1e-10, rtol=0)
