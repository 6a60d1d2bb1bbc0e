"""Noisy projected gradient descent: every step uses the summed gradient with noise.

Algorithm 3 of *Private Optimization*, with the exact noise ``sensitivity * sqrt(T) / mu`` and the average over the
points at which gradients were taken; Poisson sampling of the records as in Abadi et al., *Deep learning with
differential privacy*; for strongly convex losses the step 2/(alpha (t+1)) and weights proportional to t of
Lacoste-Julien, Schmidt and Bach, *A simpler approach to obtaining an O(1/t) convergence rate*. See
docs/algorithms/gradient-descent.md.

The privacy does not depend on the number of steps, the noise does: all T steps together spend the budget, each with
sqrt(T) times the noise that a single step would need.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from reticent import checks
from reticent.checks import FloatArray
from reticent.erm.fit import Fit
from reticent.erm.problem import OfflineProblem, default_radius, reach
from reticent.erm.reading import bounded, check_weighted
from reticent.erm.solver import Run, SolverPlan, solve
from reticent.noise import Source
from reticent.noise.release import widened
from reticent.privacy import Release, prescribed
from reticent.privacy import calibration as calibrations
from reticent.privacy.subsampled import SubsampledGaussian
from reticent.trace import Callback

NAME = "gradient descent"
AVERAGES = ("auto", "uniform", "weighted", "last")
MOST_STEPS = 1000
"""Largest default number of steps; more can be requested."""


@dataclass(frozen=True)
class StepRule:
    """A number of steps, their sizes, and the predicted excess risk."""

    steps: int
    rule: str
    step_size: float
    bound: float

    @property
    def averages_after(self) -> bool:
        """Whether the points after each step are averaged instead of those where gradients were taken."""
        return self.rule == "smooth" or self.steps == 1

    def size(self, t: int, curvature: float) -> float:
        """The step size after the t-th gradient, t = 1, 2, ..."""
        if self.rule == "strongly convex":
            return min(self.step_size, 2.0 / (curvature * (t + 1.0)))
        return self.step_size


def gradient_descent(
    loss: Any,
    set: Any,
    X: Any,
    y: Any = None,
    *,
    budget: Any,
    steps: int | None = None,
    step_size: float | None = None,
    average: str = "auto",
    sampling: float | None = None,
    start: Any = None,
    weights: Any = None,
    weight_bound: float = 1.0,
    groups: Any = None,
    max_records: int | None = None,
    record_loss: bool = False,
    seed: int | None = None,
    noise_precision: str = "lattice",
    calibration: str = "exact",
    callback: Callback | None = None,
    progress: bool = False,
    resume: Any = None,
) -> Fit:
    """Minimise the mean loss by gradient descent with noise on every gradient.

    Parameters
    ----------
    loss : Loss
        Loss with bounded gradients on the set.
    set : set or None
        Feasible set with a projection. None is a ball around 0 whose radius follows from the number of records, the
        dimension and the budget; see docs/algorithms/gradient-descent.md.
    X : array or CSR matrix
        Records, one per row; clipped to the loss's bounds.
    y : array, optional
        Labels.
    budget : Budget
        Privacy budget of the run. The noise is Gaussian if ``delta > 0``, and Gamma if ``delta = 0``.
    steps : int, optional
        Number of steps. By default the bound on the excess risk determines it, up to 1000.
    step_size : float, optional
        Step size for the mean loss. By default the bound determines it.
    average : {"auto", "uniform", "weighted", "last"}
        What is returned: "uniform" is the average of the points at which gradients were taken (or, with the step size
        for smooth losses, of the points after each step), "weighted" the same with weights 1, 2, ..., T, and "last" the
        point after the last step. "auto" is "weighted". Default: "auto".
    sampling : float, optional
        Probability with which each record enters each step, independently (Poisson sampling); needs ``delta > 0`` and
        dp-accounting.
    start : array, optional
        Starting point, which must not depend on the records. By default the set's center.
    weights : array, optional
        Weights of the records' losses, clipped to [0, ``weight_bound``]; for generalised linear losses only.
    weight_bound : float
        Public upper bound on the weights; noise is calibrated to it. Default: 1.
    groups : array, optional
        Id of the person of each record (integers, text or bytes). All records of one person are then protected
        together, and the number of persons is public.
    max_records : int, optional
        With ``groups``: number of records of a person that count in full; later ones are ignored. By default each of a
        person's m records has weight 1/m.
    record_loss : bool
        Whether to write the mean loss of each step into the trace's diagnostics, which are not private. Default: False.
    seed : int, optional
        Seed of the noise, for experiments; the guarantee says so. None uses a cryptographic generator.
    noise_precision : {"lattice", "float"}
        "lattice" rounds noisy values to a lattice, so that floating-point rounding reveals nothing; "float" is for
        simulations, and the guarantee says so. Default: "lattice".
    calibration : str
        ``"exact"``, or the name of prescribed noise (`reticent.privacy.prescribed`), for which the guarantee reports
        the true privacy. Default: "exact".
    callback : callable, optional
        Called with a :class:`reticent.trace.Moment` after each step; a true result stops the run.
    progress : bool
        Whether to show a progress line. Default: False.
    resume : Fit or dict, optional
        A run that a callback stopped, or its ``state()``; the remaining steps are taken. All other arguments must be
        those of that run. Nothing more is charged.

    Returns
    -------
    Fit
        The decision, its guarantee and a trace.

    See Also
    --------
    objective_perturbation : Usually more accurate for generalised linear losses.
    ftrl : One record per step.


    Notes
    -----
    A record moves the computed sum of gradients by its clip norm (twice that for ``neighbours="replace"``), plus ``2 n
    * 160 * 2^-53`` times the norm for the rounding of the sum, plus one lattice step per coordinate. The guarantee
    includes all of it.

    Examples
    --------
    >>> import numpy as np, reticent
    >>> from reticent import erm, losses, sets
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 3))
    >>> X /= np.linalg.norm(X, axis=1)[:, None]
    >>> y = np.sign(X @ [2.0, -1.0, 0.0])
    >>> fit = erm.gradient_descent(
    ...     losses.Logistic(), sets.L2Ball(3, 5.0), X, y, budget=reticent.Budget(1.0, 1e-6), seed=0
    ... )
    >>> float(np.mean(np.sign(X @ fit.point) == y)) > 0.95
    True
    """
    return solve(
        NAME,
        partial(
            _plan, set=set, steps=steps, step_size=step_size, average=average, sampling=sampling,
            start=start, record_loss=record_loss, calibration=calibration,
        ),
        loss, set, X, y, budget=budget, seed=seed, noise_precision=noise_precision,
        calibration=calibration, callback=callback, progress=progress, resume=resume,
        weights=weights, weight_bound=weight_bound, groups=groups, max_records=max_records,
        by_passes=sampling is None,
    )  # fmt: skip


def _plan(problem: OfflineProblem, set: Any, steps: Any, step_size: Any, average: str, sampling: Any,
          start: Any, record_loss: bool, calibration: str) -> SolverPlan:  # fmt: skip
    check_weighted(problem)
    checks.choice(average, "average", AVERAGES)
    problem = bounded(problem, set, NAME)
    rate = _rate(sampling, problem)
    x = _start(problem, start)
    rule = step_rule(problem, steps, step_size, rate)
    average = "weighted" if average == "auto" else average
    return descent(problem, x, rule, rate, average, record_loss, calibration)


def descent(
    problem: OfflineProblem,
    start: FloatArray,
    rule: StepRule,
    rate: float | None = None,
    average: str = "weighted",
    record_loss: bool = False,
    calibration: str = "exact",
) -> SolverPlan:
    """The plan of a descent with this step rule."""
    scale, release, caveats = _noise(problem, rule.steps, rate, calibration)
    count = problem.count if rate is None else problem.count * rate
    ridge, curvature = problem.loss.ridge, problem.loss.strong_convexity

    def step(run: Run, t: int) -> bool:
        x, mean = run.arrays["point"], run.arrays["mean"]
        rows = None if rate is None else _sample(run.source, problem.count, rate)
        answer = run.noisy(problem.gradient_sum(x, rows), scale)
        seen = {"loss": problem.mean_loss(x)} if record_loss and run.recorder.wants(t) else {}
        gradient = answer / count + ridge * x
        size = rule.size(t, curvature)
        new = problem.set.project(problem.shaped(x - size * gradient)).ravel()
        # the analysis of each rule determines which point is averaged
        kept = new if rule.averages_after else x
        mean += (kept - mean) * ((2.0 / (t + 1.0)) if average == "weighted" else 1.0 / t)
        values = {"step size": size, "noisy gradient norm": float(np.linalg.norm(gradient))}
        return run.note(t, new, values, seen)

    settings = {
        "steps": rule.steps,
        "rule": rule.rule,
        "step size": rule.step_size,
        "average": average,
        "noise": release.noise,
        "set": repr(problem.set),
        "predicted excess risk": rule.bound,
    }
    identity = {
        "steps": rule.steps,
        "step size": rule.step_size,
        "rule": rule.rule,
        "scale": scale,
        "records": problem.count,
        "dim": problem.dim,
        "sampling": rate,
        "average": average,
        "set": repr(problem.set),
    }
    return SolverPlan(
        problem=problem,
        step=step,
        releases=[release],
        settings=settings,
        steps=rule.steps,
        arrays={"point": start, "mean": np.zeros(problem.dim)},
        finish=lambda run: problem.shaped(run.arrays["point" if average == "last" else "mean"]),
        caveats=caveats,
        identity=identity,
    )


def _rate(sampling: Any, problem: OfflineProblem) -> float | None:
    if sampling is None:
        return None
    rate = checks.number(sampling, "sampling", low=0.0, high=1.0, open_low=True)
    if problem.groups is not None:
        raise ValueError(
            "sampling and groups cannot be combined: no guarantee is proved for sampled records of persons; "
            "leave sampling out"
        )
    if problem.noise == "gamma":
        raise ValueError(
            "sampling needs Gaussian noise, and the budget has delta = 0; use delta > 0, or leave sampling out"
        )
    # a multiple of 2^-53, so that comparing 53 random bits with it has exactly this probability
    return max(1.0, round(rate * 2.0**53)) * 2.0**-53


def _sample(source: Source, count: int, rate: float) -> Any:
    return np.flatnonzero((source.words(count) >> np.uint64(11)) * 2.0**-53 < rate)


def _start(problem: OfflineProblem, start: Any) -> FloatArray:
    if start is None:
        return np.array(problem.set.center, dtype=np.float64).ravel()
    x = checks.vector(np.ravel(start), "start", problem.dim)
    if not problem.set.contains(problem.shaped(x)):
        raise ValueError(f"start must lie in {problem.set!r}, got {start!r}; project it first")
    return x


def step_rule(
    problem: OfflineProblem, steps: Any, step_size: Any = None, rate: float | None = None
) -> StepRule:
    """The smallest number of steps whose bound is within 5 % of the best, with its step size."""
    wanted = None if steps is None else checks.integer(steps, "steps", low=1)
    given = (
        None if step_size is None else checks.number(step_size, "step_size", low=0.0, open_low=True)
    )
    tries = [wanted] if wanted else np.unique(np.geomspace(1, MOST_STEPS, 60).astype(int)).tolist()
    if given is not None:
        return StepRule(wanted or MOST_STEPS, "given", given, math.nan)
    radius = reach(problem.set)
    if not math.isfinite(radius):
        radius = default_radius(problem, NAME)
    plans = [_bound(problem, t, radius, rate) for t in tries]
    best = min(plan.bound for plan in plans)
    return next(plan for plan in plans if plan.bound <= 1.05 * best)


def _bound(problem: OfflineProblem, steps: int, radius: float, rate: float | None) -> StepRule:
    # L bounds gradients of the mean loss, v is the second moment of the noise, M the smoothness, m the strong
    # convexity, D the distance to the best decision; see docs/algorithms/gradient-descent.md.
    n, D = problem.count, radius
    L = problem.norm + problem.loss.ridge * min(problem.set.norm_bound, radius + D)
    growth = math.sqrt(steps) if problem.noise == "gaussian" else float(steps)
    v = (problem.noise_norm(problem.sensitivity) * growth / n) ** 2
    if rate is not None:
        v += problem.norm**2 * (1.0 - rate) / (rate * n)
    M, m = problem.smoothness, problem.loss.strong_convexity
    size = D / math.sqrt(steps * (L * L + v))
    plans = [StepRule(steps, "convex", size, D * math.sqrt((L * L + v) / steps))]
    if math.isfinite(M):
        size = min(0.5 / M, D / math.sqrt(2.0 * v * steps)) if M > 0.0 else D / math.sqrt(v * steps)
        plans.append(StepRule(steps, "smooth", size, D * D / (2.0 * size * steps) + size * v))
    if m > 0.0:
        cap = 0.5 / M if math.isfinite(M) else math.inf
        bound = 2.0 * (L * L + v) / (m * (steps + 1.0))
        if math.isfinite(M):
            warm = 4.0 * M / m
            rest = (4.0 * M * warm * D * D + 8.0 * M * v / m**2) / (steps * (steps + 1.0))
            bound = min(bound, rest + 4.0 * v / (m * (steps + 1.0)))
        plans.append(StepRule(steps, "strongly convex", cap, bound))
    return min(plans, key=lambda plan: plan.bound)


def _noise(
    problem: OfflineProblem, steps: int, rate: float | None, calibration: str
) -> tuple[float, Release, tuple[str, ...]]:
    moved, dim = problem.sensitivity, problem.dim
    what = "noisy sum of gradients"
    if calibration != "exact":
        budget, sampled = problem.budget, rate is not None
        formula = prescribed.prescribe(
            calibration, "gradient-descent", budget, steps=steps, norm=problem.norm, sampled=sampled
        )
        scale = formula.amount
        release = problem.release(what, moved, scale, dim, steps, details=formula.details)
        return scale, release, formula.doubts(budget.neighbours)
    if rate is not None:
        return (*_sampled_noise(problem, steps, rate), ())
    share = math.sqrt(steps) if problem.noise == "gaussian" else float(steps)
    scale = problem.noise_scale(moved, problem.level / share, dim, problem.largest_sum)
    return scale, problem.release(what, moved, scale, dim, steps), ()


def _sampled_noise(problem: OfflineProblem, steps: int, rate: float) -> tuple[float, Release]:
    """Noise for Poisson samples: the multiplier is found by a search over the privacy loss distribution."""
    limit = problem.norm + problem.rounding

    def release(multiplier: float) -> Release:
        scale = multiplier * limit
        moved = limit
        if problem.precision == "lattice":
            moved = widened(limit, scale, problem.dim)
        curve = SubsampledGaussian(rate, scale / moved, steps, problem.budget.neighbours)
        return Release(
            f"{steps} noisy sums of gradients over Poisson samples",
            curve,
            moved,
            f"Gaussian, standard deviation {scale:.6g}",
            details=(f"each record is in each sample with probability {rate:.6g}",),
        )

    def build(multiplier: float) -> Any:
        return problem.guarantee([release(multiplier)], _UNSEEDED, calibration="trial")

    full = problem.budget.sensitivity(1.0) * math.sqrt(steps) / problem.budget.mu
    start = max(rate * full, 0.3)
    multiplier = calibrations.calibrate(problem.budget, build, start=start, tolerance=1e-4)
    return multiplier * limit, release(multiplier)


class _Unseeded:
    seeded = False


_UNSEEDED: Any = _Unseeded()
