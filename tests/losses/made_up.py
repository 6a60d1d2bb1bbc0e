"""A loss of a user's own, and records for it."""

from __future__ import annotations

import math

import numpy as np

from reticent import losses


def value(x, a, y):
    return math.sqrt(1 + (a @ x - y) ** 2) - 1


def gradient(x, a, y):
    r = a @ x - y
    return r / math.sqrt(1 + r * r) * a


RNG = np.random.default_rng(0)
A = RNG.standard_normal((50, 4))
A /= np.linalg.norm(A, axis=1)[:, None]
Y = RNG.uniform(-1, 1, 50)


def make(value=value, gradient=gradient, **constants):
    return losses.CustomLoss(value, gradient, **{"lipschitz": 1.0, "smoothness": 1.0, **constants})
