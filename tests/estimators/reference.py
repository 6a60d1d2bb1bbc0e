"""The faces' learner in plain NumPy: a regularised leader on a ball, given its noisy totals.

Independent of the library: clipping, gradients, the rule of the regulariser, the leader's closed form and
the projection are written out here from the definitions (docs/algorithms/ftrl.md). Noise is an input.
"""

import math

import numpy as np

# by kind: the bound on a slope and on its derivative, along a record of norm 1
SLOPES = {"binary": (1.0, 0.25), "softmax": (math.sqrt(2.0), 0.5), "huber": (1.0, 1.0)}


def clip(v, norm):
    length = np.linalg.norm(v)
    return v if length <= norm else v * (norm / length)


def gradient(kind, W, a, label):
    z = W @ a
    if kind == "binary":
        r = 1.0 / (1.0 + np.exp(-z)) - (label > 0)
    elif kind == "softmax":
        r = np.exp(z - z.max()) / np.exp(z - z.max()).sum() - (np.arange(len(W)) == label)
    else:
        r = np.clip(z - label, -1.0, 1.0)
    return np.outer(r, a)


def leader(kind, X, labels, noise, *, outputs, norm, scaling, ridge, radius, deviation, influence):
    """Weights after every record; ``noise[t]`` is the error of the t-th total, ``deviation`` the last one's."""
    columns = X.shape[1] + (scaling > 0)
    longest = np.sqrt(1.0 + scaling**2)
    steep, bend = SLOPES[kind][0] * longest, SLOPES[kind][1] * longest**2
    if kind == "binary":  # no predictor is larger than the radius times the longest row
        steep /= 1.0 + math.exp(-radius * longest)
    quiet = 4.0 * bend
    per_noise = max(math.sqrt(outputs * columns) / radius, 2.0 * bend / steep)
    weight = min(
        math.sqrt(2.0) * deviation * per_noise,
        32.0 / 27.0 * bend * (deviation / (influence * longest)) ** 2,
    )
    fresh = quiet / (quiet + weight)
    W = np.zeros((outputs, columns))
    total, mean = np.zeros_like(W), np.zeros_like(W)
    out = []
    for t, (v, label) in enumerate(zip(X, labels, strict=True), 1):
        a = clip(v, norm) / norm
        if scaling > 0:
            a = np.append(a, scaling)
        total = total + clip(gradient(kind, W, a, label), influence * longest)
        mean = (1.0 - fresh) * mean + fresh * (total + noise[t - 1].reshape(W.shape))
        grown = influence * longest * math.sqrt(t) / (2.0 * radius)
        W = clip(-mean / (ridge * t + quiet + weight + grown), radius)
        out.append(W)
    return np.array(out)
