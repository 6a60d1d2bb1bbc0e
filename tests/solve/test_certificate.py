"""Lower bounds from tangents: they hold everywhere on the set, and are tight at the minimum."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reticent import sets
from reticent.solve.certificate import duality_gap, least_of_tangent
from reticent.solve.objective import Region

SETS = {
    "ball": sets.L2Ball(4, 1.5),
    "l1": sets.L1Ball(4, 2.0),
    "box": sets.LinfBall(4, 0.7),
    "birkhoff": sets.Birkhoff(2),
    "half free": sets.Product([sets.WholeSpace(2), sets.Simplex(2)]),
    "free": sets.WholeSpace(4),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("m", [0.0, 0.3])
def test_no_point_is_below_the_bound(name, m):
    where, rng = SETS[name], np.random.default_rng(1)
    region = Region(where, 4)
    for _ in range(50):
        x, g = where.sample(rng).ravel(), rng.standard_normal(4)
        bound = least_of_tangent(region, x, g, m)
        assert math.isfinite(bound) == (region.bounded or m > 0.0)
        for _ in range(20):
            d = where.sample(rng).ravel() - x
            assert g @ d + 0.5 * m * d @ d >= bound - 1e-12


@pytest.mark.parametrize("name", ["ball", "l1", "box", "half free", "free"])
def test_the_gap_is_nothing_at_the_minimum(name):
    """Of the squared distance to a point: its minimiser on the set is the projection."""
    where, rng = SETS[name], np.random.default_rng(2)
    region = Region(where, 4)
    for _ in range(20):
        target = 3.0 * rng.standard_normal(4)
        x = where.project(target)
        assert duality_gap(region, x, x - target, 1.0) <= 1e-12 * (1.0 + target @ target)
        other = where.sample(rng).ravel()
        gap = duality_gap(region, other, other - target, 1.0)
        true = 0.5 * (np.sum((other - target) ** 2) - np.sum((x - target) ** 2))
        assert gap == pytest.approx(true, rel=1e-9)
