"""One pass of online learning, then noise on an average of its iterates (POL).

Jain, Kothari and Thakurta, *Differentially private online learning*, section 5, Algorithm 6. The factor 1/alpha, which
the printed noise lacks, is restored, and the sensitivities of the uniform average, of the average with weights 1, 2,
..., and of the last iterate are exact. See docs/algorithms/averaged-iterate.md.

A blanked record must still take its regularisation step: skipping the step would move later iterates by more than the
sensitivity. Here the ridge is part of every step.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from reticent import checks
from reticent.checks import FloatArray
from reticent.compiling import compiled, specialised
from reticent.erm.fit import Fit
from reticent.erm.problem import OfflineProblem, default_radius, reach
from reticent.erm.reading import bounded, need_linear_model
from reticent.erm.rounded_sums import UNIT
from reticent.erm.solver import Run, SolverPlan, solve
from reticent.losses.base import dense_rows
from reticent.losses.checking import need_true_bounds
from reticent.losses.kernels import dphi, implicit_scalar
from reticent.noise.door import bounded_row, dot_and_copy
from reticent.privacy import prescribed
from reticent.sets import WholeSpace
from reticent.sets.contract import need_exact_projection
from reticent.sets.kernels import project_inplace
from reticent.trace import Callback

NAME = "averaged iterate"
AVERAGES = ("uniform", "weighted", "last")
INNERS = ("implicit", "gradient")
_DENSE = 2e8
"""Larger sparse tables, in numbers of entries, are not made dense."""


@specialised
def _pass(kind, set_kind):
    """Compile one pass over the records; x ends at the last iterate and mean at the average of all iterates.

    loss: parameters, bound on the slope, and the norm to which rows are clipped. rule: implicit or not, alpha (the
    ridge), the largest step of the explicit method, weighted or not. Iterate t + 1 follows record t.
    """

    @compiled
    def take_steps(A, y, order, loss, rule, set_params, x, mean):
        params, bound, limit = loss
        implicit, alpha, cap, weighted = rule
        dim = x.size
        work = np.empty(2 * dim + 2)
        room = np.empty((2, dim))
        row = room[1]
        for j in range(dim):
            mean[j] = x[j]
        for t in range(1, order.size + 1):
            i = order[t - 1]
            bounded_row(A, i, 1.0, limit, room, 0)
            z, square = dot_and_copy(room, 0, x, row)
            if implicit:
                step = 1.0 / (alpha * t)
                w = t / (t + 1.0)
                slope = implicit_scalar(kind)(params, w * z, y[i], w * step * square)
                factor = w * step
            else:
                step = min(1.0 / (alpha * t), cap)
                w = 1.0 - alpha * step
                slope = dphi(kind)(params, z, y[i])
                factor = step
            factor *= min(bound, max(-bound, slope)) if slope == slope else 0.0
            for j in range(dim):
                x[j] = w * x[j] - factor * row[j]
            project_inplace(set_kind)(set_params, x, work)
            share = 2.0 / (t + 2.0) if weighted else 1.0 / (t + 1.0)
            for j in range(dim):
                mean[j] += share * (x[j] - mean[j])

    return take_steps


def averaged_iterate(
    loss: Any,
    set: Any,
    X: Any,
    y: Any = None,
    *,
    budget: Any,
    average: str = "last",
    inner: str = "implicit",
    regularizer: float | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    noise_precision: str = "lattice",
    calibration: str = "exact",
    callback: Callback | None = None,
    progress: bool = False,
) -> Fit:
    """Learn in one pass over the records, then release an average of the iterates with noise.

    Parameters
    ----------
    loss : Loss
        Generalised linear loss; with ``inner="gradient"`` it must be smooth.
    set : set or None
        Feasible set with a compiled projection (balls, boxes, simplices, products, the whole space). None is a ball
        around 0 whose radius is computed from public numbers.
    X : array or CSR matrix
        Records, one per row; clipped to the loss's bounds. Sparse records are made dense.
    y : array, optional
        Labels.
    budget : Budget
        Privacy budget of the release; ``delta`` must be above 0.
    seed : int, optional
        Seed of the noise, for experiments; the guarantee says so. None uses a cryptographic generator.
    noise_precision : {"lattice", "float"}
        "lattice" rounds noisy values to a lattice, so that floating-point rounding reveals nothing; "float" is for
        simulations, and the guarantee says so. Default: "lattice".
    callback : callable, optional
        Called with a :class:`reticent.trace.Moment` after each step; a true result stops the run.
    progress : bool
        Whether to show a progress line. Default: False.
    average : {"last", "weighted", "uniform"}
        Which average of the iterates x_1, ..., x_T, T = n + 1, is released. With implicit steps the sensitivity of the
        last iterate is L / (alpha T), that of the weighted average less than twice as much, and that of the uniform
        average about ln T times as much. Default: "last".
    inner : {"implicit", "gradient"}
        Implicit or explicit gradient steps. Default: "implicit".
    regularizer : float, optional
        Coefficient of ``(1/2) ||x||^2`` in the *mean* loss, in addition to the loss's own ridge; their sum alpha must
        be above 0. By default it balances noise and bias.
    shuffle : bool
        Whether to take the records in a random order, which does not depend on them. Default: True.
    calibration : str
        ``"exact"``, or the name of prescribed noise (`reticent.privacy.prescribed`), for which the guarantee reports
        the true privacy. Default: "exact".

    Returns
    -------
    Fit
        The noisy average, its guarantee and a trace.

    See Also
    --------
    objective_perturbation : Usually more accurate for generalised linear losses.
    reticent.online.PerturbedIterates : The online method, which releases every iterate.

    Fit

    Notes
    -----
    The iterates are computed in floating point. A step rounds by at most ``(d + 64) 2^-53`` times the largest iterate
    and contracts earlier errors, so the result is off by at most ``8 T (d + 64) 2^-53`` times the largest iterate;
    twice this is added to the sensitivity.

    Examples
    --------
    >>> import numpy as np, reticent
    >>> from reticent import erm, losses
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((5000, 3)) / 3
    >>> y = np.sign(X @ [2.0, -1.0, 0.0])
    >>> fit = erm.averaged_iterate(
    ...     losses.Logistic(), None, X, y, budget=reticent.Budget(1.0, 1e-6), seed=0
    ... )
    >>> float(np.mean(np.sign(X @ fit.point) == y)) > 0.9
    True
    """
    return solve(
        NAME,
        partial(_plan, set=set, average=average, inner=inner, regularizer=regularizer,
                shuffle=shuffle, calibration=calibration),
        loss, set, X, y, budget=budget, seed=seed, noise_precision=noise_precision,
        calibration=calibration, callback=callback, progress=progress,
    )  # fmt: skip


def _plan(problem: OfflineProblem, set: Any, average: str, inner: str, regularizer: float | None,
          shuffle: bool, calibration: str) -> SolverPlan:  # fmt: skip
    checks.choice(average, "average", AVERAGES)
    checks.choice(inner, "inner", INNERS)
    need_linear_model(problem, NAME)
    problem = bounded(problem, set, NAME, projects=False)
    need_exact_projection(problem.set, NAME, "erm.gradient_descent")
    need_true_bounds(problem.loss, problem.set, NAME)
    if sp.issparse(problem.A) and problem.count * problem.dim > _DENSE:
        raise ValueError(
            f"{NAME} works on dense rows, and {problem.count} x {problem.dim} sparse records are too large for that; "
            "use erm.frank_wolfe or erm.objective_perturbation"
        )
    if inner == "gradient" and not math.isfinite(problem.smoothness):
        raise ValueError(
            f"inner='gradient' needs a smooth loss, and {problem.loss!r} is not smooth; use inner='implicit'"
        )
    alpha = _curvature(problem, regularizer, average, inner)
    moved = _moved(problem, alpha, average, inner)
    caveats: tuple[str, ...] = ()
    details: tuple[str, ...] = (f"{average} of {problem.count + 1} iterates, alpha {alpha:.6g}",)
    if calibration != "exact":
        bound = float(problem.set.norm_bound)
        formula = prescribed.prescribe(
            calibration,
            "averaged-iterate",
            problem.budget,
            count=problem.count,
            norm=problem.norm,
            strong_convexity=alpha,
            average=average,
            radius=bound if math.isfinite(bound) else problem.norm / alpha,
        )
        scale, caveats = formula.amount, formula.doubts(problem.budget.neighbours)
        details += formula.details
    else:
        scale = problem.noise_scale(moved, problem.level, problem.dim, _largest(problem, alpha))
    release = problem.release(NAME, moved, scale, problem.dim, details=details)

    def step(run: Run, t: int) -> bool:
        order = np.arange(problem.count)
        if shuffle:
            order = np.argsort(run.source.words(problem.count), kind="stable")
        found = iterate(problem, order, alpha, average, inner)
        return run.note(t, problem.set.project(problem.shaped(run.noisy(found, scale))))

    settings = {
        "average": average,
        "inner": inner,
        "regularizer": alpha - problem.loss.ridge,
        "noise": release.noise,
        "set": repr(problem.set),
    }
    return SolverPlan(
        problem=problem, step=step, releases=[release], settings=settings, caveats=caveats
    )


def iterate(
    problem: OfflineProblem, order: Any, alpha: float, average: str, inner: str
) -> FloatArray:
    """The average without noise; not private."""
    kind, params = problem.linear.kernel
    set_kind, set_params = problem.set.kernel
    x = np.zeros(problem.dim)
    if not isinstance(problem.set, WholeSpace):
        x = problem.set.project(problem.shaped(x)).ravel().copy()
    mean = np.empty(problem.dim)
    rows = np.ascontiguousarray(dense_rows(problem.A))
    cap = 2.0 / (alpha + problem.smoothness - problem.loss.ridge + alpha)
    take_steps = _pass(kind, set_kind)
    take_steps(rows, problem.y, order, (params, problem.slope_bound, problem.row_limit),
               (inner == "implicit", alpha, cap, average == "weighted"), set_params, x, mean)  # fmt: skip
    return x if average == "last" else mean


def factor(count: int, average: str, inner: str) -> float:
    """The sensitivity of the average of T = count + 1 iterates to blanking a record, in units of L/alpha."""
    T = count + 1
    if inner == "implicit":  # iterate t + 1 moves by L/(alpha (t + 1)), t = 1, ..., T - 1
        if average == "last":
            return 1.0 / T
        if average == "weighted":
            return 2.0 * (T - 1.0) / (T * (T + 1.0))
        return (_harmonic(T) - 1.0) / T
    if average == "last":  # by L/(alpha t)
        return 1.0 / (T - 1.0)
    if average == "weighted":
        return 2.0 * (T - 1.0 + _harmonic(T - 1)) / (T * (T + 1.0))
    return _harmonic(T - 1) / T


def _harmonic(count: int) -> float:
    return float(np.sum(1.0 / np.arange(count, 0.0, -1.0)))


def _largest(problem: OfflineProblem, alpha: float) -> float:
    """A bound on the norm of every iterate and of every step."""
    return 2.0 * problem.norm / alpha + min(problem.set.norm_bound, problem.norm / alpha)


def _moved(problem: OfflineProblem, alpha: float, average: str, inner: str) -> float:
    exact = problem.budget.sensitivity(problem.norm) / alpha
    exact *= factor(problem.count, average, inner) * (1.0 + 2.0**-40)
    rounds = 16.0 * (problem.count + 1.0) * (problem.dim + 64.0) * UNIT
    return exact + rounds * _largest(problem, alpha)


def _curvature(problem: OfflineProblem, regularizer: Any, average: str, inner: str) -> float:
    own = problem.loss.ridge
    if regularizer is not None:
        alpha = own + checks.number(regularizer, "regularizer", low=0.0)
        if alpha == 0.0:
            raise ValueError(
                f"{NAME} needs a strongly convex loss: regularizer must be above 0 for a loss without a ridge, got 0"
            )
        return alpha
    radius = reach(problem.set)
    if not math.isfinite(radius):
        radius = default_radius(problem, NAME)
    n, L, M = problem.count, problem.norm, problem.smoothness

    def risk(logarithm: float) -> float:
        alpha = math.exp(logarithm)
        spread = problem.noise_norm(_moved(problem, alpha, average, inner))
        cost = min(L * spread, 0.5 * (M + alpha) * spread**2 if math.isfinite(M) else math.inf)
        slow = L * L * (1.0 + math.log(n)) / (2.0 * alpha * n)
        return math.log(0.5 * max(0.0, alpha - own) * radius**2 + slow + cost)

    low = math.log(own) if own > 0.0 else math.log(L / radius) - 25.0
    found = minimize_scalar(
        risk, bounds=(low, max(low, math.log(L / radius)) + 10.0), method="bounded"
    )
    return max(own, math.exp(float(found.x)))
