"""Gaussian noise on a random sample of the records, drawn anew in each step.

This is Poisson sampling, where every record is kept with probability ``q`` independently, as in DP-SGD. The privacy
loss distribution is dp-accounting's. The distributions behind it, in units of the clip norm, are

    zero-out:  (1-q) N(0, z^2) + q N(1, z^2)   against   N(0, z^2), and the reverse
    replace:   (1-q) N(0, z^2) + q N(1, z^2)   against   (1-q) N(0, z^2) + q N(-1, z^2)

Under zero-out the blanked record is still sampled and adds nothing, so this is dp-accounting's ``ADD_OR_REMOVE_ONE``;
the other is its ``REPLACE_ONE``. The second pair is the worst because, for a set of outputs that has probability
``Phi(t)`` under the common part, a record of norm 1 can raise its probability to at most ``Phi(t + 1/z)`` and lower
it to at least ``Phi(t - 1/z)``, and a half-line attains both at once.

Drawing a batch of fixed size, and shuffling and then cutting into batches, are not Poisson sampling; this curve does
not cover them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln, logsumexp

from reticent.checks import choice, integer, number, positive
from reticent.privacy.budget import NEIGHBOURS
from reticent.privacy.curves import Curve, Renyi

FLOOR = 1e-11
"""Below this delta the rounding errors of Fourier transforms would dominate, and Rényi divergences are used instead."""
_ROUNDING = 2e-16
"""Allowance per composed step for the error of delta there. Compared with the exact trade-off of the same number of
steps without sampling, the error was at most a quarter of this, up to mu = 40 and a million steps."""

_ORDERS = tuple(range(2, 65)) + (72, 80, 96, 112, 128, 160, 192, 256, 384, 512, 768, 1024)


@dataclass(frozen=True)
class SubsampledGaussian(Curve):
    """A number of Gaussian releases, each of a sum over a fresh Poisson sample of the records.

    Parameters
    ----------
    sampling_probability : float
        Probability with which each record enters a step, independently of everything else; in (0, 1].
    noise_multiplier : float
        Standard deviation of the noise divided by the clip norm; the same under either neighbouring relation.
    steps : int
        Number of releases.
    neighbours : {"zero-out", "replace"}
        The neighbouring relation, which must be that of the guarantee that the curve enters.
    """

    sampling_probability: float
    noise_multiplier: float
    steps: int
    neighbours: str = "zero-out"
    kind: ClassVar[str] = "subsampled-gaussian"

    def __post_init__(self) -> None:
        q = number(
            self.sampling_probability, "sampling_probability", low=0.0, high=1.0, open_low=True
        )
        z = positive(self.noise_multiplier, "noise_multiplier")
        object.__setattr__(self, "sampling_probability", q)
        object.__setattr__(self, "noise_multiplier", z)
        object.__setattr__(self, "steps", integer(self.steps, "steps", low=1))
        object.__setattr__(self, "neighbours", choice(self.neighbours, "neighbours", NEIGHBOURS))

    @property
    def gdp_bound(self) -> float:
        # Sampling never makes a step less private, and without it each step is Gaussian.
        one = (1.0 if self.neighbours == "zero-out" else 2.0) / self.noise_multiplier
        return math.sqrt(self.steps) * one

    def _rdp(self, alpha: float) -> float:
        unsampled = 0.5 * alpha * self.gdp_bound**2
        if self.neighbours == "replace":
            return unsampled
        return min(unsampled, self.steps * _step(self).rdp(alpha))

    def _delta(self, epsilon: float) -> float:
        return min(delta_of(((self, 1),), epsilon), super()._delta(epsilon))

    def _epsilon(self, delta: float) -> float:
        return min(epsilon_of(((self, 1),), delta), super()._epsilon(delta))


@functools.lru_cache(maxsize=256)
def _step(curve: SubsampledGaussian) -> Renyi:
    """Divergences of one step at integer orders.

    Mironov, Talwar and Zhang, *Rényi differential privacy of the sampled Gaussian mechanism*, section 3.3.
    """
    q, z = curve.sampling_probability, curve.noise_multiplier
    values = []
    for order in _ORDERS:
        k = np.arange(order + 1.0)
        terms = gammaln(order + 1.0) - gammaln(k + 1.0) - gammaln(order - k + 1.0)
        terms += k * math.log(q) + k * (k - 1.0) / (2.0 * z * z)
        if q < 1.0:
            terms += (order - k) * math.log1p(-q)
        else:
            terms = terms[-1:]
        # The sum is barely above 1; add back what rounding may have lost.
        total = float(logsumexp(terms)) + 1e-14 * (1.0 + float(gammaln(order + 1.0)))
        values.append(max(0.0, total) / (order - 1.0))
    return Renyi(_ORDERS, tuple(values))


@functools.lru_cache(maxsize=16)
def distribution(parts: tuple[tuple[Curve, int], ...]) -> Any:
    """The privacy loss distribution (dp-accounting's) of a composition.

    The parts may be subsampled or Gaussian curves, or pure ones, which are treated as randomised response.
    """
    return functools.reduce(
        lambda one, other: one.compose(other), (_part(curve, count) for curve, count in parts)
    )


def _rounding(parts: tuple[tuple[Curve, int], ...]) -> float:
    """A bound on how much too small the distribution's delta can be."""
    steps = sum(count * getattr(curve, "steps", 1) for curve, count in parts)
    return 0.1 * FLOOR + _ROUNDING * steps


def delta_of(parts: tuple[tuple[Curve, int], ...], epsilon: float) -> float:
    """The delta of a composition from its privacy loss distribution; never below ``FLOOR``."""
    found = float(distribution(parts).get_delta_for_epsilon(epsilon))
    return max(found + _rounding(parts), FLOOR)


def epsilon_of(parts: tuple[tuple[Curve, int], ...], delta: float) -> float:
    """The epsilon of a composition from its privacy loss distribution; infinite for a delta below ``FLOOR``."""
    rest = delta - _rounding(parts)
    if delta < FLOOR or rest <= 0.0:
        return math.inf
    return float(distribution(parts).get_epsilon_for_delta(rest))


@functools.lru_cache(maxsize=64)
def _part(curve: Curve, count: int) -> Any:
    try:
        from dp_accounting import NeighboringRelation
        from dp_accounting.pld import common, privacy_loss_distribution
    except ImportError as error:
        raise ImportError(
            "accounting for subsampled releases needs the package dp-accounting: "
            "pip install dp-accounting"
        ) from error
    if isinstance(curve, SubsampledGaussian):
        relations = {
            "zero-out": NeighboringRelation.ADD_OR_REMOVE_ONE,
            "replace": NeighboringRelation.REPLACE_ONE,
        }
        one = privacy_loss_distribution.from_gaussian_mechanism(
            curve.noise_multiplier,
            sampling_prob=curve.sampling_probability,
            neighboring_relation=relations[curve.neighbours],
        )
        count *= curve.steps
    elif curve.pure is not None:
        one = privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(curve.pure, 0.0)
        )
    elif curve.gdp is not None:
        one = privacy_loss_distribution.from_gaussian_mechanism(1.0 / curve.gdp)
    else:
        raise TypeError(f"{curve!r} has no privacy loss distribution")
    return one if count == 1 else one.self_compose(count)
