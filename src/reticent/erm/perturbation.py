"""The noise and the ridge of objective perturbation, from public numbers only.

The ridge minimises a bound on the excess risk subject to the privacy constraint, with the noise that each ridge
requires; bounds and proofs: docs/algorithms/objective-perturbation.md. Nothing here may look at a record, so the choice
is public, and so is the tolerance that the minimiser must reach.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

from scipy.optimize import minimize_scalar

from reticent.erm.minimise import doubt_of, pull_of
from reticent.erm.problem import OfflineProblem, default_radius
from reticent.losses import CappedLogistic, Logistic, SmoothHinge
from reticent.noise import lattice
from reticent.privacy import (
    Budget,
    ObjectivePerturbation,
    Pure,
    Release,
    gaussian,
    prescribed,
)
from reticent.privacy import calibration as calibrations
from reticent.privacy.curves import Curve

NAME = "objective perturbation"
_SHARES = (1e-3, 1e-2, 5e-2)
"""Shares of the budget for the noise that covers the inexactness of the minimiser."""
_TYPICAL = {
    Logistic: math.pi / math.sqrt(3.0),
    CappedLogistic: math.pi / math.sqrt(3.0),
    SmoothHinge: 1.0,
}
"""Typical standard deviation of the best predictors, in units of the loss: that of the logistic distribution, and the
margin of a hinge."""
_CHEAP = 0.05
"""Decisions may be as large as long as noise and chance cost at most this share of the loss at zero."""
_LARGE = 10.0
"""Upper limit on their size, as a multiple of the size at which the loss bends."""
_BENT = 0.25
"""Assumed share of the largest possible curvature: half of the records lie where the loss bends, and rows have half the
largest squared norm."""
_TAIL = 0.99
"""Share of delta for the linear term; the rest is for the noise on the minimiser."""


@dataclass(frozen=True)
class Setting:
    ridge: float  # of the summed loss, including the loss's own
    scale: float  # of the linear term
    share: float
    release: Release
    caveats: tuple[str, ...] = ()


def is_margin(loss: Any) -> bool:
    """Whether the slope of every record has one sign, and no size of decisions is natural."""
    # exact types: a subclass may have changed its slopes
    return type(loss) in _TYPICAL


def part(problem: OfflineProblem, count: int) -> float:
    """The share of the budget of one of ``count`` releases."""
    return 1.0 / (math.sqrt(count) if problem.noise == "gaussian" else count)


def apart(problem: OfflineProblem, scale: float, ridge: float) -> tuple[float, float]:
    """A residual that the minimiser certainly reaches, and the resulting distance between neighbours' points.

    Uses public numbers only.
    """
    # Rounding to the lattice changes the linear term by at most half a step in each coordinate.
    steps = lattice.STEPS if problem.noise == "gaussian" else lattice.GAMMA_STEPS
    rounding = 0.5 * math.sqrt(problem.dim) * lattice.step(scale, steps)
    pull = _spread(problem, scale)
    if problem.pulled:
        pull = pull_of(pull, ridge, problem.pulled)
    doubt = doubt_of(problem, pull, ridge)
    tolerance = rounding + doubt.reachable(reach_bound(problem, scale, ridge))
    # The computed points of neighbours may err in opposite directions.
    return tolerance, 2.0 * (tolerance + rounding) / ridge


def _spread(problem: OfflineProblem, scale: float) -> float:
    """A bound on the norm of the linear term that fails with probability below e^-40."""
    if problem.noise == "gaussian":
        return scale * (math.sqrt(problem.dim) + 9.0)
    return scale * 2.0 * (problem.dim + 40.0)


def reach_bound(problem: OfflineProblem, scale: float, ridge: float) -> float:
    """A bound on the norm of the minimiser for all possible records.

    The objective at the minimiser is at most that at the point towards which the ridge pulls, 0 by default. So for its
    distance r from there, ``ridge r^2 / 2 - |b| r`` is at most the loss of all records there.
    """
    bound = float(problem.set.norm_bound)
    if math.isfinite(bound):
        return bound
    pull = _spread(problem, scale) / ridge
    worst = problem.weight_bound * problem.count * problem.loss_at_zero
    worst += problem.count * problem.norm * problem.pulled
    return problem.pulled + pull + math.sqrt(pull * pull + 2.0 * worst / ridge)


def _bend(problem: OfflineProblem) -> float:
    """A bound on the Hessian of one record."""
    bend = problem.scalar_bounds[1]
    return problem.weight_bound * float(bend) * problem.feature_norm**2


def exact(problem: OfflineProblem, given: float | None, count: int) -> Setting:
    own = problem.count * problem.loss.ridge
    epsilon = problem.budget.epsilon
    if given is None:
        return _at(problem, *_chosen(problem, count, 1.0), count)
    ridge, share = own + given, _SHARES[0]
    if ridge == 0.0:
        raise ValueError("regularizer must be above 0 for a loss without a ridge, got 0")
    left = _left(problem, share, count) / count
    if _determinant(problem, ridge) >= left:
        least = _least_ridge(problem, left) - own
        raise ValueError(
            f"regularizer must be above {max(0.0, least):.6g} for epsilon={epsilon:g} with this loss, got "
            f"{given:g}; raise it, or leave it out"
        )
    return _at(problem, ridge, share, count)


def directed(problem: OfflineProblem, count: int) -> tuple[Setting, float]:
    """The ridge for the direction of a decision, and the factor by which it shortens the decision.

    In a direction of curvature c a fit is ``c / (c + ridge)`` times that without a ridge; c is taken to be the records'
    average.
    """
    usual, _ = _chosen(problem, count, 1.0)
    ridge, share = _chosen(problem, count, _BENT)
    mean = _curvature(problem, _BENT)
    return _at(problem, ridge, share, count), min(1.0, (usual + mean) / (ridge + mean))


def _chosen(problem: OfflineProblem, count: int, bent: float) -> tuple[float, float]:
    """The best ridge, and the share of the budget for the noise on the minimiser."""
    own = problem.count * problem.loss.ridge
    tries = []
    for share in _SHARES:
        ridge, risk, final = _best_ridge(problem, own, share, count, bent)
        tries.append((risk, ridge, share))
        if final < 0.01 * risk:  # a larger share could not gain more than that
            break
    _, ridge, share = min(tries)
    return ridge, share


def _curvature(problem: OfflineProblem, bent: float) -> float:
    """The mean curvature over directions, if records have this share of the largest possible curvature."""
    return bent * problem.count * _bend(problem) / (problem.weight_bound * problem.dim)


def _left(problem: OfflineProblem, share: float, count: int) -> float:
    """The epsilon that is left for the linear terms."""
    budget = problem.budget
    if budget.delta == 0.0:
        return budget.epsilon * (1.0 - share) * (1.0 - 2.0**-48)
    cover = share * problem.level * (1.0 + 1e-12)
    rest = _epsilon((1.0 - _TAIL) * budget.delta * (1.0 - 1e-9), cover)
    return (budget.epsilon - rest) * (1.0 - 1e-9)


def _determinant(problem: OfflineProblem, ridge: float) -> float:
    """A bound on the change of the log-determinant by one record, or one person."""
    r = _directions(problem)
    return r * math.log1p(_bend(problem) / (r * ridge)) * (1.0 + 2.0**-50)


def _directions(problem: OfflineProblem) -> int:
    return 1 if problem.groups is None else problem.groups.directions(problem.dim)


def _least_ridge(problem: OfflineProblem, left: float) -> float:
    """The ridge at which the determinant alone costs all that is left."""
    r = _directions(problem)
    return _bend(problem) / (r * math.expm1(min(left / r, 500.0)))


def _best_ridge(
    problem: OfflineProblem, own: float, share: float, count: int, bent: float
) -> tuple[float, float, float]:
    """The ridge that minimises a bound on the excess risk subject to the privacy constraint, and the bound.

    To :func:`_risk`, for the linear term and the ridge, ``(smoothness / 2) E||noise||^2`` is added for the noise on the
    minimiser; that part is the last number returned.
    """
    left, bend = _left(problem, share, count), _bend(problem)
    if left <= 0.0:
        return own, math.inf, math.inf
    least = max(own, _least_ridge(problem, 0.999 * left / count), 1e-9 * problem.norm)

    def parts(logarithm: float) -> tuple[float, float]:
        ridge = least * math.exp(logarithm)
        scale = _scale(problem, ridge, left, count, rough=True)
        distance = apart(problem, scale, ridge)[1]
        final = problem.noise_norm(distance) / (share * part(problem, count))
        linear = _risk(problem, ridge, own, scale, bent)
        return linear, 0.5 * (problem.count * bend + ridge) * final**2

    def cost(logarithm: float) -> float:
        return math.log(sum(parts(logarithm)))

    # most optima are near the smallest ridge; otherwise the interval is enlarged
    for end in (8.0, 60.0):
        found = minimize_scalar(cost, bounds=(0.0, end), method="bounded", options={"xatol": 0.01})
        if found.x < 0.9 * end:
            break
    best = float(found.x) if found.fun < cost(0.0) else 0.0
    linear, final = parts(best)
    return least * math.exp(best), linear + final, final


def _risk(problem: OfflineProblem, ridge: float, own: float, scale: float, bent: float) -> float:
    """A bound on the expected excess of the summed loss of one problem. Uses public numbers only.

    In general it is ``E||b||^2 / (2 ridge) + (ridge - own) R^2 / 2`` for the best decision in the ball of radius R. For
    a margin loss no radius is natural. There the best decision is assumed to give predictors of the size at which the
    loss bends, or larger ones if there are so many records that noise costs almost nothing, and the bound is the worst
    case over the possible spectra of the second derivatives.
    """
    p = problem.dim
    variance = scale**2 if problem.noise == "gaussian" else scale**2 * (p + 1.0)
    extra = ridge - own
    if not is_margin(problem.loss):
        bound = float(problem.set.norm_bound)
        radius = bound if math.isfinite(bound) else default_radius(problem, NAME)
        return 0.5 * p * variance / ridge + 0.5 * extra * radius**2
    spread = _TYPICAL[type(problem.loss)] / problem.feature_norm
    # fitting p numbers loses about p/2 by chance alone (Wilks), with or without noise
    worth = max(0.0, _CHEAP * problem.count * problem.loss_at_zero - 0.5 * p)
    spread *= min(max(1.0, 4.0 * worth / (p * math.sqrt(variance) * spread)), _LARGE)
    spread = min(spread, float(problem.set.norm_bound) / math.sqrt(p))
    unit = variance + (extra * spread) ** 2
    mean = max(_curvature(problem, bent), own)
    if mean >= ridge:
        return p * unit / (8.0 * ridge)
    return 0.5 * p * mean * unit / (mean + ridge) ** 2


def _scale(
    problem: OfflineProblem, ridge: float, left: float, count: int, rough: bool = False
) -> float:
    """The smallest scale of the linear terms for a ridge; ``rough`` is a fast approximation for choosing the ridge."""
    budget, c = problem.budget, _determinant(problem, ridge)
    delta = _TAIL * budget.delta
    if budget.delta == 0.0:
        rest = left / count - c
        rest = max(rest, 1e-6 * budget.epsilon) if rough else rest
        return budget.sensitivity(problem.norm) / rest
    if is_margin(problem.loss) and problem.groups is None:
        shift = count * c
        rest = max(left - shift, 1e-6 * budget.epsilon)
        if count > 1:
            delta *= math.exp(-shift) * (1.0 - 2.0**-40)
        elif budget.neighbours == "replace":
            delta *= 1.0 - 2.0**-20  # for the two smaller terms of that bound
        moved = math.sqrt(count) * budget.sensitivity(problem.norm)
        return moved / (_rough_mu(left, rest, delta) if rough else gaussian.mu(rest, delta))
    if rough:
        rest = max(left - count * c, 1e-6 * budget.epsilon)
        moved = math.sqrt(count) * budget.sensitivity(problem.norm)
        return moved / min(_mu(left, 0.5 * delta), _rough_mu(left, rest, delta))
    persons = problem.groups is not None
    return problem.norm * _calibrated(Budget(left, delta, budget.neighbours), c, persons, count)


@functools.lru_cache(maxsize=64)
def _mu(epsilon: float, delta: float) -> float:
    return gaussian.mu(epsilon, delta)


def _rough_mu(whole: float, epsilon: float, delta: float) -> float:
    """An approximation of ``gaussian.mu(epsilon, delta)``, from the exact value at ``whole`` and a tail bound."""
    z = math.sqrt(2.0 * (1.0 - math.log(delta)))

    def tail(e: float) -> float:
        return 2.0 * e / (z + math.sqrt(z * z + 2.0 * e))

    return _mu(whole, delta) * tail(epsilon) / tail(whole)


@functools.lru_cache(maxsize=64)
def _epsilon(delta: float, mu: float) -> float:
    return gaussian.epsilon(delta, mu)


@functools.lru_cache(maxsize=64)
def _calibrated(budget: Budget, log_determinant: float, persons: bool, count: int) -> float:
    return calibrations.objective_perturbation(
        budget, 1.0, log_determinant, persons=persons, count=count
    )


def _at(problem: OfflineProblem, ridge: float, share: float, count: int) -> Setting:
    """The smallest noise for a ridge, after setting aside the share for the minimiser's distance."""
    budget, left = problem.budget, _left(problem, share, count)
    c = _determinant(problem, ridge)
    details: tuple[str, ...] = (
        f"ridge {ridge:.6g} of the summed loss; a {problem.unit}'s Hessian is at most {_bend(problem):.6g}",
        f"so it changes the log-determinant by at most {c:.6g}",
    )
    if count > 1:
        split = f"1/sqrt({count}) of mu" if budget.delta > 0.0 else f"1/{count} of epsilon"
        details += (f"{count} fits on the same records, each with {split}",)
    scale = _scale(problem, ridge, left, count)
    if budget.delta == 0.0:
        moved = budget.sensitivity(problem.norm)
        curve: Curve = Pure(moved / scale + c)
        release = Release(NAME, curve, moved, f"Gamma, scale {scale:.6g}", count, details=details)
        return Setting(ridge, scale, share, release)
    curve = _curve(problem, scale, c, count)
    # rounding, and the smaller terms of the bound for a replaced record, which are not small where delta is large
    for tried in range(60):
        if curve.delta(left) <= _TAIL * budget.delta:
            break
        scale *= 1.0 + 1e-6 * 2.0 ** max(0, tried - 20)
        curve = _curve(problem, scale, c, count)
    release = Release(
        NAME, curve, problem.norm, f"Gaussian, standard deviation {scale:.6g}", details=details
    )
    return Setting(ridge, scale, share, release)


