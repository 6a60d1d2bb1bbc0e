"""The exact composition of pure releases, alone or with a Gaussian one.

A pure release is never worse than randomised response (Kairouz, Oh and Viswanath, *The composition
theorem for differential privacy*, Theorem 3.3), whose privacy loss is ``+epsilon`` or ``-epsilon``;
worst pairs compose, adaptively too (Zhu, Dong and Wang, *Optimal accounting of differential privacy
via characteristic function*, Theorem 10). So with ``L`` the sum of those losses and ``H`` the
Gaussian hockey stick,

    delta(epsilon) = E[ H(epsilon - L; mu) ],     H(e; 0) = max(0, 1 - e^e).

``H`` is needed at negative arguments too, where it is ``1 - e^e (1 - H(-e))``, not 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

from reticent.checks import FloatArray
from reticent.privacy import gaussian

LARGEST = 200_000
"""More values of the loss than this are not enumerated."""


@dataclass(frozen=True)
class Losses:
    """The values of the privacy loss and the logarithms of their probabilities."""

    values: FloatArray
    log_masses: FloatArray


def _binomial(epsilon: float, count: int) -> Losses:
    # Beyond 20 sqrt(count) from the mean lies less than exp(-800), by Hoeffding's inequality.
    mean = count / (1.0 + math.exp(-epsilon))
    reach = 20.0 * math.sqrt(count) + 1.0
    low, high = max(0, math.floor(mean - reach)), min(count, math.ceil(mean + reach))
    truths = np.arange(low, high + 1, dtype=np.float64)
    lies = count - truths
    top = float(gammaln(count + 1.0))
    masses = top - gammaln(truths + 1.0) - gammaln(lies + 1.0)
    masses -= epsilon * lies + count * math.log1p(math.exp(-epsilon))
    # The rounding of the factorials is paid for, so that the result stays an upper bound.
    return Losses((truths - lies) * epsilon, masses + 1e-12 + 1e-14 * top)


def losses(groups: tuple[tuple[float, int], ...]) -> Losses | None:
    """The loss of ``count`` releases of ``epsilon`` in each group; None if too many values."""
    values, masses = np.zeros(1), np.zeros(1)
    for epsilon, count in groups:
        if min(count, 40.0 * math.sqrt(count) + 3.0) * values.size > LARGEST:
            return None
        part = _binomial(epsilon, count)
        values = np.add.outer(values, part.values).ravel()
        masses = np.add.outer(masses, part.log_masses).ravel()
    return Losses(values, masses)


def log_delta(loss: Losses, mu: float, epsilon: float) -> float:
    """Logarithm of the exact delta at ``epsilon`` of these pure releases and a mu-GDP one."""
    e = epsilon - loss.values
    if mu == 0.0:
        kept = e < 0.0
        if not kept.any():
            return -math.inf
        return float(logsumexp(loss.log_masses[kept] + np.log(-np.expm1(e[kept]))))
    size = np.abs(e)
    sticks = gaussian.log_delta_at(size / mu - 0.5 * mu, mu)
    with np.errstate(divide="ignore"):
        below = np.logaddexp(np.log(-np.expm1(-size)), sticks - size)
    return float(logsumexp(loss.log_masses + np.where(e < 0.0, below, sticks)))
