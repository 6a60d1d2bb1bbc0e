"""The limits against SciPy's own, the choice of events, and coverage: bounds are wrong as rarely as stated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm

from reticent.audit import lower_bounds


@pytest.mark.parametrize(("count", "runs"), [(0, 7), (3, 7), (7, 7), (1, 10**6), (499_000, 10**6)])
@pytest.mark.parametrize("alarm", [0.05, 2.5e-7])
def test_limits_are_those_of_clopper_and_pearson(count, runs, alarm):
    """SciPy's interval has both ends, so each misses with half of what its level leaves."""
    interval = binomtest(count, runs).proportion_ci(1.0 - 2.0 * alarm, method="exact")
    assert float(lower_bounds.smallest(count, runs, alarm)) == pytest.approx(interval.low, rel=1e-6)
    assert float(lower_bounds.largest(count, runs, alarm)) == pytest.approx(interval.high, rel=1e-6)


@pytest.mark.parametrize("p", [0.001, 0.3, 0.5, 0.97])
def test_coverage_is_exact_for_every_probability(p):
    """All counts, weighted by their probability: no appeal to simulation."""
    runs, alarm = 60, 0.01
    k = np.arange(runs + 1)
    chance = binom.pmf(k, runs, p)
    assert chance[lower_bounds.smallest(k, runs, alarm) > p].sum() <= alarm
    assert chance[lower_bounds.largest(k, runs, alarm) < p].sum() <= alarm


def test_a_bound_on_mu_misses_as_rarely_as_stated():
    """Both worlds' counts enumerated, at the true probabilities of a threshold event."""
    mu, runs, alarm = 0.8, 40, 0.02
    event = lower_bounds.Event(0.4, True, "b")
    k = np.arange(runs + 1)
    here = binom.pmf(k, runs, norm.sf(0.4 - mu))
    there = binom.pmf(k, runs, norm.sf(0.4))
    missed = 0.0
    for i in k:
        for j in k:
            counted = lower_bounds.Counted(event, int(i), runs, int(j), runs)
            if counted.mu(alarm) > mu:
                missed += here[i] * there[j]
    assert missed <= alarm


def test_a_bound_on_epsilon_counts_what_delta_allows():
    counted = lower_bounds.Counted(lower_bounds.Event(0.0, True, "a"), 900, 1000, 10, 1000)
    assert counted.epsilon(0.0, 1e-6) > counted.epsilon(0.2, 1e-6) > 0.0
    assert counted.epsilon(0.95, 1e-6) == 0.0
    p, q = lower_bounds.smallest(900, 1000, 5e-7), lower_bounds.largest(10, 1000, 5e-7)
    assert counted.epsilon(0.2, 1e-6) == pytest.approx(math.log((p - 0.2) / q))


@pytest.mark.parametrize("above", [True, False])
def test_the_best_event_is_found_whichever_way_the_scores_point(above):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=20_000), rng.normal(loc=1.0, size=20_000)
    if not above:
        a, b = -a, -b
    promise, event = lower_bounds.best_event(a, b, 20_000, 1e-6, None)
    # mu = 1; the middle is best, and a million runs would get within a per cent
    assert 0.85 < promise < 1.0
    # the optimum is flat, and both readings are equally good: "above 0.5 in b" is "below 0.5 in a"
    assert abs(abs(event.threshold) - 0.5) < 0.9
    counted = lower_bounds.count(event, a, b)
    assert counted.count / counted.runs > counted.other_count / counted.other_runs


def test_events_of_scores_with_few_values_or_one_value():
    a, b = np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, 2.0])
    _, event = lower_bounds.best_event(a, b, 1000, 0.01, 0.0)
    assert event.threshold in (0.5, 1.5)
    same = np.ones(5)
    promise, event = lower_bounds.best_event(same, same, 1000, 0.01, 0.0)
    assert promise <= 0.0
    assert lower_bounds.count(event, same, same).epsilon(0.0, 0.01) == 0.0


def test_the_band_covers_the_whole_distribution():
    """The inequality of Dvoretzky, Kiefer and Wolfowitz, 2,000 times at 1 %: 60 is beyond 1e-9."""
    rng = np.random.default_rng(1)
    runs, alarm = 200, 0.01
    outside = 0
    for _ in range(2000):
        u = np.sort(rng.random(runs))
        steps = np.arange(1, runs + 1) / runs
        worst = max(np.abs(steps - u).max(), np.abs(steps - 1.0 / runs - u).max())
        outside += worst > lower_bounds.band(runs, alarm)
    assert outside < 60
