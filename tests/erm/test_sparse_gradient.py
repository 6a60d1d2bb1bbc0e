"""The incremental gradient of squared losses, step by step."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from reticent.erm.sparse_gradient import SquaredGradient, rounding

from .reference import lasso


def test_the_incremental_gradient():
    A, y = lasso(count=80, dim=50, density=0.2)
    S = sp.csr_array(A)
    rng = np.random.default_rng(0)
    gradient = SquaredGradient(S, y, 1.7, 0.25)
    x = np.zeros(50)
    for t in range(1, 60):
        want = 1.7 * (A.T @ (A @ x - y) + 80 * 0.25 * x)
        found = np.empty(50)
        found[gradient.order] = gradient.scaled()
        error = np.abs(found - want).max()
        assert error <= 1e-11
        assert error <= 1.7 * (rounding(80, 60, 1.0, 1.0, 1.7) + 1e-12)
        place, sign = int(rng.integers(5 if t % 2 else 50)), float(rng.choice([-1, 1]))
        gradient.add(place, sign)
        corner = np.zeros(50)
        corner[gradient.order[place]] = sign * 1.7
        x += 2 / (t + 1) * (corner - x)
        np.testing.assert_allclose(gradient.point(), x, atol=1e-12)
    assert gradient._kept
