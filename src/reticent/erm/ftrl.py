"""Follow the regularised leader over the records, one after another, and average its decisions.

Algorithm 4 of *Private Optimization* and its section 6.3.2 on excess risk: regret over records drawn with replacement
is excess empirical risk. The learner is :class:`reticent.online.FollowTheRegularizedLeader`; its stream consists of the
records, in passes or by resampling, and the cost of a record that occurs several times is computed exactly. See
docs/algorithms/gradient-descent.md.

A record that occurs k times costs less than k times as much. Its total shift, in the coordinates of the independent
noise, is a sum of shifted columns, whose norm is smaller the further the occurrences are apart. Every single gradient
is still clipped to the bound of one.
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
from reticent.erm.problem import OfflineProblem, default_radius, reach
from reticent.erm.reading import bounded, need_linear_model
from reticent.erm.solver import Run, SolverPlan, solve
from reticent.noise import Source, lattice
from reticent.online import FollowTheRegularizedLeader
from reticent.privacy import Guarantee
from reticent.sums import CorrelatedMechanism, Mechanism, TreeMechanism
from reticent.sums.toeplitz_search import toeplitz
from reticent.trace import Callback

NAME = "FTRL"
ORDERS = ("passes", "resample", "given")
AVERAGES = ("uniform", "last")
_CHUNK = 4096
_MARGIN = (
    1e-3  # for what rounding adds to each of a record's visits; checked once the total is built
)


def ftrl(
    loss: Any,
    set: Any,
    X: Any,
    y: Any = None,
    *,
    budget: Any,
    passes: int = 1,
    order: str = "passes",
    regularizer: float | None = None,
    average: str = "uniform",
    record_loss: bool = False,
    seed: int | None = None,
    noise_precision: str = "lattice",
    calibration: str = "exact",
    callback: Callback | None = None,
    progress: bool = False,
) -> Fit:
    """Learn from the records one after another with a private running total of gradients.

    Parameters
    ----------
    loss : Loss
        Generalised linear loss with bounded gradients on the set.
    set : set or None
        Feasible set with a projection; None is a ball around 0 whose radius is computed from public numbers.
    X : array or CSR matrix
        Records, one per row; clipped to the loss's bounds.
    y : array, optional
        Labels.
    budget : Budget
        Privacy budget of the whole run.
    seed : int, optional
        Seed of the noise, for experiments; the guarantee says so. None uses a cryptographic generator.
    noise_precision : {"lattice", "float"}
        "lattice" rounds noisy values to a lattice, so that floating-point rounding reveals nothing; "float" is for
        simulations, and the guarantee says so. Default: "lattice".
    progress : bool
        Whether to show a progress line. Default: False.
    passes : int
        Number of passes over the data; there are ``passes * n`` steps. Default: 1.
    order : {"passes", "resample", "given"}
        "passes": every pass in the same random order. "resample": each step draws a record with replacement, as in the
        proof that regret is excess risk. "given": the records' own order in every pass. The order never depends on the
        content of the records. Default: "passes".
    regularizer : float, optional
        Coefficient of ``(1/2) ||x - center||^2`` in the *summed* loss. By default it balances movement, noise and pull.
    average : {"uniform", "last"}
        Whether the average of all decisions or the last one is returned. Default: "uniform".
    record_loss : bool
        Whether to write the average loss so far into the trace's diagnostics, which are not private. Default: False.
    calibration : str
        ``"exact"``, or the name of prescribed noise (`reticent.privacy.prescribed`), for which the guarantee reports
        the true privacy. Default: "exact".
    callback : callable, optional
        Called with a :class:`reticent.trace.Moment` every few thousand records; a true result stops the run.

    Returns
    -------
    Fit
        The decision, its guarantee and a trace.

    See Also
    --------
    reticent.online.FollowTheRegularizedLeader : The learner.


    Notes
    -----
    Gradients are added as integer multiples of the lattice step, so sums are exact and have no rounding to account for.
    The rounding of each gradient to the lattice is included in its norm.

    Examples
    --------
    >>> import numpy as np, reticent
    >>> from reticent import erm, losses, sets
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((5000, 3)) / 3
    >>> y = np.sign(X @ [2.0, -1.0, 0.0])
    >>> fit = erm.ftrl(
    ...     losses.Logistic(), sets.L2Ball(3, 5.0), X, y, budget=reticent.Budget(1.0, 1e-6), seed=0
    ... )
    >>> float(np.mean(np.sign(X @ fit.point) == y)) > 0.9
    True
    """
    return solve(
        NAME,
        partial(_plan, set=set, passes=passes, order=order, regularizer=regularizer,
                average=average, record_loss=record_loss, seed=seed, calibration=calibration),
        loss, set, X, y, budget=budget, seed=seed, noise_precision=noise_precision,
        calibration=calibration, callback=callback, progress=progress,
    )  # fmt: skip


def _plan(problem: OfflineProblem, set: Any, passes: int, order: str, regularizer: Any, average: str,
          record_loss: bool, seed: int | None, calibration: str) -> SolverPlan:  # fmt: skip
    passes = checks.integer(passes, "passes", low=1)
    checks.choice(order, "order", ORDERS)
    checks.choice(average, "average", AVERAGES)
    given = (
        None
        if regularizer is None
        else checks.number(regularizer, "regularizer", low=0.0, open_low=True)
    )
    need_linear_model(problem, NAME)
    problem = bounded(problem, set, NAME)
    if calibration != "exact" and (passes > 1 or order == "resample"):
        raise ValueError(
            f"calibration={calibration!r} prescribes noise for one pass; use passes=1 and "
            "order='passes' or 'given'"
        )
    pupil = _Pupil(problem, passes, order, given, average, record_loss, seed, calibration)
    settings = {
        "steps": len(pupil.visits),
        "order": order,
        "regularizer": pupil.weight,
        "visits of one record count as": pupil.overlap,
        "average": average,
        "set": repr(problem.set),
    }
    return SolverPlan(
        problem=problem,
        step=pupil.step,
        settings=settings,
        steps=len(pupil.visits),
        stride=_CHUNK,
        arrays={"mean": np.zeros(problem.dim)},
        finish=pupil.finish,
        guarantee=pupil.begin,
        is_paid=True,
    )


class _Pupil:
    """The learner of a run and the order in which it will see the records.

    The learner is charged when it is constructed, in ``begin``.
    """

    learner: FollowTheRegularizedLeader

    def __init__(self, problem: OfflineProblem, passes: int, order: str, given: float | None, average: str,
                 record_loss: bool, seed: int | None, calibration: str) -> None:  # fmt: skip
        self.problem = problem
        self.average = average
        self.record_loss = record_loss
        self.seeded = seed is not None
        self.calibration = calibration
        # The order does not depend on the records, so it costs nothing.
        self.source = Source(seed)
        self.visits = _visits(problem.count, passes, order, self.source)
        steps = len(self.visits)
        self.overlap = overlap_of(self.visits, problem.count, steps, problem.budget.delta > 0.0)
        self.most = int(np.bincount(self.visits, minlength=problem.count).max())
        self.room = _room(problem, self.overlap, steps)
        self.norm = problem.norm * (1.0 + self.room)
        self.widened = self.overlap * (1.0 + _MARGIN) if self.most > 1 else 1.0
        self.weight = given or _regularizer(problem, self.norm * self.widened, steps)
        self.done, self.lost = 0, 0.0

    @property
    def revisited(self) -> Mechanism:
        """The total that the learner would choose, with the sensitivity of a record that occurs several times."""
        problem = self.problem
        kind = CorrelatedMechanism if problem.noise == "gaussian" else TreeMechanism
        return kind(
            problem.dim,
            len(self.visits),
            budget=problem.budget,
            norm=self.norm,
            noise=problem.noise,
            noise_precision=problem.precision,
            sensitivity=self.widened * problem.budget.sensitivity(self.norm),
        )

    def begin(self, source: Source) -> Guarantee:
        problem = self.problem
        own = int(self.source.words(1)[0] >> np.uint64(1)) if self.seeded else None
        self.learner = FollowTheRegularizedLeader(
            problem.set,
            problem.loss,
            budget=problem.budget,
            horizon=len(self.visits),
            lipschitz=self.norm,
            regularizer=self.weight,
            seed=own,
            noise_precision=problem.precision,
            calibration=self.calibration,
            total=self.revisited if self.most > 1 else "auto",
        )
        _check_room(self.learner.total.mechanism, problem, self.room, self.overlap, self.most)
        return _guarantee(self.learner, self.most, self.overlap)

    def step(self, run: Run, t: int) -> bool:
        problem, mean = self.problem, run.arrays["mean"]
        rows = self.visits[self.done : t]
        play = self.learner.run(
            problem.A[rows], problem.y[rows], keep=len(rows), keep_records=False
        )
        mean += (play.decisions.reshape(len(rows), -1).sum(axis=0) - len(rows) * mean) / t
        self.done = t
        self.lost += play.total_loss
        return run.note(t, mean, {}, {"loss": self.lost / t} if self.record_loss else {})

    def finish(self, run: Run) -> FloatArray:
        run.recorder.settings["noise"] = self.learner.guarantee.releases[0].noise
        last = self.average == "last"
        return self.problem.shaped(
            np.array(self.learner.decision).ravel() if last else run.arrays["mean"]
        )


def _visits(count: int, passes: int, order: str, source: Source) -> Any:
    """Indices of the records in the order of their visits; a function of the generator alone."""
    if order == "given":
        return np.tile(np.arange(count), passes)
    if order == "resample":
        # 64 bits modulo the count: differs from uniform by less than count / 2^64
        return (source.words(count * passes) % np.uint64(count)).astype(np.int64)
    return np.tile(np.argsort(source.words(count), kind="stable"), passes)


def overlap_of(visits: Any, count: int, steps: int, gaussian: bool) -> float:
    """The factor by which the sensitivity of a record that occurs several times exceeds that of one occurrence.

    For correlated Gaussian noise with sensitivity coefficients c it is the norm of the sum of the columns of C at the
    record's visits, relative to that of one whole column. It is an upper bound, because every inner product of two
    columns is computed for full-length columns. For the pure tree it is the number of visits.
    """
    times = np.bincount(visits, minlength=count)
    most = int(times.max())
    if most <= 1:
        return 1.0
    if not gaussian:
        return float(most)
    c = toeplitz(horizon=steps).sensitivity_coefficients(steps)
    size = 1 << (2 * steps - 1).bit_length()
    lags = np.fft.irfft(np.abs(np.fft.rfft(c, size)) ** 2, size)[:steps]
    lags = np.maximum(lags, 0.0) + 1e-12 * lags[0]  # what the transform may have lost
    order = np.argsort(visits, kind="stable")
    owner = visits[order]
    total = lags[0] * times.astype(float)
    for gap in range(1, most):
        same = owner[gap:] == owner[:-gap]
        if not same.any():
            break
        apart = order[gap:][same] - order[:-gap][same]
        np.add.at(total, owner[gap:][same], 2.0 * lags[apart])
    return math.sqrt(float(total.max() / lags[0]))


def _regularizer(problem: OfflineProblem, norm: float, steps: int) -> float:
    """The coefficient that balances pull, movement and noise; see docs/algorithms/gradient-descent.md."""
    radius = reach(problem.set)
    if not math.isfinite(radius):
        radius = default_radius(problem, NAME)
    if problem.noise == "gaussian":
        spread = (
            problem.budget.sensitivity(norm) / problem.level * (math.log(steps) / math.pi + 1.1)
        )
    else:
        height = steps.bit_length()
        spread = problem.budget.sensitivity(norm) / problem.level * height
        spread *= math.sqrt(height * (problem.dim + 1.0) / 2.0)
    L, bend = problem.norm, problem.smoothness
    movement = 0.5 * L * math.sqrt(steps) / radius
    if not math.isfinite(bend):
        noise = spread * math.sqrt(problem.dim) * math.sqrt(steps) / radius / math.sqrt(steps)
    else:
        noise = (2.0 * steps * bend * (spread / radius) ** 2) ** (1 / 3)
    return max(movement, noise)


def _room(problem: OfflineProblem, overlap: float, steps: int) -> float:
    """The relative increase of a gradient's norm by rounding to the lattice, with a safety margin."""
    if problem.precision == "float":
        return 0.0
    moved = problem.budget.sensitivity(2.0 * overlap) * steps.bit_length()
    per_scale = lattice.STEPS if problem.noise == "gaussian" else lattice.GAMMA_STEPS
    step = max(moved / problem.level / per_scale, 2.0 * overlap * steps * 2.0**-59)
    return 4.0 * math.sqrt(problem.dim) * step + 1e-9


