"""Private Frank-Wolfe: move towards a vertex of the set that is selected privately by the gradient.

Algorithm 5 (not private) and Algorithm 6 of *Private Optimization*, after Talwar, Thakurta and Zhang, *Nearly optimal
private LASSO*; with the convergent steps 2/(t+1) (a constant step 1/T keeps 1/e of the initial gap), Gumbel instead of
Laplace noise, and the exact composition of bounded-range selections. See docs/algorithms/frank-wolfe.md.

Over an l1 ball the noise depends only on the largest *entry* of a record, so records are clipped entry by entry to
``loss.feature_norm`` instead of by Euclidean norm. With few records, and unless ``radius`` or ``steps`` are given, a
smaller ball than the given one is searched.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from reticent import checks
from reticent.checks import FloatArray
from reticent.erm.fit import Fit
from reticent.erm.oracles import (
    CornerOracle,
    GradientOracle,
    Oracle,
    VertexOracle,
    corners_of,
)
from reticent.erm.problem import OfflineProblem, label_range
from reticent.erm.reading import check_weighted, need_lipschitz
from reticent.erm.rounded_sums import weighted_rows
from reticent.erm.solver import Run, SolverPlan, solve
from reticent.erm.sparse_gradient import SquaredGradient, rounding
from reticent.losses import GeneralizedLinear, Squared
from reticent.privacy import Budget, Guarantee, Release, prescribed
from reticent.sets import L1Ball, WholeSpace
from reticent.sets.base import VerticesUnavailable
from reticent.solve.blocks import ByEntries, InMemory
from reticent.trace import Callback

NAME = "Frank-Wolfe"
ORACLES = ("auto", "vertices", "gradient")
MOST_STEPS = 5000
LISTED = 20_000
"""Sets with more vertices than this are not enumerated by default."""
HARM = 0.05
"""With the default radius, vertices selected by noise cost at most this share of the loss at zero."""
LEAST = 0.01
"""The default radius is at least the one at which one such vertex costs this share."""
AFFORDABLE = 0.2
"""An l1 ball without a stated radius grows beyond 1 while steps and noise cost at most this share of the loss at
zero."""
LARGEST, FEW = 16.0, 500
"""Largest such radius, and largest number of steps considered for it."""


def frank_wolfe(
    loss: Any,
    set: Any,
    X: Any,
    y: Any = None,
    *,
    budget: Any,
    steps: int | None = None,
    radius: float | None = None,
    oracle: str = "auto",
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
    """Minimise the mean loss over a set that has a linear minimiser.

    Parameters
    ----------
    loss : Loss
        Loss with bounded gradients on the set; the method converges for smooth losses.
    set : set or None
        Bounded feasible set. Best are an l1 ball and a simplex, for which the noise grows only with the logarithm of
        the dimension. None, for a generalised linear loss, is an l1 ball whose radius grows with the number of records
        and the budget.
    X : array or CSR matrix
        Records, one per row. Over an l1 ball or a simplex each *entry* of the features of a generalised linear loss is
        clipped to ``loss.feature_norm``.
    y : array, optional
        Labels.
    budget : Budget or None
        Privacy budget of the run. None runs without privacy, and the guarantee says so.
    steps : int, optional
        Number of steps. By default it balances the parts of the bound on the excess risk.
    radius : float, optional
        Radius of the l1 ball that is searched, at most that of the set. If ``steps`` is given the default is the set's
        own radius; otherwise it is computed from the number of records, the budget and the bounds, and is small where
        noise would determine the vertices. It never depends on the records.
    oracle : {"auto", "vertices", "gradient"}
        "vertices" selects a vertex by noisy scores; "gradient" adds noise to the gradient and calls the set's linear
        minimiser. "auto" selects vertices if the set is an l1 ball or lists at most 20,000 of them. Default: "auto".
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
    record_loss : bool
        Whether the trace holds the loss of every step, a diagnostic that reads private data. Default: False.
    seed : int, optional
        Seed of the noise, for experiments; the guarantee says so. None uses a cryptographic generator.
    noise_precision : {"lattice", "float"}
        Precision of noise added to gradients; selections are exact either way. Default: "lattice".
    callback : callable, optional
        Called with a :class:`reticent.trace.Moment` after each step; a true result stops the run.
    progress : bool
        Whether to show a progress line. Default: False.
    resume : Fit or dict, optional
        A stopped run of the same call, or its state; nothing more is charged.
    calibration : str
        ``"exact"``, or the name of prescribed noise (`reticent.privacy.prescribed`), for which the guarantee reports
        the true privacy. Default: "exact".

    Returns
    -------
    Fit
        The last iterate, its guarantee and a trace.

    See Also
    --------
    reticent.PrivateLasso : An estimator on top of this solver.


    Notes
    -----
    A record moves a score by ``size * slope * entry``, plus the rounding of the scores: at most ``2 * 176 * 2^-53 n``
    times that for dense records, and ``2 n (T + 2) 2^-53`` times that for the running gradient of sparse records. The
    guarantee includes the rounding.

    Examples
    --------
    >>> import numpy as np, reticent
    >>> from reticent import erm, losses, sets
    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-1.0, 1.0], size=(2000, 100))
    >>> y = np.clip(0.5 * X[:, 3] - 0.4 * X[:, 70], -1, 1)
    >>> fit = erm.frank_wolfe(
    ...     losses.Squared(), sets.L1Ball(100), X, y, budget=reticent.Budget(1.0, 1e-6), seed=0
    ... )
    >>> np.argsort(-np.abs(fit.point))[:2].tolist()
    [3, 70]
    """
    grows = set is None and isinstance(loss, GeneralizedLinear) and budget is not None
    if grows:
        set = L1Ball(X.shape[1])
    if set is None or isinstance(set, WholeSpace):
        raise ValueError(
            f"{NAME} needs a bounded set such as sets.L1Ball(dim, radius), got {set!r}"
        )
    checks.choice(oracle, "oracle", ORACLES)
    by_entries = corners_of(set) and oracle != "gradient" and isinstance(loss, GeneralizedLinear)
    if budget is None:
        plan = partial(_without_privacy, steps=steps, radius=radius)
    else:
        plan = partial(_plan, steps=steps, radius=radius, oracle=oracle, record_loss=record_loss,
                       calibration=calibration, grows=grows)  # fmt: skip
    return solve(
        NAME, plan, loss, set, X, y, budget=Budget(1.0, 0.01) if budget is None else budget,
        seed=seed, noise_precision=noise_precision, calibration=calibration, callback=callback,
        progress=progress, resume=resume, by_entries=by_entries, weights=weights,
        weight_bound=weight_bound, groups=groups, max_records=max_records,
        by_passes=isinstance(X, ByEntries),
    )  # fmt: skip


def _plan(problem: OfflineProblem, steps: Any, radius: Any, oracle: str, record_loss: bool,
          calibration: str, grows: bool) -> SolverPlan:  # fmt: skip
    if grows:
        size = _affordable(problem, steps) if radius is None else radius
        problem = problem.with_set(L1Ball(problem.dim, size))
    given = problem.set
    check_weighted(problem)
    problem = _within(problem, radius)
    need_lipschitz(problem, NAME)
    count = None if steps is None else checks.integer(steps, "steps", low=1)
    chooser = _oracle(problem, oracle)
    if count is None and _can_shrink(problem):
        is_free = radius is None and calibration == "exact"
        count, size = _default(problem, chooser, is_free)
        problem = problem if size == problem.set.radius else _within(problem, size)
        chooser = _oracle(problem, oracle)
    elif count is None:
        count = _steps(problem, chooser)
    incremental = _is_incremental(problem, chooser)
    if incremental:
        label = max(abs(bound) for bound in label_range(problem.linear))
        size = problem.set.radius
        feature = problem.linear.feature_norm
        chooser = CornerOracle(problem, rounding(problem.count, count, feature, label, size))
    scale, release, caveats = _noise(problem, chooser, count, calibration)
    settings = {
        "steps": count,
        "oracle": chooser.name,
        "noise": release.noise,
        "set": repr(problem.set),
        "radius": float(problem.set.norm_bound),
        "set given": repr(given),
        "incremental gradient": incremental,
    }
    identity = {
        "steps": count,
        "oracle": chooser.name,
        "scale": scale,
        "records": problem.count,
        "dim": problem.dim,
        "set": repr(problem.set),
        "incremental": incremental,
    }
    follow: Any = _Incremental if incremental else _FullGradient
    moves = follow(problem, chooser, scale, record_loss)
    return SolverPlan(
        problem=problem,
        step=moves.step,
        releases=[release],
        settings=settings,
        steps=count,
        arrays={"point": np.array(problem.set.center, dtype=np.float64).ravel()},
        finish=moves.finish,
        caveats=caveats,
        identity=identity,
    )


def _noise(
    problem: OfflineProblem, chooser: Oracle, steps: int, calibration: str
) -> tuple[float, Release, tuple[str, ...]]:
    """The scale of the noise, what the steps release, and the caveats."""
    if calibration == "exact":
        return *chooser.calibrate(steps), ()
    corners = chooser if isinstance(chooser, CornerOracle) else None
    formula = prescribed.prescribe(
        calibration,
        "frank-wolfe",
        problem.budget,
        steps=steps,
        count=problem.count,
        corners=corners is not None,
        radius=0.0 if corners is None else corners.size,
        norm=0.0 if corners is None else corners.per_record,
    )
    if corners is None:
        raise ValueError(
            f"calibration={calibration!r} prescribes noise on scores only; use an l1 ball or a simplex"
        )
    return *corners.prescribed(steps, formula), formula.doubts(problem.budget.neighbours)


def _oracle(problem: OfflineProblem, oracle: str) -> Oracle:
    if oracle != "gradient":
        if problem.by_entries:
            return CornerOracle(problem)
        try:
            limit = 10**7 if oracle == "vertices" else LISTED
            return VertexOracle(problem, problem.set.vertices(limit))
        except (VerticesUnavailable, NotImplementedError):
            if oracle == "vertices":
                raise
    return GradientOracle(problem)


def _within(problem: OfflineProblem, radius: float | None) -> OfflineProblem:
    """The same problem on a smaller l1 ball."""
    if radius is None:
        return problem
    if not isinstance(problem.set, L1Ball):
        raise ValueError(
            f"radius={radius!r} applies to an l1 ball only, got {problem.set!r}; pass a smaller set instead"
        )
    size = checks.number(radius, "radius", low=0.0, open_low=True, high=problem.set.radius)
    return problem.with_set(L1Ball(problem.dim, size))


def _can_shrink(problem: OfflineProblem) -> bool:
    """Whether the default rule of docs/algorithms/frank-wolfe.md applies."""
    if not (problem.by_entries and isinstance(problem.set, L1Ball)):
        return False
    return math.isfinite(_curvature(problem)) and problem.loss_at_zero > 0.0


def _default(problem: OfflineProblem, chooser: Oracle, is_free: bool) -> tuple[int, float]:
    """The number of steps and the radius with the smallest predicted excess risk; uses public numbers only.

    With ``s`` the radius relative to the set's, the prediction is ``(1 - s) zero + s^2 bend path(T) + shortfall(s, T) /
    n``, under the condition that T random vertices cost at most a given share of the loss at zero.
    """
    full = float(problem.set.radius)
    zero = problem.weight_bound * problem.loss_at_zero
    # curvature of the mean loss along one vertex; (2 size)^2 in the constant is for opposite vertices
    bend = _curvature(problem) / 4.0
    steps = np.unique(np.geomspace(1, MOST_STEPS, 80).astype(int))
    least = min(1.0, math.sqrt(2.0 * LEAST * zero / bend)) if bend > 0.0 else 1.0
    shares = np.geomspace(least, 1.0, 60) if is_free and least < 1.0 else np.ones(1)
    shares[-1] = 1.0
    choices = [
        _oracle(_within(problem, share * full), "auto") if share < 1.0 else chooser
        for share in shares
    ]
    once = np.array([choice.shortfall(1) for choice in choices])
    growth = np.array([chooser.shortfall(int(t)) for t in steps]) / chooser.shortfall(1)
    noise = once[:, None] * growth / problem.count
    s = shares[:, None]
    predicted = (1.0 - s) * zero + s**2 * bend * _path(steps) + noise
    harm = 0.5 * s**2 * bend * _spread(steps)
    if (harm <= HARM * zero).any():  # not the case for a given large ball
        predicted[harm > HARM * zero] = math.inf
    row, column = np.unravel_index(int(np.argmin(predicted)), predicted.shape)
    return int(steps[column]), float(shares[row]) * full


def _affordable(problem: OfflineProblem, steps: int | None) -> float:
    """The largest radius of at least 1 for which steps and noise cost little. Uses public numbers only.

    A larger ball contains the smaller ones, so at most the allowed share is lost relative to these.
    """
    tries = np.unique(np.geomspace(1, FEW, 40).astype(int)) if steps is None else np.array([steps])
    best = 1.0
    for size in np.geomspace(1.0, LARGEST, 33)[1:]:
        inside = problem.with_set(L1Ball(problem.dim, float(size)))
        noise = np.array([_oracle(inside, "auto").shortfall(int(t)) for t in tries]) / problem.count
        cost = np.min(_curvature(inside) / 4.0 * _path(tries) + noise)
        if cost > AFFORDABLE * problem.weight_bound * problem.loss_at_zero:
            break
        best = float(size)
    return best


def _spread(steps: Any) -> Any:
    """The sum of the squared final weights of T vertices."""
    return 2.0 * (2.0 * steps + 1.0) / (3.0 * steps * (steps + 1.0))


def _path(steps: Any) -> Any:
    """The accumulated curvature of the steps, in units of that of one vertex, for uncorrelated columns."""
    t = np.arange(1.0, float(np.max(steps)) + 1.0)
    length = np.ones(len(t))
    length[1:] += _spread(t[:-1])
    sums = np.cumsum(t / (t + 1.0) * length)
    return 2.0 * sums[np.asarray(steps) - 1] / (steps * (steps + 1.0))


def _curvature(problem: OfflineProblem) -> float:
    """Frank-Wolfe's curvature constant of the mean loss, with records clipped by norm or by entry."""
    if not problem.by_entries:
        return problem.weight_bound * float(problem.loss.curvature(problem.set))
    bound = problem.linear.feature_norm
    size = float(problem.set.norm_bound)
    bend = problem.scalar_bounds[1] * problem.weight_bound
    return float(bend * (2.0 * bound * size) ** 2 + problem.loss.ridge * (2.0 * size) ** 2)


