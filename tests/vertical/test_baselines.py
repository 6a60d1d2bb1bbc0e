"""The baselines: no privacy at all, and every column sketched once."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reticent
from reticent import vertical
from reticent.privacy import BudgetExceeded

from .reference import CUTS, loss_of, reference


def test_dfw_is_frank_wolfe_on_the_whole_table(table):
    A, y = table
    fit = vertical.distributed_frank_wolfe([A[:, cut] for cut in CUTS], y, radius=0.9, steps=25)
    assert np.allclose(fit.point, reference(A, y, "ball", 25, 0.9))
    assert fit.guarantee.epsilon(0.5) == math.inf


def test_one_shot_sketch_meets_its_budget_and_fits_where_noise_is_small(table):
    A, y = table
    blocks = [A[:, cut] for cut in CUTS]
    budget = reticent.Budget(1.0, 1e-6)
    fit = vertical.one_shot_sketch(blocks, y, budget=budget, sketch_size=60, seed=0)
    assert fit.guarantee.meets(budget)
    assert fit.guarantee.gdp == pytest.approx(budget.mu, rel=1e-6)
    assert np.abs(fit.point).sum() <= 1 + 1e-9
    assert fit.trace.settings["uplink bytes"] == 8 * 60 * 13
    loud = reticent.Budget(1e8, 1e-6)
    fit = vertical.one_shot_sketch(blocks, y, budget=loud, sketch_size=400, seed=0)
    assert loss_of(A, y, fit.point) < 1e-4
    with reticent.Ledger(reticent.Budget(0.5, 1e-6)), pytest.raises(BudgetExceeded):
        vertical.one_shot_sketch(blocks, y, budget=budget)
