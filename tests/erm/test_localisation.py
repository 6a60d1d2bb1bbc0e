"""Two stages: the small set's projection, the split of the budget, and what it buys."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reticent
from reticent import erm, losses, sets
from reticent.erm.localisation import Near
from reticent.noise import Source
from reticent.noise.release import noisy

from .reference import logistic_minimum, records

BUDGET = reticent.Budget(1.0, 1e-6)
LOSS = losses.Logistic(ridge=0.05)


@pytest.mark.parametrize(
    "whole", [sets.L2Ball(3, 1.0), sets.L1Ball(3, 1.0), sets.Box(-1, 1, dim=3)]
)
def test_the_projection_is_the_nearest_point(whole):
    rng = np.random.default_rng(0)
    center = np.array(whole.project(np.array([0.9, 0.3, -0.2])))
    near = Near(whole, center, 0.4)
    for _ in range(60):
        x = 2.0 * rng.standard_normal(3)
        p = near.project(x)
        assert whole.contains(p)
        assert np.linalg.norm(p - center) <= 0.4 + 1e-9
        # no point of the set lies in the half-space that the projection would have to enter
        for _ in range(40):
            q = whole.project(center + 0.4 * rng.standard_normal(3))
            if np.linalg.norm(q - center) <= 0.4:
                assert (x - p) @ (q - p) <= 1e-7


def test_the_stages_share_the_budget():
    A, y = records(count=2000)
    fit = erm.localisation(LOSS, sets.L2Ball(4, 3.0), A, y, budget=BUDGET, first_share=0.36, seed=4)
    first, second = fit.guarantee.releases
    assert first.curve.mu == pytest.approx(0.6 * BUDGET.mu, rel=1e-6)
    assert second.curve.mu == pytest.approx(0.8 * BUDGET.mu, rel=1e-6)
    assert fit.guarantee.gdp == pytest.approx(BUDGET.mu, rel=1e-6)
    scale = first.sensitivity / first.curve.mu
    slope = 1 / (1 + math.exp(-3.0))
    assert scale == pytest.approx(slope / (2000 * 0.05) / (0.6 * BUDGET.mu), rel=1e-5)
    rough = logistic_minimum(A, y, 2000 * 0.05, np.zeros(4)) + noisy(np.zeros(4), scale, Source(4))
    assert np.linalg.norm(fit.point - rough) <= fit.trace.settings["radius"] + 1e-6
    pure = erm.localisation(LOSS, sets.L2Ball(4, 3.0), A, y, budget=reticent.Budget(2.0), seed=4)
    assert pure.guarantee.pure == pytest.approx(2.0, rel=1e-6)


def test_it_beats_its_first_stage():
    A, y = records(count=3000, dim=8)
    best = losses.best_fixed(sets.L2Ball(8, 3.0), LOSS, A, y, gap=1e-8).value

    def excess(solver, **arguments):
        return np.mean([
            LOSS.mean_value(solver(LOSS, sets.L2Ball(8, 3.0), A, y, budget=BUDGET, seed=seed,
                                   **arguments).point, A, y)
            for seed in range(6)
        ]) - best  # fmt: skip

    assert excess(erm.localisation) < 0.7 * excess(erm.output_perturbation, regularizer=0.0)


def test_without_noise_it_reaches_the_optimum():
    A, y = records()
    best = losses.best_fixed(sets.L2Ball(4, 3.0), LOSS, A, y, gap=1e-9)
    fit = erm.localisation(
        LOSS, sets.L2Ball(4, 3.0), A, y, budget=reticent.Budget(1e6, 1e-6), seed=0
    )
    assert LOSS.mean_value(fit.point, A, y) - best.lower_bound < 1e-5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": losses.Logistic()}, "strongly convex"),
        ({"loss": losses.Hinge(ridge=0.1)}, "smooth generalised linear"),
        ({"first_share": 1.0}, "first_share must be"),
        ({"failure": 0.0}, "failure must be"),
        ({"steps": 0}, "steps must be"),
        ({"callback": 1}, "callback must be"),
        ({"calibration": "published"}, "calibration must be"),
    ],
)
def test_bad_input_spends_nothing(changes, message):
    A, y = records()
    arguments = {"loss": LOSS, "set": sets.L2Ball(4), "X": A, "y": y, "budget": BUDGET, **changes}
    with reticent.Ledger(BUDGET) as ledger, pytest.raises((TypeError, ValueError), match=message):
        erm.localisation(**arguments)
    assert ledger.entries == ()
