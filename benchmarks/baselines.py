"""Private baselines in plain NumPy, each at the best of several settings, which nobody knows without the test data.

Noise is exact: Gaussian, one composition of all steps (the budget's mu), records blanked. Rows are within a norm of 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from scipy.special import expit

import reticent

CONSTANT = 1.0
SETTINGS = tuple(itertools.product((10, 40), (0.5, 2.0, 8.0), (0.5,)))
"""Of DP-SGD: steps, length of a step, norm that gradients are clipped to."""


def with_constant(X: np.ndarray) -> np.ndarray:
    """Rows with a constant feature for the intercept; no longer than the square root of 2."""
    return np.hstack([X, np.full((len(X), 1), CONSTANT)])


def descents(
    X: np.ndarray, y: np.ndarray, outside: np.ndarray, budget: reticent.Budget, seed: int
) -> Iterator[np.ndarray]:
    """Probabilities of the second class by full-batch DP-SGD with momentum, one array for each setting.

    What Opacus runs at a sample rate of 1, with exact accounting in place of its numerical one; the settings are
    steps x length of a step x norm that gradients are clipped to.
    """
    A, B, n = with_constant(X), with_constant(outside), len(X)
    longest = np.linalg.norm(A, axis=1)
    for steps, rate, clip in SETTINGS:
        rng = np.random.default_rng([seed, steps])
        x, speed = np.zeros(A.shape[1]), np.zeros(A.shape[1])
        for _ in range(steps):
            slope = expit(A @ x) - y
            slope *= np.minimum(1.0, clip / np.maximum(np.abs(slope) * longest, 1e-12))
            noise = clip * np.sqrt(steps) / budget.mu * rng.standard_normal(len(x))
            speed = 0.9 * speed + (A.T @ slope + noise) / n
            x = x - rate * speed
        yield expit(B @ x)


def boosts(
    X: np.ndarray, y: np.ndarray, outside: np.ndarray, budget: reticent.Budget, seed: int
) -> Iterator[np.ndarray]:
    """Predictions of boosted AdaSSP (Tang et al. 2023) for labels within [-1, 1], one array for each setting.

    Half of mu squared is for A'A, a twentieth for its smallest eigenvalue, the rest for the rounds; the settings are
    rounds x clip of the residuals. One round with clip 1 is AdaSSP itself.
    """
    A, B, mu = with_constant(X), with_constant(outside), budget.mu
    p, reach = A.shape[1], 1.0 + CONSTANT**2
    products = A.T @ A
    for rounds, clip in [(1, 1.0), *itertools.product((5, 20), (1.0, 0.5, 0.2))]:
        rng = np.random.default_rng([seed, rounds])
        entry = reach / (mu * np.sqrt(0.5))
        raw = rng.standard_normal((p, p))
        G = products + entry * np.triu(raw) + entry * np.triu(raw, 1).T
        low = np.linalg.eigvalsh(products)[0] + reach / (mu * np.sqrt(0.05)) * rng.standard_normal()
        ridge = max(0.0, np.sqrt(p * np.log(2.0 * p * p / 0.05)) * entry - max(low, 0.0))
        inverse = np.linalg.pinv(G + ridge * np.eye(p), hermitian=True)
        x = np.zeros(p)
        for _ in range(rounds):
            rest = np.clip(y - A @ x, -clip, clip)
            noise = np.sqrt(reach) * clip / (mu * np.sqrt(0.45 / rounds)) * rng.standard_normal(p)
            x = x + inverse @ (A.T @ rest + noise)
        yield np.clip(B @ x, -1.0, 1.0)
