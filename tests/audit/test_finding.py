"""Findings: as data, as a picture, and the parts of the claim that they are compared with."""

from __future__ import annotations

import numpy as np
import pytest

from reticent import audit
from reticent.audit.finding import epsilon_of_part, part_of
from reticent.privacy import BoundedRange, Gaussian, Laplace, Pure, SubsampledGaussian, compose


def laplace(scale, seed=0):
    rng = np.random.default_rng(seed)
    return lambda world, size: world + rng.laplace(scale=scale, size=size)


def test_a_finding_as_data_and_as_a_picture():
    pytest.importorskip("matplotlib")
    found = audit.mechanism(laplace(1.0), 0.0, 1.0, runs=4000, batch=4000, claim=1.0)
    plain = found.to_dict()
    assert plain["holds"] is True
    assert plain["claimed"] == 1.0
    ax = found.plot()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["perfect privacy", "claimed", "band", "measured"]
    # the measured curve is never below the claim by more than the band
    from reticent.plots.tradeoff import claimed_misses

    allowed = claimed_misses(
        Pure(1.0).delta, np.clip(found.roc.false_alarms + found.roc.half_width, 0.0, 1.0)
    )
    assert (found.roc.misses >= allowed - found.roc.half_width).all()


def test_parts_of_a_claim():
    """Every mu and epsilon times the share; what has no known parts is scaled at each delta."""
    mixed = compose([Gaussian(2.0), (BoundedRange(1.0), 3), Laplace(0.5)])
    assert part_of(mixed, 1.0) is mixed
    assert part_of(mixed, 0.5) == compose([Gaussian(1.0), (BoundedRange(0.5), 3), Laplace(0.25)])
    for delta in (1e-6, 0.01, 0.2):
        parts = [epsilon_of_part(mixed, share, delta) for share in (0.25, 0.5, 0.75, 1.0, 1.5)]
        assert parts == sorted(parts)
        assert parts[3] == mixed.epsilon(delta)
    sampled = SubsampledGaussian(0.1, 2.0, 3)
    assert part_of(sampled, 0.5) is None
    assert epsilon_of_part(sampled, 0.5, 1e-6) == 0.5 * sampled.epsilon(1e-6)
