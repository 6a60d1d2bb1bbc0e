"""The noise and the ridge of objective perturbation, from public numbers only.

The ridge minimises a bound on the excess risk subject to the privacy constraint, with the noise that each ridge
requires; bounds and proofs: docs/algorithms/objective-perturbation.md. Nothing here sees a record, only
:class:`PublicNumbers`, so the choice is public, and so is the tolerance that the minimiser must reach. Choices are kept
for later fits with equal numbers: a fit after its rehearsal has them, and so has the next fit of a table of this shape.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

from scipy.optimize import minimize_scalar

from reticent.erm.minimise import doubt_of, pull_of
from reticent.erm.problem import OfflineProblem, default_radius, noise_norm
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
from reticent.solve.certificate import Doubt

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
    """A ridge, the noise that it needs, and how close to the minimiser a run comes with both."""

    ridge: float  # of the summed loss, including the loss's own
    scale: float  # of the linear term
    share: float  # of the level, for the noise on the minimiser
    release: Release
    tolerance: float  # a residual that the minimiser certainly reaches
    distance: float  # between neighbours' computed points
    reach: float  # a bound on the norm of the minimiser
    caveats: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        public: PublicNumbers,
        ridge: float,
        scale: float,
        share: float,
        release: Release,
        caveats: tuple[str, ...] = (),
    ) -> Setting:
        tolerance, distance = apart(public, scale, ridge)
        reach = reach_bound(public, scale, ridge)
        return cls(ridge, scale, share, release, tolerance, distance, reach, caveats)


def is_margin(loss: Any) -> bool:
    """Whether the slope of every record has one sign, and no size of decisions is natural."""
    # exact types: a subclass may have changed its slopes
    return type(loss) in _TYPICAL


@dataclass(frozen=True)
class PublicNumbers:
    """All that the choice of noise and ridge may depend on."""

    budget: Budget
    level: float  # that all releases together may spend: mu, or epsilon if delta = 0
    count: int  # of records, or of persons if persons are protected
    dim: int
    unit: str
    directions: int  # the dimension that one person's records can span; 1 for a record
    norm: float  # bound on the gradient of one record, or person
    bend: float  # bound on its Hessian
    sensitivity: float  # of the sum of gradients, without rounding
    weight_bound: float
    own: float  # ridge of the summed loss itself
    typical: float | None  # typical size of decisions in a direction, for margin losses
    worth: float  # what is to be gained from decisions of that size
    norm_bound: float  # of decisions
    radius: float  # norm_bound, or that of a default ball if there is none
    pulled: float  # bound on the norm of the point towards which the ridge pulls
    at_pulled: float  # bound on the summed loss there
    doubt: Doubt  # rounding errors without ridge and linear term

    @classmethod
    def of(cls, problem: OfflineProblem, chooses: bool = True) -> PublicNumbers:
        """The public numbers of a problem; ``chooses`` says whether a ridge is chosen with them."""
        count, dim, loss = problem.count, problem.dim, problem.loss
        typical = _TYPICAL[type(loss)] / problem.feature_norm if is_margin(loss) else None
        bound = float(problem.set.norm_bound)
        is_bounded, worth, radius = math.isfinite(bound), 0.0, bound
        if chooses and typical is not None:
            # fitting p numbers loses about p/2 by chance alone (Wilks), with or without noise
            worth = max(0.0, _CHEAP * count * problem.loss_at_zero - 0.5 * dim)
        elif chooses and not is_bounded:
            radius = default_radius(problem, NAME)
        at_pulled = 0.0
        if not is_bounded:
            at_pulled = problem.weight_bound * count * problem.loss_at_zero
            at_pulled += count * problem.norm * problem.pulled
        bend = problem.scalar_bounds[1]
        return cls(
            budget=problem.budget,
            level=problem.level,
            count=count,
            dim=dim,
            unit=problem.unit,
            directions=1 if problem.groups is None else problem.groups.directions(dim),
            norm=problem.norm,
            sensitivity=problem.budget.sensitivity(problem.norm),
            bend=problem.weight_bound * float(bend) * problem.feature_norm**2,
            weight_bound=problem.weight_bound,
            own=count * loss.ridge,
            typical=typical,
            worth=worth,
            norm_bound=bound,
            radius=radius,
            pulled=problem.pulled,
            at_pulled=at_pulled,
            doubt=doubt_of(problem),
        )

    @property
    def noise(self) -> str:
        return "gaussian" if self.budget.delta > 0.0 else "gamma"

    @property
    def are_persons(self) -> bool:
        return self.unit == "person"


def part(noise: str, count: int) -> float:
    """The share of the budget of one of ``count`` releases."""
    return 1.0 / (math.sqrt(count) if noise == "gaussian" else count)


def apart(public: PublicNumbers, scale: float, ridge: float) -> tuple[float, float]:
    """A residual that the minimiser certainly reaches, and the resulting distance between neighbours' points."""
    # Rounding to the lattice changes the linear term by at most half a step in each coordinate.
    steps = lattice.STEPS if public.noise == "gaussian" else lattice.GAMMA_STEPS
    rounding = 0.5 * math.sqrt(public.dim) * lattice.step(scale, steps)
    pull = _spread(public, scale)
    if public.pulled:
        pull = pull_of(pull, ridge, public.pulled)
    doubt = public.doubt.with_terms(pull, ridge)
    tolerance = rounding + doubt.reachable(reach_bound(public, scale, ridge))
    # The computed points of neighbours may err in opposite directions.
    return tolerance, 2.0 * (tolerance + rounding) / ridge


