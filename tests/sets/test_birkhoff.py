"""The Birkhoff polytope: its points as mixtures of permutations."""

from __future__ import annotations

import numpy as np
import pytest

from reticent import sets


def test_birkhoff_decomposes_into_few_permutations():
    rng = np.random.default_rng(5)
    for n in (1, 2, 6):
        birkhoff = sets.Birkhoff(n)
        x = 0.5 * birkhoff.sample(rng) + 0.5 * birkhoff.center
        weights, permutations = birkhoff.decompose(x)
        assert np.allclose((weights @ permutations).reshape(n, n), x, atol=1e-11)
        assert len(weights) <= (n - 1) ** 2 + 1
        assert all(birkhoff.contains(row) for row in permutations)
    with pytest.raises(ValueError, match="doubly stochastic"):
        sets.Birkhoff(2).decompose([[0.5, 0.4], [0.5, 0.6]])
