"""Independent noise: a random walk whose every step protects one record."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reticent
from reticent import sums

from . import reference


@pytest.mark.parametrize("precision", ["lattice", "float"])
@pytest.mark.parametrize("window", [None, 1, 5])
def test_the_noise_is_a_walk(precision, window, monkeypatch):
    budget = reference.GAUSSIAN.with_(window=window)
    total = sums.Independent(30, budget=budget, noise_precision=precision)
    found = reference.as_matrix(total, 30, monkeypatch)
    assert np.allclose(found / found[0, 0], np.tri(30), atol=1e-12)


@pytest.mark.parametrize("noise", ["laplace", "gamma"])
def test_pure_noise_is_a_walk_too(noise, monkeypatch):
    total = sums.Independent(30, budget=reference.PURE, noise=noise)
    found = reference.as_matrix(total, 30, monkeypatch)
    assert np.allclose(found / found[0, 0], np.tri(30), atol=1e-12)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("precision", ["lattice", "float"])
@pytest.mark.parametrize("window", [None, 1, 5])
def test_mu_is_that_of_any_record(window, precision, neighbours, monkeypatch):
    budget = reticent.Budget(1.0, 1e-6, neighbours=neighbours, window=window)
    for n in (1, 2, 17, 64):
        total = sums.Independent(n, budget=budget, norm=0.3, noise_precision=precision)
        matrix = reference.as_matrix(total, n, monkeypatch)
        exact = budget.sensitivity(0.3) * reference.worst_mu(matrix, window)
        tolerance = 1e-9 if precision == "float" else 1e-6
        assert total.guarantee.gdp == pytest.approx(exact, rel=tolerance)
        assert total.guarantee.gdp >= exact * (1 - 1e-10)
        assert total.guarantee.meets(budget)


@pytest.mark.parametrize("dim", [1, 7])
def test_scales_of_pure_noise(dim):
    for neighbours, reach in (("zero-out", 1.5), ("replace", 3.0)):
        budget = reticent.Budget(0.5, neighbours=neighbours)
        gamma = sums.Independent(dim, budget=budget, norm=1.5, noise="gamma")
        assert gamma.guarantee.pure == pytest.approx(0.5, rel=1e-12)
        assert gamma.error(1) == pytest.approx(reach / 0.5 * math.sqrt(dim + 1), rel=1e-12)
        laplace = sums.Independent(dim, budget=budget, norm=1.5, noise="laplace")
        assert laplace.guarantee.pure == pytest.approx(0.5, rel=1e-12)
        assert laplace.error(1) == pytest.approx(
            reach * math.sqrt(dim) / 0.5 * math.sqrt(2), rel=1e-12
        )


def test_error_grows_like_the_square_root():
    total = sums.Independent(3, budget=reference.GAUSSIAN)
    assert total.error(10**6) == pytest.approx(1000 * total.error(1), rel=1e-12)
    assert total.error(1) == pytest.approx(4.2247, abs=1e-4)


def test_one_sum_is_the_plain_gaussian_mechanism():
    total = sums.Independent(2, 1, budget=reticent.Budget(1.0, 1e-5), norm=2.0)
    assert total.error(1) == pytest.approx(2.0 / 0.268051, rel=1e-5)
    assert total.add([1.0, 0.0]).shape == (2,)
    with pytest.raises(ValueError, match="horizon"):
        total.add([1.0, 0.0])
