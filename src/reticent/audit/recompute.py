"""Recompute a guarantee independently of the code that made it.

Totals: the noise as an explicit matrix, and linear algebra (Gaussian noise) or a linear programme (pure noise), see
:mod:`reticent.sums.matrices`. Curves: numeric integration of the hockey-stick divergence, the exact sum over a
composition of two-point pairs, and the privacy loss distributions of Google's dp-accounting if that is installed.

Some methods give the exact value, some a bound on one side. A claim fails only if it is below what some pair of
neighbours attains.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import gammaln, xlogy

from reticent.checks import integer, number
from reticent.online import PerturbedIterates
from reticent.privacy import (
    BoundedRange,
    Composed,
    Curve,
    Gaussian,
    Guarantee,
    Laplace,
    NoPrivacy,
    Pure,
    SubsampledGaussian,
    Worst,
)
from reticent.sums import RunningTotal, matrices

_LINEAR_ALGEBRA = 512
_PROGRAMMES = 24
_GRID = 1e-4  # of privacy losses


@dataclass(frozen=True)
class Recomputed:
    """One number, claimed and recomputed.

    Attributes
    ----------
    what
        Name of the number.
    claimed
        The claimed value.
    recomputed
        The recomputed value.
    method
        How it was recomputed.
    kind
        What the recomputed value is: ``"truth"``, the exact value; ``"attained"``, a value that some neighbours attain
        (the claim must not be below it); or ``"bound"``, a proved bound (the claim need not be above it).
    tolerance
        Relative difference that is put down to rounding.
    """

    what: str
    claimed: float
    recomputed: float
    method: str
    kind: str = "truth"
    tolerance: float = 1e-6

    @property
    def agrees(self) -> bool:
        """Whether the claim is sound and, if the exact value is known, not needlessly loose."""
        slack = 1.0 + self.tolerance
        if self.kind == "bound":
            return self.recomputed <= self.claimed * slack
        if self.recomputed > self.claimed * slack:
            return False
        return self.kind == "attained" or self.claimed <= self.recomputed * slack

    def __str__(self) -> str:
        sign = {"truth": "=", "attained": ">=", "bound": "<="}[self.kind]
        verdict = "agrees" if self.agrees else "DISAGREES"
        return f"{self.what}: claimed {self.claimed:.6g}, {self.method} {sign} {self.recomputed:.6g}, {verdict}"


@dataclass(frozen=True)
class Agreement:
    """Everything about a guarantee that could be recomputed.

    Attributes
    ----------
    rows
        The recomputed numbers.
    skipped
        What could not be recomputed, and why.
    """

    rows: tuple[Recomputed, ...]
    skipped: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every recomputed number agrees."""
        return all(row.agrees for row in self.rows)

    @property
    def epsilon(self) -> float | None:
        """The first recomputed epsilon: that of the noise itself if it was examined, else that of the curve."""
        return next((row.recomputed for row in self.rows if row.what.startswith("epsilon")), None)

    def __str__(self) -> str:
        return "\n".join(
            [*map(str, self.rows), *(f"not recomputed: {word}" for word in self.skipped)]
        )


def guarantee(subject: Any, *, delta: float = 1e-6, steps: int | None = None) -> Agreement:
    """Recompute a guarantee independently.

    Parameters
    ----------
    subject
        A running total, a learner or a fit with a ``guarantee``, a guarantee, or a curve. Running totals inside a
        learner are found and recomputed too.
    delta
        The delta at which epsilon is compared.
    steps
        Number of totals to consider, at most 512. Default: the horizon, or a few windows.

    Returns
    -------
    Agreement
        Every recomputed number, next to the claim.


    Examples
    --------
    >>> import reticent
    >>> total = reticent.sums.Tree(3, horizon=100, budget=reticent.Budget(1.0, 1e-6))
    >>> found = guarantee(total)
    >>> found.holds
    True
    >>> print(found.rows[0])
    mu of Tree: claimed 0.236704, linear algebra over 100 totals = 0.236704, agrees
    """
    delta = number(delta, "delta", low=0.0, high=1.0, open_high=True)
    rows: list[Recomputed] = []
    skipped: list[str] = []
    for total in _totals(subject):
        rows.extend(_of_total(total, delta, steps))
    found = [*(_of_iterates(subject) if isinstance(subject, PerturbedIterates) else ())]
    for result in [*found, *_of_curve(_curve(subject), delta)]:
        if isinstance(result, str):
            skipped.append(result)
        else:
            rows.append(result)
    return Agreement(tuple(rows), tuple(skipped))