def _steps(problem: OfflineProblem, chooser: Oracle) -> int:
    """The number of steps with the smallest ``2 curvature / (T + 1) + shortfall / n``."""
    curvature = _curvature(problem)
    if not math.isfinite(curvature):
        curvature = problem.norm * float(problem.set.diameter) * 10.0
    tries = np.unique(np.geomspace(1, MOST_STEPS, 80).astype(int)).tolist()
    return int(
        min(
            tries,
            key=lambda t: 2.0 * curvature / (t + 1.0) + chooser.shortfall(t) / problem.count,
        )
    )


def _is_incremental(problem: OfflineProblem, chooser: Oracle) -> bool:
    return (
        isinstance(problem.table, InMemory)
        and sp.issparse(problem.A)
        and problem.weights is None
        and isinstance(problem.loss, Squared)
        and isinstance(chooser, CornerOracle)
        and isinstance(problem.set, L1Ball)
    )


class _FullGradient:
    """Steps towards the oracle's answer for the gradient of all records."""

    def __init__(
        self, problem: OfflineProblem, chooser: Oracle, scale: float, record_loss: bool
    ) -> None:
        self.problem = problem
        self.chooser = chooser
        self.scale = scale
        self.record_loss = record_loss

    def step(self, run: Run, t: int) -> bool:
        problem, chooser, x = self.problem, self.chooser, run.arrays["point"]
        ridge = problem.count * problem.loss.ridge
        total = problem.gradient_sum(x)
        if isinstance(chooser, GradientOracle):
            vertex = chooser.answer(total, ridge * x, self.scale, run.source)
        else:
            vertex = chooser.choose(total + ridge * x, self.scale, run.source)
        size = 2.0 / (t + 1.0)
        return run.note(t, x + size * (vertex - x), {"step size": size}, self.seen(run, t, x))

    def seen(self, run: Run, t: int, x: FloatArray) -> dict[str, float]:
        wanted = self.record_loss and run.recorder.wants(t)
        return {"loss": self.problem.mean_loss(x)} if wanted else {}

    def finish(self, run: Run) -> FloatArray:
        return self.problem.shaped(run.arrays["point"])


