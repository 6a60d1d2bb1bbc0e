"""The exponential mechanism: draw a decision with probability proportional to exp(-k times its loss).

Algorithm 1 of *Private Optimization* (McSherry and Talwar; Bassily, Smith and Thakurta), with the exponent that the
neighbouring relation allows; and the regularised version of Gopi, Lee and Liu, *Private convex optimization via
exponential mechanism*, which satisfies Gaussian differential privacy. Over a finite net the selection is exact, and in
one and two dimensions so is the draw from the log-concave density. In higher dimensions a Markov chain is used, whose
distribution is only approximately the stated one; no guarantee is given then. See
docs/algorithms/exponential-mechanism.md.

The privacy of the plain version does not need convexity; that of the regularised version does. An approximate sampler
invalidates both.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from mpmath import MPIntervalContext

from reticent import checks
from reticent.checks import FloatArray
from reticent.erm import interval_loss
from reticent.erm.fit import Fit
from reticent.erm.log_concave import Sampler, largest_exponent
from reticent.erm.problem import OfflineProblem, label_range, reach
from reticent.erm.reading import bounded, need_linear_model
from reticent.erm.rounded_sums import UNIT
from reticent.erm.solver import Run, SolverPlan, solve
from reticent.losses import kernels
from reticent.losses.checking import need_true_bounds
from reticent.noise import Source, select
from reticent.privacy import BoundedRange, Curve, Gaussian, Guarantee, Release, prescribed
from reticent.privacy import calibration as calibrations
from reticent.sets import Box, L2Ball
from reticent.trace import Callback

NAME = "exponential mechanism"
SAMPLERS = ("auto", "net", "exact", "chain")
VERSIONS = ("auto", "plain", "regularized")


def exponential_mechanism(
    loss: Any,
    set: Any,
    X: Any,
    y: Any = None,
    *,
    budget: Any,
    version: str = "auto",
    sampler: str = "auto",
    net: Any = None,
    chain_steps: int = 20_000,
    seed: int | None = None,
    noise_precision: str = "lattice",
    calibration: str = "exact",
    callback: Callback | None = None,
    progress: bool = False,
) -> Fit:
    """Draw a decision from the density exp(-k loss), or exp(-k (loss + ridge)), on a set.

    Parameters
    ----------
    loss : Loss
        Generalised linear loss.
    set : set or None
        Bounded feasible set; for the exact sampler a box or a Euclidean ball of dimension 1 or 2. None is a ball around
        0 whose radius is computed from public numbers.
    X : array or CSR matrix
        Records, one per row; clipped to the loss's bounds.
    y : array, optional
        Labels.
    budget : Budget
        Privacy budget of the draw.
    seed : int, optional
        Seed of the draw, for experiments; the guarantee says so. None uses a cryptographic generator.
    callback : callable, optional
        Called with a :class:`reticent.trace.Moment` after each step; a true result stops the run.
    progress : bool
        Whether to show a progress line. Default: False.
    version : {"auto", "plain", "regularized"}
        Density exp(-k L), with pure differential privacy; or exp(-k (L + (m/2)||x||^2)), with Gaussian differential
        privacy, for ``delta > 0`` and a convex loss. "auto" is plain unless ``delta > 0`` and the bound on the excess
        risk of the regularised version is smaller. Default: "auto".
    sampler : {"auto", "net", "exact", "chain"}
        Select from a net, draw exactly (dimension 1 or 2), or run a Markov chain without a guarantee. "auto" is "net"
        if a net is given, else "exact". Default: "auto".
    net : array of shape (count, dim), optional
        Candidate decisions, chosen without looking at the records.
    chain_steps : int
        Length of the Markov chain. Default: 20,000.
    noise_precision : {"lattice", "float"}
        Accepted for uniformity with the other solvers; draws are exact either way.
    calibration : str
        ``"exact"``, or the name of a prescribed exponent (`reticent.privacy.prescribed`), for which the guarantee
        reports the true privacy. Default: "exact".

    Returns
    -------
    Fit
        The drawn decision, its guarantee and a trace.

    See Also
    --------
    reticent.noise.exponential_mechanism : Selection from a list of scores.

    Fit

    Notes
    -----
    On a net the losses are computed in floating point, and their rounding is added to the sensitivity. The exact
    sampler follows the distribution of real numbers, so rounding has no effect on it; it returns the double nearest to
    each coordinate of a real draw. Its exponent is limited to what double precision resolves. That matters from about
    ``count * epsilon = 1e9`` on, or for sets that are very small relative to the losses; the guarantee is then better
    than the budget.

    Examples
    --------
    >>> import numpy as np, reticent
    >>> from reticent import erm, losses, sets
    >>> y = np.linspace(-0.2, 1.0, 500)
    >>> median = losses.Quantile(0.5)
    >>> fit = erm.exponential_mechanism(
    ...     median,
    ...     sets.Box([-1.0], [1.0]),
    ...     np.ones((500, 1)),
    ...     y,
    ...     budget=reticent.Budget(1.0),
    ...     seed=0,
    ... )
    >>> bool(abs(fit.point[0] - 0.4) < 0.2), round(fit.guarantee.pure, 6)
    (True, 1.0)
    """
    return solve(
        NAME,
        partial(_plan, set=set, version=version, sampler=sampler, net=net,
                chain_steps=chain_steps, calibration=calibration),
        loss, set, X, y, budget=budget, seed=seed, noise_precision=noise_precision,
        calibration=calibration, callback=callback, progress=progress,
    )  # fmt: skip


def _plan(problem: OfflineProblem, set: Any, version: str, sampler: str, net: Any, chain_steps: int,
          calibration: str) -> SolverPlan:  # fmt: skip
    checks.choice(version, "version", VERSIONS)
    checks.choice(sampler, "sampler", SAMPLERS)
    chain_steps = checks.integer(chain_steps, "chain_steps", low=1)
    need_linear_model(problem, NAME)
    _need_proved(problem)
    problem = bounded(problem.in_own_memory(), set, NAME, projects=False)
    if not math.isfinite(problem.set.diameter):
        raise ValueError(f"{NAME} needs a bounded set, got {problem.set!r}; use sets.Box or L2Ball")
    need_true_bounds(problem.loss, problem.set, NAME)
    points = _net(problem, net, sampler)
    sampler = ("exact" if points is None else "net") if sampler == "auto" else sampler
    if sampler == "exact":
        _check_exact(problem)
    version = _version(problem, version, sampler, calibration)
    k, ridge, release, caveats = _law(problem, version, sampler, points, calibration)

    def step(run: Run, t: int) -> bool:
        if sampler == "net":
            assert points is not None
            scores = np.array([-_value(problem, x, ridge) for x in points])
            x = points[select(scores, 1.0 / k, run.source)].copy()
        elif sampler == "exact":
            exact = Sampler(problem, k, ridge)
            x = exact.draw(run.source)
            run.recorder.facts["proposals"] = exact.rounds
        else:
            x = _chain(problem, k, ridge, chain_steps, run.source)
        return run.note(t, x)

    def near_its_law(source: Source) -> Guarantee:
        ideal = problem.guarantee([release], source, calibration=calibration, caveats=caveats)
        return _chain_guarantee(ideal, chain_steps)

    settings = {
        "version": version,
        "sampler": sampler,
        "k": k,
        "ridge": ridge,
        "set": repr(problem.set),
    }
    return SolverPlan(
        problem=problem,
        step=step,
        releases=[release],
        settings=settings,
        caveats=caveats,
        guarantee=near_its_law if sampler == "chain" else None,
    )


def _need_proved(problem: OfflineProblem) -> None:
    """Refuse a loss whose values are not known to be rounded as little as the sampler and the sensitivity allow for."""
    kind, params = problem.linear.kernel
    try:
        interval_loss.phi(MPIntervalContext(), kind, params, 0, label_range(problem.linear)[1])
    except ValueError:
        raise ValueError(
            f"{NAME} needs an interval form of the loss, which bounds the rounding of its values, and there is none "
            f"for {problem.loss!r}, loss number {kind}; add it to erm/interval_loss.py, or use "
            "erm.objective_perturbation"
        ) from None


_LEAST_AT_LABEL = (kernels.SQUARED, kernels.HUBER, kernels.QUANTILE)
"""Losses phi(z, y) that are smallest where z = y."""


def spread(problem: OfflineProblem, points: FloatArray | None = None) -> float:
    """The range of one record's loss over the set, or over the points of a net."""
    diameter = float(problem.set.diameter)
    if points is not None:
        problem, diameter = _around(problem, points), _widest(points)
    by_slope = problem.norm * diameter
    kind, params = problem.linear.kernel
    if kind == kernels.LINEAR:
        return by_slope
    z = problem.feature_norm * float(problem.set.norm_bound)
    by_value = largest = 0.0
    for label in label_range(problem.linear):
        ends = [kernels.phi(kind)(params, end, label) for end in (-z, z)]
        # phi is convex, so the maximum is at an end; where the minimum is, each family knows
        if kind in kernels.MARGIN:
            inner = ends
        elif kind in _LEAST_AT_LABEL:
            inner = [kernels.phi(kind)(params, min(max(label, -z), z), label)]
        elif kind == kernels.POISSON:
            inner = [0.0]
        else:
            return by_slope
        by_value = max(by_value, max(ends) - min(ends + inner))
        largest = max(largest, *map(abs, ends + inner))
    # both values are rounded by a few units in the last place, however close they are
    return min(by_slope, by_value + 64.0 * UNIT * (1.0 + largest + problem.slope_bound * z))


