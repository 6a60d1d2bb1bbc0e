"""The cost of several releases together, on the same records or on disjoint ones.

Gaussian releases compose exactly (Dong, Roth and Su, Corollary 3.3), and so do pure ones, alone or together with
Gaussian ones (below). For everything else the cost is the smallest of the bounds that apply: the sum of pure
epsilons, the sum of Rényi divergences at the best order, the root of the sum of squared mu and, where sampling is
involved, the privacy loss distribution.

A pure release is never worse than randomised response (Kairouz, Oh and Viswanath, *The composition theorem for
differential privacy*, Theorem 3.3), whose privacy loss is ``+epsilon`` or ``-epsilon``. Worst pairs compose, adaptively
too (Zhu, Dong and Wang, *Optimal accounting of differential privacy via characteristic function*, Theorem 10). So with
``L`` the sum of those losses and ``H`` the Gaussian hockey-stick divergence,

    delta(epsilon) = E[ H(epsilon - L; mu) ],     H(e; 0) = max(0, 1 - e^e).

``H`` is needed at negative arguments too, where it is ``1 - e^e (1 - H(-e))``, not 1.

Each release may depend on the outputs of earlier ones, but *how private* each one is must be fixed in advance. Where
that is chosen along the way too, use a :class:`reticent.privacy.Ledger` with ``adaptive=True``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

from reticent.checks import FloatArray, integer
from reticent.privacy import gaussian, subsampled
from reticent.privacy.curves import (
    Curve,
    Gaussian,
    NoPrivacy,
    Profile,
    Pure,
    delta_from,
    epsilon_from,
    from_dict,
)
from reticent.privacy.objective import ObjectivePerturbation
from reticent.privacy.repeated import BestOf
from reticent.privacy.subsampled import SubsampledGaussian

Parts = tuple[tuple[Curve, int], ...]
_LITTLE = 0.15
"""If the Gaussian part has less than this share of the whole mu, adding epsilons and deltas may give a lower bound."""


def compose(curves: Iterable[Curve | tuple[Curve, int]]) -> Curve:
    """The cost of several releases on the same records.

    Parameters
    ----------
    curves : iterable of Curve or (Curve, int)
        The releases; ``(curve, count)`` stands for ``count`` releases of the same cost.

    Returns
    -------
    Curve
        Their cost together.

    See Also
    --------
    parallel : Releases on disjoint records.

    Examples
    --------
    >>> compose([Gaussian(3.0), Gaussian(4.0)])
    Gaussian(mu=5.0)
    >>> hundred = compose([(Pure(0.01), 100)])
    >>> round(hundred.pure, 6), round(hundred.epsilon(1e-6), 3)
    (1.0, 0.392)
    """
    parts = _merge(_pairs(curves))
    if not parts:
        return Pure(0.0)
    if any(isinstance(curve, NoPrivacy) for curve, _ in parts):
        return NoPrivacy()
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    return Composed(parts)


def parallel(*curves: Curve) -> Curve:
    """The cost of several releases on disjoint records, where each record enters only one: the largest of their costs.

    Parameters
    ----------
    *curves : Curve
        The releases.

    Returns
    -------
    Curve
        Their cost together.

    See Also
    --------
    compose : Releases on the same records.

    Examples
    --------
    >>> parallel(Gaussian(3.0), Gaussian(4.0))
    Gaussian(mu=4.0)
    """
    options: list[Curve] = []
    for curve in curves:
        if not isinstance(curve, Curve):
            raise TypeError(f"parallel takes privacy curves such as Gaussian(mu), got {curve!r}")
        options.extend(curve.options if isinstance(curve, Worst) else [curve])
    kept = [
        curve
        for k, curve in enumerate(options)
        if not any(
            _dominates(other, curve) and (j < k or not _dominates(curve, other))
            for j, other in enumerate(options)
            if j != k
        )
    ]
    if not kept:
        return Pure(0.0)
    return kept[0] if len(kept) == 1 else Worst(tuple(kept))


def _dominates(worse: Curve, better: Curve) -> bool:
    """Whether the first curve provably costs at least as much as the second, in every respect."""
    if worse == better or isinstance(worse, NoPrivacy):
        return True
    if type(worse) is not type(better):
        return False
    if isinstance(worse, Gaussian) and isinstance(better, Gaussian):
        return worse.mu >= better.mu
    if isinstance(worse, Pure) and isinstance(better, Pure):
        return worse.pure >= better.pure
    return False


def _pairs(curves: Iterable[Curve | tuple[Curve, int]]) -> Iterable[tuple[Curve, int]]:
    for item in curves:
        curve, count = item if isinstance(item, tuple) else (item, 1)
        if not isinstance(curve, Curve):
            raise TypeError(
                f"compose takes privacy curves such as Gaussian(mu), or pairs (curve, count); got {item!r}"
            )
        count = integer(count, "count", low=0)
        inner: Parts = curve.parts if isinstance(curve, Composed) else ((curve, 1),)
        for part, times in inner if count else ():
            yield part, times * count


def _merge(pairs: Iterable[tuple[Curve, int]]) -> Parts:
    """Count equal curves together, combine the Gaussian ones into one, and leave out what costs nothing."""
    gaussians: list[tuple[float, int]] = []
    counts: dict[Curve, int] = {}
    for curve, count in pairs:
        if isinstance(curve, Gaussian):
            gaussians.append((curve.mu, count))
        elif curve.pure != 0.0:
            counts[curve] = counts.get(curve, 0) + count
    together = _root_of_squares(gaussians)
    if math.isinf(together):
        return ((NoPrivacy(), 1),)
    if together > 0.0:
        counts = {Gaussian(together): 1, **counts}
    return tuple(counts.items())


def _root_of_squares(parts: Iterable[tuple[float, int]]) -> float:
    """The root of the sum of ``count mu^2``, scaled because the square of a small mu underflows."""
    kept = [(mu, count) for mu, count in parts if mu > 0.0]
    largest = max([mu for mu, _ in kept], default=0.0)
    if largest == 0.0 or math.isinf(largest):
        return largest
    root = largest * math.sqrt(math.fsum([count * (mu / largest) ** 2 for mu, count in kept]))
    # However small the others are, they are not free: a ledger may add up millions of them.
    return math.nextafter(largest, math.inf) if root <= largest and len(kept) > 1 else root


def _added(parts: Iterable[tuple[float | None, int]]) -> float | None:
    """The sum of ``count * value``, or None if a value is not known."""
    known: list[float] = []
    for value, count in parts:
        if value is None:
            return None
        known.append(count * value)
    return math.fsum(known)


@dataclass(frozen=True)
class Composed(Curve):
    """Several releases on the same records; made by :func:`compose`.

    Parameters
    ----------
    parts : tuple of (Curve, int)
        The releases and how often each of them occurs.
    """

    parts: Parts
    kind: ClassVar[str] = "composed"

    def __post_init__(self) -> None:
        for curve, count in self.parts:
            _checked(curve, "parts")
            integer(count, "each count of parts", low=1)

    @functools.cached_property
    def pure(self) -> float | None:
        return _added((curve.pure, count) for curve, count in self.parts)

    @functools.cached_property
    def zcdp(self) -> float | None:
        return _added((curve.zcdp, count) for curve, count in self.parts)

    @functools.cached_property
    def gdp_bound(self) -> float:
        return _root_of_squares((curve.gdp_bound, count) for curve, count in self.parts)

    def _rdp(self, alpha: float) -> float:
        return math.fsum([count * curve._rdp(alpha) for curve, count in self.parts])

    @functools.cached_property
    def _exact(self) -> Callable[[float], float] | None:
        """The logarithm of the exact delta as a function of epsilon if all releases are pure or Gaussian, else None."""
        mu, groups = 0.0, []
        for curve, count in self.parts:
            if curve.pure is not None:
                groups.append((curve.pure, count))
            elif isinstance(curve, Gaussian):
                mu = curve.mu
            else:
                return None
        loss = _pure_losses(tuple(groups))
        return None if loss is None else functools.partial(_log_delta_of_losses, loss, mu)

    @functools.cached_property
    def _is_sampled(self) -> bool:
        """Whether some release is subsampled, and all of them have a privacy loss distribution."""
        sampled = [isinstance(curve, SubsampledGaussian) for curve, _ in self.parts]
        known = [
            is_sampled or curve.pure is not None or isinstance(curve, Gaussian)
            for (curve, _), is_sampled in zip(self.parts, sampled, strict=True)
        ]
        return any(sampled) and all(known)

    def _delta(self, epsilon: float) -> float:
        bounds = [delta_from(self._rdp, epsilon)]
        if math.isfinite(self.gdp_bound):
            bounds.append(gaussian.delta(epsilon, self.gdp_bound))
        if self._exact is not None:
            bounds.append(math.exp(min(0.0, self._exact(epsilon))))
        if self._is_sampled:
            bounds.append(subsampled.delta_of(self.parts, epsilon))
        if self._is_best_added:
            bounds.append(_inverse(lambda delta: min(self._by_addition(delta)), epsilon))
        if self._shifted is not None:
            shift, mu = self._shifted
            if epsilon > shift:
                bounds.append(
                    gaussian.delta_from_log(shift + gaussian.log_delta(epsilon - shift, mu))
                )
        return min(bounds)

    def _epsilon(self, delta: float) -> float:
        return min(self._epsilons(delta))

    def _proves(self, epsilon: float, delta: float) -> bool:
        if not 0.0 < delta < 1.0:
            return super()._proves(epsilon, delta)
        return any(bound <= epsilon for bound in self._epsilons(delta))

    def _epsilons(self, delta: float) -> Iterator[float]:
        """All bounds that apply, the quickest first: one of them can be enough."""
        general = []
        if self.pure is not None:
            general.append(self.pure)
        if math.isfinite(self.gdp_bound):
            general.append(gaussian.epsilon(delta, self.gdp_bound))
        yield from general
        if self._shifted is not None:
            shift, mu = self._shifted
            less = delta * math.exp(-shift) * (1.0 - 2.0**-50)
            if less > 0.0:
                yield shift + gaussian.epsilon(less, mu)
        if self._is_best_added:
            yield from self._by_addition(delta)
        general.append(epsilon_from(self._rdp, delta))
        yield general[-1]
        if self._exact is not None:
            yield _root(self._exact, math.log(delta), min(general))
        if self._is_sampled:
            yield subsampled.epsilon_of(self.parts, delta)

    @functools.cached_property
    def _is_best_added(self) -> bool:
        """Whether adding epsilons and deltas may give the lowest bound; if not, the computation is skipped."""
        if self._shifted is not None:
            together = self._shifted[1]
            gaussians = [curve.mu for curve, _ in self.parts if isinstance(curve, Gaussian)]
            return max(gaussians, default=0.0) < _LITTLE * together
        return any(_is_profile(curve) for curve, _ in self.parts)

    @functools.cached_property
    def _shifted(self) -> tuple[float, float] | None:
        """C and mu with ``delta(epsilon) <= e^C H(epsilon - C; mu)``, for fits whose slope has one sign.

        Such a fit is within ``(e^c A, B)`` for a Gaussian pair A, B at distance s, and so is a Gaussian release, with
        c = 0. Products preserve this: docs/algorithms/objective-perturbation.md.
        """
        shift, squares = 0.0, []
        for curve, count in self.parts:
            if isinstance(curve, ObjectivePerturbation) and curve.one_sided:
                shift += count * curve.count * curve.log_determinant
                squares.append((curve.width, count * curve.count))
            elif isinstance(curve, Gaussian):
                squares.append((curve.mu, count))
            else:
                return None
        return (shift * (1.0 + 2.0**-48), _root_of_squares(squares)) if shift else None

    def _by_addition(self, delta: float) -> Iterator[float]:
        """Sums of epsilons at shares of delta, for parts whose own profile is their best bound.

        The largest share comes first, because fits with noise on their result are calibrated with that share.
        """
        loose = [(c, n) for c, n in self.parts if _is_profile(c)]
        tight = [(c, n) for c, n in self.parts if not _is_profile(c)]
        times = sum(count for _, count in loose)
        shares = [1.0] if not tight else [0.99, 0.9, 0.75, 0.5, 0.25, 0.1]
        rest = compose(tight)
        for share in shares:
            epsilon = math.fsum(n * c.epsilon(share * delta / times) for c, n in loose)
            yield epsilon + (rest.epsilon((1.0 - share) * delta) if tight else 0.0)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [[c.to_dict(), n] for c, n in self.parts]}

    @classmethod
    def _from_dict(cls, data: dict[str, Any]) -> Curve:
        return compose((from_dict(curve), count) for curve, count in data["parts"])


@dataclass(frozen=True)
class Worst(Curve):
    """Several releases on disjoint records; made by :func:`parallel`.

    Parameters
    ----------
    options : tuple of Curve
        The releases.
    """

    options: tuple[Curve, ...]
    kind: ClassVar[str] = "worst"

    def __post_init__(self) -> None:
        if not self.options:
            raise ValueError("options must hold at least one curve, got none; use parallel()")
        for curve in self.options:
            _checked(curve, "options")

    @property
    def pure(self) -> float | None:
        return _largest([curve.pure for curve in self.options])

    @property
    def gdp(self) -> float | None:
        return _largest([curve.gdp for curve in self.options])

    @property
    def zcdp(self) -> float | None:
        return _largest([curve.zcdp for curve in self.options])

    @property
    def gdp_bound(self) -> float:
        return max(curve.gdp_bound for curve in self.options)

    def _rdp(self, alpha: float) -> float:
        return max(curve._rdp(alpha) for curve in self.options)

    def _delta(self, epsilon: float) -> float:
        return max(curve.delta(epsilon) for curve in self.options)

    def _epsilon(self, delta: float) -> float:
        return max(curve.epsilon(delta) for curve in self.options)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "options": [curve.to_dict() for curve in self.options]}

    @classmethod
    def _from_dict(cls, data: dict[str, Any]) -> Curve:
        return parallel(*(from_dict(curve) for curve in data["options"]))


def _checked(curve: Any, name: str) -> None:
    if not isinstance(curve, Curve):
        raise TypeError(f"{name} must hold privacy curves such as Gaussian(mu), got {curve!r}")


def _is_profile(curve: Curve) -> bool:
    return isinstance(curve, Profile | ObjectivePerturbation | Worst | BestOf)


def _largest(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def _root(log_delta: Callable[[float], float], target: float, high: float) -> float:
    """The smallest epsilon in [0, high] with ``log_delta <= target``, rounded up."""

    def excess(epsilon: float) -> float:
        return float(np.clip(log_delta(epsilon) - target, -1e6, 1e6))

    if excess(0.0) <= 0.0:
        return 0.0
    if not math.isfinite(high) or excess(high) > 0.0:
        return high
    root = float(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-13))
    shift = 2.0**-50
    while excess(root) > 0.0 and root < high:
        root, shift = root * (1.0 + shift), 2.0 * shift
    return min(root, high)


def _inverse(epsilon_of: Callable[[float], float], epsilon: float) -> float:
    """A delta at which the non-increasing function ``epsilon_of`` is at most epsilon; at most about 1 % too large."""
    if epsilon_of(0.5) > epsilon:
        return 1.0
    low, high = math.log(1e-300), math.log(0.5)
    while high - low > 0.01:
        middle = 0.5 * (low + high)
        if epsilon_of(math.exp(middle)) <= epsilon:
            high = middle
        else:
            low = middle
    return math.exp(high)


_MOST_LOSSES = 200_000
"""Largest number of values of the privacy loss that are enumerated."""


@dataclass(frozen=True)
class _Losses:
    """The values of the privacy loss and the logarithms of their probabilities."""

    values: FloatArray
    log_masses: FloatArray


def _binomial_losses(epsilon: float, count: int) -> _Losses:
    # The probability beyond 20 sqrt(count) from the mean is at most 2 exp(-800), by Hoeffding's inequality.
    mean = count / (1.0 + math.exp(-epsilon))
    reach = 20.0 * math.sqrt(count) + 1.0
    low, high = max(0, math.floor(mean - reach)), min(count, math.ceil(mean + reach))
    truths = np.arange(low, high + 1, dtype=np.float64)
    lies = count - truths
    top = float(gammaln(count + 1.0))
    masses = top - gammaln(truths + 1.0) - gammaln(lies + 1.0)
    masses -= epsilon * lies + count * math.log1p(math.exp(-epsilon))
    # Allow for the rounding of the factorials, so that the result stays an upper bound.
    return _Losses((truths - lies) * epsilon, masses + 1e-12 + 1e-14 * top)


def _pure_losses(groups: tuple[tuple[float, int], ...]) -> _Losses | None:
    """The distribution of the sum of the losses of all groups (epsilon, count); None if it has too many values."""
    values, masses = np.zeros(1), np.zeros(1)
    for epsilon, count in groups:
        if min(count, 40.0 * math.sqrt(count) + 3.0) * values.size > _MOST_LOSSES:
            return None
        part = _binomial_losses(epsilon, count)
        values = np.add.outer(values, part.values).ravel()
        masses = np.add.outer(masses, part.log_masses).ravel()
    return _Losses(values, masses)


def _log_delta_of_losses(loss: _Losses, mu: float, epsilon: float) -> float:
    """The logarithm of the exact delta at ``epsilon`` for these pure releases together with a mu-GDP release."""
    e = epsilon - loss.values
    if mu == 0.0:
        kept = e < 0.0
        if not kept.any():
            return -math.inf
        return float(logsumexp(loss.log_masses[kept] + np.log(-np.expm1(e[kept]))))
    size = np.abs(e)
    with np.errstate(over="ignore", divide="ignore"):
        sticks = gaussian.log_delta_at(size / mu - 0.5 * mu, mu)
        below = np.logaddexp(np.log(-np.expm1(-size)), sticks - size)
    return float(logsumexp(loss.log_masses + np.where(e < 0.0, below, sticks)))