def _curve(subject: Any) -> Curve:
    if isinstance(subject, Curve):
        return subject
    stated = subject if isinstance(subject, Guarantee) else getattr(subject, "guarantee", None)
    if not isinstance(stated, Guarantee):
        raise TypeError(
            f"subject must be a guarantee, a curve, or an object that has a guarantee, got {subject!r}"
        )
    return stated.curve


def _totals(subject: Any) -> list[RunningTotal]:
    """The running totals that an object is or contains."""
    if isinstance(subject, RunningTotal):
        return [subject]
    if isinstance(subject, Guarantee | Curve):
        return []
    kept = getattr(subject, "__dict__", {}).values()
    return [part for part in kept if isinstance(part, RunningTotal)]


def _of_total(total: RunningTotal, delta: float, steps: int | None) -> Iterator[Recomputed]:
    window = total.budget.window
    gaussian = total.noise == "gaussian"
    lengths = [total._epoch_steps]
    if total.mechanism.has_epochs and total._epoch_steps is not None:
        lengths.append(2 * total._epoch_steps)
    for length in lengths:
        natural = length or 3 * (window or 1)
        most = _LINEAR_ALGEBRA if gaussian else _PROGRAMMES
        looked = min(natural, most, natural if steps is None else integer(steps, "steps", low=1))
        found = matrices.mix(total.mechanism, looked, length)
        if gaussian:
            # fewer totals than there will be reveal less of a record: the value is attained, but may be too small
            whole = looked == length or (window is not None and looked >= 2 * window)
            kind = "truth" if whole and _tight(total) else "attained"
            yield from _of_gaussian_total(total, found, looked, kind, delta)
        else:
            yield _of_pure_total(total, found, looked)


def _of_gaussian_total(
    total: RunningTotal, found: matrices.Mix, looked: int, kind: str, delta: float
) -> Iterator[Recomputed]:
    name = total.mechanism.kind
    value = matrices.reach(total.mechanism) * matrices.worst_gaussian(found, total.budget.window)[0]
    method = f"linear algebra over {looked} totals"
    claimed = total.guarantee.gdp
    assert claimed is not None
    # the claim includes rounding to the lattice, which adds some millionths
    yield Recomputed(f"mu of {name}", claimed, value, method, kind, 1e-5)
    if delta > 0.0:
        yield Recomputed(
            f"epsilon of {name} at delta = {delta:g}",
            total.guarantee.epsilon(delta),
            integrated_gaussian(value, delta),
            method + " and numeric integration",
            kind,
            1e-4,
        )


def _of_pure_total(total: RunningTotal, found: matrices.Mix, looked: int) -> Recomputed:
    value = matrices.reach(total.mechanism) * matrices.worst_price(found, total.budget.window)[0]
    pure = total.guarantee.pure
    assert pure is not None
    method = f"linear programmes over {looked} totals"
    return Recomputed(
        f"epsilon of {total.mechanism.kind} at delta = 0", pure, value, method, "bound"
    )


def _of_iterates(learner: PerturbedIterates) -> Iterator[Recomputed | str]:
    """Exact mu of a record with a linear loss: the iterates do not depend on the noise, so they are one release."""
    steps = min(learner.horizon or _LINEAR_ALGEBRA, _LINEAR_ALGEBRA)
    ridge, window = learner.loss.ridge, learner.budget.window  # type: ignore[union-attr]
    claimed = learner.guarantee.gdp
    if learner.added_regularizer != 0.0 or claimed is None:
        yield "iterates with a regulariser that falls over time"
        return
    moved = learner.lipschitz * (1.0 if learner.budget.neighbours == "zero-out" else 2.0)
    t = np.arange(1.0, steps + 1.0)
    noise = np.array([learner.deviation(k) for k in range(1, steps + 1)])
    if type(learner.inner).__name__ == "ImplicitGradient":
        moves = np.tril(np.repeat((moved / (ridge * (t + 1.0)))[:, None], steps, axis=1))
    else:
        smooth = ridge + learner.loss.data_smoothness  # type: ignore[union-attr]
        sizes = np.minimum(1.0 / (ridge * t), 2.0 / (ridge + smooth))
        # later steps shrink the move of an earlier one
        shrunk = np.concatenate(
            [[0.0], np.cumsum(np.log1p(-np.minimum(ridge * sizes, 1.0 - 1e-15))[1:])]
        )
        moves = moved * np.tril(sizes[None, :] * np.exp(shrunk[:, None] - shrunk[None, :]))
    squares = np.cumsum((moves / noise[:, None]) ** 2, axis=0)
    ends = np.full(steps, steps - 1)
    if window is not None:
        ends = np.minimum(np.arange(steps) + window - 1, steps - 1)
    value = math.sqrt(float(squares[ends, np.arange(steps)].max()))
    yield Recomputed(
        "mu of the iterates", claimed, value, f"moves of {steps} iterates", "attained", 1e-6
    )