def _check_room(
    mechanism: Mechanism, problem: OfflineProblem, room: float, overlap: float, most: int
) -> None:
    """Check that the margins chosen in advance are sufficient for the noise."""
    if problem.precision == "float":
        return
    steps, sigma = mechanism.horizon or 1, mechanism.scale()
    needed = math.sqrt(problem.dim) * mechanism.lattice_step(sigma, steps) / problem.norm
    if needed > room:
        raise _too_coarse(problem, needed, room)
    if isinstance(mechanism, CorrelatedMechanism) and most > 1:
        # rounding can move every innovation, once for each of a record's visits
        filter_ = mechanism.parameters
        moved = mechanism.record_sensitivity / sigma
        cross = mechanism.slack(sigma) * filter_.absolute_sensitivity(steps) * (most - overlap)
        needed = cross / (overlap * moved * filter_.squared_sensitivity(steps))
        if needed > _MARGIN:
            raise _too_coarse(problem, needed, _MARGIN)


def _too_coarse(problem: OfflineProblem, needed: float, taken: float) -> ArithmeticError:
    return ArithmeticError(
        f"the lattice is too coarse for gradients of norm {problem.norm:.3g} in {problem.dim} dimensions (a margin "
        f"of {needed:.3g} is needed, {taken:.3g} was reserved); use fewer passes or a larger epsilon"
    )


def _guarantee(learner: FollowTheRegularizedLeader, most: int, overlap: float) -> Guarantee:
    made = learner.guarantee
    line = f"a record occurs up to {most} times, which multiplies its sensitivity by {overlap:.4g}"
    # Without ages: a record that occurs several times has several, and the returned point has none.
    releases = tuple(replace(r, details=(*r.details, line), ages=None) for r in made.releases)
    return replace(made, releases=releases)
