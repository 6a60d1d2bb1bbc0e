"""Two stages for strongly convex losses: find a neighbourhood of the minimiser, then search it.

Bassily, Smith and Thakurta, *Private empirical risk minimization: efficient algorithms and tight error bounds*, section
5: part of the budget pays for a rough minimiser by output perturbation, and the rest for a second solver on a small
ball around it, whose error is proportional to the radius. Here the second stage is noisy gradient descent. See
docs/algorithms/objective-perturbation.md.

The ball contains the minimiser only with high probability. This affects accuracy; privacy does not depend on it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from reticent import checks
from reticent.checks import FloatArray
from reticent.erm.fit import Fit
from reticent.erm.gradient_descent import descent, step_rule
from reticent.erm.output_perturbation import rough_minimiser
from reticent.erm.problem import OfflineProblem
from reticent.erm.reading import bounded, need_smooth
from reticent.erm.solver import Run, SolverPlan, solve
from reticent.privacy import Gaussian, Pure, Release
from reticent.sets.base import ConvexSet
from reticent.trace import Callback

NAME = "localisation"


def localisation(
    loss: Any,
    set: Any,
    X: Any,
    y: Any = None,
    *,
    budget: Any,
    first_share: float = 0.3,
    failure: float = 0.05,
    steps: int | None = None,
    record_loss: bool = False,
    seed: int | None = None,
    noise_precision: str = "lattice",
    calibration: str = "exact",
    callback: Callback | None = None,
    progress: bool = False,
) -> Fit:
    """Output perturbation, then gradient descent on a ball that contains the minimiser with high probability.

    Parameters
    ----------
    loss : Loss
        Smooth generalised linear loss with a ridge.
    set : set or None
        Feasible set with an exact projection (a ball, a box, a simplex, a product of these). None is a ball around 0
        whose radius is computed from public numbers.
    X : array or CSR matrix
        Records, one per row; clipped to the loss's bounds.
    y : array, optional
        Labels.
    budget : Budget
        Privacy budget of all releases together. The noise is Gaussian if ``delta > 0``, and Gamma if ``delta = 0``.
    record_loss : bool
        Whether the trace holds the loss of every step, a diagnostic that reads private data. Default: False.
    seed : int, optional
        Seed of the noise, for experiments; the guarantee says so. None uses a cryptographic generator.
    noise_precision : {"lattice", "float"}
        "lattice" rounds noisy values to a lattice, so that floating-point rounding reveals nothing; "float" is for
        simulations, and the guarantee says so. Default: "lattice".
    callback : callable, optional
        Called with a :class:`reticent.trace.Moment` after each step of the second stage; a true result stops the run.
    progress : bool
        Whether to show a progress line. Default: False.
    first_share : float
        Share of the budget for the first stage: of mu squared, or of epsilon if delta = 0. Default: 0.3.
    failure : float
        Largest probability, over the noise, that the ball misses the minimiser. Default: 0.05.
    steps : int, optional
        Number of steps of the second stage. By default the bound on the excess risk determines it.
    calibration : {"exact"}
        Only exact noise is available.

    Returns
    -------
    Fit
        The decision, its guarantee and a trace.

    See Also
    --------
    output_perturbation : The first stage.
    gradient_descent : The second stage.


    Examples
    --------
    >>> import numpy as np, reticent
    >>> from reticent import erm, losses, sets
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((5000, 3)) / 3
    >>> y = np.sign(X @ [2.0, -1.0, 0.0])
    >>> fit = erm.localisation(
    ...     losses.Logistic(ridge=0.05),
    ...     sets.L2Ball(3, 5.0),
    ...     X,
    ...     y,
    ...     budget=reticent.Budget(1.0, 1e-6),
    ...     seed=0,
    ... )
    >>> float(np.mean(np.sign(X @ fit.point) == y)) > 0.9
    True
    """
    checks.choice(calibration, "calibration", ("exact",))
    return solve(
        NAME,
        partial(_plan, set=set, first_share=first_share, failure=failure, steps=steps,
                record_loss=record_loss),
        loss, set, X, y, budget=budget, seed=seed, noise_precision=noise_precision,
        calibration=calibration, callback=callback, progress=progress,
    )  # fmt: skip


def _plan(
    problem: OfflineProblem, set: Any, first_share: Any, failure: Any, steps: Any, record_loss: bool
) -> SolverPlan:
    share = checks.number(
        first_share, "first_share", low=0.0, high=1.0, open_low=True, open_high=True
    )
    failure = checks.number(failure, "failure", low=0.0, high=1.0, open_low=True, open_high=True)
    if steps is not None:
        checks.integer(steps, "steps", low=1)
    need_smooth(problem, NAME)
    if problem.loss.strong_convexity == 0.0:
        raise ValueError(
            f"{NAME} needs a strongly convex loss, and {problem.loss!r} has no ridge; use a loss with ridge > 0, "
            "or erm.objective_perturbation"
        )
    problem = bounded(problem, set, NAME)
    gaussian = problem.noise == "gaussian"
    shares = (math.sqrt(share), math.sqrt(1.0 - share)) if gaussian else (share, 1.0 - share)
    first, second = (replace(problem, share=part * (1.0 - 1e-12)) for part in shares)
    ridge = problem.count * problem.loss.ridge
    rough = rough_minimiser(first, ridge)
    radius = _radius(problem, rough.scale, failure) + rough.tolerance / ridge

    def search_near(run: Run) -> SolverPlan:
        center = np.array(rough.draw(run)).ravel()
        near = second.with_set(Near(problem.set, center, radius))
        rule = step_rule(near, steps)
        plan = descent(near, center, rule, record_loss=record_loss)
        settings = {
            "first noise": f"{rough.scale:.6g}",
            "radius": radius,
            "steps": rule.steps,
            "step size": rule.step_size,
            "noise": plan.settings["noise"],
            "average": "weighted",
            "set": repr(problem.set),
        }
        # A stopped run cannot be resumed: its ball would have to be saved with it.
        return replace(plan, settings=settings, identity=None)

    curve = Gaussian(second.level) if gaussian else Pure(second.level)
    words = "Gaussian" if gaussian else "Gamma"
    near_it = Release("noisy sums of gradients near the first point", curve, None, words)
    return SolverPlan(problem=problem, releases=[rough.release, near_it], then=search_near)


def _radius(problem: OfflineProblem, scale: float, failure: float) -> float:
    """A bound on the norm of the first stage's noise that holds except with this probability."""
    p = problem.dim
    if problem.noise == "gaussian":
        return scale * math.sqrt(2.0 * float(gammaincinv(0.5 * p, 1.0 - failure)))
    return scale * float(gammaincinv(float(p), 1.0 - failure))


