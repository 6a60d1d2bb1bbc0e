"""What a solver sees of the records: nothing is longer than stated, and a person counts as much as declared."""

from __future__ import annotations

import numpy as np

import reticent
from reticent import erm, losses, sets
from reticent.erm.reading import read

from .reference import ball, records

BUDGET = reticent.Budget(1.0, 1e-6)
LOSS = losses.Logistic()


def test_a_custom_loss_is_clipped_to_its_claim():
    A, y = records(count=60)
    steep = losses.CustomLoss(
        lambda x, a, b: 100.0 * float((x @ a - b) ** 2),
        lambda x, a, b: 200.0 * (x @ a - b) * a,
        lipschitz=1.0,
    )
    fit = erm.gradient_descent(steep, sets.L2Ball(4), A, y, budget=reticent.Budget(1e6, 1e-6), steps=1,
                               step_size=1.0, average="last", seed=0)  # fmt: skip
    gradients = 200.0 * (0.0 - y)[:, None] * A
    gradients *= np.minimum(1.0, 1.0 / np.linalg.norm(gradients, axis=1))[:, None]
    np.testing.assert_allclose(fit.point, ball(-gradients.mean(0), 1.0), atol=1e-3)


def test_records_beyond_the_bounds_are_clipped():
    A, y = records()
    arguments = dict(budget=BUDGET, steps=5, seed=2)
    one = erm.gradient_descent(LOSS, sets.L2Ball(4), A * 1.0, y, **arguments)
    far = A.copy()
    far[7] *= 1e9
    two = erm.gradient_descent(LOSS, sets.L2Ball(4), far, y, **arguments)
    assert np.linalg.norm(one.point - two.point) < 0.05
    assert "1 had features scaled down" in two.trace.facts["clipped"]


def test_gradients_whose_squares_vanish_are_clipped():
    # The norm of 1e-170 ones is 0 if they are squared first.
    loss = losses.CustomLoss(
        lambda x, a, y: 0.0, lambda x, a, y: np.array([3e-170, 4e-170]), lipschitz=1e-170
    )
    problem = read(
        loss,
        sets.L2Ball(2),
        np.ones((1, 2)),
        None,
        reticent.Budget(1.0, 1e-6),
        noise_precision="lattice",
    )
    np.testing.assert_allclose(problem.gradient_sum(np.zeros(2)), [0.6e-170, 0.8e-170], rtol=1e-12)
