"""Promises by age, against linear algebra on the explicit noise and against enumeration."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import reticent
from reticent import erm, losses, online, sets, sums
from reticent.privacy import Gaussian, Guarantee, Pure, Release
from reticent.privacy.ages import Decay, Filtered, Stepwise

BUDGET = reticent.Budget(1.0, 1e-6)
FADE = reticent.Budget(1.0, 1e-6, fade=[(8, 1.0), (40, 1.7)])


def noise_map(total: sums.RunningTotal, steps: int) -> np.ndarray:
    """How each unit draw enters each output, by running the mechanism's own mixing, in floating point."""
    process = total._noise
    draws = process.draws(0, steps)
    relative = process.relative_scales(0, steps)
    scales = process.scale * (np.ones(draws) if relative is None else relative)
    columns = []
    for k in range(draws):
        for array in process.arrays.values():
            array[...] = 0
        fresh = np.zeros((draws, total.dim))
        fresh[k] = scales[k]
        columns.append(np.array(process.mix(fresh, 0, steps))[:, 0])
    for array in process.arrays.values():
        array[...] = 0
    return np.array(columns).T


def worst_mu(matrix: np.ndarray, age: int) -> float:
    """The largest mu of any record about its first ``age`` outputs, given all that came before."""
    steps = len(matrix)
    worst = 0.0
    for record in range(steps):
        end = min(steps, record + age)
        shift = np.zeros(end)
        shift[record:] = 1.0
        least = np.linalg.lstsq(matrix[:end], shift, rcond=None)[0]
        assert matrix[:end] @ least == pytest.approx(shift, abs=1e-8)
        worst = max(worst, float(np.linalg.norm(least)))
    return worst


TOTALS = {
    "correlated": lambda: sums.Correlated(1, 48, budget=BUDGET, noise_precision="float", seed=0),
    "window": lambda: sums.Correlated(
        1, budget=BUDGET.with_(window=9), noise_precision="float", seed=0
    ),
    "for ever": lambda: sums.Correlated(1, budget=BUDGET, noise_precision="float", seed=0),
    "fade": lambda: sums.Correlated(1, budget=FADE, noise_precision="float", seed=0),
    "tree": lambda: sums.Tree(1, 48, budget=BUDGET, noise_precision="float", seed=0),
    "plain tree": lambda: sums.Tree(
        1, 48, budget=BUDGET, estimator="plain", noise_precision="float", seed=0
    ),
    "independent": lambda: sums.Independent(1, 48, budget=BUDGET, noise_precision="float", seed=0),
}


@pytest.mark.parametrize("name", TOTALS)
def test_every_age_against_linear_algebra(name):
    total = TOTALS[name]()
    matrix = noise_map(total, 48)
    for age in (1, 2, 3, 4, 5, 8, 9, 16, 31, 32, 48):
        claimed = total.guarantee.at(age).gdp
        found = worst_mu(matrix, age)
        assert found <= claimed * (1 + 1e-9)
        if "tree" not in name or age.bit_count() == 1:  # a tree's cost is that of the next doubling
            assert found >= claimed * (1 - 1e-9)


def test_a_fading_budget_is_met_and_used_up():
    total = sums.Correlated(2, budget=FADE)
    g = total.guarantee
    assert g.meets(FADE)
    used = [g.epsilon(1e-6, age=age) / epsilon for age, epsilon in FADE.fade]
    assert max(used) == pytest.approx(1.0, abs=1e-6)
    assert g.epsilon(1e-6) == g.epsilon(1e-6, age=40)
    tighter = reticent.Budget(1.0, 1e-6, fade=[(8, 1.0), (40, 1.6)])
    assert not g.meets(tighter)
    assert g.epsilon(1e-6, age=10**6) > 1.7


def test_figures_of_the_hard_window():
    total = sums.Correlated(1, budget=BUDGET.with_(window=1024), noise_precision="float", seed=0)
    ages = {1: 0.53, 128: 0.88, 1024: 1.00, 2048: 1.10, 10_240: 1.73, 102_400: 5.25}
    for age, epsilon in ages.items():
        assert total.guarantee.epsilon(1e-6, age=age) == pytest.approx(epsilon, abs=0.006)


def test_a_fading_promise_costs_seven_per_cent():
    fade = reticent.Budget(1.0, 1e-6, fade=[(1024, 1.0), (10**6, 2.0)])
    total = sums.Correlated(1, budget=fade)
    window = sums.Correlated(1, budget=BUDGET.with_(window=1024))
    assert total.error(10**9) <= 14.95
    assert 1.0 < total.error(10**9) / window.error(10**9) < 1.08


@pytest.mark.parametrize("exponent", [8, 12, 16, 20])
def test_without_a_horizon_within_a_quarter(exponent):
    n = 2**exponent
    known = sums.Correlated(1, n, budget=BUDGET)
    unknown = sums.Correlated(1, budget=BUDGET)
    assert unknown.error(n) / known.error(n) <= 1.25


@pytest.mark.parametrize("dim", [1, 54, 1000])
def test_rounding_costs_little_over_all_outputs(dim):
    exact = sums.Correlated(dim, budget=BUDGET)
    simulated = sums.Correlated(dim, budget=BUDGET, noise_precision="float", seed=0)
    assert exact.guarantee.gdp <= BUDGET.mu * (1 + 1e-12)
    assert 1.0 <= exact.error(1) / simulated.error(1) < 1.02


