"""The protocol in plain NumPy, without noise."""

from __future__ import annotations

import numpy as np

CUTS = (slice(0, 4), slice(4, 8), slice(8, 12))


def loss_of(A, y, x):
    return 0.5 * np.mean((A @ x - y) ** 2)


def reference(A, y, variant, rounds, radius, drawn=None):
    """The corrected Algorithm 2 in plain NumPy, all gradients exact."""
    n, d = A.shape
    K = len(CUTS)
    x = np.zeros(d)
    p = 1.0 if drawn is None else len(drawn[0]) / K
    for t in range(rounds):
        g = A.T @ np.clip(A @ x - y, -radius - 1, radius + 1) / n
        size = 2 / (p * t + 2)
        if variant == "ball":
            i = int(np.argmax(np.abs(g)))
            s = np.zeros(d)
            s[i] = -radius * np.sign(g[i])
            x = x + size * (s - x)
            continue
        for k in range(K) if drawn is None else drawn[t]:
            block = CUTS[k]
            i = int(np.argmax(np.abs(g[block])))
            s = np.zeros(4)
            s[i] = -radius / K * np.sign(g[block][i])
            x[block] = x[block] + size * (s - x[block])
    return x