def _around(problem: OfflineProblem, points: FloatArray) -> OfflineProblem:
    """The same problem in a ball that contains the net, whose points may lie slightly outside the set."""
    return problem.with_set(L2Ball(problem.dim, max(_farthest(points), 1e-100)))


def _widest(points: FloatArray) -> float:
    """An upper bound on the distance between two points of the net."""
    return min(2.0 * _farthest(points), _farthest(np.ptp(points, axis=0)[None]))


def _farthest(points: FloatArray) -> float:
    """The largest norm, rounded up."""
    room = 1.0 + (points.shape[1] + 16) * 2.0**-50
    return float(np.linalg.norm(points, axis=1).max()) * room


def _moved(problem: OfflineProblem, points: FloatArray | None) -> float:
    """The sensitivity of the difference between the losses of two decisions."""
    exact = problem.budget.sensitivity(spread(problem, points))
    if points is None:
        return exact
    problem = _around(problem, points)
    reach_ = problem.feature_norm * float(problem.set.norm_bound)
    kind, params = problem.linear.kernel
    largest = max(
        abs(kernels.phi(kind)(params, z, label))
        for z in (-reach_, 0.0, reach_)
        for label in label_range(problem.linear)
    )
    # each of n losses is rounded by a few units, and their sum (by fsum) once; for two data sets and two points
    rounding = (
        4.0 * problem.count * (64.0 + problem.dim) * UNIT * (largest + problem.norm * reach_ + 1.0)
    )
    return exact + rounding


