"""Figures for Lou and Cheung, feature-distributed private Frank-Wolfe.

Algorithm 2 is run here without noise; what goes wrong is its steps, and not its privacy, for which
see the table of true epsilons.
"""

from __future__ import annotations

import math

import numpy as np

from errata.common import FloatArray


def problem(
    n: int = 200, dim: int = 20, seed: int = 0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Features, labels, and the solution: one coordinate of the unit l1 ball."""
    rng = np.random.default_rng(seed)
    features = rng.choice([-1.0, 1.0], size=(n, dim))
    best = np.eye(dim)[0]
    return features, 3.0 * features @ best, best


def largest_norm(parties: int = 4, radius: float = 1.0, steps: int = 60) -> tuple[float, float]:
    """Largest l1 norm that Algorithm 2, line 3, reaches with scale eta, and with eta / K."""
    features, labels, _ = problem()
    n, dim = features.shape
    owned = np.split(np.arange(dim), parties)
    norms = []
    for scale in (radius, radius / parties):
        x, largest = np.zeros(dim), 0.0
        for t in range(steps):
            gradient = features.T @ (features @ x - labels) / n
            s = np.zeros(dim)
            for mine in owned:
                i = mine[int(np.argmax(np.abs(gradient[mine])))]
                s[i] = -scale * math.copysign(1.0, float(gradient[i]))
            x = x + 2.0 / (t + 2.0) * (s - x)
            largest = max(largest, float(np.abs(x).sum()))
        norms.append(largest)
    return norms[0], norms[1]


def sampled_limit(sampled: int, steps: int = 4000, seed: int = 1) -> float:
    """Where the first coordinate settles when a subset is sampled but all coordinates shrink (line 4)."""
    features, labels, _ = problem()
    n, dim = features.shape
    rng = np.random.default_rng(seed)
    x = np.zeros(dim)
    tail = []
    for t in range(steps):
        gradient = features.T @ (features @ x - labels) / n
        mine = rng.choice(dim, size=sampled, replace=False)
        i = mine[int(np.argmax(np.abs(gradient[mine])))]
        s = np.zeros(dim)
        s[i] = -math.copysign(1.0, float(gradient[i]))
        x = x + 2.0 / (t + 2.0) * (s - x)
        if t >= steps // 2:
            tail.append(x[0])
    return float(np.mean(tail))


def final_loss(sign: str, choice: str, steps: int = 200) -> float:
    """Loss |Ax - y|^2 / (2 n) reached with (14) + (15) as printed or corrected, from x = 0."""
    features, labels, _ = problem()
    labels = (
        -labels
    )  # the best coordinate then has a positive gradient, its negative twin a negative one
    if choice == "positive":
        labels = -labels
    n, dim = features.shape
    x = np.zeros(dim)
    for t in range(steps):
        gradient = features.T @ (features @ x - labels) / n
        i = int(np.argmax(gradient if choice == "positive" else np.abs(gradient)))
        s = np.zeros(dim)
        s[i] = math.copysign(1.0, float(gradient[i])) * (1.0 if sign == "printed" else -1.0)
        x = x + 2.0 / (t + 2.0) * (s - x)
    return 0.5 * float(np.mean((features @ x - labels) ** 2))


def gradient_factor(n: int = 200) -> tuple[float, float]:
    """Largest error of (13) as printed against finite differences, and of the corrected form."""
    features, labels, best = problem(n)
    x = 0.3 * best + 0.01
    step = 1e-6

    def loss(point: FloatArray) -> float:
        return 0.5 * float(np.mean((features @ point - labels) ** 2))

    basis = np.eye(x.size)
    numeric = np.array([(loss(x + step * e) - loss(x - step * e)) / (2 * step) for e in basis])
    printed = features.T @ (features @ x / n) - features.T @ labels
    corrected = features.T @ (features @ x / n - labels / n)
    return float(np.abs(printed - numeric).max()), float(np.abs(corrected - numeric).max())


def figures() -> dict[str, float]:
    """The numbers of the page, by entry."""
    found: dict[str, float] = {}
    found["V7.printed"], found["V7.corrected"] = largest_norm()
    for share, sampled in (("half", 10), ("quarter", 5), ("one", 1)):
        found[f"V8.{share}"] = sampled_limit(sampled)
    found["V9.printed"], found["V9.corrected"] = gradient_factor()
    found["V11.start"] = 0.5 * 9.0
    found["V11.ascent"] = final_loss("printed", "absolute")
    found["V11.descent"] = final_loss("corrected", "absolute")
    found["V12.positive"] = final_loss("corrected", "positive")
    return found
