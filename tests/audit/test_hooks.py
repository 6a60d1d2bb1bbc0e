"""Hooks record what is drawn, and put everything back."""

from __future__ import annotations

import numpy as np
import pytest

from reticent import sums
from reticent.audit import (
    hooks,
)
from reticent.noise import Source, release, selection
from reticent.privacy import gaussian
from reticent.sums import process


def test_everything_is_put_back_after_listening():
    before = [
        Source.__init__, process.SAMPLERS["gaussian"], release.noisy, selection._select,
        sums.RunningTotal.run, gaussian.mu,
    ]  # fmt: skip
    with pytest.raises(RuntimeError), hooks.listening():
        assert Source.__init__ is not before[0]
        raise RuntimeError
    after = [
        Source.__init__, process.SAMPLERS["gaussian"], release.noisy, selection._select,
        sums.RunningTotal.run, gaussian.mu,
    ]  # fmt: skip
    assert all(a is b for a, b in zip(before, after, strict=True))


def test_what_is_drawn_is_recorded_with_the_scale_that_reached_the_sampler():
    with hooks.listening() as tape:
        value = release.noisy(np.array([1.0]), 3.0, Source())
    (drawn,) = tape.draws
    step = 3.0 / drawn.scales[0]
    assert value[0] == pytest.approx(1.0 + step * drawn.values[0, 0], abs=2.0 * step)
    assert tape.seen[0].tolist() == value.tolist()
