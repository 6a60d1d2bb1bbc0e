"""How every offline solver runs: read the records, plan, state the guarantee, charge, run.

A solver supplies a plan, which states from public numbers what will be released and how a step is taken. Noise is drawn
through a :class:`Run`, and :func:`solve` creates one only after the whole plan has been charged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reticent.checks import FloatArray
from reticent.erm.fit import Fit
from reticent.erm.pause import Pause, take_up, terms
from reticent.erm.problem import OfflineProblem
from reticent.erm.reading import read
from reticent.noise import Source
from reticent.noise.release import noisy
from reticent.privacy import Gaussian, Guarantee, Pure, Release, charge
from reticent.solve.blocks import InMemory, Records, confirm
from reticent.state import current_run
from reticent.trace import Callback, Recorder

_rehearsing: ContextVar[bool] = ContextVar("rehearsing", default=False)


def is_rehearsal() -> bool:
    """Whether solvers only state their cost."""
    return _rehearsing.get()


@contextlib.contextmanager
def rehearsing() -> Iterator[None]:
    """Within this block a fit ends with :class:`Rehearsed` where it would be charged: nothing is drawn or computed."""
    token = _rehearsing.set(True)
    try:
        yield
    finally:
        _rehearsing.reset(token)


class Rehearsed(Exception):
    """Raised by a fit inside :func:`rehearsing`; says what the fit would cost.

    Parameters
    ----------
    guarantee : callable
        Returns the guarantee that the fit would have.
    plan : SolverPlan, optional
        The solver's plan, if it is the solver that would be charged.
    """

    def __init__(self, guarantee: Callable[[], Guarantee], plan: SolverPlan | None = None) -> None:
        super().__init__("this was a rehearsal: nothing was fitted")
        self.guarantee = guarantee
        self.plan = plan


class Allowance:
    """The noisy vectors that a plan's releases pay for: how many, and the least scale of their noise.

    It is known if every release is a vector with Gaussian or Gamma noise, as `OfflineProblem.release` makes them.
    Otherwise every draw is allowed.

    Parameters
    ----------
    releases : iterable of Release
        What the plan releases.
    """

    def __init__(self, releases: Iterable[Release]) -> None:
        self._left: list[list[float]] | None = []
        for release in releases:
            curve = release.curve
            level = curve.mu if isinstance(curve, Gaussian) else curve.pure
            # the subclasses of Pure are other releases than vectors
            if type(curve) not in (Gaussian, Pure) or release.sensitivity is None or not level:
                self._left = None
                return
            self._left.append([release.sensitivity / level, release.count])
        self._left.sort(reverse=True)  # so that little noise remains for the draws that need it

    def take(self, scale: float) -> None:
        """Use one draw of this scale; raises if no release pays for it."""
        if self._left is None:
            return
        for entry in self._left:
            if entry[1] > 0 and scale >= entry[0] * (1.0 - 1e-9):
                entry[1] -= 1
                return
        stated = "; ".join(f"{count:g} left of scale {least:.6g}" for least, count in self._left)
        raise RuntimeError(
            f"a step asks for noise of scale {scale:.6g}, for which the plan's releases do not pay ({stated}); state "
            "every draw in releases=, with its scale, and with count= the number of draws. The budget was charged; "
            "this draw was not made"
        )


@dataclass
class Run:
    """A charged plan while it runs.

    Attributes
    ----------
    problem : OfflineProblem
        The problem that is solved.
    source : Source
        Generator of the noise.
    recorder : Recorder
        Records the run.
    arrays : dict
        What a stopped run needs to continue; ``"point"`` is the point noted last.
    released : dict
        What was released in addition to the point.
    allowance : Allowance
        The noisy vectors that the releases pay for.
    """

    problem: OfflineProblem
    source: Source
    recorder: Recorder
    arrays: dict[str, np.ndarray]
    allowance: Allowance
    released: dict[str, Any] = field(default_factory=dict)

    def noisy(self, vector: FloatArray, scale: float) -> FloatArray:
        """The vector with noise of the kind that the budget allows."""
        problem = self.problem
        self.allowance.take(scale)
        return noisy(vector, scale, self.source, noise=problem.noise, precision=problem.precision)

    def note(self, step: int, point: FloatArray, *numbers: Mapping[str, float]) -> bool:
        """Record one step; True if the callback asks to stop.

        The first mapping holds numbers that the guarantee covers, the second one diagnostics that read the records.
        """
        self.arrays["point"] = point
        return self.recorder.note(step, point, *numbers)


def _last_point(run: Run) -> FloatArray:
    return run.problem.shaped(run.arrays["point"])


@dataclass(frozen=True, kw_only=True)
class SolverPlan:
    """What a solver has decided from public numbers only.

    Parameters
    ----------
    problem : OfflineProblem
        The problem that is solved, on the set chosen for it.
    step : callable
        ``step(run, t)`` takes the steps up to number t and notes the last one; True stops the run.
    releases : iterable of Release
        What all steps together release.
    settings : mapping
        Settings for the trace.
    steps : int
        Number of steps. Default: 1.
    stride : int
        Number of steps that one call of ``step`` takes. Default: 1.
    arrays : mapping
        Initial arrays of a run.
    finish : callable
        ``finish(run)`` returns the final point; by default the one noted last.
    caveats : tuple of str
        Caveats of the guarantee.
    identity : mapping, optional
        What a run must have in common with the one that it continues; without it no run can be continued.
    then : callable, optional
        ``then(run)`` is the plan of a second stage, paid for by the releases of this one. It may depend on what it
        draws.
    guarantee : callable, optional
        ``guarantee(source)`` replaces the guarantee of the releases.
    is_paid : bool
        Whether that guarantee needs no charge, because a learner charges itself when it is constructed, or because
        nothing is private. Default: False.
    """

    problem: OfflineProblem
    step: Callable[[Run, int], bool | None] | None = None
    releases: Iterable[Release] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    steps: int = 1
    stride: int = 1
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    finish: Callable[[Run], FloatArray] = _last_point
    caveats: tuple[str, ...] = ()
    identity: Mapping[str, Any] | None = None
    then: Callable[[Run], SolverPlan] | None = None
    guarantee: Callable[[Source], Guarantee] | None = None
    is_paid: bool = False

    def __post_init__(self) -> None:
        if self.is_paid and self.guarantee is None:
            raise ValueError("is_paid=True needs guarantee=; leave is_paid out")
        object.__setattr__(self, "releases", tuple(self.releases))

    def guarantee_for(self, source: Source, calibration: str) -> Guarantee:
        """The guarantee of a run with this source of noise."""
        if self.guarantee is not None:
            return self.guarantee(source)
        return self.problem.guarantee(
            self.releases, source, calibration=calibration, caveats=self.caveats
        )

    def recorder(self, solver: str, callback: Callback | None, progress: bool) -> Recorder:
        made = Recorder(
            solver, steps=self.steps, settings=self.settings, callback=callback, progress=progress
        )
        made.facts["clipped"] = str(self.problem.clipped)
        return made


def solve(
    solver: str,
    planned: Callable[[OfflineProblem], SolverPlan],
    loss: Any,
    set: Any,
    X: Any,
    y: Any,
    *,
    budget: Any,
    seed: int | None = None,
    noise_precision: str = "lattice",
    calibration: str = "exact",
    callback: Callback | None = None,
    progress: bool = False,
    resume: Any = None,
    by_passes: bool = False,
    **reading: Any,
) -> Fit:
    """Read the records, plan, state the guarantee, charge, and only then run.

    Parameters
    ----------
    solver : str
        Name of the solver, for ledgers and traces.
    planned : callable
        Returns the plan for a problem, or raises if the solver cannot solve it.
    loss : Loss
        Loss to minimise.
    set : set or None
        Feasible set; None is the whole space, for which a plan may choose a set.
    X : array or CSR matrix
        Records; clipped to the loss's bounds.
    y : array or None
        Labels.
    budget : Budget
        Privacy budget of all releases together.
    noise_precision : {"lattice", "float"}
        Where noisy values lie; "float" is for simulations. Default: "lattice".
    calibration : str
        With ``"exact"`` a guarantee that exceeds the budget is refused; other names are those of prescribed noise
        (`reticent.privacy.prescribed`). Default: "exact".
    **reading
        Further arguments of :func:`reticent.erm.reading.read`: weights, and how records are clipped.
    seed : int, optional
        Seed of the noise; None uses a cryptographic generator.
    callback : callable, optional
        Called with every noted step; may stop the run.
    progress : bool
        Whether to show a progress line. Default: False.
    resume : Fit or dict, optional
        A stopped run of the same plan; nothing more is charged.
    by_passes : bool
        Whether the solver works by passes over the records, which then need not be in memory. Default: False.

    Returns
    -------
    Fit
        The result.
    """
    if not by_passes:
        _need_memory(solver, X)
    problem = read(
        loss, set, X, y, budget, noise_precision=noise_precision, calibration=calibration, **reading
    )
    plan = planned(problem)
    file = current_run()
    # Errors in the callback or in the run to continue are found here, before anything is spent.
    _check_plan(solver, plan, resume)
    if file is not None:
        _check_resumable(solver, plan, X, callback=callback, resume=resume)
    if _rehearsing.get():
        here = copy_context()  # with the remarks that belong to the guarantee
        raise Rehearsed(lambda: here.run(plan.guarantee_for, Source(seed), calibration), plan)
    recorder = plan.recorder(solver, callback, progress)
    source = Source(seed)
    guarantee = plan.guarantee_for(source, calibration)
    if file is not None:
        source, over = file.begin(_fixed(solver, plan, X, seed, guarantee), source)
        if over is not None:
            return Fit(over["point"], guarantee, recorder.close(), None, over["released"])
        charge(guarantee, f"{solver}, run {file.name}", once=True)
    elif resume is None and not plan.is_paid:
        charge(guarantee, solver)  # a run that continues was charged when it began
    pause = None if plan.identity is None else _pause(solver, plan, plan.identity, source, resume)
    arrays = plan.arrays
    if pause is not None:
        source, arrays = pause.source, pause.arrays
    # also for a second stage, which is part of what was charged
    allowance = Allowance(plan.releases)
    run = Run(
        plan.problem, source, recorder, {name: a.copy() for name, a in arrays.items()}, allowance
    )
    if plan.then is not None:
        plan = plan.then(run)
        run = Run(
            plan.problem,
            source,
            plan.recorder(solver, callback, progress),
            dict(plan.arrays),
            allowance,
        )
    step = _take_steps(plan, run, pause)
    point = plan.finish(run)
    confirm(X)
    if file is not None:
        file.finish({"point": point, "released": run.released})
    rest = None
    if pause is not None:
        if step < plan.steps:
            rest = Pause(solver, pause.plan, step, run.arrays, source, pause.lease)
        pause.lease.furthest = step
    return Fit(point, guarantee, run.recorder.close(), rest, run.released)


def _need_memory(solver: str, X: Any) -> None:
    if isinstance(X, Records) and not isinstance(X, InMemory):
        raise TypeError(
            f"{solver} needs all records in memory at once; use a solver that goes by passes: objective "
            "perturbation, output perturbation, gradient descent without sampling, or sufficient statistics"
        )


def _check_plan(solver: str, plan: SolverPlan, resume: Any) -> None:
    if not plan.releases and plan.guarantee is None:
        raise ValueError(
            f"the plan of {solver} states no releases, so its guarantee would be epsilon = 0; list in releases= "
            "everything that its steps release"
        )
    if resume is not None and plan.identity is None:
        raise ValueError(f"a run of {solver} cannot be continued; leave resume out")


def _check_resumable(solver: str, plan: SolverPlan, X: Any, **shown: Any) -> None:
    """Refuse a fit that could not be continued after it was killed."""
    if getattr(X, "identity", None) is None:
        raise ValueError(
            "a resumable fit needs a table in files (from reticent.tables.open), on a cluster or on a device; of "
            "other records it cannot be checked that they are the same after a restart"
        )
    if plan.is_paid:
        raise ValueError(
            f"{solver} charges its budget itself and cannot be continued after a kill; run it outside resumable(), or "
            "use another solver"
        )
    if any(given is not None for given in shown.values()):
        raise ValueError(
            f"a resumable {solver} shows nothing before its result is safe; leave out {' and '.join(shown)}"
        )


def _fixed(
    solver: str, plan: SolverPlan, X: Any, seed: int | None, guarantee: Guarantee
) -> dict[str, Any]:
    """What identifies a fit that may be killed and restarted, as plain data."""
    return {
        "solver": solver,
        "records": X.identity,
        "settings": {name: str(value) for name, value in plan.settings.items()},
        # the key stays, so that runs stopped by an earlier version can be continued
        "promise": guarantee.to_dict() | {"seed": seed},
        **terms(plan.problem),
    }


def _pause(
    solver: str, plan: SolverPlan, identity: Mapping[str, Any], source: Source, resume: Any
) -> Pause:
    """The state from which a run that can be stopped starts: its beginning, or where another one was stopped."""
    whole = {**identity, **terms(plan.problem)}
    if resume is not None:
        return take_up(resume, solver, whole)
    return Pause(solver, whole, 0, dict(plan.arrays), source)


def _take_steps(plan: SolverPlan, run: Run, pause: Pause | None) -> int:
    """Take the remaining steps of a run; returns the number of the last step."""
    assert plan.step is not None
    step = 0 if pause is None else pause.step
    stop: bool | None = False
    with run.recorder:
        while step < plan.steps and not stop:
            step = min(step + plan.stride, plan.steps)
            if pause is not None:  # a saved run must not contain the key of earlier draws
                pause.turn(step)
            stop = plan.step(run, step)
    return step