def _spread(public: PublicNumbers, scale: float) -> float:
    """A bound on the norm of the linear term that fails with probability below e^-40."""
    if public.noise == "gaussian":
        return scale * (math.sqrt(public.dim) + 9.0)
    return scale * 2.0 * (public.dim + 40.0)


def reach_bound(public: PublicNumbers, scale: float, ridge: float) -> float:
    """A bound on the norm of the minimiser for all possible records.

    The objective at the minimiser is at most that at the point towards which the ridge pulls, 0 by default. So for its
    distance r from there, ``ridge r^2 / 2 - |b| r`` is at most the loss of all records there.
    """
    if math.isfinite(public.norm_bound):
        return public.norm_bound
    pull = _spread(public, scale) / ridge
    return public.pulled + pull + math.sqrt(pull * pull + 2.0 * public.at_pulled / ridge)


@functools.lru_cache(maxsize=64)
def exact(public: PublicNumbers, given: float | None, count: int) -> Setting:
    """The given ridge or the best one, for ``count`` problems, and the smallest noise for it."""
    if given is None:
        return _at(public, *_chosen(public, count, 1.0), count)
    ridge, share = public.own + given, _SHARES[0]
    if ridge == 0.0:
        raise ValueError("regularizer must be above 0 for a loss without a ridge, got 0")
    left = _left(public, share) / count
    if _determinant(public, ridge) >= left:
        least = _least_ridge(public, left) - public.own
        raise ValueError(
            f"regularizer must be above {max(0.0, least):.6g} for epsilon={public.budget.epsilon:g} with this loss, "
            f"got {given:g}; raise it, or leave it out"
        )
    return _at(public, ridge, share, count)


@functools.lru_cache(maxsize=64)
def directed(public: PublicNumbers, count: int) -> tuple[Setting, float]:
    """The ridge for the direction of a decision, and the factor by which it shortens the decision.

    In a direction of curvature c a fit is ``c / (c + ridge)`` times that without a ridge; c is taken to be the records'
    average.
    """
    usual, _ = _chosen(public, count, 1.0)
    ridge, share = _chosen(public, count, _BENT)
    mean = _curvature(public, _BENT)
    return _at(public, ridge, share, count), min(1.0, (usual + mean) / (ridge + mean))


def _chosen(public: PublicNumbers, count: int, bent: float) -> tuple[float, float]:
    """The best ridge, and the share of the budget for the noise on the minimiser."""
    tries = []
    for share in _SHARES:
        ridge, risk, final = _best_ridge(public, share, count, bent)
        tries.append((risk, ridge, share))
        if final < 0.01 * risk:  # a larger share could not gain more than that
            break
    _, ridge, share = min(tries)
    return ridge, share


