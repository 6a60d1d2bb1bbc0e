"""The online learners written anew in plain NumPy, one slow loop each, from the papers as corrected.

Nothing here imports from reticent.online. The noise comes in as an array of the noise of each total.
"""

from __future__ import annotations

import math

import numpy as np


def truncate(v, step):
    """What a lattice total keeps of a contribution."""
    return v if step is None else np.trunc(v / step) * step


def noise_of(total, steps):
    """The noise of a fresh total: what it releases for contributions of 0."""
    return total.run(np.zeros((steps, total.dim)))


# ------------------------------------------------------------------------------- losses


def logistic(z, y):
    return math.log1p(math.exp(-y * z)) if y * z > -30 else -y * z


def logistic_slope(z, y):
    return -y / (1.0 + math.exp(y * z))


def hinge_slope(z, y):
    return -y if y * z < 1.0 else 0.0


def squared_slope(z, y):
    return z - y


def linear_slope(z, y):
    return -1.0  # of the distance to a moving center, scale 1: -<a, x> beside its ridge


# ------------------------------------------------------------------------------- sets


def l2_ball(radius):
    def project(x):
        size = math.sqrt(float(x @ x))
        return x if size <= radius else x * (radius / size)

    return project


def box(low, high):
    return lambda x: np.minimum(np.maximum(x, low), high)


def simplex(mass=1.0):
    def project(x):
        u = np.sort(x)[::-1]
        c = (np.cumsum(u) - mass) / np.arange(1, len(x) + 1)
        k = np.flatnonzero(u > c)[-1]
        return np.maximum(x - c[k], 0.0)

    return project


def l1_ball(radius):
    def project(x):
        if np.abs(x).sum() <= radius:
            return x
        return np.sign(x) * simplex(radius)(np.abs(x))

    return project


# ------------------------------------------------------------------------------- leaders


def leader(A, y, slope, project, noise, *, m, ridge, anchor, center, gaps=(), step=None, fresh=1.0):
    """The minimiser of the sum of parabolas, found from its own definition by a weighted mean."""
    x, total, average = center.copy(), np.zeros_like(center), np.zeros_like(center)
    played = []
    decisions = [x.copy()]
    for t in range(1, len(A) + 1):
        if t - 1 not in gaps:
            z = float(np.sum(A[t - 1] * x))
            total = total + truncate(slope(z, y[t - 1]) * A[t - 1], step)
        played.append(x.copy())
        average = (1.0 - fresh) * average + fresh * (total + noise[t - 1])
        seen = average + ridge * np.sum(played, axis=0)
        weight = anchor(t)
        # <seen, x> + (m/2) sum ||x - x_tau||^2 + (weight/2) ||x - center||^2
        mean = (m * np.sum(played, axis=0) + weight * center) / (m * t + weight)
        x = project(mean - seen / (m * t + weight))
        decisions.append(x.copy())
    return np.array(decisions)


def objective(x, seen, played, m, weight, center):
    """What the leaders minimise."""
    away = np.asarray(played) - x
    return float(seen @ x) + 0.5 * m * float((away**2).sum()) + 0.5 * weight * float(
        (x - center) @ (x - center)
    )  # fmt: skip


def local_simplex(x, radius, g):
    """Move mass from the worst coordinates to the best one, as the oracle's page says."""
    n = len(x)
    k = min(int((x > 0).sum()), n // 2)
    move = min(radius * math.sqrt(k * (n - k) / n), float(x.sum()))
    out, left = x.copy(), move
    for i in sorted(np.flatnonzero(x > 0), key=lambda i: -g[i]):
        cut = min(out[i], left)
        out[i] -= cut
        left -= cut
        if left <= 0:
            break
    out[int(np.argmin(g))] += move - left
    return out


def local_leader(A, y, slope, local, rho, noise, *, m, ridge, anchor, center, minimum=None):
    """Certified local linear steps; returns decisions, and the certificate beside the truth."""
    x, total, before = center.copy(), np.zeros_like(center), np.zeros_like(center)
    played, decisions, certificates = [], [center.copy()], []
    e = 0.0
    for t in range(1, len(A) + 1):
        z = float(np.sum(A[t - 1] * x))
        total = total + slope(z, y[t - 1]) * A[t - 1]
        noisy = total + noise[t - 1]
        played.append(x.copy())
        seen = noisy + ridge * np.sum(played, axis=0)
        weight, lam = anchor(t), m * t + anchor(t)
        g = seen + m * (t * x - np.sum(played, axis=0)) + weight * (x - center)
        G = float(np.linalg.norm(noisy - before + ridge * x))
        G += (weight - anchor(t - 1)) * float(np.linalg.norm(x - center))
        a = G / math.sqrt(2 * lam)
        h = (a + math.sqrt(e + a * a)) ** 2
        d = local(x, math.sqrt(2 * h / lam), g) - x
        s = 0.0 if not d.any() else min(1.0, max(0.0, -float(g @ d) / (lam * float(d @ d))))
        new = x + s * d
        gain = -s * float(g @ d) - 0.5 * s * s * lam * float(d @ d)
        e = max(0.0, min((1 - 0.25 / rho**2) * h, h - gain))
        if minimum is not None:
            best = minimum(seen, played, m, weight, center)
            values = [objective(p, seen, played, m, weight, center) for p in (x, new, best)]
            certificates.append((h, values[0] - values[2], e, values[1] - values[2]))
        x, before = new, noisy
        decisions.append(x.copy())
    return np.array(decisions), np.array(certificates)