class Near(ConvexSet):
    """The points of a set within some distance of one of its points."""

    def __init__(self, whole: Any, center: FloatArray, radius: float) -> None:
        self.whole = whole
        self._center = center
        self.radius = radius
        self.dim = int(whole.dim)
        self.diameter = min(2.0 * radius, float(whole.diameter))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.whole.shape)

    @property
    def center(self) -> FloatArray:
        return self._center.reshape(self.shape).copy()

    @property
    def norm_bound(self) -> float:
        return min(float(self.whole.norm_bound), float(np.linalg.norm(self._center)) + self.radius)

    def _project(self, x: FloatArray) -> FloatArray:
        """The projection, which is the whole set's projection of a convex combination of x and the center."""

        def at(weight: float) -> FloatArray:
            mixed = (x + weight * self._center) / (1.0 + weight)
            return np.asarray(self.whole.project(mixed.reshape(self.shape))).ravel()

        def excess(weight: float) -> float:
            return float(np.linalg.norm(at(weight) - self._center)) - self.radius

        if excess(0.0) <= 0.0:
            return at(0.0)
        low, high = 0.0, 1.0
        while excess(high) > 0.0 and high < 1e15:
            low, high = high, 4.0 * high
        for _ in range(100):
            middle = 0.5 * (low + high)
            if not low < middle < high or high - low <= 1e-14 * high:
                break
            low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
        return at(high)

    def _linear_minimizer(self, g: FloatArray) -> FloatArray:
        raise NotImplementedError("this set has no linear minimiser; use a solver that projects")

    def _contains(self, x: FloatArray, slack: float) -> bool:
        near = float(np.linalg.norm(x - self._center)) <= self.radius + slack
        return near and bool(self.whole.contains(x.reshape(self.shape), tol=slack))

    def __repr__(self) -> str:
        return f"{self.whole!r} within {self.radius:g} of a released point"
