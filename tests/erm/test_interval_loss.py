"""Losses in interval arithmetic hold their values in floating point."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import MPIntervalContext

from reticent import losses
from reticent.erm import interval_loss
from reticent.losses import kernels


@pytest.mark.parametrize("loss", [
    losses.Logistic(), losses.Squared(), losses.Hinge(), losses.SmoothHinge(0.5), losses.Huber(0.6),
    losses.Quantile(0.3), losses.Poisson(predictor_bound=1.0, label_bounds=(0.0, 2.0)),
    losses.Linear(), losses.CappedLogistic(0.6),
])  # fmt: skip
def test_interval_losses_hold_the_floats(loss):
    context = MPIntervalContext()
    context.prec = 200
    rng = np.random.default_rng(0)
    kind, params = loss.kernel
    for z in rng.uniform(-2, 2, 40):
        labels = (-1.0, 1.0) if kind in kernels.MARGIN else (0.0, 1.0)
        for label in labels:
            found = interval_loss.phi(context, kind, params, context.mpf(float(z)), label)
            value = kernels.phi(kind)(params, float(z), label)
            assert float(found.a) == pytest.approx(value, abs=1e-14)
            assert float(found.b) == pytest.approx(value, abs=1e-14)
    wide = interval_loss.phi(context, kind, params, context.mpf([-0.5, 1.5]), 1.0)
    for z in np.linspace(-0.5, 1.5, 30):
        value = kernels.phi(kind)(params, float(z), 1.0)
        assert float(wide.a) - 1e-12 <= value <= float(wide.b) + 1e-12
