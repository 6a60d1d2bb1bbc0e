"""Objective perturbation: minimise the loss plus a ridge plus a random linear term.

Chaudhuri, Monteleoni and Sarwate, *Differentially private empirical risk minimization*; Algorithm 2
of *Private Optimization*; Kifer, Smith and Thakurta for Gaussian noise. With ``delta = 0`` the
linear term is Gamma noise and the ratio of determinants is at most ``1 + beta/Delta``, exactly; with
``delta > 0`` it is Gaussian, by the bounds for generalised linear losses of
``reticent.privacy.objective``, the sharper ones where the slope has one sign. The minimiser is never
exact: the run stops at a certified distance, noise for that distance is added and accounted
(approximate minima perturbation, Iyengar et al., *Towards practical differentially private convex
optimization*). Proofs, and the choice of the
ridge: docs/algorithms/objective-perturbation.md.

The random linear term is not released, so it need not lie on a lattice for its own sake; but the proof
needs it to be a real number, and its rounding is part of the distance that the noise at the end covers.
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
    apart,
    directed,
    exact,
    is_margin,
    part,
    prescribed_setting,
    reach_bound,
)
from reticent.erm.problem import IGNORANCE, OfflineProblem
from reticent.erm.reading import bounded, need_smooth
from reticent.erm.solver import Run, SolverPlan, solve
from reticent.losses import records
from reticent.solve.blocks import Meaning
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
        A smooth generalised linear loss (logistic, squared, Huber, smooth hinge, Poisson).
    set : set or None
        With a projection. None is the whole space for losses of a margin (logistic, smooth hinge),
        else a ball around 0 whose radius follows from the number of records, the dimension and the
        budget; a small ball needs less noise, since gradients are smaller on it.
    X : array, CSR matrix or records in blocks
        The records, one row each; they are clipped to the loss's bounds. Records in blocks are those of
        `reticent.solve.blocks`.
    y : array, optional
        Their labels. Labels of shape (n, K), for losses of a margin, are K problems on the same
        records: the budget is for all of them together, and the point has one row for each. Of records
        in blocks: what their labels stand for, or a list of that for several problems.
    budget : Budget
        ``delta = 0`` is pure differential privacy with Gamma noise, else the noise is Gaussian.
    regularizer : float, optional
        The weight of ``(1/2) ||x||^2`` that is added to the *summed* loss, beside the loss's own
        ridge. By default the minimiser of a bound on the excess risk; see
        docs/algorithms/objective-perturbation.md.
    for_direction : bool
        Whether the default regularizer shall suit the direction of the point, which noise turns less the stronger
        the regularizer is. ``released["shrunk"]`` is then a public factor: about what that takes of the length.
        For losses of a margin without a set or a regularizer.
    radius_share : float
        What noise may cost, as a share of what the zero decision loses, by which the radius of the ball is chosen
        where ``set`` is None.
    center : array, optional
        A point that the regularizer pulls to in place of 0, or one row for each of several problems. Public
        or released before: nothing here protects it.
    center_bound : float, optional
        How long ``center`` may be, if that is not what it turned out to be; noise on the minimiser
        depends on it.
    weights : array, optional
        A factor for each record's loss, clipped to [0, ``weight_bound``]; a record with weight 0 is
        the null record.
    weight_bound : float
        Public; noise is calibrated to it.
    groups : array, optional
        An id of its person for each record (whole numbers, text or bytes): then all records of one
        person are protected together, and the number of persons is public.
    max_records : int, optional
        With ``groups``, a person's first so many records count in full and the others do not; by
        default each of a person's m records has the weight 1/m.
    seed : int, optional
        Of the noise, for experiments; the guarantee says so. None is a cryptographic generator.
    noise_precision : {"lattice", "float"}
        Noise on a lattice leaks nothing through rounding; "float" is for simulations, and the
        guarantee says so.
    calibration : str
        ``"exact"``, or the name of prescribed noise (`reticent.privacy.prescribed`); the guarantee
        reports the truth about that, too.
    callback : callable, optional
        Sees the final point only: what comes before it is not private.
    progress : bool
        Whether to show a progress line.

    Returns
    -------
    Fit

    Notes
    -----
    The certificate of the minimiser counts the rounding of every sum over the records, and the
    rounding of the linear term; the noise at the end covers both.

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
            f"y of shape (n, {count}) needs a loss of a margin such as losses.Logistic and "
            f"calibration='exact', got {problem.loss!r} and {calibration!r}; fit one column at a time"
        )
    parts = [problem, *(problem.with_labels(_labels(problem, column)) for column in columns[1:])]
    share = checks.number(radius_share, "radius_share", low=0.0, open_low=True)
    within = problem.set if is_margin(problem.loss) else set
    problem = bounded(problem, within, NAME, share=share)
    given = None if regularizer is None else checks.number(regularizer, "regularizer", low=0.0)
    shrunk = 1.0
    if for_direction:
        _check_direction(problem, set, given, calibration)
        setting, shrunk = directed(problem, count)
    elif calibration == "exact":
        setting = exact(problem, given, count)
    else:
        setting = prescribed_setting(problem, given, calibration)
    tolerance, distance = apart(problem, setting.scale, setting.ridge)
    size = 2.0 * reach_bound(problem, setting.scale, setting.ridge)
    level = part(problem, count) * setting.share * problem.level
    cover = problem.noise_scale(distance, level, problem.dim, size)
    rest = problem.release("distance to the exact minimiser", distance, cover, problem.dim, count)
    # the standard deviation of a coordinate of Gamma noise is that many times its scale
    spread = math.sqrt(problem.dim + 1.0) if problem.noise == "gamma" else 1.0
    points: list[FloatArray] = []
    taken: list[int] = []

    def step(run: Run, k: int) -> None:
        b = run.noisy(np.zeros(problem.dim), setting.scale)
        found = minimise(
            parts[k - 1].with_set(problem.set), b, setting.ridge, tolerance, centers[k - 1], k
        )
        points.append(problem.set.project(problem.shaped(run.noisy(found.point, cover))))
        taken.append(found.steps)
        run.recorder.facts["Newton steps"] = sum(taken)
        run.released.update(
            linear_noise=spread * setting.scale, point_noise=spread * cover, ridge=setting.ridge
        )
        if for_direction:
            run.released["shrunk"] = shrunk
        # What is half done is of no use: no callback stops it.
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
        "for_direction=True needs a loss of a margin such as losses.Logistic, set=None, regularizer=None and "
        f"calibration='exact', got {problem.loss!r}, {set!r}, {given} and {calibration!r}; leave it out"
    )


def _columns(y: Any) -> tuple[list[Any], bool]:
    if isinstance(y, list) and y and all(isinstance(one, Meaning) for one in y):
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
    """The point that the ridge of each problem pulls to, and how long these are at most."""
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
        raise ValueError(f"center must be no longer than center_bound = {most:g}, got {longest:g}")
    return list(found), most


def _labels(problem: OfflineProblem, column: Any) -> FloatArray | Meaning:
    if isinstance(column, Meaning):
        return column
    return records.signs(records.labels(column, problem.records))


def _check_loss(problem: OfflineProblem) -> None:
    if not problem.is_linear_model:
        raise TypeError(
            f"{NAME} is proved for generalised linear losses only, got {problem.loss!r}; "
            "use erm.gradient_descent"
        )
    need_smooth(problem, NAME)
