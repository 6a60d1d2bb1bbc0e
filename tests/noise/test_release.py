"""A vector that is released with noise on the lattice."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reticent.noise.release import noisy
from reticent.noise.source import Source


@pytest.mark.parametrize("value", [123456.789, -123456.789, math.nan, math.inf])
def test_an_error_does_not_quote_the_vector(value: float) -> None:
    with pytest.raises(ValueError, match=r"too large for noise of scale 1e-09") as caught:
        noisy(np.array([0.0, value]), 1e-9, Source(seed=0))
    assert "12345" not in str(caught.value)
