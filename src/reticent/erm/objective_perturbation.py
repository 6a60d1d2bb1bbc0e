"""Objective perturbation: minimise the loss plus a ridge plus a random linear term.

Chaudhuri, Monteleoni and Sarwate, *Differentially private empirical risk minimization*; Algorithm 2 of *Private
Optimization*; Kifer, Smith and Thakurta for Gaussian noise. With ``delta = 0`` the linear term is Gamma noise, and the
ratio of determinants is at most ``1 + beta/Delta``, exactly. With ``delta > 0`` it is Gaussian, with the bounds for
generalised linear losses of ``reticent.privacy.objective``, which are sharper if the slope has one sign. The computed
minimiser is never exact: the run stops at a certified distance, and noise for that distance is added and accounted for
(approximate minima perturbation, Iyengar et al., *Towards practical differentially private convex optimization*).
Proofs, and the choice of the ridge: docs/algorithms/objective-perturbation.md.

The random linear term is not released, so it need not lie on a lattice. The proof assumes that it is a real number; its
rounding is part of the distance that the final noise covers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from reticent import checks
from reticent.checks import FloatArray
from reticent.erm.fit import Fit
from reticent.erm.minimise import minimise
from reticent.erm.perturbation import (
    NAME,
    PublicNumbers,
    directed,
    exact,
    is_margin,
    part,
    prescribed_setting,
)
from reticent.erm.problem import IGNORANCE, OfflineProblem
from reticent.erm.reading import bounded, need_smooth
from reticent.erm.solver import Run, SolverPlan, solve
from reticent.losses import records
from reticent.solve.blocks import IsClass, Meaning
from reticent.trace import Callback


def objective_perturbation(
    loss: Any,
    set: Any,
    X: Any,
    y: Any = None,
    *,
    budget: Any,
    regularizer: float | None = None,
    for_direction: bool = False,
    radius_share: float = IGNORANCE,
    center: Any = None,
    center_bound: float | None = None,
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
    """Minimise the summed loss plus a ridge plus a random linear term.

    Parameters
    ----------
    loss : Loss
        Smooth generalised linear loss (logistic, squared, Huber, smooth hinge, Poisson).
    set : set or None
        Feasible set with a projection. None is the whole space for margin losses (logistic, smooth hinge); otherwise it
        is a ball around 0 whose radius follows from the number of records, the dimension and the budget. A small ball
        needs less noise, since gradients are smaller on it.
    X : array, CSR matrix or records in blocks
        Records, one per row; clipped to the loss's bounds. Records in blocks are those of `reticent.solve.blocks`.
    y : array, optional
        Labels. For margin losses, labels of shape (n, K) are K problems on the same records: the budget is for all of
        them together, and the point has one row per problem. With records in blocks, the meaning of their labels, or a
        list of meanings for several problems.
    budget : Budget
        Privacy budget of the fit. With ``delta = 0`` it is pure differential privacy with Gamma noise, otherwise the
        noise is Gaussian.
    regularizer : float, optional
        Coefficient of ``(1/2) ||x||^2`` that is added to the *summed* loss, in addition to the loss's own ridge. By
        default it minimises a bound on the excess risk; see docs/algorithms/objective-perturbation.md.
    for_direction : bool
        Whether the default regularizer is chosen for the direction of the point, which noise changes less the stronger
        the regularizer is. ``released["shrunk"]`` is then a public factor by which the length is approximately reduced.
        For margin losses without a set or a regularizer. Default: False.
    radius_share : float
        If ``set`` is None, the radius of the ball is chosen so that noise costs this share of the loss of the decision
        0. Default: 0.25.
    center : array, optional
        Point towards which the regularizer pulls instead of 0, or one row for each of several problems. It must be
        public or have been released before; it is not protected here.
    center_bound : float, optional
        Upper bound on the norm of ``center``, on which the noise on the minimiser depends. Default: its actual norm.
    weights : array, optional
        Weights of the records' losses, clipped to [0, ``weight_bound``]; a record with weight 0 is a null record.
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
    calibration : str
        ``"exact"``, or the name of prescribed noise (`reticent.privacy.prescribed`), for which the guarantee reports
        the true privacy. Default: "exact".
    callback : callable, optional
        Called with the final point only; what precedes it is not private.
    progress : bool
        Whether to show a progress line. Default: False.

    Returns
    -------
    Fit
        The noisy minimiser, its guarantee and a trace.

    See Also
    --------
    reticent.PrivateLogisticRegression : An estimator on top of this solver.
    sufficient_statistics : For squared losses.


    Notes
    -----
    The certificate of the minimiser includes the rounding of every sum over the records and of the linear term; the
    final noise covers both.

    Examples
    --------
    >>> import numpy as np, reticent
    >>> from reticent import erm, losses
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 3))
    >>> X /= np.linalg.norm(X, axis=1)[:, None]
    >>> y = np.sign(X @ [2.0, -1.0, 0.0])
    >>> fit = erm.objective_perturbation(
    ...     losses.Logistic(), None, X, y, budget=reticent.Budget(1.0), seed=0
    ... )
    >>> round(fit.guarantee.pure, 6), float(np.mean(np.sign(X @ fit.point) == y)) > 0.95
    (1.0, True)
    """
    columns, several = _columns(y)
    return solve(
        NAME,
        partial(_plan, set=set, columns=columns, several=several, regularizer=regularizer,
                for_direction=for_direction, radius_share=radius_share, center=center,
                center_bound=center_bound, calibration=calibration),
        loss, set, X, columns[0], budget=budget, seed=seed, noise_precision=noise_precision,
        calibration=calibration, callback=callback, progress=progress, weights=weights,
        weight_bound=weight_bound, groups=groups, max_records=max_records, by_passes=True,
    )  # fmt: skip


def _plan(problem: OfflineProblem, set: Any, columns: list[Any], several: bool,
          regularizer: float | None, for_direction: bool, radius_share: float, center: Any,
          center_bound: float | None, calibration: str) -> SolverPlan:  # fmt: skip
    _check_loss(problem)
    count = len(columns)
    centers, bound = _centers(center, center_bound, count, problem.dim, calibration)
    problem = replace(problem, pulled=bound)
    if several and not (is_margin(problem.loss) and calibration == "exact"):
        raise ValueError(
            f"y of shape (n, {count}) needs a margin loss such as losses.Logistic and calibration='exact', got "
            f"{problem.loss!r} and {calibration!r}; fit one column at a time"
        )
    parts = [problem, *(problem.with_labels(_labels(problem, column)) for column in columns[1:])]
    share = checks.number(radius_share, "radius_share", low=0.0, open_low=True)
    within = problem.set if is_margin(problem.loss) else set
    problem = bounded(problem, within, NAME, share=share)
    given = None if regularizer is None else checks.number(regularizer, "regularizer", low=0.0)
    chooses, shrunk = given is None and calibration == "exact", 1.0
    public = PublicNumbers.of(problem, chooses)
    if for_direction:
        _check_direction(problem, set, given, calibration)
        setting, shrunk = directed(public, count)
    elif calibration == "exact":
        setting = exact(public, given, count)
    else:
        setting = prescribed_setting(public, given, calibration)
    level = part(public.noise, count) * setting.share * public.level
    cover = problem.noise_scale(setting.distance, level, problem.dim, 2.0 * setting.reach)
    rest = problem.release(
        "distance to the exact minimiser", setting.distance, cover, problem.dim, count
    )
    # the standard deviation of a coordinate of Gamma noise in multiples of its scale
    spread = math.sqrt(problem.dim + 1.0) if problem.noise == "gamma" else 1.0
    points: list[FloatArray] = []
    taken: list[int] = []

    def step(run: Run, k: int) -> None:
        b = run.noisy(np.zeros(problem.dim), setting.scale)
        one = parts[k - 1].with_set(problem.set)
        found = minimise(one, b, setting.ridge, setting.tolerance, centers[k - 1], k)
        points.append(problem.set.project(problem.shaped(run.noisy(found.point, cover))))
        taken.append(found.steps)
        run.recorder.facts["Newton steps"] = sum(taken)
        run.released.update(
            linear_noise=spread * setting.scale, point_noise=spread * cover, ridge=setting.ridge
        )
        if for_direction:
            run.released["shrunk"] = shrunk
        # There is no useful intermediate point, so no callback stops the run.
        run.note(k, points[-1])

    settings = {
        "regularizer": setting.ridge - problem.count * problem.loss.ridge,
        "noise": setting.release.noise,
        "noise on the minimiser": rest.noise,
        "set": repr(problem.set),
    }
    if for_direction:
        settings["shrunk"] = f"to {shrunk:.4g} of the length with the default regularizer"
    return SolverPlan(
        problem=problem,
        step=step,
        releases=[setting.release, rest],
        settings=settings,
        steps=count,
        finish=lambda run: np.array(points) if several else points[0],
        caveats=setting.caveats,
    )


def _check_direction(
    problem: OfflineProblem, set: Any, given: float | None, calibration: str
) -> None:
    if set is None and given is None and calibration == "exact" and is_margin(problem.loss):
        return
    raise ValueError(
        "for_direction=True needs a margin loss such as losses.Logistic, set=None, regularizer=None and "
        f"calibration='exact', got {problem.loss!r}, {set!r}, {given} and {calibration!r}; leave it out"
    )


def _columns(y: Any) -> tuple[list[Any], bool]:
    if isinstance(y, list) and y and all(isinstance(one, Meaning) for one in y):
        if not all(isinstance(one, IsClass) for one in y):
            raise TypeError(
                f"several meanings of labels must be IsClass, one for each class, got {y!r}"
            )
        return list(y), True
    if y is not None and not isinstance(y, Meaning) and np.ndim(y) == 2:
        array = np.asarray(y)
        if array.shape[1] == 0:
            raise ValueError("y must have at least one column, got shape (n, 0)")
        return [np.ascontiguousarray(array[:, k]) for k in range(array.shape[1])], True
    return [y], False


def _centers(
    center: Any, bound: float | None, count: int, dim: int, calibration: str
) -> tuple[list[FloatArray | None], float]:
    """The point towards which the ridge of each problem pulls, and a bound on the norms."""
    if center is None:
        return [None] * count, 0.0
    found = np.atleast_2d(checks.real_array(center, "center"))
    if found.shape != (count, dim) or not np.isfinite(found).all():
        raise ValueError(
            f"center must be {count} finite point{'s' * (count > 1)} of dimension {dim}, got an array of "
            f"shape {np.shape(center)}"
        )
    if calibration != "exact":
        raise ValueError(f"center needs calibration='exact', got {calibration!r}; leave it out")
    longest = float(np.linalg.norm(found, axis=1).max())
    if bound is None:
        return list(found), longest
    most = checks.number(bound, "center_bound", low=0.0)
    if longest > most:
        raise ValueError(f"center must have norm at most center_bound={most:g}, got {longest:g}")
    return list(found), most


def _labels(problem: OfflineProblem, column: Any) -> FloatArray | Meaning:
    if isinstance(column, Meaning):
        return column
    return records.signs(records.labels(column, problem.records))


def _check_loss(problem: OfflineProblem) -> None:
    if not problem.is_linear_model:
        raise TypeError(
            f"{NAME} has a proved guarantee for generalised linear losses only, got {problem.loss!r}; "
            "use erm.gradient_descent"
        )
    need_smooth(problem, NAME)
