"""Rounds and batches of an epoch: every play is in one, and none is empty."""

from __future__ import annotations

import math

import pytest

from reticent.bandit import plan


@pytest.mark.parametrize("plays", [1, 2, 3, 5, 10, 17, 99, 100, 101, 1000, 4095])
def test_rounds(plays):
    """T_round = ceil(sqrt T) where that leaves none empty; the last one short; every play in one."""
    rounds, batch = plan.layout(plays, None)
    assert rounds == math.ceil(math.sqrt(plays))
    lengths = [min(batch, plays - r * batch) for r in range(rounds)]
    assert sum(lengths) == plays
    assert min(lengths) >= 1


@pytest.mark.parametrize("batches", [1, 2, 7, 50, 99, 100, 1000])
def test_given_rounds(batches):
    rounds, batch = plan.layout(100, batches)
    lengths = [min(batch, 100 - r * batch) for r in range(rounds)]
    assert sum(lengths) == 100
    assert min(lengths) >= 1
    assert rounds <= batches