def _law(
    problem: OfflineProblem, version: str, sampler: str, points: FloatArray | None, calibration: str
) -> tuple[float, float, Release, tuple[str, ...]]:
    """The exponent k, the total ridge, the release with its cost, and caveats."""
    budget = problem.budget
    own = problem.count * problem.loss.ridge
    if version == "regularized":
        moved = budget.sensitivity(problem.norm)
        wanted = moved * math.sqrt(2.0 * problem.dim) / (problem.level * _size(problem))
        ridge = max(own, wanted)
        k = (problem.level / moved) ** 2 * ridge * (1.0 - 2.0**-40)
        k, limited = _limited(problem, sampler, k, ridge)
        curve: Curve = Gaussian(moved * math.sqrt(k / ridge) * (1.0 + 2.0**-45))
        lines = (
            f"the loss of a record is {moved:.6g}-Lipschitz; mu is that times sqrt(k / ridge)",
        )
        release = Release(
            NAME,
            curve,
            moved,
            f"density exp(-{k:.6g} (loss + ridge/2 |x|^2))",
            details=lines + limited,
        )
        return k, ridge, release, ()
    moved = _moved(problem, points if sampler == "net" else None)
    caveats: tuple[str, ...] = ()
    details: tuple[str, ...] = (
        f"the difference between the losses of two decisions changes by at most {moved:.6g}",
    )
    if calibration != "exact":
        formula = prescribed.prescribe(
            calibration,
            "exponential-mechanism",
            budget,
            norm=problem.norm,
            diameter=float(problem.set.diameter),
        )
        scale = formula.amount
        details += formula.details
        caveats = formula.doubts(budget.neighbours)
    else:
        scale = calibrations.gumbel(budget, 0.5 * moved) * (1.0 + 2.0**-45)
    k, limited = _limited(problem, sampler, 1.0 / max(scale, 1e-300), own)
    curve = BoundedRange(moved * k * (1.0 + 2.0**-48))
    if calibration == "exact" and budget.delta == 0.0:
        curve = BoundedRange(min(budget.epsilon, curve.value))
    release = Release(
        NAME, curve, moved, f"density exp(-loss / {1.0 / k:.6g})", details=details + limited
    )
    return k, own, release, caveats


