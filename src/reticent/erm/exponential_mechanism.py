"""The exponential mechanism: draw a decision with probability proportional to exp(-k times its loss).

Algorithm 1 of *Private Optimization* (McSherry and Talwar; Bassily, Smith and Thakurta), with the
exponent that the neighbouring relation allows; and the regularised version of Gopi,
Lee and Liu, *Private convex optimization via exponential mechanism*, which is Gaussian differential
privacy. Over a finite net the choice is exact; in one and two dimensions the draw from the
log-concave density is exact too; anything longer is a Markov chain, whose law is only near the
stated one, and then no guarantee is given. See docs/algorithms/exponential-mechanism.md.

The privacy of the plain version does not need convexity, that of the regularised one does; and
neither survives a sampler that is merely close.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from reticent import checks
from reticent.checks import FloatArray
from reticent.erm.fit import Fit
from reticent.erm.log_concave import Sampler, largest_exponent
from reticent.erm.problem import OfflineProblem, label_range, reach
from reticent.erm.reading import bounded, need_linear_model
from reticent.erm.rounded_sums import UNIT
from reticent.erm.solver import Run, SolverPlan, solve
from reticent.losses import kernels
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
        A generalised linear loss.
    set : set or None
        Bounded. For the exact sampler a box or a Euclidean ball of dimension 1 or 2. None is a ball
        around 0 with a radius chosen by theory.
    X : array or CSR matrix
        The records, one row each; they are clipped to the loss's bounds.
    y : array, optional
        Their labels.
    budget : Budget
        What the release may cost.
    seed : int, optional
        Of the noise, for experiments; the guarantee says so. None is a cryptographic generator.
    callback : callable, optional
        Called with a :class:`reticent.trace.Moment` after each step; a true result stops the run.
    progress : bool
        Whether to show a progress line.
    version : {"auto", "plain", "regularized"}
        Plain: density exp(-k L), pure differential privacy. Regularised: exp(-k (L + (m/2)||x||^2)),
        Gaussian differential privacy, which needs ``delta > 0`` and a convex loss. "auto" is plain,
        unless ``delta > 0`` and the regularised bound on the excess risk is smaller.
    sampler : {"auto", "net", "exact", "chain"}
        Choose from a net; draw exactly (dimension 1 or 2); or run a Markov chain, for which no
        guarantee is given. "auto" is the net if there is one, else exact.
    net : array of shape (count, dim), optional
        Candidate decisions, chosen without looking at the records.
    chain_steps : int
        Length of the Markov chain.
    noise_precision : {"lattice", "float"}
        For the sake of one signature; draws are exact either way.
    calibration : str
        ``"exact"``, or the name of a prescribed exponent (`reticent.privacy.prescribed`); the guarantee
        reports the truth about that, too.

    Returns
    -------
    Fit

    Notes
    -----
    On a net the losses are computed in floating point, and their rounding is part of the
    sensitivity. The exact sampler follows the law of real numbers, so there is none, and returns the
    double nearest to each coordinate of a real draw. Its exponent is limited to what double precision
    resolves, which matters from about ``count * epsilon = 1e9`` on or for sets that are very small
    beside the losses' size; the guarantee is then better than the budget.

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
    problem = bounded(problem, set, NAME, projects=False)
    if not math.isfinite(problem.set.diameter):
        raise ValueError(f"{NAME} needs a bounded set, got {problem.set!r}; use sets.Box or L2Ball")
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
        ideal = problem.promise([release], source, calibration=calibration, caveats=caveats)
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


def spread(problem: OfflineProblem, points: FloatArray | None = None) -> float:
    """How far one record's loss ranges over the set, or over the points of a net."""
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
        # phi is convex: largest at an end; smallest at an end, or at a label within reach
        inner = [kernels.phi(kind)(params, min(max(label, -z), z), label)]
        if kind in kernels.MARGIN:
            inner = ends
        if kind == kernels.POISSON:
            inner = [0.0]
        by_value = max(by_value, max(ends) - min(ends + inner))
        largest = max(largest, *map(abs, ends + inner))
    # each of the two values is rounded by a few units of itself, however close they are
    return min(by_slope, by_value + 64.0 * UNIT * (1.0 + largest + problem.slope_bound * z))