class _Incremental(_FullGradient):
    """Steps over an l1 ball with a running gradient of sparse records."""

    gradient: SquaredGradient | None = None

    def step(self, run: Run, t: int) -> bool:
        assert isinstance(self.chooser, CornerOracle)
        gradient = self.gradient or self._begin(run, t - 1)
        place, sign = self.chooser.corner(gradient.scaled(), self.scale, run.source)
        gradient.add(place, sign)
        if not run.recorder.wants(t):
            return False
        x = gradient.point()
        return run.note(t, x, {"step size": 2.0 / (t + 1.0)}, self.seen(run, t, x))

    def _begin(self, run: Run, taken: int) -> SquaredGradient:
        assert isinstance(self.chooser, CornerOracle)
        problem = self.problem
        self.gradient = SquaredGradient(problem.A, problem.y, self.chooser.size, problem.loss.ridge)
        if taken:
            _restore(self.gradient, run.arrays["weights"], taken)
        return self.gradient

    def finish(self, run: Run) -> FloatArray:
        gradient = self.gradient
        assert gradient is not None
        weights = np.empty(self.problem.dim)
        weights[gradient.order] = gradient.weights
        run.arrays.update(point=gradient.point(), weights=weights)
        return super().finish(run)


def _restore(gradient: SquaredGradient, weights: FloatArray, step: int) -> None:
    gradient.weights = weights[gradient.order].copy()
    total = weighted_rows(gradient.A, np.ascontiguousarray(gradient.A @ weights))
    gradient.H = total[gradient.order] + gradient.ridge * gradient.weights
    gradient.steps = step


def _without_privacy(problem: OfflineProblem, steps: Any, radius: Any) -> SolverPlan:
    """Algorithm 5, with the duality gap of each step among the diagnostics."""
    problem = _within(problem, radius)
    count = 1000 if steps is None else checks.integer(steps, "steps", low=1)

    def step(run: Run, t: int) -> bool:
        x = run.arrays["point"]
        g = problem.gradient_sum(x) / problem.count + problem.loss.ridge * x
        vertex = np.asarray(problem.set.linear_minimizer(problem.shaped(g))).ravel()
        size = 2.0 / (t + 1.0)
        gap = float(g @ (x - vertex))
        return run.note(t, x + size * (vertex - x), {"step size": size}, {"gap": gap})

    return SolverPlan(
        problem=problem,
        step=step,
        settings={"steps": count, "oracle": "exact", "set": repr(problem.set)},
        steps=count,
        arrays={"point": np.array(problem.set.center, dtype=np.float64).ravel()},
        guarantee=lambda source: Guarantee.none("budget=None was asked for"),
        is_paid=True,
    )
