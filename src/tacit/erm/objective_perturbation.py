"""Objective perturbation: minimise the loss plus a ridge plus a random linear term.

Chaudhuri, Monteleoni and Sarwate, *Differentially private empirical risk minimization*; Algorithm 2
of *Private Optimization*; Kifer, Smith and Thakurta for Gaussian noise. With ``delta = 0`` the
linear term is Gamma noise and the ratio of determinants is at most ``1 + beta/Delta``, exactly; with
``delta > 0`` it is Gaussian, by the bound for generalised linear losses of
``tacit.privacy.objective``. The minimiser is never exact: the run stops at a certified distance,
noise for that distance is added and accounted (approximate minima perturbation, Iyengar et al.,
*Towards practical differentially private convex optimization*). Proofs, and the choice of the
ridge: docs/algorithms/objective-perturbation.md.

The one thing a reader would get wrong: the random linear term is not released, so it need not lie
on a lattice for its own sake; but the proof needs it to be a real number, and its rounding is part
of the distance that the noise at the end covers.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from tacit import _checks
from tacit.erm._minimise import Objective, minimise
from tacit.erm._problem import (
    Problem,
    default_radius,
    doubts,
    need_lipschitz,
    need_projection,
    read,
)
from tacit.erm.fit import Fit
from tacit.erm.output_perturbation import check_smooth, largest
from tacit.noise import Source, lattice
from tacit.noise.release import noisy
from tacit.privacy import (
    Budget,
    ObjectivePerturbation,
    Pure,
    Release,
    charge,
    gaussian,
    published,
)
from tacit.privacy import calibration as calibrations
from tacit.sets import L2Ball, WholeSpace
from tacit.trace import Callback, Recorder

NAME = "objective perturbation"
_SHARES = (1e-3, 1e-2, 5e-2)
"""Of the budget, for the noise that covers how inexact the minimiser is."""
_TAIL = 0.99
"""Of delta, for the linear term; the rest is for that noise."""


@dataclass(frozen=True)
class _Setting:
    ridge: float  # of the summed loss, the loss's own included
    scale: float  # of the linear term
    share: float
    release: Release
    caveats: tuple[str, ...] = ()


def objective_perturbation(
    loss: Any,
    set: Any,
    X: Any,
    y: Any = None,
    *,
    budget: Any,
    regularizer: float | None = None,
    seed: int | None = None,
    noise_precision: str = "lattice",
    calibration: str = "exact",
    callback: Callback | None = None,
    progress: bool = False,
) -> Fit:
    """Minimise the summed loss plus a ridge plus a random linear term.

    Parameters
    ----------
    loss : Loss
        A smooth generalised linear loss (logistic, squared, Huber, smooth hinge, Poisson).
    set : set or None
        With a projection. None is a ball around 0 whose radius follows from the number of records,
        the dimension and the budget; a small ball needs less noise, since gradients are smaller on
        it.
    X, y
        The records, an array or a CSR matrix, and their labels.
    budget : Budget
        ``delta = 0`` is pure differential privacy with Gamma noise, else the noise is Gaussian.
    regularizer : float, optional
        The weight of ``(1/2) ||x||^2`` that is added to the *summed* loss, beside the loss's own
        ridge. By default the minimiser of the bound on the excess risk.
    seed, noise_precision, calibration, callback, progress
        As in :func:`tacit.erm.gradient_descent`. The callback sees the final point only: what comes
        before it is not private.

    Returns
    -------
    Fit

    Notes
    -----
    The certificate of the minimiser counts the rounding of every sum over the records, and the
    rounding of the linear term; the noise at the end covers both.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> from tacit import erm, losses
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 3))
    >>> X /= np.linalg.norm(X, axis=1)[:, None]
    >>> y = np.sign(X @ [2.0, -1.0, 0.0])
    >>> fit = erm.objective_perturbation(
    ...     losses.Logistic(), None, X, y, budget=tacit.Budget(1.0), seed=0
    ... )
    >>> round(fit.guarantee.pure, 6), float(np.mean(np.sign(X @ fit.point) == y)) > 0.95
    (1.0, True)
    """
    problem = read(
        loss, set, X, y, budget, noise_precision=noise_precision, calibration=calibration
    )
    _check_loss(problem)
    if set is None:
        problem = problem.with_set(L2Ball(problem.dim, default_radius(problem, NAME)))
    need_lipschitz(problem, NAME)
    need_projection(problem, NAME)
    given = None if regularizer is None else _checks.number(regularizer, "regularizer", low=0.0)
    setting = (_exact if calibration == "exact" else _published)(problem, given)
    tolerance, apart = _apart(problem, setting.scale, setting.ridge)
    size = largest(problem, setting.ridge, setting.scale)
    cover = problem.noise_scale(apart, setting.share * problem.level, problem.dim, size)
    releases = [
        setting.release,
        problem.release("distance to the exact minimiser", apart, cover, problem.dim),
    ]
    source = Source(seed)
    guarantee = problem.promise(releases, source, calibration=calibration, caveats=setting.caveats)
    settings = {
        "regularizer": setting.ridge - problem.count * problem.loss.ridge,
        "noise": setting.release.noise,
        "noise on the minimiser": releases[1].noise,
        "set": repr(problem.set),
    }
    recorder = Recorder(NAME, steps=1, settings=settings, callback=callback, progress=progress)
    recorder.facts["clipped"] = str(problem.clipped)
    charge(guarantee, NAME)
    with recorder:
        b = noisy(np.zeros(problem.dim), setting.scale, source, noise=problem.noise,
                  precision=problem.precision)  # fmt: skip
        found = minimise(problem, b, setting.ridge, tolerance)
        x = noisy(found.point, cover, source, noise=problem.noise, precision=problem.precision)
        point = problem.set.project(problem.shaped(x))
        recorder.facts["Newton steps"] = found.steps
        recorder.note(1, point)
    return Fit(point, guarantee, recorder.close())


def _check_loss(problem: Problem) -> None:
    if not problem.is_linear_model:
        raise TypeError(
            f"{NAME} is proved for generalised linear losses only, got {problem.loss!r}; "
            "use erm.gradient_descent"
        )
    check_smooth(problem, NAME)


def _apart(problem: Problem, scale: float, ridge: float) -> tuple[float, float]:
    """A residual that the minimiser can surely reach, and how far two neighbours' points can be.

    Reads no record.
    """
    # Half a lattice step in each coordinate is what rounding takes from the linear term.
    steps = lattice.STEPS if problem.noise == "gaussian" else lattice.GAMMA_STEPS
    rounding = 0.5 * math.sqrt(problem.dim) * lattice.step(scale, steps)
    radius = problem.set.norm_bound
    if not math.isfinite(radius):
        radius = 100.0 * default_radius(problem, NAME)
    spread = scale * (problem.dim + 40.0)
    objective = Objective(problem, np.full(1, spread), ridge)
    doubt = objective.doubt(np.full(1, radius))
    if not isinstance(problem.set, WholeSpace):
        doubt = 2.0 * doubt + objective.projection_doubt(radius)
    tolerance = rounding + 4.0 * doubt
    # Two neighbours' points may be off in opposite directions.
    return tolerance, 2.0 * (tolerance + rounding) / ridge


def _bend(problem: Problem) -> float:
    """A bound on the Hessian of one record."""
    bend = problem.loss.scalar_bounds(problem.set)[1]  # type: ignore[attr-defined]
    return float(bend) * problem.feature_norm**2


def _radius(problem: Problem) -> float:
    bound = float(problem.set.norm_bound)
    return bound if math.isfinite(bound) else default_radius(problem, NAME)


def _exact(problem: Problem, given: float | None) -> _Setting:
    own = problem.count * problem.loss.ridge
    bend, epsilon = _bend(problem), problem.budget.epsilon
    if given is None:
        tries = []
        for share in _SHARES:
            ridge, risk, final = _best_ridge(problem, own, share)
            tries.append((risk, ridge, share))
            if final < 0.01 * risk:  # a larger share could gain no more than that
                break
        _, ridge, share = min(tries)
        return _at(problem, ridge, share)
    ridge, share = own + given, _SHARES[0]
    if ridge == 0.0:
        raise ValueError("regularizer must be above 0 for a loss without a ridge, got 0")
    if math.log1p(bend / ridge) >= _left(problem, share):
        least = bend / math.expm1(min(_left(problem, share), 500.0)) - own
        raise ValueError(
            f"regularizer must be above {max(0.0, least):.6g} for epsilon = {epsilon:g} with this "
            f"loss, got {given:g}; raise it, or leave it out"
        )
    return _at(problem, ridge, share)


def _left(problem: Problem, share: float) -> float:
    """What the linear term may spend of epsilon."""
    budget = problem.budget
    if budget.delta == 0.0:
        return budget.epsilon * (1.0 - share) * (1.0 - 2.0**-48)
    cover = share * problem.level * (1.0 + 1e-12)
    rest = gaussian.epsilon((1.0 - _TAIL) * budget.delta * (1.0 - 1e-9), cover)
    return (budget.epsilon - rest) * (1.0 - 1e-9)


def _determinant(problem: Problem, ridge: float) -> float:
    return math.log1p(_bend(problem) / ridge) * (1.0 + 2.0**-50)


def _best_ridge(problem: Problem, own: float, share: float) -> tuple[float, float, float]:
    """The minimiser of the bound on the excess risk over what privacy allows, and the bound.

    ``E||b||^2 / (2 ridge) + (ridge - own) R^2 / 2`` for the linear term and the ridge, and
    ``(smoothness / 2) E||noise||^2`` for the noise at the end, whose part is returned last.
    """
    left, bend = _left(problem, share), _bend(problem)
    if left <= 0.0:
        return own, math.inf, math.inf
    least = max(own, bend / math.expm1(min(0.999 * left, 500.0)), 1e-9 * problem.norm)
    radius = _radius(problem)

    def parts(logarithm: float) -> tuple[float, float]:
        ridge = least * math.exp(logarithm)
        noise = _noise_norm(problem, ridge, left)
        apart = _apart(problem, noise / problem.dim, ridge)[1]
        final = problem.noise_norm(apart) / share
        linear = 0.5 * noise**2 / ridge + 0.5 * (ridge - own) * radius**2
        return linear, 0.5 * (problem.count * bend + ridge) * final**2

    found = minimize_scalar(lambda point: math.log(sum(parts(point))), bounds=(0.0, 60.0),
                            method="bounded", options={"xatol": 0.01})  # fmt: skip
    best = float(found.x) if sum(parts(float(found.x))) < sum(parts(0.0)) else 0.0
    linear, final = parts(best)
    return least * math.exp(best), linear + final, final


def _noise_norm(problem: Problem, ridge: float, left: float) -> float:
    """About the norm of the linear term that a ridge calls for; for choosing one."""
    budget, p = problem.budget, problem.dim
    rest = max(left - _determinant(problem, ridge), 1e-6 * budget.epsilon)
    moved = budget.sensitivity(problem.norm)
    if budget.delta == 0.0:
        return math.sqrt(p * (p + 1.0)) * moved / rest
    delta = _TAIL * budget.delta
    return math.sqrt(p) * moved / min(_mu(left, 0.5 * delta), gaussian.mu(rest, delta))


@functools.lru_cache(maxsize=64)
def _mu(epsilon: float, delta: float) -> float:
    return gaussian.mu(epsilon, delta)


def _at(problem: Problem, ridge: float, share: float) -> _Setting:
    """The least noise for a ridge, the share for the minimiser's distance set aside."""
    budget, left = problem.budget, _left(problem, share)
    c = _determinant(problem, ridge)
    details = (
        f"ridge {ridge:.6g} of the summed loss; a record's Hessian is at most {_bend(problem):.6g}",
        f"so it changes the log-determinant by at most {c:.6g}",
    )
    if budget.delta == 0.0:
        moved = budget.sensitivity(problem.norm)
        scale = moved / (left - c)
        curve = Pure(moved / scale + c)
        release = Release(NAME, curve, moved, f"Gamma, scale {scale:.6g}", details=details)
        return _Setting(ridge, scale, share, release)
    own = Budget(left, _TAIL * budget.delta, budget.neighbours)
    scale = calibrations.objective_perturbation(own, problem.norm, c)
    release = Release(NAME, _curve(problem, scale, c), problem.norm,
                      f"Gaussian, standard deviation {scale:.6g}", details=details)  # fmt: skip
    return _Setting(ridge, scale, share, release)


