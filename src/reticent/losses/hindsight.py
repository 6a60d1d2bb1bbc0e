"""The best fixed decision in hindsight, with which the regret compares, to a certified duality gap.

For all x and s of the set, f(s) >= f(x) + <grad f(x), s - x>, so the linear minimiser bounds how far x is from the
best (Jaggi 2013, section 2). The result carries such a certificate, whichever method of :mod:`reticent.solve` found
it: the Gram matrix and one quadratic programme for squared, linear and distance losses, proximal Newton for smooth
ones, a central path for those with kinks, accelerated gradients or cutting planes for a user-defined loss.

The decision is computed on the records as they were clipped for the learner. It and the regret against it (Zinkevich
2003) are computed from private data: diagnostics for the holder of the data. No guarantee covers publishing them.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from reticent import checks
from reticent.losses import kernels
from reticent.losses.base import ClipCounts, FloatArray, Loss
from reticent.losses.glm import GeneralizedLinear, Squared
from reticent.losses.in_blocks import MeanInBlocks, in_blocks
from reticent.solve.barrier import Kinked, central_path
from reticent.solve.blocks import Lazy
from reticent.solve.bundle import bundle
from reticent.solve.corrective import minimize_by_vertices
from reticent.solve.newton import minimize_by_newton
from reticent.solve.objective import MeanTerms, Objective, Region
from reticent.solve.quadratic import QuadraticSolver
from reticent.solve.search import Search, descend

_MATRIX_COLUMNS = 2000
_MATRIX_WORK = 2e12


class GapWarning(UserWarning):
    """The best fixed decision was not found to the requested gap."""


@dataclass(frozen=True)
class BestFixed:
    """The best fixed decision that was found, with a proof of how good it is. Not private.

    Attributes
    ----------
    point : array
        The decision, a flat vector.
    value : float
        Its mean loss.
    lower_bound : float
        No decision of the set has a smaller mean loss than this.
    gap : float
        ``value - lower_bound``.
    relative_gap : float
        The gap divided by |value|. If the best loss is almost 0, it is divided by a thousandth of the mean loss at
        the start (or, if that is 0, by a millionth of the loss's range on the set).
    losses : array
        Its loss on each record, in order; empty if the records were not in memory.
    count : int
        Number of records.
    total : float
        Sum of the losses.
    iterations : int
        Number of steps.
    seconds : float
        Duration.
    method : str
        The method that was used.
    converged : bool
        Whether the requested gap was reached.
    clipped : ClipCounts
        How many records exceeded the loss's bounds.
    """

    point: FloatArray = field(repr=False)
    value: float
    lower_bound: float
    gap: float
    relative_gap: float
    losses: FloatArray = field(repr=False)
    count: int
    total: float
    iterations: int
    seconds: float
    method: str
    converged: bool
    clipped: ClipCounts = field(repr=False)


def best_fixed(
    set: Any,
    loss: Loss,
    A: Any,
    y: Any = None,
    *,
    gap: float = 1e-6,
    time_limit: float | None = None,
    iteration_limit: int = 10_000,
    start: Any = None,
    progress: bool = False,
) -> BestFixed:
    """The decision of the set with the smallest mean loss over all records. Not private.

    Parameters
    ----------
    set : set or None
        Any set with a linear minimiser. None is the whole space, for which a certificate needs a strongly convex loss
        (a ridge), or a squared loss and records that span the space.
    loss : Loss
        Any loss; a custom one is run through its Python functions.
    A : array, sparse matrix, Dask array or table of `reticent.tables.open`
        The records, one per row, which are clipped to the loss's bounds as a learner does. Records that are not in
        memory are read in several passes, for smooth losses of one linear predictor; ``losses`` of the result is then
        empty.
    y : array
        The labels.
    gap : float
        The relative duality gap to reach.
    time_limit : float, optional
        Seconds after which the best result so far is returned, with a `GapWarning`.
    iteration_limit : int
        Number of steps after which the best result so far is returned, with a `GapWarning`.
    start : array, optional
        A decision of the set at which to start.
    progress : bool
        Whether to print a line for each step on standard error.

    Returns
    -------
    BestFixed
        The decision, its losses, and a lower bound.

    Raises
    ------
    ValueError
        The set is not bounded and there is no certificate for this loss.

    See Also
    --------
    regret : The regret against the result.

    Examples
    --------
    >>> from reticent.losses import Quadratic
    >>> best = best_fixed(None, Quadratic(), [[1.0, 0.0], [0.0, 0.0]])
    >>> best.point.tolist(), best.value
    ([0.5, 0.0], 0.125)
    """
    gap = checks.positive(gap, "gap")
    limit = math.inf if time_limit is None else checks.positive(time_limit, "time_limit")
    steps = checks.integer(iteration_limit, "iteration_limit", low=1)
    if not isinstance(loss, Loss):
        raise TypeError(
            f"loss must be a reticent.losses.Loss, got {loss!r}; wrap callables in CustomLoss"
        )
    search = Search(gap, limit, steps, progress)
    A, y = _adapted(A, y)
    if isinstance(A, Lazy):
        A, clipped = in_blocks(loss, A, y)
    else:
        A, y, clipped = loss.prepare(A, y)
    region = Region(set, A.shape[1])
    _need_certificate(region, loss, set)
    x = _start(region, start)
    there = isinstance(A, MeanInBlocks)
    first = A.mean_loss(x) if there else loss.mean_value(x, A, y)
    search.floor = max(search.floor, _least_scale(region, loss, abs(first)))
    method = _solve(loss, A, y, region, search, x)
    assert search.point is not None
    losses = np.empty(0) if there else loss.values(search.point, A, y)
    if progress:
        search.show()
    if not search.reached:
        warnings.warn(
            f"best_fixed reached a relative gap of {search.relative_gap:.2e}, not {gap:g}, in "
            f"{search.iterations} steps and {search.seconds:.1f} s ({method}); the loss of the best "
            f"decision lies between {search.lower:.10g} and {search.value:.10g} (not private). "
            "Allow more time or steps, or request a larger gap",
            GapWarning,
            stacklevel=2,
        )
    return BestFixed(
        point=search.point,
        value=search.value,
        lower_bound=search.lower,
        gap=search.absolute_gap,
        relative_gap=search.relative_gap,
        losses=losses,
        count=A.shape[0],
        total=search.value * A.shape[0],
        iterations=search.iterations,
        seconds=search.seconds,
        method=method,
        converged=search.reached,
        clipped=clipped,
    )


def _need_certificate(region: Region, loss: Loss, set: Any) -> None:
    gram_certifies = region.free and isinstance(loss, Squared) and region.dim <= _MATRIX_COLUMNS
    if not region.bounded and loss.strong_convexity == 0.0 and not gram_certifies:
        raise ValueError(
            f"set={set!r} is not bounded, so a certificate needs a strongly convex loss, which "
            f"{loss!r} is not; give the loss a ridge, or use a bounded set"
        )


def _start(region: Region, start: Any) -> FloatArray:
    """The decision at which the search starts."""
    if start is None:
        return region.start
    x = checks.vector(np.ravel(start), "start", region.dim)
    if not region.contains(x):
        raise ValueError("start must be in the set; project it first, or leave it out")
    return x


def _adapted(A: Any, y: Any) -> tuple[Any, Any]:
    """Convert a cluster's arrays to records that are read in blocks; return anything else unchanged."""
    if type(A).__module__.split(".")[0] not in ("dask", "dask_expr"):
        return A, y
    # imported here, because tables is a package above this one
    return importlib.import_module("reticent.tables.elsewhere").adapted(A, y)


def _least_scale(region: Region, loss: Loss, first: float) -> float:
    """The value to which a gap is relative if the best loss is almost 0, where it could not be reached otherwise."""
    if first > 0.0 or not region.bounded:
        return 1e-3 * first
    span = loss.lipschitz(region.set) * float(region.set.diameter)
    return 1e-6 * span if math.isfinite(span) else 0.0


def _solve(loss: Loss, A: Any, y: Any, region: Region, search: Search, x: FloatArray) -> str:
    if not isinstance(loss, GeneralizedLinear):

        def value(s: FloatArray) -> float:
            return loss.mean_value(s, A, y)

        def gradient(s: FloatArray) -> FloatArray:
            return loss.mean_gradient(s, A, y)

        if math.isfinite(loss.smoothness):
            descend(value, gradient, region, search, x, loss.smoothness, loss.strong_convexity)
            return "accelerated gradient"
        bundle(value, gradient, region, search, x, loss.strong_convexity)
        return "cutting planes"

    kind, params = loss.kernel
    is_quadratic = kind in (kernels.SQUARED, kernels.LINEAR)
    is_kinked = kind in (kernels.HINGE, kernels.QUANTILE)
    solver, name = _method(region, A.shape, is_quadratic)
    if isinstance(A, MeanInBlocks) and (solver is minimize_by_vertices or is_kinked):
        raise TypeError(
            f"{loss!r} on {region.set!r} needs all records in memory, and these are not; use a smooth "
            "loss and a set with a projection, or read them into memory"
        )
    if is_kinked:
        ones = np.ones(A.shape[0])
        kinked = (
            Kinked(A, -y, ones, 0.0) if kind == kernels.HINGE else Kinked(A, ones, -y, params[0])
        )
        central_path(kinked, region, search, x, loss.ridge, solver)
        return f"central path, {name}"
    mean: Any = A if isinstance(A, MeanInBlocks) else _Mean(A, y, kind, params)
    objective = Objective(mean, loss.ridge, is_mean=True, is_quadratic=is_quadratic)
    strong = loss.ridge
    if region.free and strong == 0.0:
        strong = _least_curvature(objective)
    solver(objective, region, search, x, strong)
    return name


def _method(
    region: Region, shape: tuple[int, int], is_quadratic: bool
) -> tuple[Callable[..., FloatArray], str]:
    """The solver for a loss of one linear predictor on records of this shape, and its name."""
    count, dim = shape
    fits = dim <= _MATRIX_COLUMNS and count * dim * dim <= _MATRIX_WORK
    if fits and (region.free or region.bounded):
        # Several barrier problems are solved on the same set, so what one solve finds helps the next.
        quadratics = None if region.free else QuadraticSolver(region)
        name = "quadratic programme" if is_quadratic else "projected Newton"
        return partial(minimize_by_newton, quadratics=quadratics), name
    if region.bounded and (region.project is None or region.few_vertices):
        return minimize_by_vertices, "corrective Frank-Wolfe"
    return _minimize_by_gradients, "accelerated gradient"


@dataclass
class _Mean(MeanTerms):
    """The mean loss of prepared records, in terms of their linear predictors."""

    y: FloatArray
    kind: int
    params: FloatArray
    per_record: ClassVar[tuple[str, ...]] = ("y",)

    def total_value(self, z: FloatArray) -> float:
        return kernels.phi_mean(self.kind)(self.params, z, self.y)

    def slopes(self, z: FloatArray) -> FloatArray:
        return kernels.dphi_all(self.kind)(self.params, z, self.y) / len(z)

    def bends(self, z: FloatArray) -> FloatArray:
        return kernels.d2phi_all(self.kind)(self.params, z, self.y) / len(z)


def _least_curvature(objective: Objective) -> float:
    """The strong convexity that the records give a squared loss, if they span the space."""
    eigenvalues = np.linalg.eigvalsh(objective.hessian(np.zeros(objective.count)))
    if eigenvalues[0] <= 1e-10 * eigenvalues[-1]:
        raise ValueError(
            "set=None without a ridge needs records that span the space, and these do not; "
            "give the loss a ridge, or a set that bounds the decisions"
        )
    # Eigenvalues have a rounding error relative to the largest; stay on the safe side of it.
    return float(eigenvalues[0] - 1e-13 * eigenvalues[-1])


def _minimize_by_gradients(
    objective: Objective,
    region: Region,
    search: Search,
    x: FloatArray,
    strong_convexity: float,
    enough: Callable[[FloatArray, FloatArray, FloatArray], bool] | None = None,
) -> FloatArray:
    def value(s: FloatArray) -> float:
        return objective.value(s, objective.predictors(s))

    def gradient(s: FloatArray) -> FloatArray:
        return objective.predictors_and_gradient(s)[1]

    def done(s: FloatArray, g: FloatArray) -> bool:
        return enough is not None and enough(s, objective.predictors(s), g)

    return descend(value, gradient, region, search, x, 1.0, strong_convexity, done)


def cumulative(losses: Any) -> FloatArray:
    """The running total of the losses.

    Parameters
    ----------
    losses : array
        The loss of each round.

    Returns
    -------
    array
        The total up to and including each round.

    Examples
    --------
    >>> cumulative([1.0, 0.5, 0.25]).tolist()
    [1.0, 1.5, 1.75]
    """
    played = checks.real_array(losses, "losses")
    return np.cumsum(checks.vector(played, "losses", played.size))


def regret(played: Any, best: BestFixed | Any) -> float:
    """The total loss of what was played minus that of the comparator. Not private.

    Parameters
    ----------
    played : array
        The loss of each round.
    best : BestFixed or array
        The result of `best_fixed`, or the losses of any other comparator, one for each round. The true regret may
        exceed the one against a `BestFixed` by at most its gap times the number of rounds.

    Returns
    -------
    float
        The regret.
    """
    if isinstance(best, BestFixed) and not len(best.losses):
        losses = checks.real_array(played, "played")
        return float(np.sum(checks.vector(losses, "played", best.count)) - best.total)
    curve = regret_curve(played, best)
    return float(curve[-1]) if len(curve) else 0.0


def regret_curve(played: Any, best: BestFixed | Any) -> FloatArray:
    """The running regret against the comparator that is best over all rounds. Not private.

    Parameters
    ----------
    played : array
        The loss of each round.
    best : BestFixed or array
        The result of `best_fixed`, or the losses of any other comparator, one for each round.

    Returns
    -------
    array
        The regret up to and including each round.
    """
    losses = checks.real_array(played, "played")
    losses = checks.vector(losses, "played", losses.size)
    against = best.losses if isinstance(best, BestFixed) else best
    if isinstance(best, BestFixed) and not len(best.losses) and best.count:
        raise ValueError(
            "best has no losses of single records, because these were not in memory; use regret, or read the records "
            "into memory"
        )
    return np.cumsum(losses - checks.vector(against, "best", losses.size))
