"""Output perturbation against a general-purpose minimiser with the same noise."""

from __future__ import annotations

import numpy as np
import pytest

import reticent
from reticent import erm, losses, sets
from reticent.noise import Source
from reticent.noise.release import noisy

from .reference import logistic_minimum, records

GAUSSIAN = reticent.Budget(1.0, 1e-6)
LOSS = losses.Logistic()


def test_output_perturbation():
    A, y = records()
    for budget, factor in ((GAUSSIAN, 1.0), (GAUSSIAN.with_(neighbours="replace"), 2.0)):
        fit = erm.output_perturbation(LOSS, sets.WholeSpace(4), A, y, budget=budget,
                                      regularizer=20.0, seed=5)  # fmt: skip
        release = fit.guarantee.releases[0]
        scale = release.sensitivity / release.curve.mu
        assert scale == pytest.approx(factor / 20.0 / GAUSSIAN.mu, rel=1e-5)
        final = noisy(np.zeros(4), scale, Source(5))
        want = logistic_minimum(A, y, 20.0, np.zeros(4)) + final
        np.testing.assert_allclose(fit.point, want, atol=1e-7)
    moved = []
    exact = logistic_minimum(A, y, 20.0, np.zeros(4))
    for i in range(0, 400, 20):
        blank = A.copy()
        blank[i] = 0.0
        moved.append(np.linalg.norm(logistic_minimum(blank, y, 20.0, np.zeros(4)) - exact))
    assert max(moved) <= 1 / 20.0


def test_output_perturbation_without_noise():
    A, y = records()
    loss = losses.Logistic(ridge=0.05)
    best = losses.best_fixed(sets.L2Ball(4, 3.0), loss, A, y, gap=1e-9)
    fit = erm.output_perturbation(loss, sets.L2Ball(4, 3.0), A, y, budget=reticent.Budget(1e6, 1e-6),
                                  seed=0)  # fmt: skip
    assert loss.mean_value(fit.point, A, y) - best.lower_bound < 1e-4
