"""Audit lines for the accounting: what schedules of releases reveal at least, compared with what was charged for them.

Each kind of release has worst pairs of neighbours that are fully known: a Gaussian number, randomised response, a
Laplace number, a two-point selection, a Gaussian number over a Poisson sample. The hockey-stick divergence of a
schedule is computed from the two distributions themselves, by enumeration (and in closed form for the Gaussian part),
without the composition theorems behind the claims. Grouping outcomes can only hide differences, so the value found is
attained by some neighbours, and a smaller claim is false. Schedules are drawn at random, with fixed seeds.

For adaptive schedules the whole tree of decisions is enumerated: which release comes next, and how private it is,
depends on earlier outcomes, within what the ledger's filter allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from reticent.audit.whitebox import Exact
from reticent.audit.whitebox_records import Case
from reticent.checks import FloatArray
from reticent.privacy import (
    BoundedRange,
    Budget,
    Curve,
    Gaussian,
    Guarantee,
    Laplace,
    Ledger,
    Pure,
    Release,
    compose,
)
from reticent.privacy.ages import Filtered
from reticent.privacy.subsampled import SubsampledGaussian
from reticent.sums import CorrelatedMechanism

_MOST = 4096  # largest number of distinct outcomes
_BINS = 256  # bins of a Laplace number between its two ends
_ROUNDING = 1e-7
_DELTAS = (1e-6, 1e-3, 0.05)


@dataclass(frozen=True)
class World:
    """Outcomes with their probabilities in two worlds, and a Gaussian number beside each outcome."""

    here: FloatArray
    there: FloatArray
    mu: FloatArray

    def stick(self, epsilon: float) -> float:
        """``sum max(0, p - e^epsilon q)`` over outcomes, the Gaussian number included, in closed form."""
        with np.errstate(divide="ignore"):
            level = epsilon + np.log(self.there) - np.log(self.here)
        mu = np.maximum(self.mu, 1e-12)
        with np.errstate(over="ignore", invalid="ignore"):
            part = ndtr(0.5 * mu - level / mu) - np.exp(level) * ndtr(-0.5 * mu - level / mu)
        return float(np.sum(self.here * np.clip(np.nan_to_num(part, nan=0.0), 0.0, 1.0)))

    def epsilon(self, delta: float) -> float:
        """The epsilon at which the hockey stick has fallen to delta, in either direction."""
        return max(_falls(self.stick, delta), _falls(self._back.stick, delta))

    @property
    def _back(self) -> World:
        return World(self.there, self.here, self.mu)

    def and_then(self, other: World) -> World:
        """Both releases, one after the other."""
        here = np.multiply.outer(self.here, other.here).ravel()
        there = np.multiply.outer(self.there, other.there).ravel()
        mu = np.hypot(*np.broadcast_arrays(self.mu[:, None], other.mu[None, :])).ravel()
        return _grouped(World(here, there, mu))


NOTHING = World(np.ones(1), np.ones(1), np.zeros(1))


def _falls(stick: Callable[[float], float], delta: float) -> float:
    if stick(0.0) <= delta:
        return 0.0
    high = 1.0
    while stick(high) > delta:
        high *= 2.0
        if high > 1e4:
            return math.inf
    return float(brentq(lambda e: stick(e) - delta, 0.0, high, xtol=1e-12, rtol=1e-12))


def _grouped(world: World) -> World:
    """Merge outcomes with nearly the same ratio, which can only reveal less."""
    if world.here.size <= _MOST or np.ptp(world.mu) > 0.0:
        return world
    order = np.argsort(np.log(world.here) - np.log(world.there))
    ends = np.linspace(0, order.size, _MOST, endpoint=False).astype(np.int64)
    here, there = (np.add.reduceat(side[order], ends) for side in (world.here, world.there))
    return World(here, there, np.full(_MOST, world.mu[0]))


def worlds(curve: Curve) -> World:
    """The worst pair of neighbours of one release."""
    if isinstance(curve, Gaussian):
        return World(np.ones(1), np.ones(1), np.array([curve.mu]))
    if isinstance(curve, Laplace):
        return _laplace(curve.pure)
    if isinstance(curve, BoundedRange):
        # the range of logarithms divided evenly: 1 - q and q move by half of it each
        return _two_point(0.5 * curve.pure, 0.5 * curve.pure)
    if isinstance(curve, Pure):
        return _two_point(curve.pure, curve.pure)
    raise TypeError(f"no worst pair is known for {curve!r}")


def _two_point(gain: float, loss: float) -> World:
    """Two outcomes whose log-ratios are ``gain`` and ``-loss``."""
    p = math.expm1(-loss) / math.expm1(-gain - loss)
    q = p * math.exp(-gain)
    return World(np.array([p, 1.0 - p]), np.array([q, 1.0 - q]), np.zeros(2))


def _laplace(shift: float) -> World:
    """A Laplace number at ``shift`` and at 0, in bins: below both and above both, the ratio is constant."""
    ends = np.concatenate([[-np.inf], np.linspace(0.0, shift, _BINS), [np.inf]])

    def below(x: FloatArray) -> FloatArray:
        return np.where(
            x < 0.0, 0.5 * np.exp(np.minimum(x, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(x, 0.0))
        )

    here, there = np.diff(below(ends - shift)), np.diff(below(ends))
    # differences of numbers near 1 lose digits; measured from the other end they do not
    here[-1], there[-1] = 0.5, 0.5 * math.exp(-shift)
    return World(here, there, np.zeros(here.size))


def sampled(q: float, noise: float, steps: int, neighbours: str) -> World:
    """Gaussian numbers over Poisson samples at rate q, one after the other, in bins."""
    ratio = 1.0 / noise
    ends = np.concatenate([[-np.inf], np.linspace(-8.0 - ratio, 8.0 + ratio, 1500), [np.inf]])

    def mass(shift: float) -> FloatArray:
        upper = np.where(ends < shift, ndtr(ends - shift), -ndtr(shift - ends))
        part = np.diff(upper)
        return np.where(part < 0.0, part + 1.0, part)

    with_record = (1.0 - q) * mass(0.0) + q * mass(ratio)
    other = 0.0 if neighbours == "zero-out" else -ratio
    without = (1.0 - q) * mass(0.0) + q * mass(other)
    kept = (with_record > 0.0) & (without > 0.0)
    one = World(with_record[kept], without[kept], np.zeros(int(kept.sum())))
    whole = _grouped(one)
    for _ in range(steps - 1):
        whole = whole.and_then(_grouped(one))
    return whole


def attained(schedule: list[Curve]) -> World:
    """The two worlds of a schedule that is fixed beforehand."""
    whole = NOTHING
    for curve in schedule:
        whole = whole.and_then(worlds(curve))
    return whole


def _random(rng: np.random.Generator, kinds: tuple[str, ...], scale: float = 0.3) -> Curve:
    size = float(scale * rng.uniform(0.2, 1.0))
    made: dict[str, Callable[[float], Curve]] = {
        "gaussian": Gaussian,
        "pure": Pure,
        "laplace": Laplace,
        "choice": BoundedRange,
    }
    return made[kinds[rng.integers(len(kinds))]](size)


def _line(name: str, found: Iterator[tuple[float, float, float, str]]) -> Exact:
    """The worst of (claimed, attained, delta, words)."""
    best: Exact | None = None
    for claimed, value, delta, words in found:
        share = value / claimed if claimed > 0.0 else (math.inf if value > 0.0 else 0.0)
        if best is None or share > best.tightness:
            holds = share <= 1.0 + _ROUNDING
            fault = max(1.0, (1.0 + _ROUNDING) / share) if share > 0.0 else math.inf
            best = Exact(name, claimed, value, delta, share, holds, words, fault=fault)
    assert best is not None
    return best


def _fixed(name: str, kinds: tuple[str, ...], most: int, schedules: int = 6) -> Exact:
    def found() -> Iterator[tuple[float, float, float, str]]:
        rng = np.random.default_rng([len(kinds), most])
        for k in range(schedules):
            count = 1 if k == 0 else int(rng.integers(2, most + 1))
            schedule = [_random(rng, kinds) for _ in range(count)]
            truth, claim = attained(schedule), compose(schedule)
            for delta in _DELTAS:
                yield claim.epsilon(delta), truth.epsilon(delta), delta, f"{len(schedule)} releases"

    return _line(name, found())


def _samples(neighbours: str) -> Exact:
    def found() -> Iterator[tuple[float, float, float, str]]:
        for rate, noise, steps in ((0.5, 1.0, 1), (0.1, 0.8, 2), (0.25, 1.2, 4)):
            curve = SubsampledGaussian(rate, noise, steps, neighbours)
            truth = sampled(rate, noise, steps, neighbours)
            for delta in (1e-5, 1e-3, 0.05):
                words = f"{steps} steps at rate {rate:g}"
                yield curve.epsilon(delta), truth.epsilon(delta), delta, words

    return _line(f"Poisson samples, {neighbours}", found())


def _entry(curve: Curve) -> Guarantee:
    return Guarantee([Release("a release", curve, 1.0, "any")])


def _spent(kinds: tuple[str, ...], delta: float) -> Exact:
    """Ask a ledger until it has refused ten times: what it granted must stay within its budget."""

    def found() -> Iterator[tuple[float, float, float, str]]:
        for seed in range(3):
            rng = np.random.default_rng(seed)
            ledger, refusals = Ledger(Budget(1.0, delta)), 0
            granted: list[Curve] = []
            while refusals < 10 and len(granted) < 12:
                curve = _random(rng, kinds, 0.5 if refusals == 0 else 0.1)
                if ledger.fits(_entry(curve)):
                    ledger.spend(_entry(curve), "a release")
                    granted.append(curve)
                else:
                    refusals += 1
            yield 1.0, attained(granted).epsilon(delta), delta, f"{len(granted)} releases granted"

    return _line("Ledger", found())


def _adaptive(kinds: tuple[str, ...], delta: float, deep: int = 3) -> Exact:
    """A tree of decisions: every branch spends what its own past leaves, as much as possible in the likelier world."""

    def grow(rng: np.random.Generator, past: list[Curve], depth: int) -> World:
        ledger = Ledger(Budget(1.0, delta), adaptive=True)
        for curve in past:
            ledger.spend(_entry(curve), "a release")
        for scale in (1.0, 0.5, 0.25, 0.1):
            curve = _random(rng, kinds if depth > 1 else ("gaussian", *kinds), scale)
            if ledger.fits(_entry(curve)):
                break
        else:
            return NOTHING
        now = worlds(curve)
        if depth == 1:
            return now
        # to keep the tree small, a Laplace number branches by its sign only, and a Gaussian one not at all
        if now.here.size > 2:
            middle = now.here.size // 2
            now = World(
                np.array([now.here[:middle].sum(), now.here[middle:].sum()]),
                np.array([now.there[:middle].sum(), now.there[middle:].sum()]),
                np.zeros(2),
            )
        branches = [
            World(np.array([p]), np.array([q]), np.array([mu])).and_then(
                grow(rng, [*past, curve], depth - 1)
            )
            for p, q, mu in zip(now.here, now.there, now.mu, strict=True)
        ]
        return World(
            *(
                np.concatenate([getattr(b, part) for b in branches])
                for part in ("here", "there", "mu")
            )
        )

    def found() -> Iterator[tuple[float, float, float, str]]:
        for seed in range(8):
            tree = grow(np.random.default_rng(seed), [], deep)
            yield 1.0, tree.epsilon(delta), delta, f"a tree of {tree.here.size} outcomes"

    return _line("Ledger, adaptive", found())


def _by_age() -> Exact:
    """Streams with fading guarantees beside a release of other records: the loss of each by an age, term by term."""

    def found() -> Iterator[tuple[float, float, float, str]]:
        for fade in (((1, 0.5), (100, 1.0)), ((64, 1.0), (1000, 2.0))):
            budget = Budget(fade[0][1], 1e-6, fade=fade)
            fading = CorrelatedMechanism(1, budget=budget, noise_precision="float").guarantee
            once = Guarantee.of(budget, [Release("a release", Gaussian(0.15), 1.0, "any")])
            for both in (Guarantee.parallel(fading, once), Guarantee.parallel(once, fading)):
                for age in (1, fade[-1][0], 10**4):
                    truth = max(0.15, _lost(fading, age))
                    words = f"{age} outputs of a guarantee until {fade[-1][0]}"
                    yield (
                        both.epsilon(1e-6, age=age), attained([Gaussian(truth)]).epsilon(1e-6), 1e-6, words,
                    )  # fmt: skip

    return _line("guarantees by age on disjoint records", found())


def _lost(guarantee: Guarantee, age: int) -> float:
    """The mu of the innovations that a record has moved up to an age, added one by one."""
    (release,) = guarantee.releases
    assert isinstance(release.ages, Filtered)
    decay, lags = release.ages.decay, np.arange(age)
    weights, ratios = np.array(decay.weights), 1.0 - np.array(decay.gaps)
    moved = decay.limit + (weights[:, None] * ratios[:, None] ** lags).sum(axis=0)
    return release.ages.reach * float(np.linalg.norm(moved))


def accounts() -> Iterator[Case]:
    """Compositions, samples, ledgers, and guarantees by age."""
    schedules: dict[str, tuple[tuple[str, ...], int]] = {
        "Gaussian releases": (("gaussian",), 12),
        "pure releases": (("pure",), 10),
        "Laplace releases": (("laplace",), 3),
        "choices": (("choice",), 10),
        "Gaussian and pure releases": (("gaussian", "pure"), 8),
        "releases of all kinds": (("gaussian", "pure", "laplace", "choice"), 5),
    }
    for name, (kinds, most) in schedules.items():
        yield Case(name, partial(_fixed, name, kinds, most))
    for neighbours in ("zero-out", "replace"):
        yield Case(f"Poisson samples, {neighbours}", partial(_samples, neighbours))
    for words, kinds, delta in (
        ("Gaussian", ("gaussian",), 1e-6),
        ("pure", ("pure",), 0.0),
        ("mixed", ("gaussian", "pure", "choice"), 1e-3),
    ):
        yield Case(f"Ledger, {words}", partial(_spent, kinds, delta))
        yield Case(f"Ledger, adaptive, {words}", partial(_adaptive, kinds, delta))
    yield Case("guarantees by age on disjoint records", _by_age)
