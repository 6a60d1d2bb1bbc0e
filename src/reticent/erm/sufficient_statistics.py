"""Linear regression from noisy sufficient statistics A'A and A'y.

The baseline is AdaSSP of Wang, *Revisiting differentially private linear regression: optimal and adaptive prediction &
estimation in unbounded domain*, Algorithm 2. The default method "joint" has less noise: both statistics are one release
with a joint sensitivity (under "replace", for the worst angle between two records instead of the sum of two worst
cases), the noise on the matrix is symmetric, no privacy is spent on its smallest eigenvalue, and the ridge minimises
Stein's unbiased estimate of the excess risk, which needs only released numbers and noise levels. "boosted" adds rounds
of clipped residuals (Tang et al. 2023, *Improved differentially private regression via gradient boosting*). See
docs/algorithms/sufficient-statistics.md.

Everything after the releases, including the choice of the ridge, is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from reticent import checks
from reticent.checks import FloatArray
from reticent.erm.fit import Fit
from reticent.erm.passes import Products
from reticent.erm.problem import OfflineProblem, label_range
from reticent.erm.rounded_sums import UNIT, as_matrix, as_vector, unfolded
from reticent.erm.solver import Run, SolverPlan, solve
from reticent.losses import Huber, Squared
from reticent.noise import door
from reticent.privacy import Gaussian, Release, prescribed
from reticent.sets import L2Ball, WholeSpace
from reticent.solve.accelerated import accelerated, settled
from reticent.solve.ball import in_eigenbasis
from reticent.solve.blocks import Form, InMemory, summed
from reticent.solve.objective import Region
from reticent.trace import Callback

NAME = "sufficient statistics"
METHODS = ("joint", "adassp", "boosted")
_ROOT = math.sqrt(2.0)
_EDGE = 0.25
"""The regularised matrix stays above this share of the largest eigenvalue of the noise."""
_FAILURE = 0.05
"""The failure probability rho of AdaSSP."""
_MATRIX, _SIZE = 0.3, 0.02
"""Shares of the budget (of mu squared, or of epsilon) for A'A and, twice, for the size of residuals; rounds share the
rest. A'A only determines how fast the rounds converge, not where to, so it needs less than they do together."""
_CLIP = 2.0
"""Residuals are clipped to at least this multiple of their root mean square, which normal ones rarely exceed."""
_HALVED = np.arange(6)
"""Squared residuals are summed with clips of the largest label, half of it, a quarter, and so on, in one release."""
_SQUARED = (1e-140, 1e140)
"""Sizes of labels whose squares, clipped or summed over all records, neither underflow nor overflow."""
_SURE = 2.0
"""A smaller clip is chosen unless this many standard deviations of the noise contradict it."""


