"""Two stages for strongly convex losses: find the neighbourhood, then search it.

Bassily, Smith and Thakurta, *Private empirical risk minimization: efficient algorithms and tight
error bounds*, section 5: a part of the budget buys a rough minimiser by output perturbation, and the
rest a second solver on the small ball around it, whose error is proportional to its radius. Here the
second stage is noisy gradient descent. See docs/algorithms/objective-perturbation.md.

The one thing a reader would get wrong: the ball holds the minimiser only with high probability.
That is a matter of accuracy; privacy does not depend on it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from reticent import _checks
from reticent._checks import FloatArray
from reticent.erm._minimise import minimise
from reticent.erm._pause import Pause
from reticent.erm._problem import Problem, default_radius
from reticent.erm._reading import need_lipschitz, need_projection, read
from reticent.erm.fit import Fit
from reticent.erm.gradient_descent import _noise, _plan, _run
from reticent.erm.output_perturbation import check_smooth, largest, reachable, sensitivity
from reticent.noise import Source
from reticent.noise.release import noisy
from reticent.privacy import Gaussian, Pure, Release, charge
from reticent.sets import L2Ball
from reticent.sets.base import ConvexSet
from reticent.trace import Callback, Recorder

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
    """Output perturbation, then gradient descent on the ball in which the minimiser must be.

    Parameters
    ----------
    loss : Loss
        A smooth generalised linear loss with a ridge.
    set : set or None
        With an exact projection (a ball, a box, a simplex, a product of these). None is a ball
        around 0 with a radius chosen by theory.
    X, y, budget, record_loss, seed, noise_precision, callback, progress
        As in :func:`reticent.erm.gradient_descent`; the callback sees the second stage.
    first_share : float
        Of the budget for the first stage: of mu squared, or of epsilon without delta.
    failure : float
        With at most this probability over the noise the ball misses the minimiser.
    steps : int, optional
        Of the second stage.
    calibration : {"exact"}
        No other noise is prescribed for it.

    Returns
    -------
    Fit

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
    problem = read(loss, set, X, y, budget, noise_precision=noise_precision)
    _checks.choice(calibration, "calibration", ("exact",))
    share = _checks.number(
        first_share, "first_share", low=0.0, high=1.0, open_low=True, open_high=True
    )
    failure = _checks.number(failure, "failure", low=0.0, high=1.0, open_low=True, open_high=True)
    if steps is not None:
        _checks.integer(steps, "steps", low=1)
    check_smooth(problem, NAME)
    if problem.loss.strong_convexity == 0.0:
        raise ValueError(
            f"{NAME} needs a strongly convex loss, and {problem.loss!r} has no ridge; give it one, "
            "or use erm.objective_perturbation"
        )
    if set is None:
        problem = problem.with_set(L2Ball(problem.dim, default_radius(problem, NAME)))
    need_lipschitz(problem, NAME)
    need_projection(problem, NAME)
    gaussian = problem.noise == "gaussian"
    shares = (math.sqrt(share), math.sqrt(1.0 - share)) if gaussian else (share, 1.0 - share)
    first, second = (replace(problem, share=part * (1.0 - 1e-12)) for part in shares)

    ridge = problem.count * problem.loss.ridge
    tolerance = reachable(first, ridge)
    moved = sensitivity(first, ridge, tolerance)
    scale = first.noise_scale(moved, first.level, problem.dim, largest(first, ridge))
    curve = Gaussian(second.level) if gaussian else Pure(second.level)
    source = Source(seed)
    guarantee = problem.promise(
        [
            first.release("regularised minimiser", moved, scale, problem.dim),
            Release("noisy sums of gradients near it", curve, None,
                    "Gaussian" if gaussian else "Gamma"),
        ],
        source,
    )  # fmt: skip
    radius = _radius(problem, scale, failure) + tolerance / ridge
    Recorder(NAME, steps=1, callback=callback)  # refuses a bad callback before anything is spent
    charge(guarantee, NAME)

    found = minimise(first, np.zeros(problem.dim), ridge, tolerance)
    rough = noisy(found.point, scale, source, noise=problem.noise, precision=problem.precision)
    center = np.array(problem.set.project(problem.shaped(rough))).ravel()
    near = second.with_set(Near(problem.set, center, radius))
    plan = _plan(near, steps, None, None)
    noise, release, _ = _noise(near, plan.steps, None, "exact")
    recorder = Recorder(
        NAME, steps=plan.steps, callback=callback, progress=progress,
        settings={
            "first noise": f"{scale:.6g}", "radius": radius, "steps": plan.steps,
            "step size": plan.step_size, "noise": release.noise, "average": "weighted",
            "set": repr(problem.set),
        },
    )  # fmt: skip
    recorder.facts["clipped"] = str(problem.clipped)
    pause = Pause(NAME, {}, 0, {"point": center, "mean": np.zeros(problem.dim)}, source)
    fit = _run(near, plan, None, noise, pause, recorder, guarantee, record_loss)
    # A stopped run cannot be taken up again: its ball would have to travel with it.
    return Fit(problem.shaped(fit.point.ravel()), guarantee, fit.trace)


def _radius(problem: Problem, scale: float, failure: float) -> float:
    """A bound on the norm of the first stage's noise, but for this probability."""
    p = problem.dim
    if problem.noise == "gaussian":
        return scale * math.sqrt(2.0 * float(gammaincinv(0.5 * p, 1.0 - failure)))
    return scale * float(gammaincinv(float(p), 1.0 - failure))


class Near(ConvexSet):
    """The part of a set within some distance of one of its points."""

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
        """The nearest point is the whole set's nearest to a mixture of x and the center."""

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
        raise NotImplementedError("this set is for solvers that project")

    def _contains(self, x: FloatArray, slack: float) -> bool:
        near = float(np.linalg.norm(x - self._center)) <= self.radius + slack
        return near and bool(self.whole.contains(x.reshape(self.shape), tol=slack))

    def __repr__(self) -> str:
        return f"{self.whole!r} within {self.radius:g} of a released point"
