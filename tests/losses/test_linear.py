"""The linear loss: closed forms, and the check of losses in general."""

from __future__ import annotations

import numpy as np
import pytest

from reticent import losses, sets


def test_linear():
    loss = losses.Linear()
    a, x = np.array([0.6, -0.8]), np.array([2.0, 1.0])
    assert loss.value(x, a) == pytest.approx(0.4)
    np.testing.assert_array_equal(loss.gradient(x, a), a)
    np.testing.assert_allclose(loss.implicit_step(x, a, step=0.5), x - 0.5 * a)
    assert loss.lipschitz() == 1.0
    assert (loss.smoothness, loss.strong_convexity, loss.curvature(sets.L2Ball(2))) == (0, 0, 0)


def test_checked():
    assert losses.check(losses.Linear(ridge=0.1)).passed
    assert losses.check(losses.Costs(feature_norm=2.0)).passed
    assert losses.check(losses.Quadratic(0.4, feature_norm=3.0)).passed