def sufficient_statistics(
    loss: Any,
    set: Any,
    X: Any,
    y: Any = None,
    *,
    budget: Any,
    method: str = "joint",
    rounds: int = 8,
    regularizer: float | None = None,
    center: Any = None,
    weights: Any = None,
    weight_bound: float = 1.0,
    groups: Any = None,
    max_records: int | None = None,
    seed: int | None = None,
    noise_precision: str = "lattice",
    calibration: str = "exact",
    callback: Callback | None = None,
    progress: bool = False,
) -> Fit:
    """Least squares from noisy ``A'A`` and ``A'y``.

    Parameters
    ----------
    loss : Squared
        The loss; noise is calibrated to its ``feature_norm`` and ``label_bounds``, and records beyond them are clipped.
    set : set or None
        Feasible set with a projection; None is the whole space.
    X : array or CSR matrix
        Records, one per row; clipped to the loss's bounds.
    y : array, optional
        Labels.
    budget : Budget
        Privacy budget of the fit. The noise is Gaussian if ``delta > 0``, and Gamma if ``delta = 0`` (not for
        "adassp").
    method : {"joint", "adassp", "boosted"}
        One release of both statistics and a ridge chosen from them; Wang's AdaSSP; or rounds of clipped residuals with
        one release of ``A'A``, which clip residuals instead of labels (Tang et al. 2023). Default: "joint".
    rounds : int
        Number of rounds of method "boosted", at least 2. Default: 8.
    regularizer : float, optional
        Fixed coefficient of ``(1/2) ||x||^2`` in addition to the loss's own ridge, for methods "joint" and "boosted".
        By default it is chosen from what was released.
    center : array, optional
        Point towards which the ridge pulls instead of 0, and at which rounds begin; for methods "joint" and "boosted"
        without a set. It must be public or have been released before; it is not protected here.
    calibration : str
        ``"exact"``, or the name of prescribed noise (`reticent.privacy.prescribed`), for which the guarantee reports
        the true privacy. Default: "exact".
    weights : array, optional
        Weights of the records' losses, clipped to [0, ``weight_bound``].
    weight_bound : float
        Public upper bound on the weights; noise is calibrated to it. Default: 1.
    groups : array, optional
        Id of the person of each record (integers, text or bytes). All records of one person are then protected
        together, and the number of persons is public.
    max_records : int, optional
        With ``groups``: number of records of a person that count in full; later ones are ignored. By default each of a
        person's m records has weight 1/m.
    seed : int, optional
        Seed of the noise, for experiments; the guarantee says so. None uses a cryptographic generator.
    noise_precision : {"lattice", "float"}
        "lattice" rounds noisy values to a lattice, so that floating-point rounding reveals nothing; "float" is for
        simulations, and the guarantee says so. Default: "lattice".
    callback : callable, optional
        Called with a :class:`reticent.trace.Moment` after each step; a true result stops the run, except with
        "boosted".
    progress : bool
        Whether to show a progress line. Default: False.

    Returns
    -------
    Fit
        The decision, its guarantee and a trace. The ridge in the trace's settings is covered by the guarantee too.

    See Also
    --------
    reticent.PrivateLinearRegression : An estimator on top of this solver.
    objective_perturbation : For other losses.

    Notes
    -----
    The sensitivity includes the rounding of the sums over records, ``2 * 164 * 2^-53 n`` times the contribution of one
    record.

    Examples
    --------
    >>> import numpy as np, reticent
    >>> from reticent import erm, losses
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 3)) / np.sqrt(3)
    >>> y = X @ [1.0, -0.5, 0.2]
    >>> fit = erm.sufficient_statistics(
    ...     losses.Squared(), None, X, y, budget=reticent.Budget(1.0, 1e-6), seed=0
    ... )
    >>> bool(np.linalg.norm(fit.point - [1.0, -0.5, 0.2]) < 0.1)
    True
    """
    return solve(
        NAME,
        partial(
            _plan, method=method, rounds=rounds, regularizer=regularizer, center=center,
            calibration=calibration,
        ),
        loss, set, X, y, budget=budget, seed=seed, noise_precision=noise_precision,
        calibration=calibration, callback=callback, progress=progress, weights=weights,
        weight_bound=weight_bound, groups=groups, max_records=max_records, by_passes=True,
    )  # fmt: skip


def _plan(
    problem: OfflineProblem,
    method: str,
    rounds: int,
    regularizer: float | None,
    center: Any,
    calibration: str,
) -> SolverPlan:
    checks.choice(method, "method", METHODS)
    if not isinstance(problem.loss, Squared):
        raise TypeError(
            f"{NAME} needs losses.Squared, got {problem.loss!r}; use erm.objective_perturbation for other losses"
        )
    given = None if regularizer is None else checks.number(regularizer, "regularizer", low=0.0)
    if not getattr(problem.set, "can_project", True):
        raise ValueError(
            f"{NAME} needs a set with a projection, and {problem.set!r} has none; use erm.frank_wolfe"
        )
    many = checks.integer(rounds, "rounds", low=2)
    start = np.zeros(problem.dim)
    if center is not None:
        if method == "adassp" or not isinstance(problem.set, WholeSpace):
            raise ValueError(
                f"center works with methods 'joint' and 'boosted' without a set, got method={method!r} and "
                f"{problem.set!r}; leave it out"
            )
        start = checks.vector(center, "center", problem.dim)
    if method == "boosted" and calibration == "exact":
        return _boosted(problem, many, given, start)
    problem = _rooted(problem)
    if method == "adassp":
        return _adassp(problem, given, calibration)
    if calibration != "exact":
        raise ValueError(
            f"calibration={calibration!r} needs method='adassp', got method={method!r}"
        )
    return _joint(problem, given, start)


