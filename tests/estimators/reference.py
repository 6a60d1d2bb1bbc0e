"""The faces' learner in plain NumPy: an approximate leader on a ball, given its noisy totals.

Independent of the library: clipping, gradients, the leader's closed form and the projection are
written out here from the definitions. Noise is an input.
"""

import numpy as np


def clip(v, norm):
    length = np.linalg.norm(v)
    return v if length <= norm else v * (norm / length)


def gradient(kind, W, a, label, offset):
    z = W @ a + offset
    p = 1.0 / (1.0 + np.exp(-z))
    if kind == "binary":
        r = p - (label > 0)
    elif kind == "stacked":
        r = p - (np.arange(len(W)) == label)
    else:
        r = np.clip(z - label, -1.0, 1.0)
    return np.outer(r, a)


def leader(kind, X, labels, noise, *, outputs, norm, scaling, ridge, radius, anchor):
    """Weights after every record; ``noise[t]`` is the error of the t-th total."""
    offset = -np.log(outputs - 1.0) if kind == "stacked" else 0.0
    columns = X.shape[1] + (scaling > 0)
    longest = np.sqrt(1.0 + scaling**2)
    W = np.zeros((outputs, columns))
    total = np.zeros_like(W)
    out = []
    for t, (v, label) in enumerate(zip(X, labels, strict=True), 1):
        a = clip(v, norm) / norm
        if scaling > 0:
            a = np.append(a, scaling)
        g = gradient(kind, W, a, label, offset)
        total = total + g * min(1.0, longest / np.linalg.norm(g))
        W = -(total + noise[t - 1].reshape(W.shape)) / (ridge * t + anchor)
        W = W * min(1.0, radius / np.linalg.norm(W))
        out.append(W)
    return np.array(out)