def _tight(total: RunningTotal) -> bool:
    """Whether the claim should be the exact value, which it need not be if the noise is prescribed."""
    rule = getattr(total.mechanism, "calibration", None)
    return rule is None or rule.is_exact


# Curves ------------------------------------------------------------------------------------------


def _of_curve(curve: Curve, delta: float) -> Iterator[Recomputed | str]:
    if isinstance(curve, NoPrivacy):
        yield "no privacy is claimed"
        return
    if isinstance(curve, Worst):
        for part in curve.options:
            yield from _of_curve(part, delta)
        return
    parts = curve.parts if isinstance(curve, Composed) else ((curve, 1),)
    label = f"epsilon at delta = {delta:g}"
    if delta == 0.0:
        if curve.pure is None:
            yield "epsilon at delta = 0: infinite for Gaussian noise"
            return
        added = math.fsum(n * (c.pure or 0.0) for c, n in parts)
        yield Recomputed(label, curve.pure, added, "sum of the parts")
        return
    claimed = curve.epsilon(delta)
    if len(parts) == 1:
        yield from _of_one(*parts[0], label, claimed, delta)
    accounted = _accounted(parts, delta)
    if isinstance(accounted, str):
        yield accounted
    else:
        value, exact = accounted
        # Privacy losses are rounded up to a grid of 1e-4, so this is an upper bound, close to the exact value
        slack = 2e-2 if exact else 1e-6
        yield Recomputed(
            label, claimed, value, "dp-accounting", "truth" if exact else "attained", slack
        )


def _of_one(
    curve: Curve, count: int, label: str, claimed: float, delta: float
) -> Iterator[Recomputed]:
    """Recompute ``count`` uses of one curve."""
    if isinstance(curve, Gaussian):
        value = integrated_gaussian(math.sqrt(count) * curve.mu, delta)
        yield Recomputed(label, claimed, value, "numeric integration")
    elif isinstance(curve, BoundedRange):
        value = two_point_range(curve.pure, count, delta)
        yield Recomputed(label, claimed, value, "two-point pairs", "attained")
    elif isinstance(curve, Laplace) and count == 1:
        value = integrated_laplace(curve.pure, delta)
        yield Recomputed(label, claimed, value, "numeric integration")
    elif isinstance(curve, Pure):
        value = two_point(curve.pure, curve.pure, count, delta)
        yield Recomputed(label, claimed, value, "randomised response", "attained")


def integrated_gaussian(mu: float, delta: float) -> float:
    """Epsilon at delta of mu-GDP, by integrating the difference of two normal densities."""
    if mu == 0.0 or math.isinf(mu):
        return mu

    def excess(epsilon: float) -> float:
        start = epsilon / mu + 0.5 * mu

        def difference(y: float) -> float:
            x = start + y
            left = math.exp(-0.5 * (x - mu) ** 2 + 0.5 * (start - mu) ** 2)
            return -left * math.expm1(epsilon + 0.5 * mu * mu - mu * x)

        value, _ = quad(difference, 0.0, 40.0, epsabs=0.0, epsrel=1e-11, limit=200)
        logarithm = math.log(value) - 0.5 * (start - mu) ** 2 - 0.5 * math.log(2.0 * math.pi)
        return logarithm - math.log(delta)

    if excess(0.0) <= 0.0:
        return 0.0
    high = 1.0
    while excess(high) > 0.0:
        high *= 2.0
    return float(brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-12))


