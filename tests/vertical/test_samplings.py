"""Samplings of blocks: their probabilities against draws and enumeration."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from reticent.vertical import (
    Custom,
    Distributed,
    Elementary,
    Importance,
    Listed,
    TauNice,
    UniformSerial,
)

NAMED = [
    Elementary(), UniformSerial(), TauNice(3), Distributed(2, 2), Distributed(2, 1, (2, 4)),
    Importance([1, 2, 3, 4, 5, 6]), Listed([[0, 1, 2], [3, 4], [5]], [0.5, 0.3, 0.2]),
]  # fmt: skip


@pytest.mark.parametrize("sampling", NAMED, ids=repr)
def test_pairs_against_draws(sampling):
    """8,000 draws of 36 pairs: a deviation of 6 standard errors has probability below 1e-7."""
    rng = np.random.default_rng(0)
    table = np.zeros((6, 6))
    for _ in range(8_000):
        drawn = sampling.draw(6, rng)
        assert np.array_equal(drawn, np.unique(drawn))
        table[np.ix_(drawn, drawn)] += 1.0
    assert np.abs(table / 8_000 - sampling.pairs(6)).max() < 6 * 0.5 / np.sqrt(8_000)
    assert sampling.p_min(6) == pytest.approx(np.diag(sampling.pairs(6)).min())


def test_tau_nice_by_enumeration():
    sets = list(combinations(range(6), 3))
    by_hand = Listed(sets, np.full(len(sets), 1 / len(sets)))
    assert np.allclose(TauNice(3).pairs(6), by_hand.pairs(6))


def test_distributed_by_enumeration():
    sets = [(*a, *(3 + np.array(b))) for a in combinations(range(3), 2)
            for b in combinations(range(3), 2)]  # fmt: skip
    by_hand = Listed(sets, np.full(len(sets), 1 / len(sets)))
    assert np.allclose(Distributed(2, 2).pairs(6), by_hand.pairs(6))
    # the table of the paper has the square of this
    assert Distributed(4, 3).p_min(40) == pytest.approx(4 * 3 / 40)


def test_a_user_s_own():
    def pair(blocks, rng):
        start = rng.integers(blocks)
        return [start, (start + 1) % blocks]

    assert Custom(pair, p_min=0.4).p_min(5) == 0.4
    estimated = Custom(pair).p_min(5)
    assert 0.36 < estimated < 0.4  # rounded down, for the step must not be too long
    assert not Custom(pair).exact
    assert np.allclose(Custom(pair).pairs(5).sum(), 4.0, atol=0.01)


def test_bad_input():
    with pytest.raises(ValueError, match="never draws"):
        Listed([[0], [1]], [1.0, 0.0]).p_min(2)
    with pytest.raises(ValueError, match="never draws"):
        Custom(lambda blocks, rng: [0]).p_min(3)
    with pytest.raises(ValueError, match="outside"):
        Custom(lambda blocks, rng: [9]).draw(3, np.random.default_rng(0))
    with pytest.raises(ValueError, match="add up to 1"):
        Listed([[0]], [0.5])
    with pytest.raises(ValueError, match="cannot share"):
        Distributed(4, 1).p_min(3)
    with pytest.raises(ValueError, match="add up"):
        Distributed(2, 1, (2, 2)).p_min(5)
    with pytest.raises(ValueError, match="above 0"):
        Importance([1.0, 0.0])
    with pytest.raises(ValueError, match="one each"):
        Importance([1.0, 1.0]).p_min(3)
    with pytest.raises(ValueError):
        TauNice(0)
    with pytest.raises(TypeError):
        Custom(3)
