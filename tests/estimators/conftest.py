import numpy as np
import pytest


@pytest.fixture
def binary():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(4000, 4))
    return X, np.where(X @ [1.0, -2.0, 0.5, 0.0] + 0.2 > 0, "yes", "no")


@pytest.fixture
def several():
    rng = np.random.default_rng(2)
    centers = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, -1, 0]]) * 0.8
    y = rng.integers(4, size=6000)
    return centers[y] + 0.2 * rng.standard_normal((6000, 3)), y * 10


@pytest.fixture
def regression():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(5000, 3)) / np.sqrt(3)
    return X, 20.0 + X @ [4.0, -3.0, 1.0] + 0.1 * rng.standard_normal(5000)
