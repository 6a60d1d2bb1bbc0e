"""Output perturbation: find the minimiser of the regularised loss, then add noise to it.

Chaudhuri, Monteleoni and Sarwate, *Differentially private empirical risk minimization*, Algorithm 1. If the summed
objective is ``ridge``-strongly convex, one record changes its minimiser by at most ``L / ridge`` (blanked) or
``2 L / ridge`` (replaced), on any convex set; the certified distance of the computed minimiser is added twice. See
docs/algorithms/objective-perturbation.md.

The noise decreases with the ridge and the bias increases; the default ridge balances the two bounds. The method is
usually far less accurate than objective perturbation. It serves as a baseline and as the first stage of
:func:`reticent.erm.localisation`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from reticent import checks
from reticent.checks import FloatArray
from reticent.erm.fit import Fit
from reticent.erm.minimise import doubt_of, minimise
from reticent.erm.problem import OfflineProblem, default_radius
from reticent.erm.reading import bounded, need_smooth
from reticent.erm.solver import Run, SolverPlan, solve
from reticent.privacy import Release
from reticent.trace import Callback

NAME = "output perturbation"


def output_perturbation(
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
    """Minimise the summed loss plus a ridge and add noise to the minimiser.

    Parameters
    ----------
    loss : Loss
        Smooth generalised linear loss.
    set : set or None
        Feasible set with a projection; None is a ball around 0 whose radius is computed from public numbers.
    X : array or CSR matrix
        Records, one per row; clipped to the loss's bounds.
    y : array, optional
        Labels.
    budget : Budget
        Privacy budget of the release. The noise is Gaussian if ``delta > 0``, and Gamma if ``delta = 0``.
    seed : int, optional
        Seed of the noise, for experiments; the guarantee says so. None uses a cryptographic generator.
    noise_precision : {"lattice", "float"}
        "lattice" rounds noisy values to a lattice, so that floating-point rounding reveals nothing; "float" is for
        simulations, and the guarantee says so. Default: "lattice".
    callback : callable, optional
        Called with the final point only; what precedes it is not private.
    progress : bool
        Whether to show a progress line. Default: False.
    regularizer : float, optional
        Coefficient of ``(1/2) ||x||^2`` that is added to the *summed* loss, in addition to the loss's own ridge. By
        default it minimises the bound on the excess risk.
    calibration : {"exact"}
        Only exact noise is available.

    Returns
    -------
    Fit
        The noisy minimiser, its guarantee and a trace.

    See Also
    --------
    objective_perturbation : Usually far more accurate.


    Examples
    --------
    >>> import numpy as np, reticent
    >>> from reticent import erm, losses
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 3))
    >>> X /= np.linalg.norm(X, axis=1)[:, None]
    >>> y = np.sign(X @ [2.0, -1.0, 0.0])
    >>> fit = erm.output_perturbation(
    ...     losses.Logistic(), None, X, y, budget=reticent.Budget(1.0, 1e-6), seed=0
    ... )
    >>> float(np.mean(np.sign(X @ fit.point) == y)) > 0.9
    True
    """
    checks.choice(calibration, "calibration", ("exact",))
    return solve(
        NAME, partial(_plan, set=set, regularizer=regularizer), loss, set, X, y, budget=budget,
        seed=seed, noise_precision=noise_precision, calibration=calibration, callback=callback,
        progress=progress, by_passes=True,
    )  # fmt: skip


def _plan(problem: OfflineProblem, set: Any, regularizer: float | None) -> SolverPlan:
    need_smooth(problem, NAME)
    problem = bounded(problem, set, NAME)
    ridge = ridge_for(problem, regularizer)
    rough = rough_minimiser(problem, ridge, (f"ridge {ridge:.6g} of the summed loss",))

    def step(run: Run, t: int) -> bool:
        return run.note(t, rough.draw(run))

    settings = {
        "regularizer": ridge - problem.count * problem.loss.ridge,
        "noise": rough.release.noise,
        "set": repr(problem.set),
    }
    return SolverPlan(problem=problem, step=step, releases=[rough.release], settings=settings)


@dataclass(frozen=True)
class RoughMinimiser:
    """The minimiser of the summed loss with a ridge, and the noise that makes it private."""

    problem: OfflineProblem
    ridge: float
    tolerance: float
    scale: float
    release: Release

    def draw(self, run: Run) -> FloatArray:
        """A noisy minimiser, projected onto the set."""
        problem = self.problem
        found = minimise(problem, np.zeros(problem.dim), self.ridge, self.tolerance)
        run.recorder.facts["Newton steps"] = found.steps
        return problem.set.project(problem.shaped(run.noisy(found.point, self.scale)))


def rough_minimiser(
    problem: OfflineProblem, ridge: float, details: tuple[str, ...] = ()
) -> RoughMinimiser:
    """The release of the minimiser, with the problem's share of the budget."""
    tolerance = reachable(problem, ridge)
    moved = sensitivity(problem, ridge, tolerance)
    scale = problem.noise_scale(moved, problem.level, problem.dim, largest(problem, ridge))
    release = problem.release("regularised minimiser", moved, scale, problem.dim, details=details)
    return RoughMinimiser(problem, ridge, tolerance, scale, release)


def sensitivity(problem: OfflineProblem, ridge: float, tolerance: float) -> float:
    """Sensitivity of the computed minimiser."""
    exact = problem.budget.sensitivity(problem.norm)
    return (exact + 2.0 * tolerance) / ridge * (1.0 + 2.0**-50)


def largest(problem: OfflineProblem, ridge: float, scale: float = 0.0) -> float:
    """A bound on the norm of the minimiser.

    With noise of this scale on the gradient it holds except with probability below e^-40.
    """
    size = float(problem.set.norm_bound)
    if math.isfinite(size):
        return 2.0 * size
    return 2.0 * (problem.largest_sum + scale * 4.0 * (problem.dim + 40.0)) / ridge


def reachable(problem: OfflineProblem, ridge: float) -> float:
    """A residual that double precision certainly reaches. Uses public numbers only."""
    radius = float(problem.set.norm_bound)
    if not math.isfinite(radius):
        radius = 100.0 * default_radius(problem, NAME)
    return doubt_of(problem).with_terms(0.0, ridge).reachable(radius) + 1e-12 * problem.norm


def ridge_for(problem: OfflineProblem, regularizer: Any) -> float:
    own = problem.count * problem.loss.ridge
    if regularizer is not None:
        ridge = own + checks.number(regularizer, "regularizer", low=0.0)
        if ridge == 0.0:
            raise ValueError(
                "regularizer must be above 0 for a loss without a ridge, got 0; use a positive one"
            )
        return ridge
    radius = float(problem.set.norm_bound)
    if not math.isfinite(radius):
        radius = default_radius(problem, NAME)
    noise = problem.noise_norm(problem.budget.sensitivity(problem.norm))
    bend = problem.count * (problem.smoothness - problem.loss.ridge)

    def risk(logarithm: float) -> float:
        ridge = math.exp(logarithm)
        spread = noise / ridge
        smooth = 0.5 * (bend + ridge) * spread**2
        rough = problem.count * problem.norm * spread
        return math.log(min(smooth, rough) + 0.5 * max(0.0, ridge - own) * radius**2)

    middle = math.log(noise / radius)
    low = math.log(own) if own > 0.0 else middle - 20.0
    found = minimize_scalar(risk, bounds=(low, max(low, middle) + 30.0), method="bounded")
    ridge = math.exp(float(found.x))
    return own if own > 0.0 and risk(math.log(own)) <= float(found.fun) else ridge
