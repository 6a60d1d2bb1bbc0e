"""Plain NumPy versions of the solvers and of the accounting, written apart from the library."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit
from scipy.stats import norm

from reticent.noise import Source
from reticent.noise.release import noisy


def records(count=400, dim=4, seed=0, regression=False):
    """Records within norm 1 with labels from a linear model."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((count, dim))
    A /= np.maximum(np.linalg.norm(A, axis=1), 1.0)[:, None] * 1.001
    true = rng.standard_normal(dim)
    true /= np.linalg.norm(true)
    if regression:
        return A, np.clip(A @ true + 0.1 * rng.standard_normal(count), -1, 1)
    return A, np.where(rng.random(count) < expit(6.0 * A @ true), 1.0, -1.0)


def lasso(count=300, dim=40, seed=0, density=1.0):
    """Records of signs and zeros, and labels that two of the columns explain."""
    rng = np.random.default_rng(seed)
    A = rng.choice([-1.0, 1.0], size=(count, dim))
    A *= rng.random((count, dim)) < density
    y = np.clip(0.5 * A[:, 1] - 0.3 * A[:, 5] + 0.05 * rng.standard_normal(count), -1, 1)
    return A, y


def draws(seed, scales, dim, noise="gaussian", precision="lattice"):
    """The noise vectors that a solver with this seed draws, one after another."""
    source = Source(seed)
    return [
        noisy(np.zeros(dim), scale, source, noise=noise, precision=precision) for scale in scales
    ]


def gaussian_delta(epsilon, mu):
    return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)


def gaussian_epsilon(delta, mu):
    return brentq(lambda e: gaussian_delta(e, mu) - delta, 0.0, 200.0, xtol=1e-12)


def logistic_slope(A, y, x):
    return -y * expit(-y * (A @ x))


def ball(x, radius):
    return x * min(1.0, radius / max(np.linalg.norm(x), 1e-300))


def logistic_minimum(A, y, ridge, linear):
    """argmin sum log(1 + exp(-y <a, x>)) + ridge/2 |x|^2 + <linear, x>, by trust-region Newton."""

    def value(x):
        return np.logaddexp(0, -y * (A @ x)).sum() + 0.5 * ridge * x @ x + linear @ x

    def slope(x):
        return A.T @ logistic_slope(A, y, x) + ridge * x + linear

    def bend(x):
        s = expit(A @ x)
        return (A.T * (s * (1 - s))) @ A + ridge * np.eye(A.shape[1])

    found = minimize(value, np.zeros(A.shape[1]), jac=slope, hess=bend, method="trust-exact",
                     options={"gtol": 1e-11})  # fmt: skip
    return found.x