def _rooted(problem: OfflineProblem) -> OfflineProblem:
    """The same problem with the square roots of the weights multiplied into records and labels."""
    if problem.weights is None:
        return problem
    roots, size = np.sqrt(problem.weights), math.sqrt(problem.weight_bound)
    # measured before they are scaled: each row of a person must be short, not only all of them together
    if sp.issparse(problem.A):
        A = problem.A.copy()
        door.bounded_sparse_rows(A.indptr, problem.A.data, 1.0, problem.row_limit, A.data)
        A = sp.csr_array(sp.diags_array(roots) @ A)
        A.sort_indices()  # a product leaves them unsorted
    else:
        A = np.empty(problem.A.shape)
        door.bounded_rows(problem.A, 1.0, problem.row_limit, A)
        A *= roots[:, None]
    F, Y = _bounds(problem)
    loss = replace(problem.loss, feature_norm=size * F, label_bounds=(-size * Y, size * Y))  # type: ignore[type-var]
    table = InMemory(A, problem.y * roots, form=Form(length=size * F))
    return replace(problem, table=table, loss=loss, weight_bound=1.0)


# Method "joint".


def _bounds(problem: OfflineProblem) -> tuple[float, float]:
    low, high = label_range(problem.linear)
    return problem.feature_norm, max(abs(low), abs(high))


def _weights(problem: OfflineProblem) -> tuple[float, float]:
    """The divisors of the two statistics before noise of one scale is added to both.

    The noise in the equation ``(A'A + E) x = A'y + e`` has variance of about ``var(e) + var(E) r^2 / 2`` per coordinate
    for a solution of norm r; these divisors minimise it. Without a bounded set r is taken as sqrt(2) Y/F, which gives
    both statistics the same share.
    """
    F, Y = _bounds(problem)
    bound = float(problem.set.norm_bound)
    r = bound if math.isfinite(bound) else _ROOT * Y / F
    both = F * Y + F * F * r / _ROOT
    return math.sqrt(_ROOT * F * F / r * both), math.sqrt(max(F * Y, 1e-9 * F * F * r) * both)


def joint_sensitivity(F: float, Y: float, matrix: float, vector: float, replace: bool) -> float:
    """Sensitivity of ``(A'A / matrix, A'y / vector)``, in the Euclidean norm.

    Blanking a record removes at most ``F^2`` and ``F Y``. For replacement the worst two records have norm F, opposite
    labels and an angle whose cosine is ``c = Y^2 matrix^2 / (2 F^2 vector^2)``, if that is at most 1, and otherwise 1:
    ``2 F^4 (1 - c^2) / matrix^2 + 2 F^2 Y^2 (1 + c) / vector^2``.


    Examples
    --------
    >>> round(joint_sensitivity(1.0, 1.0, 1.0, 1.0, True) ** 2, 6)
    4.5
    """
    first, second = F**4 / matrix**2, (F * Y / vector) ** 2
    if not replace:
        return math.sqrt(first + second)
    c = min(1.0, second / (2.0 * first))
    return math.sqrt(2.0 * first * (1.0 - c * c) + 2.0 * second * (1.0 + c))


def _joint(problem: OfflineProblem, given: float | None, center: FloatArray) -> SolverPlan:
    F, Y = _bounds(problem)
    p, n = problem.dim, problem.count
    matrix, vector = _weights(problem)
    moved = joint_sensitivity(F, Y, matrix, vector, problem.budget.neighbours == "replace")
    moved *= 1.0 + 2.0**-48
    moved += 2.0 * (problem.table.units + 4.0) * UNIT * n * (F * F / matrix + F * Y / vector)
    size = p * (p + 1) // 2 + p
    most = n * max(F * F / matrix, F * Y / vector) * 2.0
    scale = problem.noise_scale(moved, problem.level, size, most)
    release = problem.release(
        "A'A and A'y together",
        moved,
        scale,
        size,
        details=(f"A'A was divided by {matrix:.6g}, A'y by {vector:.6g}",),
    )

    def step(run: Run, t: int) -> bool:
        V, u = unfolded(summed(problem.table.map(Products())))
        seen = run.noisy(np.concatenate([as_vector(V) / matrix, u / vector]), scale)
        V, u = as_matrix(seen[:-p], p) * matrix, seen[-p:] * vector
        spread = scale * (math.sqrt(size + 1.0) if problem.noise == "gamma" else 1.0)
        run.released.update(
            products=V, with_labels=u, matrix_noise=spread * matrix, vector_noise=spread * vector
        )
        ridge, left = given, u
        if center.any():
            left = u - V @ center
        if ridge is None:
            ridge = best_ridge(V, left, spread * matrix, spread * vector, n * problem.loss.ridge)
        run.recorder.settings["regularizer"] = ridge
        return run.note(t, center + _solve(problem, V, left, ridge + n * problem.loss.ridge))

    settings = {"method": "joint", "noise": release.noise, "set": repr(problem.set)}
    return SolverPlan(problem=problem, step=step, releases=[release], settings=settings)


