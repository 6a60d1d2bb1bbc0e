"""The losses written a second time, in the plainest NumPy and in high precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

from reticent import losses


@dataclass
class Case:
    """A loss, its phi for NumPy arrays and for mpmath numbers, and labels that suit it."""

    loss: Any
    phi: Any
    exact: Any
    labels: Any
    smooth: bool = True

    def __str__(self) -> str:
        return type(self.loss).__name__


def _signs(rng, n):
    return rng.choice((-1.0, 1.0), n)


def _reals(rng, n):
    return rng.uniform(-1, 1, n)


def _counts(rng, n):
    return rng.integers(0, 10, n).astype(float)


def _smooth_hinge(width, where, log=None):
    def phi(z, y):
        m = y * z
        parabola = (1 - m) ** 2 / (2 * width)
        return where(m >= 1, 0 * m, where(m <= 1 - width, 1 - m - width / 2, parabola))

    return phi


def _huber(threshold, where):
    def phi(z, y):
        r = abs(z - y)
        return where(r <= threshold, r * r / 2, threshold * r - threshold**2 / 2)

    return phi


def _capped(cap, numbers):
    """The tangent where the slope 1/(1 + e^m) is the cap, from there on down."""
    where = _mp_where if numbers is mp else np.where
    border = numbers.log(cap / (1 - cap))

    def phi(z, y):
        m = y * z
        kept = where(m < -border, -border + 0 * m, m)
        small = numbers.log(1 + numbers.exp(-abs(kept))) + where(kept < 0, -kept, 0 * kept)
        return small - cap * (m - kept)

    return phi


def _mp_where(condition, yes, no):
    return yes if condition else no


def _poisson_numpy(z, y, top=3.0):
    mean = np.where(z > top, np.exp(top) * (1 + z - top), np.exp(np.minimum(z, top)))
    safe = np.where(y > 0, y, 1.0)
    return mean - y * z + np.where(y > 0, y * np.log(safe) - y, 0.0)


def _poisson_exact(z, y, top=3):
    mean = mp.e**top * (1 + z - top) if z > top else mp.e**z
    return mean - y * z + (y * mp.log(y) - y if y > 0 else 0)


def cases(ridge: float = 0.0, feature_norm: float = 1.0) -> list[Case]:
    common: dict[str, float] = {"ridge": ridge, "feature_norm": feature_norm}
    return [
        Case(
            losses.Logistic(**common),
            lambda z, y: np.logaddexp(0, -y * z),
            lambda z, y: mp.log(1 + mp.exp(-y * z)),
            _signs,
        ),
        Case(
            losses.CappedLogistic(0.6, **common),
            _capped(0.6, np),
            _capped(mp.mpf(0.6), mp),
            _signs,
        ),
        Case(
            losses.Squared(**common),
            lambda z, y: 0.5 * (y - z) ** 2,
            lambda z, y: (y - z) ** 2 / 2,
            _reals,
        ),
        Case(
            losses.Hinge(**common),
            lambda z, y: np.maximum(0, 1 - y * z),
            lambda z, y: max(mp.mpf(0), 1 - y * z),
            _signs,
            smooth=False,
        ),
        Case(
            losses.SmoothHinge(0.5, **common),
            _smooth_hinge(0.5, np.where),
            _smooth_hinge(mp.mpf(1) / 2, _mp_where),
            _signs,
        ),
        Case(
            losses.Huber(0.75, **common),
            _huber(0.75, np.where),
            _huber(mp.mpf(3) / 4, _mp_where),
            _reals,
        ),
        Case(
            losses.Quantile(0.25, **common),
            lambda z, y: np.where(y >= z, 0.25 * (y - z), 0.75 * (z - y)),
            lambda z, y: (y - z) / 4 if y >= z else 3 * (z - y) / 4,
            _reals,
            smooth=False,
        ),
        Case(losses.Poisson(**common), _poisson_numpy, _poisson_exact, _counts),
        Case(losses.Linear(**common), lambda z, y: z, lambda z, y: z, _reals),
    ]