def _limited(
    problem: OfflineProblem, sampler: str, k: float, ridge: float
) -> tuple[float, tuple[str, ...]]:
    """The exponent, limited to what double precision resolves: more private, and almost as accurate."""
    most = largest_exponent(problem, ridge) if sampler == "exact" else math.inf
    if k <= most:
        return k, ()
    return most, (f"exponent limited by double precision; the budget would allow {k:.6g}",)


def _size(problem: OfflineProblem) -> float:
    return max(reach(problem.set), float(problem.set.norm_bound))


def _version(problem: OfflineProblem, version: str, sampler: str, calibration: str) -> str:
    pure = problem.budget.delta == 0.0
    if version == "regularized":
        if pure or calibration != "exact" or sampler == "net":
            raise ValueError(
                "version='regularized' draws from a density with Gaussian differential privacy: it needs "
                "delta > 0, calibration='exact' and sampler='exact' or 'chain'"
            )
        return version
    if version == "plain" or pure or calibration != "exact" or sampler == "net":
        return "plain"
    p, moved = problem.dim, problem.budget.sensitivity(problem.norm)
    plain = p * calibrations.gumbel(problem.budget, 0.5 * _moved(problem, None))
    regularised = math.sqrt(2.0 * p) * moved * _size(problem) / problem.level
    return "regularized" if regularised < plain else "plain"


def _net(problem: OfflineProblem, net: Any, sampler: str) -> FloatArray | None:
    if net is None:
        if sampler == "net":
            raise ValueError("sampler='net' needs net=, an array of candidate decisions")
        return None
    points = checks.matrix(np.atleast_2d(np.asarray(net)), "net", problem.dim)
    for i, point in enumerate(points):
        if not problem.set.contains(problem.shaped(point)):
            raise ValueError(
                f"net must lie in {problem.set!r}, but net[{i}] does not; project it first"
            )
    return points


def _check_exact(problem: OfflineProblem) -> None:
    where = problem.set
    ok = isinstance(where, L2Ball) or (
        isinstance(where, Box) and bool((where.lower < where.upper).all())
    )
    if not ok or problem.dim > 2:
        raise ValueError(
            f"sampler='exact' needs a box or a Euclidean ball of dimension 1 or 2, got {where!r}; "
            "use net=, a list of candidate decisions, or erm.objective_perturbation. "
            "sampler='chain' runs, but without a guarantee"
        )
    largest_exponent(problem, problem.count * problem.loss.ridge)


def _value(problem: OfflineProblem, x: FloatArray, ridge: float) -> float:
    kind, params = problem.linear.kernel
    losses = kernels.phi_all(kind)(params, np.ascontiguousarray(problem.A @ x), problem.y)
    return math.fsum(losses) + 0.5 * ridge * float(x @ x)


def _chain(
    problem: OfflineProblem, k: float, ridge: float, steps: int, source: Source
) -> FloatArray:
    """A random-walk Metropolis chain with an adaptive step; its distribution is only close to exp(-k F)."""
    x = np.array(problem.set.center, dtype=float).ravel()
    value = _value(problem, x, ridge)
    step = float(problem.set.diameter) / (1.0 + math.sqrt(problem.dim) * k * problem.norm)
    normals = np.empty(problem.dim)
    for t in range(steps):
        source.normals(normals)
        trial = x + step / math.sqrt(problem.dim) * normals
        accept = False
        if problem.set.contains(problem.shaped(trial), tol=0.0):
            new = _value(problem, trial, ridge)
            uniform = (int(source.words(1)[0]) + 0.5) * 2.0**-64
            accept = math.log(uniform) < -k * (new - value)
        if accept:
            x, value = trial, new
        if t < steps // 2:  # aim at one acceptance in four
            step *= math.exp((0.75 if accept else -0.25) / math.sqrt(t + 1.0))
    return x


def _chain_guarantee(ideal: Guarantee, steps: int) -> Guarantee:
    none = Guarantee.none(
        f"the distribution of a Markov chain of {steps} steps differs from the stated one by an unknown amount; a "
        f"draw from the stated one would have: {ideal.summary}",
        ideal.neighbours,
        ideal.window,
    )
    return Guarantee(
        none.releases, none.neighbours, none.window, ideal.seeded, ideal.lattice, none.caveats
    )