def best_ridge(V: FloatArray, u: FloatArray, noise_V: float, noise_u: float, own: float) -> float:
    """The ridge with the smallest unbiased estimate of the excess risk (Stein), from noisy statistics.

    With ``M = (V + ridge)^-1`` and ``x = M u``, the risk of x under the true statistics is estimated without bias by
    its value under the noisy ones plus ``(noise_V^2 / 2) (tr M ||x||^2 + x'Mx) + noise_u^2 tr M``.
    """
    # in units of the noise, because squares of large numbers would overflow
    values, vectors = np.linalg.eigh(V / noise_V)
    c = vectors.T @ (u / noise_u)
    own = own / noise_V
    edge = math.sqrt(2.0 * len(u))
    least = max(0.0, _EDGE * edge - float(values[0]) - own)
    tries = least + np.concatenate([[0.0], edge * np.geomspace(1e-3, 1e4, 80)])

    def estimate(ridge: float) -> float:
        m = 1.0 / (values + own + ridge)
        x = m * c
        value = 0.5 * ((values + own) * x * x).sum() - (c * x).sum()
        doubt = m.sum() * (x * x).sum() + (m * x * x).sum()
        return float(value + 0.5 * doubt + m.sum())

    return noise_V * float(min(tries, key=estimate))


def _solve(problem: OfflineProblem, V: FloatArray, u: FloatArray, ridge: float) -> FloatArray:
    """The minimiser over the set of x'(V + ridge)x/2 - <u, x>; post-processing, so any accuracy is allowed."""
    values, vectors = np.linalg.eigh(V)
    floor = max(1e-12 * float(np.abs(values).max()), 1e-300)
    values = np.maximum(values + ridge, floor)
    c = vectors.T @ u
    if isinstance(problem.set, WholeSpace):
        return problem.shaped(vectors @ (c / values))
    if isinstance(problem.set, L2Ball):
        s = in_eigenbasis(values, c, problem.set.radius)
        return problem.set.project(problem.shaped(vectors @ s))
    project = Region(problem.set, problem.dim).project
    assert project is not None
    H, start = (vectors * values) @ vectors.T, project(vectors @ (c / values))
    way = accelerated(lambda x: H @ x - u, project, start, float(values[-1]))
    return problem.shaped(settled(way, start, 5000, 1e-12))


# Method "boosted".


def _need_boostable(problem: OfflineProblem, Y: float) -> None:
    """Refuse what rounds of residuals cannot do."""
    if not isinstance(problem.set, WholeSpace):
        raise ValueError(
            f"method='boosted' needs set=None, got {problem.set!r}; leave set out, or use method='joint'"
        )
    if problem.loss.ridge:
        raise ValueError(
            f"method='boosted' needs a loss without a ridge, got ridge={problem.loss.ridge:g}; use regularizer="
        )
    if not _SQUARED[0] <= Y <= _SQUARED[1]:
        raise ValueError(
            "method='boosted' sums squares of labels, which underflow or overflow for label_bounds of size "
            f"{Y:g}; rescale labels to a size between {_SQUARED[0]:g} and {_SQUARED[1]:g}"
        )


