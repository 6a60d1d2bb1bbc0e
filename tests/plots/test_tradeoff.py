"""The claimed trade-off, against the Gaussian one."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.privacy import Gaussian


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_the_claimed_curve_is_the_gaussian_trade_off(mu):
    from scipy.stats import norm

    from reticent.plots.tradeoff import claimed_misses

    x = np.linspace(0.01, 0.99, 50)
    exact = norm.cdf(norm.isf(x) - mu)
    drawn = claimed_misses(Gaussian(mu).delta, x)
    assert (drawn <= exact + 1e-12).all()
    assert np.abs(drawn - exact).max() < 0.01