def _curve(
    problem: OfflineProblem, scale: float, c: float, count: int = 1, one_sided: bool | None = None
) -> ObjectivePerturbation:
    neighbours, mu = problem.budget.neighbours, problem.norm / scale
    if problem.groups is not None:
        return ObjectivePerturbation(mu, c, neighbours, count=count, persons=True)
    sided = is_margin(problem.loss) if one_sided is None else one_sided
    return ObjectivePerturbation(mu, c, neighbours, sided, count)


def prescribed_setting(problem: OfflineProblem, given: float | None, calibration: str) -> Setting:
    """Prescribed ridge and noise, and their true cost."""
    budget, bend, own = problem.budget, _bend(problem), problem.count * problem.loss.ridge
    norm = problem.norm
    wanted = None if given is None else own + given
    formula = prescribed.prescribe(
        calibration,
        "objective-perturbation",
        budget,
        norm=norm,
        smoothness=bend,
        regulariser=wanted,
    )
    assert formula.regulariser is not None
    ridge = max(own, formula.regulariser)
    scale = formula.amount
    c = _determinant(problem, ridge)
    details = formula.details
    if budget.delta == 0.0:
        moved = budget.sensitivity(norm)
        release = Release(
            NAME, Pure(moved / scale + c), moved, f"Gamma, scale {scale:.6g}", details=details
        )
    else:
        release = Release(
            NAME,
            _curve(problem, scale, c),
            norm,
            f"Gaussian, standard deviation {scale:.6g}",
            details=details,
        )
    return Setting(ridge, scale, _SHARES[0], release, formula.doubts(budget.neighbours))