def _curvature(public: PublicNumbers, bent: float) -> float:
    """The mean curvature over directions, if records have this share of the largest possible curvature."""
    return bent * public.count * public.bend / (public.weight_bound * public.dim)


def _left(public: PublicNumbers, share: float) -> float:
    """The epsilon that is left for the linear terms."""
    budget = public.budget
    if budget.delta == 0.0:
        return budget.epsilon * (1.0 - share) * (1.0 - 2.0**-48)
    cover = share * public.level * (1.0 + 1e-12)
    rest = _epsilon((1.0 - _TAIL) * budget.delta * (1.0 - 1e-9), cover)
    return (budget.epsilon - rest) * (1.0 - 1e-9)


def _determinant(public: PublicNumbers, ridge: float) -> float:
    """A bound on the change of the log-determinant by one record, or one person."""
    r = public.directions
    return r * math.log1p(public.bend / (r * ridge)) * (1.0 + 2.0**-50)


def _least_ridge(public: PublicNumbers, left: float) -> float:
    """The ridge at which the determinant alone costs all that is left."""
    r = public.directions
    return public.bend / (r * math.expm1(min(left / r, 500.0)))


def _best_ridge(
    public: PublicNumbers, share: float, count: int, bent: float
) -> tuple[float, float, float]:
    """The ridge that minimises a bound on the excess risk subject to the privacy constraint, and the bound.

    To :func:`_risk`, for the linear term and the ridge, ``(smoothness / 2) E||noise||^2`` is added for the noise on the
    minimiser; that part is the last number returned.
    """
    left = _left(public, share)
    if left <= 0.0:
        return public.own, math.inf, math.inf
    least = max(public.own, _least_ridge(public, 0.999 * left / count), 1e-9 * public.norm)
    bend, alone = public.count * public.bend, share * part(public.noise, count)

    def parts(logarithm: float) -> tuple[float, float]:
        ridge = least * math.exp(logarithm)
        scale = _scale(public, ridge, left, count, rough=True)
        distance = apart(public, scale, ridge)[1]
        final = noise_norm(public.noise, public.dim, distance, public.level) / alone
        return _risk(public, ridge, scale, bent), 0.5 * (bend + ridge) * final**2

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


def _risk(public: PublicNumbers, ridge: float, scale: float, bent: float) -> float:
    """A bound on the expected excess of the summed loss of one problem.

    In general it is ``E||b||^2 / (2 ridge) + (ridge - own) R^2 / 2`` for the best decision in the ball of radius R. For
    a margin loss no radius is natural. There the best decision is assumed to give predictors of the size at which the
    loss bends, or larger ones if there are so many records that noise costs almost nothing, and the bound is the worst
    case over the possible spectra of the second derivatives.
    """
    p = public.dim
    variance = scale**2 if public.noise == "gaussian" else scale**2 * (p + 1.0)
    extra = ridge - public.own
    if public.typical is None:
        return 0.5 * p * variance / ridge + 0.5 * extra * public.radius**2
    spread = public.typical
    spread *= min(max(1.0, 4.0 * public.worth / (p * math.sqrt(variance) * spread)), _LARGE)
    spread = min(spread, public.norm_bound / math.sqrt(p))
    unit = variance + (extra * spread) ** 2
    mean = max(_curvature(public, bent), public.own)
    if mean >= ridge:
        return p * unit / (8.0 * ridge)
    return 0.5 * p * mean * unit / (mean + ridge) ** 2