def _curve(problem: Problem, scale: float, c: float) -> ObjectivePerturbation:
    return ObjectivePerturbation(problem.norm / scale, c, problem.budget.neighbours)


def _published(problem: Problem, given: float | None) -> _Setting:
    budget, bend, own = problem.budget, _bend(problem), problem.count * problem.loss.ridge
    norm = problem.norm
    wanted = None if given is None else own + given
    if budget.delta == 0.0:
        formula = published.objective_perturbation_gamma(
            budget.epsilon, norm=norm, smoothness=bend, regulariser=wanted
        )
    else:
        formula = published.objective_perturbation_gaussian(
            budget.epsilon, budget.delta, norm=norm, smoothness=bend, regulariser=wanted
        )
    assert formula.regulariser is not None
    ridge = max(own, formula.regulariser)
    scale = float(formula.scale)
    c = _determinant(problem, ridge)
    details = (f"published noise: {formula.formula}", formula.where)
    if budget.delta == 0.0:
        moved = budget.sensitivity(norm)
        release = Release(NAME, Pure(moved / scale + c), moved, f"Gamma, scale {scale:.6g}",
                          details=details)  # fmt: skip
    else:
        release = Release(NAME, _curve(problem, scale, c), norm,
                          f"Gaussian, standard deviation {scale:.6g}", details=details)  # fmt: skip
    return _Setting(ridge, scale, _SHARES[0], release, doubts(formula, budget))
