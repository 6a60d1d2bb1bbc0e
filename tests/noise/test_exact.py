"""The exact path: each number is the rounding of the real number that all its bits stand for."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from reticent.noise import exact
from reticent.noise.source import Source

from .reference import EXTREMES, gammas, gaussians, nearest, one_laplace


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60):
        yield


@pytest.mark.parametrize("scale", [0.3, 1.7, 2.0**30, 2.0**31 - 1])
def test_the_exact_path_rounds_the_real_number_of_all_bits(scripted, scale):
    """Against 60 digits, with the further bits that it drew, for random words and for the extreme ones."""
    words = Source(seed=26).words(400).reshape(-1, 2).tolist()
    words += [[a, b] for a in EXTREMES for b in EXTREMES]
    for first, second in words:
        source = scripted()
        found = exact.gaussian_pair(source, first, second, (scale, 2 * scale))
        assert len(source.fine) == 2
        w, v = (first << 128) + source.fine[0], (second << 128) + source.fine[1]
        values = gaussians(2 * w + 1, 2 * v + 1, 193, (scale, 2 * scale))
        assert found == [nearest(value) for value in values]
        source = scripted()
        found = exact.laplace(source, first, scale)
        w = (first >> 1 << 128) + source.fine[0]
        assert found == nearest(one_laplace(2 * w + 1, 192, -1 if first & 1 else 1, scale))


@pytest.mark.parametrize(("scale", "dim"), [(0.4, 1), (2.0**26, 3), (2.0**26, 4)])
def test_the_exact_gamma_vector_rounds_the_real_vector_of_all_bits(scripted, scale, dim):
    rng = np.random.default_rng(27)
    even = dim + dim % 2
    for trial in range(150):
        words = rng.integers(0, 2**64, even + dim, dtype=np.uint64).tolist()
        if trial < len(EXTREMES):
            words[trial % len(words)] = EXTREMES[trial]
        source = scripted()
        found = exact.gamma_vector(source, words[:even], words[even:], dim, scale)
        full = [
            2 * ((word << 128) + fine) + 1 for word, fine in zip(words, source.fine, strict=True)
        ]
        values = gammas(full[:even], full[even:], 193, dim, scale)
        assert found == [nearest(value) for value in values]


def test_the_exact_path_asks_for_more_bits_until_it_is_certain(scripted):
    """A number that agrees with a boundary to hundreds of bits: the first bits do not do, and are kept."""
    with mp.workprec(2000):
        # scale * -log(u) = 2.5 at this u; its bits are handed out one piece after the other
        scale = 3.0
        bits = int(mpmath.floor(mpmath.exp(-mpf(2.5) / 3) * mpf(2) ** (63 + 128 * 6)))
        pieces = [(bits >> 128 * (5 - k)) & (2**128 - 1) for k in range(5)]
        word = bits >> 128 * 6
        for last, rounded in ((0, 3), (2**128 - 1, 2)):  # a smaller uniform is a larger number
            source = scripted(fine=[*pieces, last])
            assert exact.laplace(source, word << 1, scale) == rounded
            assert len(source.fine) == 6
            source = scripted(fine=[*pieces, last])
            assert exact.laplace(source, word << 1 | 1, scale) == -rounded


def test_the_exact_path_gives_up_with_an_error_where_chance_is_not_the_reason():
    with pytest.raises(ArithmeticError, match="finite"):
        exact.laplace(Source(), 12345, float("nan"))
