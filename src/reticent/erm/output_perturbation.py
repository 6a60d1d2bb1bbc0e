"""Output perturbation: find the minimiser of the regularised loss, then add noise to it.

Chaudhuri, Monteleoni and Sarwate, *Differentially private empirical risk minimization*, Algorithm
1. If the summed objective is ``ridge``-strongly convex, one record moves its minimiser by at most
``L / ridge`` (it is blanked) or ``2 L / ridge`` (it is replaced), on any convex set; how inexact the
minimiser is, certified, is added twice. See docs/algorithms/objective-perturbation.md.

The noise shrinks with the ridge and the bias grows with it; the default balances the two by theory and is
usually far worse than objective perturbation. It is here as the plain baseline, and as the first stage of
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
        A smooth generalised linear loss.
    set : set or None
        With a projection; None is a ball around 0 with a radius chosen by theory.
    X : array or CSR matrix
        The records, one row each; they are clipped to the loss's bounds.
    y : array, optional
        Their labels.
    budget : Budget
        What all releases together may cost. With ``delta > 0`` the noise is Gaussian, with ``delta
        = 0`` it is Gamma.
    seed : int, optional
        Of the noise, for experiments; the guarantee says so. None is a cryptographic generator.
    noise_precision : {"lattice", "float"}
        Noise on a lattice leaks nothing through rounding; "float" is for simulations, and the
        guarantee says so.
    callback : callable, optional
        Sees the final point only: what comes before it is not private.
    progress : bool
        Whether to show a progress line.
    regularizer : float, optional
        The weight of ``(1/2) ||x||^2`` that is added to the *summed* loss, beside the loss's own
        ridge. By default the minimiser of the bound on the excess risk.
    calibration : {"exact"}
        No other noise is prescribed for it.

    Returns
    -------
    Fit

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
        """A point of the set."""
        problem = self.problem
        found = minimise(problem, np.zeros(problem.dim), self.ridge, self.tolerance)
        run.recorder.facts["Newton steps"] = found.steps
        return problem.set.project(problem.shaped(run.noisy(found.point, self.scale)))


def rough_minimiser(
    problem: OfflineProblem, ridge: float, details: tuple[str, ...] = ()
) -> RoughMinimiser:
    """How it is released, with the problem's share of the budget."""
    tolerance = reachable(problem, ridge)
    moved = sensitivity(problem, ridge, tolerance)
    scale = problem.noise_scale(moved, problem.level, problem.dim, largest(problem, ridge))
    release = problem.release("regularised minimiser", moved, scale, problem.dim, details=details)
    return RoughMinimiser(problem, ridge, tolerance, scale, release)


def sensitivity(problem: OfflineProblem, ridge: float, tolerance: float) -> float:
    """How far one record moves the computed minimiser."""
    exact = problem.budget.sensitivity(problem.norm)
    return (exact + 2.0 * tolerance) / ridge * (1.0 + 2.0**-50)


def largest(problem: OfflineProblem, ridge: float, scale: float = 0.0) -> float:
    """A bound on the norm of the minimiser, with noise of this scale on the gradient (but for a
    probability below e^-40)."""
    size = float(problem.set.norm_bound)
    if math.isfinite(size):
        return 2.0 * size
    return 2.0 * (problem.largest_sum + scale * 4.0 * (problem.dim + 40.0)) / ridge


def reachable(problem: OfflineProblem, ridge: float) -> float:
    """A residual that double precision reaches with room to spare. Reads no record."""
    radius = float(problem.set.norm_bound)
    if not math.isfinite(radius):
        radius = 100.0 * default_radius(problem, NAME)
    return doubt_of(problem, 0.0, ridge).reachable(radius) + 1e-12 * problem.norm


def ridge_for(problem: OfflineProblem, regularizer: Any) -> float:
    own = problem.count * problem.loss.ridge
    if regularizer is not None:
        ridge = own + checks.number(regularizer, "regularizer", low=0.0)
        if ridge == 0.0:
            raise ValueError("regularizer must be above 0 for a loss without a ridge, got 0")
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