def _scale(
    public: PublicNumbers, ridge: float, left: float, count: int, rough: bool = False
) -> float:
    """The smallest scale of the linear terms for a ridge; ``rough`` is a fast approximation for choosing the ridge."""
    budget, c = public.budget, _determinant(public, ridge)
    delta = _TAIL * budget.delta
    if budget.delta == 0.0:
        rest = left / count - c
        rest = max(rest, 1e-6 * budget.epsilon) if rough else rest
        return public.sensitivity / rest
    if public.typical is not None and not public.are_persons:
        shift = count * c
        rest = max(left - shift, 1e-6 * budget.epsilon)
        if count > 1:
            delta *= math.exp(-shift) * (1.0 - 2.0**-40)
        elif budget.neighbours == "replace":
            delta *= 1.0 - 2.0**-20  # for the two smaller terms of that bound
        moved = math.sqrt(count) * public.sensitivity
        return moved / (_rough_mu(left, rest, delta) if rough else gaussian.mu(rest, delta))
    if rough:
        rest = max(left - count * c, 1e-6 * budget.epsilon)
        moved = math.sqrt(count) * public.sensitivity
        return moved / min(_mu(left, 0.5 * delta), _rough_mu(left, rest, delta))
    whole = Budget(left, delta, budget.neighbours)
    return public.norm * calibrations.objective_perturbation(
        whole, 1.0, c, persons=public.are_persons, count=count
    )


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


def _at(public: PublicNumbers, ridge: float, share: float, count: int) -> Setting:
    """The smallest noise for a ridge, after setting aside the share for the minimiser's distance."""
    budget, left = public.budget, _left(public, share)
    c = _determinant(public, ridge)
    details: tuple[str, ...] = (
        f"ridge {ridge:.6g} of the summed loss; a {public.unit}'s Hessian is at most {public.bend:.6g}",
        f"so it changes the log-determinant by at most {c:.6g}",
    )
    if count > 1:
        split = f"1/sqrt({count}) of mu" if budget.delta > 0.0 else f"1/{count} of epsilon"
        details += (f"{count} fits on the same records, each with {split}",)
    scale = _scale(public, ridge, left, count)
    if budget.delta == 0.0:
        moved = public.sensitivity
        curve: Curve = Pure(moved / scale + c)
        release = Release(NAME, curve, moved, f"Gamma, scale {scale:.6g}", count, details=details)
        return Setting.of(public, ridge, scale, share, release)
    curve = _curve(public, scale, c, count)
    # rounding, and the smaller terms of the bound for a replaced record, which are not small where delta is large
    for tried in range(60):
        if curve.delta(left) <= _TAIL * budget.delta:
            break
        scale *= 1.0 + 1e-6 * 2.0 ** max(0, tried - 20)
        curve = _curve(public, scale, c, count)
    release = Release(
        NAME, curve, public.norm, f"Gaussian, standard deviation {scale:.6g}", details=details
    )
    return Setting.of(public, ridge, scale, share, release)


def _curve(public: PublicNumbers, scale: float, c: float, count: int = 1) -> ObjectivePerturbation:
    neighbours, mu = public.budget.neighbours, public.norm / scale
    if public.are_persons:
        return ObjectivePerturbation(mu, c, neighbours, count=count, persons=True)
    return ObjectivePerturbation(mu, c, neighbours, public.typical is not None, count)


def prescribed_setting(public: PublicNumbers, given: float | None, calibration: str) -> Setting:
    """Prescribed ridge and noise, and their true cost."""
    budget, norm = public.budget, public.norm
    wanted = None if given is None else public.own + given
    formula = prescribed.prescribe(
        calibration,
        "objective-perturbation",
        budget,
        norm=norm,
        smoothness=public.bend,
        regulariser=wanted,
    )
    assert formula.regulariser is not None
    ridge = max(public.own, formula.regulariser)
    scale = formula.amount
    c = _determinant(public, ridge)
    details = formula.details
    if budget.delta == 0.0:
        moved = public.sensitivity
        release = Release(
            NAME, Pure(moved / scale + c), moved, f"Gamma, scale {scale:.6g}", details=details
        )
    else:
        release = Release(
            NAME,
            _curve(public, scale, c),
            norm,
            f"Gaussian, standard deviation {scale:.6g}",
            details=details,
        )
    return Setting.of(public, ridge, scale, _SHARES[0], release, formula.doubts(budget.neighbours))
