"""Rules in Python and in compiled loops: the same decisions, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from reticent import losses, online, sets

from .leaders import BUDGET, DIM, records


@pytest.mark.parametrize("precision", ["float", "lattice"])
@pytest.mark.parametrize(
    "build",
    [
        lambda **k: online.FollowTheRegularizedLeader(
            sets.L2Ball(DIM, 2.0), losses.Logistic(ridge=0.01), budget=BUDGET, **k
        ),
        lambda **k: online.FollowTheRegularizedLeader(
            sets.Product([sets.Simplex(2), sets.LinfBall(4)]), losses.Huber(), budget=BUDGET, **k
        ),
        lambda **k: online.FollowTheApproximateLeader(
            sets.L1Ball(DIM), losses.Squared(ridge=0.1), strong_convexity=0.2,
            budget=BUDGET.with_(window=16), step="local-linear", **k,
        ),
        lambda **k: online.FollowTheApproximateLeader(
            sets.Box(-1, 1, dim=DIM), losses.Logistic(ridge=0.1), constants="published",
            budget=BUDGET.with_(window=16), step="local-linear", **k,
        ),
        lambda **k: online.FollowTheApproximateLeader(
            sets.Simplex(DIM), losses.Logistic(), added_regularizer="auto",
            budget=BUDGET.with_(window=16), step="local-linear", **k,
        ),
    ],
)  # fmt: skip
def test_python_loop_and_compiled_loop_play_the_same_bits(build, precision):
    A, y = records(steps=600)
    compiled = build(seed=3, noise_precision=precision)
    play = compiled.run(A, y, keep=600)
    slow = build(seed=3, noise_precision=precision)
    slow._compiled = False
    twin = slow.run(A, y, keep=600)
    one = build(seed=3, noise_precision=precision)
    each = [one.decision] + [one.observe((A[t], y[t])) for t in range(600)]
    np.testing.assert_array_equal(play.decisions, twin.decisions)
    np.testing.assert_array_equal(play.decisions, each[:-1])
    np.testing.assert_allclose(play.losses, twin.losses, rtol=1e-13, atol=1e-15)