def _around(problem: OfflineProblem, points: FloatArray) -> OfflineProblem:
    """The same in a ball that holds the net: its points may lie a hair outside the set."""
    return problem.with_set(L2Ball(problem.dim, max(_farthest(points), 1e-100)))


def _widest(points: FloatArray) -> float:
    """A bound on the distance between two points of the net."""
    return min(2.0 * _farthest(points), _farthest(np.ptp(points, axis=0)[None]))


def _farthest(points: FloatArray) -> float:
    """The largest norm, with room for its rounding."""
    room = 1.0 + (points.shape[1] + 16) * 2.0**-50
    return float(np.linalg.norm(points, axis=1).max()) * room


def _moved(problem: OfflineProblem, points: FloatArray | None) -> float:
    """How far one record moves the difference of two decisions' losses."""
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
    # each of n losses is rounded by a few units, their sum (by fsum) by one; two worlds, two points
    rounding = (
        4.0 * problem.count * (64.0 + problem.dim) * UNIT * (largest + problem.norm * reach_ + 1.0)
    )
    return exact + rounding


def _law(
    problem: OfflineProblem, version: str, sampler: str, points: FloatArray | None, calibration: str
) -> tuple[float, float, Release, tuple[str, ...]]:
    """The exponent k, the whole ridge, what the draw costs, and what to beware of."""
    budget = problem.budget
    own = problem.count * problem.loss.ridge
    if version == "regularized":
        moved = budget.sensitivity(problem.norm)
        wanted = moved * math.sqrt(2.0 * problem.dim) / (problem.level * _size(problem))
        ridge = max(own, wanted)
        k = (problem.level / moved) ** 2 * ridge * (1.0 - 2.0**-40)
        k, limited = _limited(problem, sampler, k, ridge)
        curve: Curve = Gaussian(moved * math.sqrt(k / ridge) * (1.0 + 2.0**-45))
        lines = (f"a record's loss is {moved:.6g}-Lipschitz; mu = that times sqrt(k / ridge)",)
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
        f"the difference of two decisions' losses moves by at most {moved:.6g}",
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
    """No more than double precision resolves, which is more private and next to as accurate."""
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
                "version='regularized' is Gaussian differential privacy for a density: it needs "
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
            raise ValueError("sampler='net' needs net=, an array of decisions to choose from")
        return None
    points = checks.matrix(np.atleast_2d(np.asarray(net)), "net", problem.dim)
    for i, point in enumerate(points):
        if not problem.set.contains(problem.shaped(point)):
            raise ValueError(f"net must lie in {problem.set!r}, but its point {i} does not")
    return points


def _check_exact(problem: OfflineProblem) -> None:
    where = problem.set
    ok = isinstance(where, L2Ball) or (
        isinstance(where, Box) and bool((where.lower < where.upper).all())
    )
    if not ok or problem.dim > 2:
        raise ValueError(
            f"sampler='exact' needs a box or a Euclidean ball of dimension 1 or 2, got {where!r}; "
            "give net=, a list of decisions to choose from, or use erm.objective_perturbation. "
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
    """A random-walk Metropolis chain whose step is tuned on the way; its law is only near exp(-k F)."""
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
        f"a Markov chain of {steps} steps is only near its law, by an unknown distance; drawn from "
        f"the law itself the decision would have: {ideal.summary}",
        ideal.neighbours,
        ideal.window,
    )
    return Guarantee(
        none.releases, none.neighbours, none.window, ideal.seeded, ideal.lattice, none.caveats
    )
