"""Bets against claims: false alarms at the stated probability, whenever one looks, and power against faults."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from reticent import audit
from reticent.audit import bets, canaries
from reticent.privacy import BoundedRange, Gaussian, Laplace, Pure, compose

NULLS = 10_000
ALARM = 0.05
# A true claim is refuted in at most 5% of the repeats; more than this many of 10,000 has probability below 1e-9.
MOST = int(binom.isf(1e-9, NULLS, ALARM))


@pytest.mark.parametrize("claim", [Gaussian(1.0), BoundedRange(1.0)])
def test_ten_thousand_nulls_of_guesses(claim):
    """Each canary by itself is answered as well as the claim allows; guesses about all of them."""
    rng = np.random.default_rng(5)
    m, mu = 50, 1.0
    chance = float(0.5 * math.erfc(-0.5 * mu / math.sqrt(2.0)))
    if claim.gdp is None:
        chance = 1.0 / (1.0 + math.exp(-0.5 * claim.pure))
    right = rng.binomial(m, chance, size=NULLS)
    limits = {
        v: float(canaries.trade_off_p_value(v, m, canaries._inverse(claim, np.ones(1)))[0])
        for v in np.unique(right).tolist()
    }
    alarms = sum(limits[v] <= ALARM for v in right.tolist())
    assert alarms <= MOST


def test_guesses_about_worlds_that_do_not_differ_are_coin_tosses():
    for m, v in ((10, 10), (100, 70), (1000, 560)):
        found = float(canaries.trade_off_p_value(v, m, lambda p: p)[0])
        exact = float(binom.sf(v - 1, m, 0.5))
        assert exact <= found * (1 + 1e-9) <= 1.1 * exact


def test_the_bound_on_guesses_holds_for_randomised_response():
    """Under pure privacy the number of right guesses is binomial at worst (Steinke et al.): the bound is above it."""
    m, claim = 60, Pure(1.0)
    for v in (40, 48, 55):
        found = float(canaries.trade_off_p_value(v, m, canaries._inverse(claim, np.ones(1)))[0])
        assert found >= float(binom.sf(v - 1, m, 1.0 / (1.0 + math.exp(-1.0)))) * (1 - 1e-9)


@pytest.mark.parametrize(("divided_by", "holds"), [(1.0, True), (1.5, False)])
def test_power_and_honesty(divided_by, holds):
    rng = np.random.default_rng(3)

    def run(world, size):
        return world + rng.normal(size=(size, 1)) / divided_by

    found = audit.sequential(
        run, 0.0, 1.0, claim=Gaussian(1.0), delta=1e-6, runs=20_000, batch=5000
    )
    assert found.holds is holds
    assert found.verdict == ("holds" if holds else "REFUTED")
    if holds:
        assert 0.7 < found.gdp <= 1.0
    else:
        assert found.runs < 20_000  # it stopped when the verdict was clear


@pytest.mark.parametrize(("divided_by", "holds"), [(1.0, True), (1.7, False)])
def test_power_against_a_mixed_claim(divided_by, holds):
    """A Gaussian number, and a Laplace one that says little: neither mu nor a pure epsilon tells the claim."""
    rng = np.random.default_rng(3)

    def run(world, size):
        first = world + rng.normal(size=size) / divided_by
        return np.stack([first, 0.05 * world + rng.laplace(size=size) / divided_by], axis=1)

    found = audit.sequential(
        run, 0.0, 1.5, claim=compose([Gaussian(1.5), Laplace(0.075)]), delta=1e-6, runs=4000,
        batch=1000, statistic=lambda rows: rows[:, 0],
    )  # fmt: skip
    assert found.holds is holds
    assert found.verdict == ("holds" if holds else "REFUTED")


def test_a_longer_run_can_only_add():
    def bound(runs):
        rng = np.random.default_rng(0)
        found = audit.sequential(
            lambda world, size: world + rng.laplace(size=size), 0.0, 1.0, claim=1.0, runs=runs,
            batch=10**6, stop=False,
        )  # fmt: skip
        return found.epsilon

    assert 0.0 < bound(500) <= bound(1300) <= bound(9000)


@pytest.mark.parametrize("cost", [1e-6, 1e-4, 1e-2])
def test_batches_fit_into_the_time_that_was_given(cost, monkeypatch):
    """A clock that only runs move; the first batch is free, as it may compile."""
    clock = [0.0]
    monkeypatch.setattr(bets.time, "process_time", lambda: clock[0])
    done = []
    for size in bets._sizes(50_000, 1.5):
        done.append(size)
        clock[0] += size * cost
    most = min(50_000, 1.5 / cost + done[0])
    assert sum(done) <= max(
        most, 2 * done[0]
    )  # two batches at least: one to learn from, one to bet on
    assert len(done) >= 2
    assert sum(done) >= min(50_000, 0.9 * most)
    assert list(bets._sizes(1000)) == [125, 125, 125, 187, 281, 157]


def test_an_attack_that_ran_out_of_time_is_a_shorter_attack():
    rng = np.random.default_rng(0)
    found = audit.sequential(
        lambda world, size: world + rng.laplace(size=size), 0.0, 1.0, claim=1.0, runs=10**7,
        batch=10**4, seconds=0.01,
    )  # fmt: skip
    assert found.holds
    assert 512 <= found.runs < 10**7


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="seconds must be"):
        audit.sequential(lambda world: 0.0, 0, 1, claim=1.0, runs=100, seconds=-1.0)
    with pytest.raises(ValueError, match="claim must be given"):
        audit.sequential(lambda world: 0.0, 0, 1, claim=None, runs=100)
    with pytest.raises(ValueError, match="claim must be given"):
        audit.few_runs(lambda included: included, lambda x: x, 10, claim=None)


def test_noise_that_repeats_itself():
    noise = np.random.default_rng(0).normal(size=64)

    def run(world, size):
        return world + noise[:size]

    found = audit.sequential(run, 0.0, 1.0, claim=Gaussian(1.0), delta=1e-6, runs=640, batch=64)
    assert found.repeated
    assert not found.holds
