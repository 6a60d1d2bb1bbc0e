"""`audit.mechanism` on mechanisms whose privacy is known exactly.

Every bound that is compared with a truth here is wrong with probability at most 1e-6 by construction,
and seeds are fixed.
"""

from __future__ import annotations

import numpy as np
import pytest

import reticent
from reticent import audit
from reticent.privacy import Gaussian, Pure


def laplace(scale, seed=0):
    rng = np.random.default_rng(seed)
    return lambda world, size: world + rng.laplace(scale=scale, size=size)


def normal(sigma, seed=0):
    rng = np.random.default_rng(seed)
    return lambda world, size: world + rng.normal(scale=sigma, size=(size, np.size(world)))


def test_a_tight_pure_claim_is_nearly_reached_and_not_refuted():
    found = audit.mechanism(laplace(1.0), 0.0, 1.0, runs=200_000, batch=50_000, claim=1.0)
    assert 0.95 < found.epsilon <= 1.0
    assert found.holds
    assert found.tightness == found.epsilon
    assert found.false_alarm == 1e-6


def test_half_the_noise_is_found_out():
    found = audit.mechanism(laplace(0.5), 0.0, 1.0, runs=20_000, batch=10_000, claim=1.0)
    assert found.epsilon > 1.5
    assert not found.holds
    assert "FALSE" in str(found)


@pytest.mark.parametrize(("a", "b"), [(0.0, 1.0), (1.0, 0.0), (0.0, -1.0)])
def test_the_direction_does_not_matter(a, b):
    found = audit.mechanism(laplace(1.0), a, b, runs=40_000, batch=20_000, claim=Pure(1.0))
    assert 0.8 < found.epsilon <= 1.0


def test_a_gaussian_claim_is_judged_by_mu():
    mu = reticent.Budget(1.0, 1e-6).mu
    found = audit.mechanism(
        normal(1.0 / mu), 0.0, 1.0, runs=200_000, batch=50_000, delta=1e-6, claim=Gaussian(mu), selection=0.2
    )  # fmt: skip
    assert 0.78 < found.epsilon <= 1.0
    assert 0.8 * mu < found.gdp <= mu
    wrong = audit.mechanism(
        normal(0.6 / mu), 0.0, 1.0, runs=100_000, batch=50_000, delta=1e-6, claim=Gaussian(mu)
    )  # fmt: skip
    assert not wrong.holds


def test_without_a_claim_both_bounds_are_reported_and_nothing_is_judged():
    found = audit.mechanism(normal(1.0), 0.0, 1.0, runs=20_000, batch=10_000, delta=1e-6)
    assert 0.8 < found.gdp <= 1.0
    # an event bound alone is far below the epsilon of 1-GDP at 1e-6, which is 5.2
    assert 0.5 < found.epsilon < 5.2
    assert found.holds
    assert found.claimed is None


def test_vectors_need_no_statistic_of_the_users_own():
    """A shift of (1, 1) with unit noise is sqrt(2)-GDP, along the diagonal; each coordinate alone is 1-GDP."""
    found = audit.mechanism(
        normal(1.0), np.zeros(2), np.ones(2), runs=60_000, batch=30_000, delta=1e-6, claim=Gaussian(2**0.5)
    )  # fmt: skip
    assert 1.2 < found.gdp <= 2**0.5
    explicit = audit.mechanism(
        normal(1.0), np.zeros(2), np.ones(2), runs=60_000, batch=30_000, delta=1e-6,
        statistic=audit.GaussianRatio([1.0, 1.0], np.eye(2)), claim=Gaussian(2**0.5),
    )  # fmt: skip
    assert 1.25 < explicit.gdp <= 2**0.5


def test_one_run_at_a_time_and_labels():
    rng = np.random.default_rng(3)

    def randomised_response(world):
        return world if rng.random() < 0.75 else "no" if world == "yes" else "yes"

    found = audit.mechanism(randomised_response, "yes", "no", runs=8000, claim=np.log(3.0))
    assert 0.9 < found.epsilon <= np.log(3.0)
    assert not audit.mechanism(randomised_response, "yes", "no", runs=8000, claim=0.8).holds


def test_no_noise_at_all():
    found = audit.mechanism(lambda world: world, 0.0, 1.0, runs=2000, claim=1.0)
    assert found.epsilon > 3.0
    assert not found.holds


def test_noise_that_repeats_itself_is_noticed():
    """Each call has the right distribution; all calls have the same noise."""

    def same_seed(world, size):
        return world + np.random.default_rng(7).laplace(scale=1.0, size=size)

    found = audit.mechanism(same_seed, 0.0, 1.0, runs=4000, batch=1000, claim=1.0)
    assert found.repeated
    assert found.epsilon == np.inf
    assert not found.holds
    assert "repeats" in str(found)
    # the two worlds alone: one call each
    assert audit.mechanism(same_seed, 0.0, 1.0, runs=1000, batch=1000, claim=1.0).repeated
    assert not audit.mechanism(laplace(1.0), 0.0, 1.0, runs=4000, batch=1000).repeated


def test_identical_worlds_are_never_told_apart():
    for seed in range(20):
        found = audit.mechanism(laplace(1.0, seed), 0.0, 0.0, runs=2000, batch=2000, claim=0.0)
        assert found.epsilon == 0.0


def test_bad_input_is_refused():
    run = laplace(1.0)
    for wrong in (
        {"runs": 4}, {"runs": 100, "delta": 1.0}, {"runs": 100, "false_alarm": 0.0},
        {"runs": 100, "batch": 0}, {"runs": 100, "selection": 1.0},
    ):  # fmt: skip
        with pytest.raises(ValueError):
            audit.mechanism(run, 0.0, 1.0, **({"batch": 10} | wrong))
    with pytest.raises(TypeError, match="claim"):
        audit.mechanism(run, 0.0, 1.0, runs=100, batch=10, claim="private")
    with pytest.raises(ValueError, match="one a row"):
        audit.mechanism(lambda world, size: [1.0], 0.0, 1.0, runs=100, batch=10)
    with pytest.raises(ValueError, match="NaN"):
        audit.mechanism(lambda world: np.nan, 0.0, 1.0, runs=100)
