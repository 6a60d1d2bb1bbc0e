"""Noisy gradient descent against a plain loop with the same noise, and its guarantees."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

import reticent
from reticent import erm, losses, sets
from reticent.privacy import SubsampledGaussian

from .reference import ball, draws, gaussian_epsilon, logistic_slope, records

BUDGET = reticent.Budget(1.0, 1e-6)
LOSS = losses.Logistic()


def scale_of(fit):
    return float(fit.guarantee.releases[0].noise.split()[-1])


@pytest.mark.parametrize("average", ["uniform", "weighted", "last"])
def test_against_a_plain_loop(average):
    A, y = records()
    n, d = A.shape
    fit = erm.gradient_descent(LOSS, sets.L2Ball(d, 2.0), A, y, budget=BUDGET, steps=30,
                               step_size=0.7, average=average, seed=4)  # fmt: skip
    slope = 1 / (1 + math.exp(-2.0))
    sigma = slope * math.sqrt(30) / BUDGET.mu
    assert scale_of(fit) == pytest.approx(sigma, rel=1e-5)
    # the exact scale is needed to draw the same noise: it is the sensitivity over mu
    x, points = np.zeros(d), []
    scale = fit_scale(fit, A, d)
    for noise in draws(4, [scale] * 30, d):
        points.append(x)
        x = ball(x - 0.7 * (A.T @ logistic_slope(A, y, x) + noise) / n, 2.0)
    weights = np.arange(1, 31) if average == "weighted" else np.ones(30)
    want = x if average == "last" else weights @ np.array(points) / weights.sum()
    np.testing.assert_allclose(fit.point, want, atol=1e-7)


def fit_scale(fit, A, d):
    """The scale in full precision, from the release's sensitivity and cost."""
    release = fit.guarantee.releases[0]
    return release.sensitivity / release.curve.mu


def test_guarantee_by_a_second_road():
    A, y = records()
    for neighbours, factor in (("zero-out", 1.0), ("replace", 2.0)):
        budget = BUDGET.with_(neighbours=neighbours)
        fit = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, budget=budget, steps=50, seed=0)
        moved = factor / (1 + math.exp(-1.0))
        mu = math.sqrt(50) * moved / scale_of(fit)
        assert gaussian_epsilon(1e-6, mu) == pytest.approx(1.0, abs=2e-5)
        assert fit.guarantee.gdp == pytest.approx(mu, rel=1e-5)
        assert fit.guarantee.meets(budget)
        assert fit.guarantee.releases[0].sensitivity >= moved


def test_pure_budget_composes_by_addition():
    A, y = records()
    fit = erm.gradient_descent(
        LOSS, sets.L2Ball(4), A, y, budget=reticent.Budget(2.0), steps=5, seed=0
    )
    assert fit.guarantee.pure == pytest.approx(2.0, rel=1e-6)
    release = fit.guarantee.releases[0]
    assert release.count == 5
    assert scale_of(fit) == pytest.approx(5 * release.sensitivity / 2.0, rel=1e-5)


def test_sampling_is_accounted_by_the_privacy_loss_distribution():
    A, y = records(count=300)
    fit = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, budget=BUDGET, steps=40, sampling=0.1,
                               seed=1)  # fmt: skip
    curve = fit.guarantee.releases[0].curve
    assert isinstance(curve, SubsampledGaussian)
    assert curve.steps == 40
    from dp_accounting.pld import privacy_loss_distribution as pld

    one = pld.from_gaussian_mechanism(curve.noise_multiplier,
                                      sampling_prob=curve.sampling_probability)  # fmt: skip
    epsilon = one.self_compose(40).get_epsilon_for_delta(1e-6)
    assert 0.999 < epsilon <= 1.0 + 1e-9
    full = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, budget=BUDGET, steps=40, seed=1)
    # a tenth of the records for much less than the noise of all of them
    assert scale_of(fit) < 0.4 * scale_of(full)


def test_without_noise_it_reaches_the_optimum():
    A, y = records()
    loss = losses.Logistic(ridge=0.05)
    best = losses.best_fixed(sets.L2Ball(4, 3.0), loss, A, y, gap=1e-9)
    for average in ("weighted", "last"):
        fit = erm.gradient_descent(loss, sets.L2Ball(4, 3.0), A, y, budget=reticent.Budget(1e6, 1e-6),
                                   average=average, seed=0)  # fmt: skip
        assert loss.mean_value(fit.point, A, y) - best.lower_bound < 2e-3
    assert loss.mean_value(fit.point, A, y) - best.lower_bound < 1e-6


