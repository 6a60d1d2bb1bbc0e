"""The selection of a corner with few draws, against the exponential mechanism's law."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from reticent.erm import corner_selection
from reticent.erm.corner_selection import Corners, _exceeds
from reticent.noise import Source


@pytest.mark.parametrize(
    ("count", "signed", "shape"),
    [(700, True, "heavy"), (900, True, "flat"), (900, False, "heavy"), (1500, True, "ties")],
)
def test_the_selection_is_the_exponential_mechanism(count, signed, shape):
    # 8,000 choices in 60 groups of like probability; false alarm 1e-6.
    rng = np.random.default_rng(count)
    g = rng.standard_normal(count)
    if shape == "heavy":
        g[rng.integers(count, size=4)] *= 6.0
    if shape == "ties":
        g = np.where(rng.random(count) < 0.9, 0.0, np.round(g))
    scale, trials = 0.8, 8_000
    weights = np.exp(np.concatenate([-g, g]) / scale) if signed else np.exp(-g / scale)
    law = weights / weights.sum()
    chooser = Corners(count, signed, Source(11))
    counts = np.zeros(len(law))
    for _ in range(trials):
        j, sign = chooser.pick(g, scale)
        counts[j + (count if sign < 0 else 0)] += 1
    order = np.argsort(law)
    group = np.minimum((np.cumsum(law[order]) * 60).astype(int), 59)
    seen = np.bincount(group, weights=counts[order], minlength=60)
    expected = trials * np.bincount(group, weights=law[order], minlength=60)
    kept = expected > 0
    assert chisquare(seen[kept], expected[kept]).pvalue > 1e-6


def test_few_draws_where_scores_are_alike():
    chooser = Corners(50_000, True, Source(0))
    g = 0.01 * np.random.default_rng(0).standard_normal(50_000)
    for _ in range(50):
        chooser.pick(g, 1.0)
    assert chooser.draws / 50 < 1000  # of 100,000


def test_undecided_acceptances_are_settled_exactly():
    # -log U against a number that lies within the uniform's first 64 bits: over many continuations
    # the answer must be "above" in the right proportion. 600 trials, 6 standard deviations.
    word = 2**63
    low, high = word / 2**64, (word + 1) / 2**64
    share = 0.3
    target = -math.log(low + share * (high - low))
    edge = Fraction(word) / 2**64 + Fraction(share) / 2**64
    from mpmath import mp

    mp.prec = 300
    exact = -mp.log(mp.mpf(edge.numerator) / mp.mpf(edge.denominator))
    rest = Fraction(int(mp.floor(exact * mp.mpf(2) ** 250)), 2**250)
    assert float(rest) == pytest.approx(target)
    source = Source(5)
    above = np.mean([_exceeds(source, word, rest, 0) for _ in range(600)])
    assert abs(above - share) < 6 * math.sqrt(share * (1 - share) / 600)
    # with a shift by 3 bits the same number, 3 log 2 further up
    shifted = rest + Fraction(int(mp.floor(3 * mp.log(2) * mp.mpf(2) ** 250)), 2**250)
    above = np.mean([_exceeds(source, word, shifted, 3) for _ in range(600)])
    assert abs(above - share) < 6 * math.sqrt(share * (1 - share) / 600)


def test_ceilings_are_above():
    rng = np.random.default_rng(0)
    for _ in range(200):
        value, scale = rng.standard_normal() * 10 ** rng.uniform(-9, 9), 10 ** rng.uniform(-3, 3)
        up = corner_selection._up(np.array([value / scale]))[0]
        assert Fraction(up) > Fraction(value) / Fraction(scale)
