"""Odds are the exact accuracy of the best attacker, recomputed from densities and by playing the game."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

import reticent
from reticent.privacy import Gaussian, Guarantee, Laplace, NoPrivacy, Pure, Release


def _guarantee(*curves, **scope):
    return Guarantee([Release("test", curve, 1.0, "noise") for curve in curves], **scope)


@pytest.mark.parametrize("mu", [1e-3, 0.2368, 1.0, 3.0])
def test_gaussian_odds_are_the_overlap_of_two_densities(mu):
    overlap = integrate.quad(
        lambda x: min(stats.norm.pdf(x), stats.norm.pdf(x, mu)), -12, 12 + mu, points=[mu / 2]
    )[0]
    found = _guarantee(Gaussian(mu)).odds(10**6)
    assert found.right == math.ceil(10**6 * (1.0 - overlap / 2.0) - 1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_pure_odds_are_those_of_randomised_response(epsilon):
    truth = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    assert _guarantee(Pure(epsilon)).odds(10**6).right == math.ceil(10**6 * truth - 1e-6)


def test_laplace_odds_are_the_overlap_of_two_densities():
    exact = 1.0 - 0.5 * math.exp(-0.5)
    assert _guarantee(Laplace(1.0)).odds(10**6).right in (
        math.ceil(10**6 * exact),
        math.ceil(10**6 * exact) + 1,
    )


def test_the_best_attacker_is_right_that_often():
    """A million coins; a false alarm has probability below 1e-6 (five standard deviations on each side)."""
    rng, mu, n = np.random.default_rng(0), 0.8, 10**6
    coin = rng.integers(0, 2, n)
    seen = rng.standard_normal(n) + mu * coin
    right = int(np.sum((seen > mu / 2) == coin))
    assert abs(right - _guarantee(Gaussian(mu)).odds(n).right) < 5 * math.sqrt(n / 4) + 1


def test_no_promise_says_so():
    found = _guarantee(NoPrivacy()).odds()
    assert found.right == 1000
    assert "nothing is guaranteed" in str(found)


def test_persons_and_ages_are_named():
    budget = reticent.Budget(1.0, 1e-6, window=1024)
    guarantee = reticent.sums.Correlated(
        1, budget=budget, noise_precision="float", seed=0
    ).guarantee
    young, old = guarantee.odds(age=1), guarantee.odds(age=10_240)
    assert young.right < guarantee.odds().right < old.right
    # a promise with a window says nothing of whoever sees more
    assert "1,024 outputs from the record's own" in str(guarantee.odds())
    assert "every output" not in guarantee.explain()
    fading = reticent.Budget(1.0, 1e-6, fade=[(1024, 1.0), (10**6, 2.0)])
    faded = reticent.sums.Correlated(1, budget=fading, noise_precision="float", seed=0).guarantee
    assert faded.odds() == faded.odds(age=10**6)
    assert "1,000,000 outputs" in str(faded.odds())
    assert "10,240 outputs from the record's own" in str(old)
    assert "all of their records take part" in str(_guarantee(Gaussian(0.1), unit="person").odds())


def test_a_window_of_persons_says_nothing_of_their_earlier_records():
    """Only the records that came within the outputs are protected: older ones are in these outputs too."""
    within = str(_guarantee(Gaussian(0.1), unit="person", window=64).odds())
    assert "those of their records that come within 64 consecutive outputs take part" in within
    assert "sees these outputs and knows all other records" in within
    assert "all of their records" not in within
    fading = str(_guarantee(Gaussian(0.1), unit="person", ages=(8, 64)).odds())
    assert "all of their records take part" in fading
    assert "sees 64 outputs from the person's first" in fading


def test_a_plot_has_a_dot_for_every_person():
    pytest.importorskip("matplotlib")
    ax = _guarantee(Gaussian(0.2368)).odds(200).plot()
    assert sum(len(c.get_offsets()) for c in ax.collections) == 200


@pytest.mark.parametrize("people", [1, 0, -5, 2.5, "many", None])
def test_bad_numbers_of_people_are_refused(people):
    with pytest.raises((TypeError, ValueError), match="people"):
        _guarantee(Gaussian(0.1)).odds(people)


@pytest.mark.parametrize("people", [1000, 10**12, 10**18 + 1, 10**40])
@pytest.mark.parametrize("mu", [1e-300, 1e-17, 1e-9, 0.3])
def test_at_most_holds_for_any_number_of_people(people, mu):
    odds = _guarantee(Gaussian(mu)).odds(people)
    distance = Fraction(Gaussian(mu).delta(0.0))
    assert odds.right + Fraction(1, 10**9) >= Fraction(people, 2) * (1 + distance)
    assert odds.right <= Fraction(people, 2) * (1 + distance) + 1