def test_kinks_and_other_sets():
    A, y = records(count=3000)
    loss = losses.Hinge(ridge=0.1)
    for where in (sets.Box(-np.ones(4), np.ones(4)), sets.L1Ball(4, 2.0)):
        best = losses.best_fixed(where, loss, A, y, gap=1e-6)
        fit = erm.gradient_descent(loss, where, A, y, budget=reticent.Budget(8.0, 1e-5), seed=0)
        assert loss.mean_value(fit.point, A, y) - best.lower_bound < 0.05


def test_sparse_records_give_the_same_point():
    A, y = records()
    A[np.abs(A) < 0.3] = 0.0
    arguments = dict(budget=BUDGET, steps=20, step_size=0.5, seed=2)
    dense = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments)
    sparse = erm.gradient_descent(LOSS, sets.L2Ball(4), sp.csr_array(A), y, **arguments)
    np.testing.assert_allclose(sparse.point, dense.point, atol=1e-7)


def test_published_noise_tells_the_truth():
    A, y = records()
    fit = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, budget=BUDGET, steps=100, seed=0,
                               calibration="published")  # fmt: skip
    slope = 1 / (1 + math.exp(-1.0))
    want = slope * math.sqrt(2 * 100 * (math.log(1e6) + 1.0))
    assert scale_of(fit) == pytest.approx(want, rel=1e-5)
    assert fit.guarantee.epsilon(1e-6) == pytest.approx(0.761, abs=1e-3)
    assert fit.guarantee.caveats == ()
    strict = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, steps=100, seed=0,
                                  budget=BUDGET.with_(neighbours="replace"),
                                  calibration="published")  # fmt: skip
    assert strict.guarantee.epsilon(1e-6) == pytest.approx(1.610, abs=1e-3)
    assert "1.61" in strict.guarantee.caveats[0]


def test_the_trace():
    A, y = records()
    seen = []
    fit = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, budget=BUDGET, steps=12, seed=0,
                               record_loss=True, callback=lambda m: seen.append(m.point))  # fmt: skip
    assert len(seen) == 12
    assert fit.trace.steps.tolist() == list(range(1, 13))
    assert fit.trace.diagnostics["loss"][0] == pytest.approx(math.log(2.0))
    assert "not covered by the guarantee" in str(fit)
    assert fit.trace.settings["steps"] == 12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 1.0}, "budget must be a reticent.Budget"),
        ({"budget": reticent.Budget(1.0, 1e-6, window=5)}, "window must be None"),
        ({"steps": 0}, "steps must be"),
        ({"step_size": -1.0}, "step_size must be"),
        ({"average": "mode"}, "average must be one of"),
        ({"sampling": 2.0}, "sampling must be"),
        ({"budget": reticent.Budget(1.0), "sampling": 0.1}, "sampling needs Gaussian noise"),
        ({"set": sets.L2Ball(5)}, "the set has dimension 5"),
        ({"set": sets.NuclearBall((2, 2))}, None),
        ({"loss": "logistic"}, "loss must be a reticent.losses.Loss"),
        ({"loss": losses.Squared(), "set": sets.WholeSpace(4)}, "not Lipschitz"),
        ({"X": np.full((400, 4), np.nan)}, "must be finite"),
        ({"y": np.zeros(400)}, "must be -1 or 1"),
        ({"start": np.full(4, 9.0)}, "start must lie in"),
        ({"noise_precision": "double"}, "noise_precision must be"),
        ({"calibration": "loose"}, "calibration must be"),
        ({"callback": 3}, "callback must be callable"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input_spends_nothing(changes, message):
    A, y = records()
    arguments = {"loss": LOSS, "set": sets.L2Ball(4), "X": A, "y": y, "budget": BUDGET, **changes}
    if message is None:  # a matrix set with a projection is welcome
        erm.gradient_descent(**arguments, steps=2)
        return
    with reticent.Ledger(BUDGET) as ledger, pytest.raises((TypeError, ValueError), match=message):
        erm.gradient_descent(**arguments)
    assert ledger.entries == ()


def test_a_ledger_is_charged_before_noise_is_drawn():
    A, y = records()
    with reticent.Ledger(BUDGET) as ledger:
        erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, budget=BUDGET, steps=3)
        with pytest.raises(reticent.privacy.BudgetExceeded):
            erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, budget=BUDGET, steps=3)
    assert len(ledger.entries) == 1
