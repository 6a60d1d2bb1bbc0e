"""The sharper promise for losses whose slope has one sign, against exact densities in one dimension."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reticent.privacy import ObjectivePerturbation

GRID = np.linspace(-40.0, 40.0, 160_001)
STEP = GRID[1] - GRID[0]
NOTHING = (np.zeros_like(GRID), np.zeros_like(GRID))


def logistic(label, size=1.0, cap=1.0):
    """Slope and curvature of log(1 + exp(-label size theta)), the slope no steeper than cap."""
    q = 1.0 / (1.0 + np.exp(np.clip(label * size * GRID, -700, 700)))
    return -label * size * np.minimum(q, cap), np.where(q < cap, size**2 * q * (1 - q), 0.0)


def hinge(label, width):
    """Slope and curvature of a smooth hinge."""
    s = 1.0 - label * GRID
    inside = (s > 0) & (s < width)
    return -label * np.clip(s / width, 0, 1), inside / width


def density(parts, ridge, sigma):
    slope = sum(part[0] for part in parts) + ridge * GRID
    bend = sum(part[1] for part in parts) + ridge
    p = np.exp(-0.5 * (slope / sigma) ** 2) * bend
    return p / (p.sum() * STEP)


def stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * STEP)


def pair_stick(p, q, epsilon, cells=4000):
    """The hockey stick of two independent copies, from the distribution of the privacy loss."""
    kept = (p > 1e-200) & (q > 1e-200)
    loss, mass = np.log(p[kept] / q[kept]), p[kept] * STEP
    edges = np.linspace(loss.min(), loss.max() + 1e-9, cells + 1)
    place = np.clip(np.searchsorted(edges, loss, side="right") - 1, 0, cells - 1)
    weights = np.bincount(place, mass, minlength=cells)
    low = edges[:-1]  # rounded down: a lower bound of the true hockey stick
    total = low[:, None] + low[None, :]
    gain = np.maximum(1.0 - np.exp(np.minimum(epsilon - total, 0.0)), 0.0)
    return float(weights @ gain @ weights)


OTHERS = ([NOTHING], [logistic(-1.0), logistic(1.0, 0.5)])


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("ridge", [0.3, 3.0])
@pytest.mark.parametrize(
    ("record", "other", "slope", "bend"),
    [
        (logistic(1.0), logistic(-1.0), 1.0, 0.25),
        (logistic(1.0), logistic(-1.0, 0.3), 1.0, 0.25),
        (logistic(1.0, cap=0.5), logistic(-1.0, cap=0.5), 0.5, 0.25),
        (hinge(1.0, 0.5), hinge(-1.0, 0.5), 1.0, 2.0),
    ],
)
def test_single_fits(record, other, slope, bend, ridge, sigma):
    c = math.log1p(bend / ridge)
    blanked = ObjectivePerturbation(slope / sigma, c, "zero-out", True)
    replaced = ObjectivePerturbation(slope / sigma, c, "replace", True)
    for rest in OTHERS:
        p, q = density([*rest, record], ridge, sigma), density(rest, ridge, sigma)
        r = density([*rest, other], ridge, sigma)
        for epsilon in (0.0, 0.5, c, 2.0, 5.0):
            exact = max(stick(p, q, epsilon), stick(q, p, epsilon))
            assert exact <= blanked.delta(epsilon) * (1 + 1e-6) + 1e-9
            exact = max(stick(p, r, epsilon), stick(r, p, epsilon))
            assert exact <= replaced.delta(epsilon) * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("sigma", [0.7, 2.0])
def test_two_fits(sigma):
    ridge, c = 2.0, math.log1p(0.25 / 2.0)
    blanked = ObjectivePerturbation(1 / sigma, c, "zero-out", True, 2)
    replaced = ObjectivePerturbation(1 / sigma, c, "replace", True, 2)
    p, q = density([logistic(1.0)], ridge, sigma), density([NOTHING], ridge, sigma)
    r = density([logistic(-1.0)], ridge, sigma)
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        exact = max(pair_stick(p, q, epsilon), pair_stick(q, p, epsilon))
        assert exact <= blanked.delta(epsilon)
        assert pair_stick(p, r, epsilon) <= replaced.delta(epsilon)


def test_it_is_nearly_attained():
    # far from its border a record's slope is almost 1 and its curvature almost 0
    sigma, ridge = 2.0, 20.0
    shift = (np.full_like(GRID, 40.0), np.zeros_like(GRID))
    p = density([shift, logistic(1.0, 4.0)], ridge, sigma)
    q = density([shift], ridge, sigma)
    curve = ObjectivePerturbation(4 / sigma, math.log1p(4.0 / ridge), "zero-out", True)
    assert stick(p, q, 3.0) > 0.5 * curve.delta(3.0)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("count", [1, 3])
def test_epsilon_and_delta_agree(neighbours, count):
    curve = ObjectivePerturbation(0.2, 0.05, neighbours, True, count)
    for delta in (1e-8, 1e-4, 1e-2):
        epsilon = curve.epsilon(delta)
        assert curve.delta(epsilon) <= delta * (1 + 1e-12)  # which is rounded up
        assert curve.delta(epsilon * (1 - 1e-4)) > delta


def test_several_two_sided_fits_are_refused():
    with pytest.raises(ValueError, match="count"):
        ObjectivePerturbation(0.2, 0.05, count=2)
