"""Mirror maps against a general-purpose minimiser."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from reticent import bandit, sets


def test_entropy_solves_its_problem():
    convex = sets.Simplex(4, mass=1.5)
    mirror = bandit.Entropy()
    slope = np.array([0.3, -1.0, 0.2, 2.0])
    x = mirror.solve(slope, convex.center)

    def value(logits):
        p = 1.5 * np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        return 1.5 * np.sum(p * np.log(p / 1.5)) + slope @ p

    found = minimize(value, np.zeros(4), tol=1e-12)
    assert value(np.log(x)) <= found.fun + 1e-9
    assert x.sum() == pytest.approx(1.5)
