"""One training run with many canaries, against exact binomial probabilities and known mechanisms."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

import reticent
from reticent import audit, sums
from reticent.audit import canaries


def test_the_p_value_is_the_theorem_s_bound():
    """Written out with loops from Theorem 5.2 of Steinke, Nasr and Jagielski."""
    right, guesses, m, epsilon, delta = 70, 90, 200, 0.7, 1e-4
    q = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    chance = [math.comb(guesses, k) * q**k * (1 - q) ** (guesses - k) for k in range(guesses + 1)]
    tail = sum(chance[right:])
    alpha = max(sum(chance[right - i : right]) / i for i in range(1, right + 1))
    wanted = tail + 2 * m * delta * alpha
    assert canaries.p_value(right, guesses, m, epsilon, delta) == pytest.approx(wanted, rel=1e-9)
    assert canaries.p_value(right, guesses, m, epsilon, 0.0) == pytest.approx(tail, rel=1e-9)
    assert canaries.p_value(0, guesses, m, epsilon, delta) == 1.0


def test_the_bound_is_the_largest_refuted_epsilon():
    for right, guesses in product((60, 80, 95, 100), (100,)):
        bound = canaries.epsilon_bound(right, guesses, 100, 1e-6, 1e-3)
        if bound > 0.0:
            assert canaries.p_value(right, guesses, 100, bound * 0.999, 1e-6) <= 1e-3
        assert canaries.p_value(right, guesses, 100, bound * 1.001 + 1e-6, 1e-6) > 1e-3
    assert canaries.epsilon_bound(50, 100, 100, 0.0, 1e-3) == 0.0


def test_randomised_response_is_bounded_below_its_epsilon():
    """Every guess is right with the probability that epsilon allows: the best there can be.

    False alarm: at most 1e-6 for each of 30 runs.
    """
    epsilon, m = 2.0, 2000
    rng = np.random.default_rng(0)
    truth = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    found = []
    for seed in range(30):

        def train(included):
            return np.where(rng.random(m) < truth, included, ~included)

        one = audit.one_run(train, lambda output: output, m, guesses=m, seed=seed, claim=epsilon)
        assert one.holds
        found.append(one.epsilon)
    assert np.mean(found) > 0.75 * epsilon
    assert audit.expected_bound(epsilon, m) == pytest.approx(np.mean(found), abs=0.1)


def test_one_run_of_a_running_total():
    """One canary a coordinate, one run; the noise of a total at epsilon = 8 leaves some to be seen."""
    m, budget = 400, reticent.Budget(8.0, 1e-6)

    def train(included):
        total = sums.Independent(m, m, budget=budget, seed=5)
        return total.run(np.diag(included.astype(float)))

    def score(outputs):
        return np.diff(outputs, axis=0, prepend=0.0).diagonal()

    claim = sums.Independent(m, m, budget=budget).guarantee
    found = audit.one_run(train, score, m, delta=1e-12, claim=claim, seed=1)
    assert 0.5 < found.epsilon <= found.claimed
    assert found.holds
    # the theorem allows for as many deltas as there are canaries, which leaves nothing here
    blunt = audit.one_run(train, score, m, delta=1e-6, claim=claim, seed=1)
    assert blunt.epsilon == 0.0
    assert "too large" in blunt.how
    # a tenth of the noise
    quiet = audit.one_run(
        lambda included: included + np.random.default_rng(2).normal(scale=0.065, size=m),
        lambda output: output, m, delta=1e-12, claim=2.0, seed=1, guesses=m // 2,
    )  # fmt: skip
    assert not quiet.holds


def test_coins_are_fair_and_independent_of_the_scores():
    """A score that knows nothing: the bound is 0 but for 1e-6 of the seeds."""
    rng = np.random.default_rng(4)
    sizes = []
    for seed in range(50):

        def train(included):
            sizes.append(int(included.sum()))
            return rng.normal(size=included.size)

        assert audit.one_run(train, lambda output: output, 200, seed=seed).epsilon == 0.0
    low, high = binom.ppf([1e-7, 1 - 1e-7], 200 * 50, 0.5)
    assert low <= sum(sizes) <= high


def test_bad_input_is_refused():
    def train(included):
        return included.astype(float)

    with pytest.raises(ValueError, match="canaries"):
        audit.one_run(train, lambda output: output, 1)
    with pytest.raises(ValueError, match="one number for each"):
        audit.one_run(train, lambda output: output[:-1], 10)
    with pytest.raises(ValueError, match="NaN"):
        audit.one_run(train, lambda output: output * np.nan, 10)
    with pytest.raises(ValueError, match="guesses"):
        audit.one_run(train, lambda output: output, 10, guesses=[])
    with pytest.raises(ValueError, match="guesses"):
        audit.one_run(train, lambda output: output, 10, guesses=11)
