"""A user's own loss: what it knows, and the arguments that it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from reticent import losses, sets

from .made_up import A, Y, gradient, make, value


def test_what_a_custom_loss_knows():
    loss = make(strong_convexity=0.0)
    assert loss.kernel is None
    assert loss.lipschitz() == loss.data_lipschitz() == 1.0
    assert loss.curvature(sets.L2Ball(4)) == 4.0
    np.testing.assert_allclose(
        loss.mean_gradient(np.ones(4), A, Y),
        np.mean([gradient(np.ones(4), a, y) for a, y in zip(A, Y, strict=True)], axis=0),
    )
    assert "lipschitz=1" in repr(loss)


def test_bad_arguments():
    with pytest.raises(TypeError, match="value must be callable"):
        losses.CustomLoss(3, gradient)
    with pytest.raises(ValueError, match="smoothness"):
        losses.CustomLoss(value, gradient, smoothness=-1.0)
    with pytest.raises(ValueError, match="must be at most smoothness"):
        make(strong_convexity=2.0)
    with pytest.raises(ValueError, match=r"returned shape \(\)"):
        make(gradient=lambda x, a, y: 0.0).gradient(np.ones(4), A[0], 0.0)
    with pytest.raises(ValueError, match="A is missing"):
        losses.check(make())
    with pytest.raises(ValueError, match="one label for each"):
        make().prepare(A, Y[:3])
