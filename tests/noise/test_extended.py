"""Extended precision: it settles only what the words settle, and nothing where it is not wide."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from reticent.noise import exact, extended
from reticent.noise.source import Source

from .reference import EXTREMES, gaussians, nearest, one_laplace


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60):
        yield


@pytest.mark.parametrize("scale", [0.3, 4.0, 2.0**30])
def test_extended_precision_only_settles_what_the_words_settle(scale):
    words = Source(seed=24).words(6000)
    words[: len(EXTREMES) ** 2 * 2] = np.array(
        [[a, b] for a in EXTREMES for b in EXTREMES], np.uint64
    ).reshape(-1)
    pairs = words.reshape(-1, 2)
    rounded, settled = extended.gaussian_pairs(pairs, np.full(pairs.shape, scale))
    for k in np.flatnonzero(settled).tolist()[:1500]:
        w, v = (int(word) for word in pairs[k])
        assert w > 0
        for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
            values = gaussians(w + i, v + j, 64, (scale, scale)) if w + i < 2**64 else [mpf(0)] * 2
            assert [nearest(value) for value in values] == rounded[k].tolist()
    rounded, settled = extended.laplace(words, np.full(words.size, scale))
    for k in np.flatnonzero(settled).tolist()[:2500]:
        word, sign = int(words[k]) >> 1, -1 if words[k] & np.uint64(1) else 1
        assert word > 0
        for i in (0, 1):
            assert nearest(one_laplace(word + i, 63, sign, scale)) == rounded[k]
    if np.finfo(np.longdouble).eps < 2.0**-60:
        assert settled.mean() > 0.95


def test_extended_precision_agrees_with_the_exact_gamma_vector(scripted):
    words = Source(seed=25).words(300 * 11).reshape(300, 11)
    scale, settled = 2.0**26, 0
    for row in words:
        rounded = extended.gamma_vector(row[:6], row[6:], 5, scale)
        if rounded is not None:
            settled += 1
            mine = exact.gamma_vector(Source(), row[:6].tolist(), row[6:].tolist(), 5, scale)
            assert rounded.tolist() == mine
    if np.finfo(np.longdouble).eps < 2.0**-60:
        assert settled > 290


def test_a_long_double_without_long_functions_settles_nothing(monkeypatch):
    assert extended._is_wide() == (extended._UNIT < 1)
    monkeypatch.setattr(np, "log", lambda x: np.longdouble(float(mpmath.log(float(x)))))
    assert not extended._is_wide()