def test_a_stream_without_a_horizon_ends_before_its_promise():
    total = sums.Correlated(1, budget=BUDGET)
    state = total.state()
    state["steps"] = 2**40 - 1
    state["epoch"] = [0, None]
    state["id"] = "f" * 32
    far = sums.Correlated.from_state(state)
    far.add([0.5])
    with pytest.raises(ValueError, match=f"the horizon of {2**40}"):
        far.add([0.5])


def test_pure_trees_by_age():
    total = sums.Tree(1, 100, budget=reticent.Budget(7.0), noise="laplace", estimator="plain")
    assert [total.guarantee.epsilon(age=a) for a in (1, 2, 4, 64, 100)] == pytest.approx(
        [1.0, 2.0, 3.0, 7.0, 7.0]
    )
    window = sums.WindowTree(1, budget=reticent.Budget(1.0, window=8), noise="gamma")
    assert window.guarantee.epsilon(age=8) == pytest.approx(1.0)
    assert window.guarantee.epsilon(age=9) == math.inf


def test_guarantees_compose_at_equal_age():
    g = sums.Correlated(1, budget=BUDGET.with_(window=64)).guarantee
    both = g + g
    for age in (1, 64, 1000):
        assert both.at(age).gdp == pytest.approx(math.sqrt(2) * g.at(age).gdp, rel=1e-12)
    once = Guarantee([Release("once", Pure(0.5), 1.0, "laplace")], window=64)
    assert (g + once).epsilon(1e-6, age=3) > g.epsilon(1e-6, age=3)
    with pytest.raises(ValueError, match="age must be at most 64"):
        (g + once).epsilon(1e-6, age=65)


@pytest.mark.parametrize("name", TOTALS)
def test_round_trip(name):
    g = TOTALS[name]().guarantee
    again = Guarantee.from_dict(json.loads(json.dumps(g.to_dict())))
    assert again == g
    assert [again.at(a).gdp for a in (1, 7, 48)] == [g.at(a).gdp for a in (1, 7, 48)]


def test_what_is_printed():
    g = sums.Correlated(1, budget=FADE).guarantee
    assert "with a guarantee at the ages 8, 40" in str(g)
    assert "by age: epsilon" in g.explain()
    assert str(g.by_age([8])).startswith("epsilon 1.00 for 8 outputs")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"fade": [(8, 1.0), (8, 2.0)]}, "must increase"),
        ({"fade": [(8, 1.0), (9, 0.5)]}, "must not decrease"),
        ({"fade": [(8, 0.5)]}, "first pair"),
        ({"fade": [(0, 1.0)]}, "age"),
        ({"fade": []}, "pairs"),
        ({"fade": 7}, "pairs"),
        ({"fade": (8, 0.0)}, "power"),
        ({"fade": [(8, 1.0)], "window": 8}, "cannot be combined"),
        ({"fade": [(8, 1.0)], "delta": 0.0}, "delta > 0"),
    ],
)
def test_bad_profiles(arguments, words):
    with pytest.raises(ValueError, match=words):
        reticent.Budget(**({"epsilon": 1.0, "delta": 1e-6} | arguments))


def test_trees_refuse_to_fade():
    for make in (lambda: sums.Tree(1, 8, budget=FADE), lambda: sums.Independent(1, budget=FADE)):
        with pytest.raises(ValueError, match="fade"):
            make()


def test_a_power_law_is_checked_at_each_doubling():
    budget = reticent.Budget(1.0, 1e-6, fade=(1024, 0.1))
    (first, start), *_, (last, _) = budget.profile
    assert (first, last) == (1024, 2**40)
    for age, mu in budget.profile:
        assert mu == pytest.approx(start * (age / 1024) ** 0.1, rel=1e-6)


def test_costs_by_age_as_data():
    with pytest.raises(ValueError, match="start at 1"):
        Stepwise([(2, Gaussian(1.0))])
    with pytest.raises(ValueError, match="must have the same length"):
        Decay(0.0, (1.0,), ())
    endless = Filtered(Decay(0.0, (1.0,), (0.5,)), 0.3)
    assert endless.mu(math.inf) == pytest.approx(0.3 * math.sqrt(4 / 3))


def test_whoever_cannot_fade_refuses_before_anything_is_spent():
    """A promise at some ages must never be taken for one about all outputs."""
    X = np.full((4, 2), 0.1)
    makers = [
        lambda: online.PerturbedIterates(
            sets.L2Ball(2),
            losses.Logistic(ridge=0.1),
            inner=online.GradientDescent(),
            budget=FADE,
            horizon=64,
        ),
        lambda: erm.gradient_descent(losses.Linear(), sets.L2Ball(2), X, budget=FADE),
        lambda: erm.ftrl(losses.Linear(), sets.L2Ball(2), X, budget=FADE),
    ]
    for make in makers:
        with reticent.Ledger(FADE) as ledger, pytest.raises(ValueError, match="fade"):
            make()
        assert ledger.entries == ()


def test_learners_have_promises_by_age():
    learner = online.FollowTheRegularizedLeader(
        sets.L2Ball(2), losses.Logistic(), budget=FADE, seed=0
    )
    assert learner.guarantee.meets(FADE)
    assert learner.guarantee.ages == (8, 40)