def _boosted(
    problem: OfflineProblem, rounds: int, given: float | None, start: FloatArray
) -> SolverPlan:
    F, Y = _bounds(problem)
    _need_boostable(problem, Y)
    p, n, bound = problem.dim, problem.count, problem.weight_bound
    pure = problem.noise == "gamma"
    rooted = _rooted(problem)
    slack = 2.0 * (problem.table.units + 4.0) * UNIT * n

    def level(share: float) -> float:
        return problem.level * (share if pure else math.sqrt(share))

    # Releases are divided by the clip first, so that their cost does not depend on a clip found during the run.
    clipped = replace(problem, loss=_huber(problem, 1.0))
    size = p * (p + 1) // 2
    root = _ROOT if problem.budget.neighbours == "replace" else 1.0
    moved = [
        bound * F * F * (root + slack),
        bound * math.sqrt(len(_HALVED)) * (1.0 + slack),
        problem.budget.sensitivity(clipped.norm) + slack * clipped.norm,
    ]
    shares = [_MATRIX, _SIZE, (1.0 - _MATRIX - 2.0 * _SIZE) / rounds]
    most = [2.0 * n * bound * F * F, 2.0 * n * bound, 2.0 * n * clipped.norm]
    sizes = (size, len(_HALVED), p)
    scales = [
        problem.noise_scale(m, level(share), s, b)
        for m, share, s, b in zip(moved, shares, sizes, most, strict=True)
    ]
    words = (
        "A'A",
        "sums of squared residuals, clipped",
        "sum of features times residuals, clipped",
    )
    releases = [
        problem.release(what, m, scale, s, count)
        for what, m, scale, s, count in zip(
            words, moved, scales, sizes, (1, 2, rounds), strict=True
        )
    ]
    spread = [s * (math.sqrt(d + 1.0) if pure else 1.0) for s, d in zip(scales, sizes, strict=True)]

    points = [start]
    clip, inverse, vectors = Y, np.zeros(p), np.eye(p)

    def step(run: Run, t: int) -> None:
        nonlocal clip, inverse, vectors
        x = points[-1]
        numbers: dict[str, float] = {}
        if t <= 2:
            clip, numbers = _clip(run, problem, x, clip, scales[1], spread[1])
        if t == 1:
            V = unfolded(summed(rooted.table.map(Products())))[0]
            V = as_matrix(run.noisy(as_vector(V), scales[0]), p)
            values, vectors = np.linalg.eigh(V)
            numbers["largest eigenvalue"] = float(values[-1])
        pull = replace(problem, loss=_huber(problem, clip)).gradient_sum(x) / clip
        u = -clip * run.noisy(pull, scales[2])
        if t == 1:
            ridge = given
            if ridge is None:
                ridge = best_ridge(V, u, spread[0], clip * spread[2], 0.0)
            run.recorder.settings["regularizer"] = ridge
            # With a smaller eigenvalue than the noise's largest one, a round could overshoot.
            inverse = 1.0 / np.maximum(values + ridge, math.sqrt(2.0 * p) * spread[0])
        points.append(x + vectors @ (inverse * (vectors.T @ u)))
        run.note(
            t, points[-1], numbers | {"clip": clip}
        )  # there is no useful intermediate point, so no callback stops the run

    def finish(run: Run) -> FloatArray:
        # Later rounds differ from the solution by independent noise only, so their mean has less of it.
        return problem.shaped(np.mean(points[1 + rounds // 2 :], axis=0))

    settings = {"method": "boosted", "noise": releases[2].noise}
    return SolverPlan(
        problem=problem,
        step=step,
        releases=releases,
        settings=settings,
        steps=rounds,
        finish=finish,
    )


def _huber(problem: OfflineProblem, clip: float) -> Huber:
    """Huber's loss, whose slope is the clipped residual."""
    loss = problem.loss
    assert isinstance(loss, Squared)
    return Huber(clip, feature_norm=loss.feature_norm, label_bounds=loss.label_bounds)


def _clip(
    run: Run, problem: OfflineProblem, x: FloatArray, most: float, scale: float, spread: float
) -> tuple[float, dict[str, float]]:
    """A multiple of the root mean square of the residuals, as far as the noise allows; and the noisy sums.

    Squares are clipped too: otherwise a few large residuals would determine the apparent size of all.
    """
    Y, times = _bounds(problem)[1], _times(problem)
    clips = Y * 0.5**_HALVED
    squares = [replace(problem, loss=_huber(problem, c)).slope_squares(x) / c**2 for c in clips]
    seen = run.noisy(np.array(squares), scale)
    shares = seen / problem.count
    noise = spread / problem.count
    # for residuals of this size, the clip is the wanted multiple of their root mean square
    small = np.flatnonzero(shares + _SURE * noise <= times**-2)
    last = int(small[-1]) if small.size else 0
    found = times * float(clips[last]) * math.sqrt(max(float(shares[last]), noise))
    return min(most, found), {f"squares {k + 1}": float(each) for k, each in enumerate(seen)}


def _times(problem: OfflineProblem) -> float:
    """The clip as a multiple of the residuals' root mean square; larger with less noise.

    At ``sqrt(2 log(n mu / sqrt(p)))`` clipping normal residuals, if all of it were on one side, would lose as much as
    noise adds; the losses of both tails mostly cancel, hence one less (docs/algorithms/sufficient-statistics.md).
    """
    level = problem.level / (1.0 if problem.noise == "gaussian" else math.sqrt(problem.dim))
    records = problem.count * level / math.sqrt(problem.dim)
    return max(_CLIP, math.sqrt(2.0 * math.log(max(records, 1.0))) - 1.0)


# Method "adassp".


def _adassp(problem: OfflineProblem, given: float | None, calibration: str) -> SolverPlan:
    if problem.budget.delta == 0.0:
        raise ValueError(
            "method='adassp' needs delta > 0, and the budget has delta = 0; use method='joint'"
        )
    if given is not None:
        raise ValueError("method='adassp' chooses its ridge; leave regularizer out, or use 'joint'")
    F, Y = _bounds(problem)
    p, n = problem.dim, problem.count
    replace = problem.budget.neighbours == "replace"
    slack = 2.0 * (problem.table.units + 4.0) * UNIT * n
    # the error of a computed eigenvalue is a few p units of the largest eigenvalue, n F^2
    moved = [
        F * F * (1.0 + slack + 64.0 * p * UNIT * n),
        F * F * ((_ROOT if replace else 1.0) + slack),
        F * Y * ((2.0 if replace else 1.0) + slack),
    ]
    logarithm = math.log(6.0 / problem.budget.delta)
    caveats: tuple[str, ...] = ()
    sizes = [1, p * (p + 1) // 2, p]
    most = [2.0 * n * F * F, 2.0 * n * F * F, 2.0 * n * F * Y]
    if calibration != "exact":
        formula = prescribed.prescribe(
            calibration, "adassp", problem.budget, feature_norm=F, label_bound=Y
        )
        scales = np.ravel(formula.scale).tolist()
    else:
        level = problem.level / math.sqrt(3.0)
        scales = [
            problem.noise_scale(m, level, s, b) for m, s, b in zip(moved, sizes, most, strict=True)
        ]
    names = ("smallest eigenvalue of A'A", "A'A", "A'y")
    releases = [
        problem.release(name, m, scale, s)
        for name, m, scale, s in zip(names, moved, scales, sizes, strict=True)
    ]
    if calibration != "exact":
        caveats = formula.doubts(problem.budget.neighbours, _truth(problem, releases))

    def step(run: Run, t: int) -> bool:
        V, u = unfolded(summed(problem.table.map(Products())))
        rows, columns = np.triu_indices(p)
        smallest = scipy.linalg.eigvalsh(V, subset_by_index=[0, 0])
        seen = [
            run.noisy(vector, scale)
            for vector, scale in zip((smallest, V[rows, columns], u), scales, strict=True)
        ]
        low = max(0.0, float(seen[0][0]) - math.sqrt(logarithm) * scales[0])
        ridge = max(0.0, math.sqrt(p * math.log(2.0 * p * p / _FAILURE)) * scales[1] - low)
        V = np.zeros((p, p))
        V[rows, columns] = seen[1]
        V[columns, rows] = seen[1]
        run.recorder.settings["regularizer"] = ridge
        return run.note(t, _solve(problem, V, seen[2], ridge + n * problem.loss.ridge))

    settings = {"method": "adassp", "set": repr(problem.set)}
    return SolverPlan(
        problem=problem, step=step, releases=releases, settings=settings, caveats=caveats
    )


def _truth(problem: OfflineProblem, releases: list[Release]) -> float:
    """The epsilon of Gaussian releases together, at the budget's delta."""
    mu = math.sqrt(sum(r.curve.mu**2 for r in releases if isinstance(r.curve, Gaussian)))
    return Gaussian(mu).epsilon(problem.budget.delta)
