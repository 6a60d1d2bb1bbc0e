"""Responses come as close to the minimum as their number of steps says."""

from __future__ import annotations

import numpy as np
import pytest

from reticent import sets


@pytest.mark.parametrize("steps", [1, 5, 50, 500])
def test_conditional_gradient_gap(steps):
    """k steps 2 / (i + 2) leave a gap of at most 2 D^2 / (k + 2); the printed precision has no units."""
    convex = sets.Simplex(6)
    rng = np.random.default_rng(steps)
    center = convex.center
    for size in (0.1, 1.0, 10.0):
        slope = size * rng.standard_normal(6)
        best = convex.project(center - slope)

        def value(x, slope=slope):
            return 0.5 * np.sum((x - center) ** 2) + slope @ x

        from reticent.bandit.geometry import survey
        from reticent.bandit.mirror import Euclidean
        from reticent.bandit.responses import respond

        response = respond(convex, survey(convex, True), Euclidean())
        response.start(slope, steps)
        x = response.finish()
        assert value(x) - value(best) <= 2 * 2.0 / (steps + 2) + 1e-12
