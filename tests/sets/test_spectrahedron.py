"""Spectrahedra: large sizes through ARPACK against a dense decomposition, and the symmetric part."""

from __future__ import annotations

import numpy as np
import pytest

from reticent import sets


def test_large_spectrahedra_find_the_lowest_eigenvector():
    rng = np.random.default_rng(1)
    g = rng.standard_normal((150, 150))
    spectrahedron = sets.Spectrahedron(150, 3.0)
    vertex = spectrahedron.linear_minimizer(g)
    lowest = np.linalg.eigvalsh(0.5 * (g + g.T))[0]
    assert np.sum(g * vertex) == pytest.approx(3.0 * lowest, rel=1e-10)
    assert spectrahedron.contains(vertex)
    assert spectrahedron.contains(spectrahedron.linear_minimizer(np.zeros((150, 150))))


def test_only_the_symmetric_part_counts():
    rng = np.random.default_rng(3)
    spectrahedron = sets.Spectrahedron(4)
    g = rng.standard_normal((4, 4))
    twist = g - g.T
    assert np.allclose(spectrahedron.linear_minimizer(g), spectrahedron.linear_minimizer(g + twist))
    assert np.allclose(spectrahedron.project(g), spectrahedron.project(g + twist))
    assert not spectrahedron.contains(spectrahedron.center + 1e-3 * twist)