def integrated_laplace(epsilon: float, delta: float) -> float:
    """Epsilon at delta of Laplace noise that is epsilon-private, by integrating two densities."""

    def excess(level: float) -> float:
        def difference(x: float) -> float:
            return max(0.0, math.exp(-abs(x - epsilon)) - math.exp(level - abs(x)))

        points = [0.0, epsilon, 0.5 * (epsilon + level)]
        value, _ = quad(difference, -5.0, epsilon + 60.0, points=points, epsabs=1e-15, limit=400)
        return 0.5 * value - delta

    if excess(0.0) <= 0.0:
        return 0.0
    return float(brentq(excess, 0.0, epsilon, xtol=1e-12, rtol=1e-12))


def two_point(gain: float, loss: float, count: int, delta: float) -> float:
    """Epsilon at delta of ``count`` coins whose log-likelihood ratio is ``gain`` or ``-loss``."""
    p = -math.expm1(-loss) / -math.expm1(-gain - loss)  # chance of the gain in the likelier world
    q = p * math.exp(-gain)
    k = np.arange(count + 1)
    ways = gammaln(count + 1) - gammaln(k + 1) - gammaln(count - k + 1)
    here = ways + xlogy(k, p) + xlogy(count - k, 1.0 - p)
    there = ways + xlogy(k, q) + xlogy(count - k, 1.0 - q)

    def excess(epsilon: float) -> float:
        return float(np.maximum(np.exp(here) - np.exp(epsilon + there), 0.0).sum()) - delta

    high = count * gain
    if excess(0.0) <= 0.0 or high == 0.0:
        return 0.0
    return high if excess(high) > 0.0 else float(brentq(excess, 0.0, high, xtol=1e-12))


def two_point_range(epsilon: float, count: int, delta: float) -> float:
    """The largest epsilon at delta of two-point pairs whose log-likelihood ratio has range epsilon."""
    if epsilon == 0.0:
        return 0.0
    gains = epsilon * np.linspace(0.002, 0.998, 250)
    return max(two_point(float(gain), float(epsilon - gain), count, delta) for gain in gains)


@lru_cache(maxsize=64)  # the settings of a worst case share a claim
def _accounted(parts: Any, delta: float) -> tuple[float, bool] | str:
    """Epsilon by privacy loss distributions, and whether they represent every part exactly."""
    try:
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError:
        return "dp-accounting is not installed: pip install dp-accounting"
    parts = [part for part in parts if not (isinstance(part[0], Gaussian) and part[0].mu == 0.0)]
    refused = _refusal([curve for curve, _ in parts])
    if refused or not parts:
        return refused or (0.0, True)
    whole: Any = None
    for curve, count in parts:
        part = _loss_distribution(curve, pld)
        part = part if count == 1 else part.self_compose(count)
        whole = part if whole is None else whole.compose(part)
    return float(whole.get_epsilon_for_delta(delta)), True


def _refusal(curves: list[Any]) -> str:
    """Why dp-accounting cannot account for these releases; empty if it can."""
    known = (Gaussian, Pure, SubsampledGaussian)
    strange = sorted({type(curve).__name__ for curve in curves if not isinstance(curve, known)})
    if strange:
        return f"dp-accounting has no {', '.join(strange)}"
    if any(isinstance(curve, SubsampledGaussian) for curve in curves):
        return "subsampling is accounted by dp-accounting in the first place"
    if any(isinstance(curve, BoundedRange) for curve in curves):
        return "dp-accounting knows a choice by Gumbel noise only as a pure release"
    return ""


def _loss_distribution(curve: Any, pld: Any) -> Any:
    """The privacy loss distribution of one release, on a grid, by this module of dp-accounting."""
    from dp_accounting.pld import common

    if isinstance(curve, Gaussian):
        return pld.from_gaussian_mechanism(1.0 / curve.mu, value_discretization_interval=_GRID)
    if isinstance(curve, Laplace):
        # exact for a single Laplace number; several of them share a pure epsilon
        return pld.from_laplace_mechanism(1.0 / curve.pure, value_discretization_interval=_GRID)
    given = common.DifferentialPrivacyParameters(curve.pure, 0.0)
    return pld.from_privacy_parameters(given, value_discretization_interval=_GRID)
