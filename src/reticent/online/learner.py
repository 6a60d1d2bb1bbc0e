"""The common loop of the leaders: see the loss, add to a private running total, and turn that into a decision.

This is NOISYOCO of [bandit], section 3, in three separate parts: a loss of `reticent.losses` (or the user's own
gradients), a running total of `reticent.sums`, and a rule of `reticent.online.rules`. Privacy is spent by the total
alone, when the learner is built; the rule reads only released totals.

The compiled loop and the Python loop do the same arithmetic in the same order, so a user-defined part affects only
the speed of a learner, never its decisions.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from reticent import checks
from reticent.losses import GeneralizedLinear, Loss
from reticent.losses.kernels import LINEAR
from reticent.online import kernels as k
from reticent.online import records, totals
from reticent.online.base import FloatArray, OnlineLearner, check_horizon
from reticent.online.records import NO_GAPS, Chunk
from reticent.online.rules import OnlineProblem, Released, Rule
from reticent.privacy import Budget, Guarantee, Participation
from reticent.sets import ConvexSet
from reticent.sets.kernels import LOCAL_KINDS
from reticent.state.lease import Lease
from reticent.state.persons import Persons
from reticent.sums import Mechanism, RunningTotal
from reticent.sums.running import refuse_ids
from reticent.trace.play import pages_of
from reticent.trace.summary import NoIntervals, Summary, of_noise

_FLOAT = np.dtype(np.float64)
_LINEAR = np.array([1.0])
_NOTHING = np.zeros(0)
DECISION = (
    "about the decision that the same gradients would have given without noise in their last total, before its "
    "projection onto the set; the effect of earlier noise on the gradients, and of other records, is not included"
)
"""What an interval of a decision is about."""


class TotalLearner(OnlineLearner):
    """Base class of learners that spend all their privacy on one running total.

    A step has two halves: the record enters the total, and the noisy total becomes a decision. If an error in a
    user-defined part (a rule, a projection) occurs between the two, the record has been counted but the decision has
    not been made. The learner then accepts no other record, so that the same one cannot be counted twice;
    :meth:`retry` makes the decision.
    """

    total: RunningTotal
    mechanism: Mechanism
    _unfinished = False

    def _start(self, total: Any, seed: int | None) -> None:
        """Describe the total, do everything that may be refused, and only then charge for the total and start it."""
        restored = isinstance(total, Restored)
        chosen = total.total if restored else self._choose_total(total, seed)
        self.mechanism = chosen if isinstance(chosen, Mechanism) else chosen.mechanism
        self._begin()
        self.total = RunningTotal(chosen, seed=seed) if isinstance(chosen, Mechanism) else chosen
        if not restored:
            totals.warn_of(self.total.guarantee)

    def _learn(self, A: FloatArray, labels: FloatArray) -> FloatArray:
        """Learn from dense rows that the caller has checked and clipped to the loss's bounds.

        There is room for all of them, and nothing is recorded.
        """
        assert self.total._persons is None, "records of persons go through `run`, which blanks some"
        with self.total._lock:
            self._play(Chunk(A, labels, NO_GAPS), len(A), 1, A[:0])
            return self._point.copy()

    @abstractmethod
    def _choose_total(self, total: Any, seed: int | None) -> Mechanism | RunningTotal:
        """What the user passed as ``total=``, completed with what the learner needs."""

    @abstractmethod
    def _begin(self) -> None:
        """Prepare for the first record; the mechanism is known, and nothing has been charged yet."""

    def retry(self) -> FloatArray:
        """Make the decision of a step in which an error occurred after its record had been counted.

        The record is not needed for this and must not be passed again. No privacy is spent, because the decision is
        made from the noisy total of that step.

        Returns
        -------
        array
            The decision; if no step is unfinished, the current decision.

        Examples
        --------
        >>> import reticent
        >>> from reticent import online, sets
        >>> class Late(online.Rule):
        ...     ready = False
        ...
        ...     def step(self, moment):
        ...         if not self.ready:
        ...             raise TimeoutError("the solver is still starting")
        ...         return moment.decision
        >>> learner = online.Learner(
        ...     sets.L2Ball(2), Late(), budget=reticent.Budget(1.0, 1e-6), lipschitz=1.0, horizon=9
        ... )
        >>> try:
        ...     learner.update([1.0, 0.0])
        ... except TimeoutError:
        ...     learner.rule.ready = True
        >>> learner.retry().tolist(), learner.steps
        ([0.0, 0.0], 1)
        """
        with self._lock:
            if self._unfinished:
                self.total._lease.check(self.total.steps, "learner")
                self._finish()
            return self.decision

    @abstractmethod
    def _decide(self) -> None:
        """The second half of a step. If it fails, it must not have changed anything, and is called again."""

    def _finish(self) -> None:
        try:
            self._decide()
        except BaseException as error:
            error.add_note(
                f"The record of step {self.total.steps} has been counted and must not be passed again: "
                "fix what failed, call retry() for the decision of this step, and continue with the "
                "next record."
            )
            raise
        self._unfinished = False

    def _check_finished(self) -> None:
        if self._unfinished:
            self.total._lease.check(self.total.steps, "learner")
            raise RuntimeError(
                f"step {self.total.steps} ended in an error after its record had entered the total, so passing "
                "that record again would count it twice. Fix what failed, call retry() for "
                "the decision of that step, and continue with the next record"
            )

    @property
    def steps(self) -> int:
        return self.total.steps

    @property
    def guarantee(self) -> Guarantee:
        return self.total.guarantee

    @property
    def _persons(self) -> Persons | None:
        return self.total._persons

    @property
    def _lease(self) -> Lease:
        return self.total._lease

    def _check_room(self, count: int) -> None:
        total = self.total
        if total.horizon is not None and total.steps + count > total.horizon:
            raise ValueError(
                f"{count} records do not fit: {total.horizon - total.steps} of the horizon of "
                f"{total.horizon} are left; build the learner with a larger horizon, or without one"
            )

    def _given(self) -> dict[str, Any]:
        return super()._given() | {"total": type(self.total.mechanism)}


class Learner(TotalLearner):
    """A learner with a user-defined rule over a private running total.

    Parameters
    ----------
    set : ConvexSet
        The set of decisions.
    rule : Rule
        Turns the noisy total into the next decision.
    loss : Loss, optional
        The loss of a record; without it the learner accepts gradients only.
    budget : Budget
        What may be spent in the learner's whole life. All of it is spent when the learner is built.
    horizon : int, optional
        Upper bound on the number of records. By default there is none; the running total may set one.
    lipschitz : float, optional
        Norm to which gradients of the part that depends on the record are clipped; by default the loss's own constant
        on the set, which they never exceed.
    participation : Participation, optional
        How often a person may contribute (`reticent.privacy.Participation`). All of a person's records are then
        protected together, records are given with ``person=``, and those beyond the limit count as null records. By
        default single records are protected.
    total : str, Mechanism, class, callable or RunningTotal
        The running total that carries the noise: ``"auto"`` (the default), ``"correlated"``, ``"tree"``,
        ``"window-tree"`` or ``"independent"``; a description of `reticent.sums` for the same dimension, norm and
        budget, or the class of one; a fresh running total like that; or a function that makes one.
    seed : int, optional
        Seed of the noise, for experiments only; the guarantee says so.
    noise_precision : {"lattice", "float"}
        ``"float"`` is faster but for simulations only; the guarantee says so.

    See Also
    --------
    Rule : Base class of rules, with an example.
    """

    def __init__(
        self,
        set: ConvexSet,
        rule: Rule,
        loss: Loss | None = None,
        *,
        budget: Budget,
        horizon: int | None = None,
        lipschitz: float | None = None,
        participation: Participation | None = None,
        total: Any = "auto",
        seed: int | None = None,
        noise_precision: str = "lattice",
    ) -> None:
        super().__init__(set, loss, budget)
        if not isinstance(rule, Rule):
            raise TypeError(f"rule must be a reticent.online.Rule, got {rule!r}")
        self.rule = rule
        self.horizon = check_horizon(horizon)
        self.lipschitz = _lipschitz(lipschitz, loss, set)
        self.participation = participation
        self.noise_precision = noise_precision
        self._start(total, seed)

    def _choose_total(self, total: Any, seed: int | None) -> Mechanism | RunningTotal:
        return totals.choose(total, **self._for_total(seed))

    def _for_total(self, seed: int | None) -> dict[str, Any]:
        """The arguments for any running total of this learner."""
        return {
            "dim": self.dim,
            "horizon": self.horizon,
            "budget": self.budget,
            "norm": self.lipschitz,
            "seed": seed,
            "noise_precision": self.noise_precision,
        } | ({} if self.participation is None else {"participation": self.participation})

    def _begin(self) -> None:
        ridge = 0.0 if self.loss is None else self.loss.ridge
        problem = OnlineProblem(
            self.set,
            self.lipschitz,
            ridge,
            _smoothness(self.loss),
            self.horizon,
            self.mechanism.error,
            _steepness(self.loss, self.set, self.lipschitz),
        )
        self.rule.prepare(problem)
        self._memory = np.zeros((k.MEMORY_ROWS, self.dim))
        self._memory[k.CENTER] = problem.center
        self._memory[k.DECISION] = self.rule.start()
        self._x = self._memory[k.DECISION]
        kernel = self._kernel_of_set()
        self._compiled = kernel is not None and self.rule.is_compiled()
        set_kind, params = kernel if self._compiled else (-1, ())
        self._kinds: Any = (self.rule.kernel, set_kind)
        self._knobs = np.zeros(k.KNOBS + len(params))
        self._set_params = self._knobs[k.KNOBS :] = np.array(params, np.float64)
        self._knobs[k.ONE] = 1.0
        self._knobs[k.RIDGE] = ridge
        for place, value in self.rule.knobs().items():
            self._knobs[place] = value
        glm = isinstance(self.loss, GeneralizedLinear)
        self._knobs[k.FEATURE_NORM] = self.loss.feature_norm if glm else math.inf  # type: ignore[union-attr]
        self._tuned_to: Any = None
        self._loss_kernel: Any = None if self.loss is None else self.loss.kernel
        self._quick = self._compiled and self._loss_kernel is not None and self._label is not None
        self._loss_params: FloatArray
        self._loss_kind, self._loss_params = self._loss_kernel or (LINEAR, _LINEAR)
        if self._compiled:  # kept, because looking them up takes a twentieth of a step
            self._update_kernel = k.update(*self._kinds)
            self._observe_kernel = k.observe(*self._kinds, self._loss_kind)

    def decision_error(self, t: int | None = None) -> float:
        """Standard deviation of one coordinate of the noise in a decision, given earlier gradients and decisions.

        The decision is a linear function of one released total, projected onto the set; this is the error of that
        total times the factor by which it moves the decision. For averaged totals it is an upper bound: the
        contributions of all totals are added as if they had the same noise.

        Parameters
        ----------
        t : int, optional
            Number of records before the decision; by default all so far.

        Raises
        ------
        reticent.trace.NoIntervals
            The decision of this rule is not such a function.
        """
        t = checks.integer(self.steps if t is None else t, "t", low=0)
        gain = self.rule.gain(t) if t else 0.0
        if gain is None:
            raise NoIntervals(
                f"the decision of {type(self.rule).__name__} is not a linear function of the total, so the error of "
                "its noise is not known; use a learner with step='projection', or call total.summary()"
            )
        moved = np.atleast_1d(gain)
        return float(
            sum(part * self.mechanism.error(t - ago) for ago, part in enumerate(moved) if t)
        )

    def summary(self, level: float = 0.95, names: Sequence[str] | None = None) -> Summary:
        """The last decision, with the standard error due to the noise and intervals.

        It is computed from what was released and spends nothing. It contains no sampling error, because for a
        decision that is made while records come it is not known what other records would have changed.

        Parameters
        ----------
        level : float
            Confidence level of the intervals.
        names : sequence of str, optional
            Names of the coordinates; by default x0, x1, ...

        Returns
        -------
        Summary
            The decision with its errors and intervals.
        """
        return self._ending()(level, names)

    def _ending(self) -> Callable[[float, Sequence[str] | None], Summary]:
        with self._lock:
            point, t = self._point.copy(), self.steps

        def told(level: float, names: Sequence[str] | None) -> Summary:
            return of_noise(
                point,
                self.decision_error(t),
                names,
                level,
                DECISION,
                self.guarantee,
                self.mechanism.noise == "gaussian",
            )

        return told

    def _kernel_of_set(self) -> Any:
        kernel = self.set.kernel
        is_local = self.rule.kernel in (k.LOCAL_LINEAR, k.LOCAL_LINEAR_FIXED)
        if kernel is not None and is_local and kernel[0] not in LOCAL_KINDS:
            return None
        return kernel

    # ------------------------------------------------------------------ one step at a time

    @property
    def _point(self) -> FloatArray:
        return self._x

    def _once(self, kernel: Any, *what: Any) -> tuple[int, FloatArray]:
        """Take one step by a compiled kernel; return the kernel's code, and the decision.

        The lowest bit of the code says whether the gradient was clipped. A negative code means that the kernel
        refused and changed nothing.
        """
        with self.total._lock:
            return self._once_held(kernel, *what)

    def _once_held(self, kernel: Any, *what: Any) -> tuple[int, FloatArray]:
        total = self.total
        total._ready()
        if total._block is not self._tuned_to:
            self._tune()
        row = total._row
        total._advance(1)
        code = kernel(*what, self._knobs, total._total, total._block, row, self._memory)
        if code < 0:
            total._advance(-1)
        elif code & 1:
            total.clipped += 1
            self.clipped += 1
        return code, self._x.copy()

    def _plain(self, vector: Any) -> bool:
        """Whether a kernel can take this vector as it is."""
        return (
            type(vector) is np.ndarray
            and vector.dtype is _FLOAT
            and vector.shape == (self.dim,)
            and vector.flags.carray
        )

    def update(self, gradient: ArrayLike | None, person: Any = None) -> FloatArray:
        if gradient is None:
            return self.observe(None)
        g: Any = gradient
        if not self._plain(g):
            array = checks.real_array(gradient, "gradient")
            if array.shape == self.set.shape:
                array = array.reshape(-1)
            g = np.require(checks.vector(array, "gradient", self.dim), requirements=("C", "A", "W"))
        if self._persons is not None:
            checks.vector(g, "gradient", self.dim)
            with self._lock:
                self._check_room(1)
                if self._counts(person):
                    self._take_gradient(g)
                else:
                    self._observe_gap()
                return self.decision
        refuse_ids(None, person)
        if self._compiled:
            code, decision = self._once(self._update_kernel, g)
            if code < 0:
                checks.vector(g, "gradient", self.dim)
            return decision if self._flat else decision.reshape(self.set.shape)
        checks.vector(g, "gradient", self.dim)
        with self._lock:
            self._python_step(g)
            return self.decision

    def _take_gradient(self, g: FloatArray) -> None:
        """`update`, for callers that hold the lock already."""
        if not self._compiled:
            self._python_step(g)
        elif self._once_held(self._update_kernel, g)[0] < 0:
            raise ValueError("gradient must be finite and must not change while it is added")

    def observe(self, loss: Any, person: Any = None) -> FloatArray:
        # Most records are a pair that needs no change, for which one compiled call is enough.
        if (
            type(loss) is tuple
            and len(loss) == 2
            and self._quick
            and person is None
            and self._persons is None
        ):
            a, y = loss
            if self._plain(a):
                label = self._label(y, a)
                if label is not None:
                    code, decision = self._once(self._observe_kernel, a, label, self._loss_params)
                    if code >= 0:
                        return decision if self._flat else decision.reshape(self.set.shape)
        return super().observe(loss, person)

    observe.__doc__ = OnlineLearner.observe.__doc__

    def _observe_gap(self) -> None:
        if self._compiled:
            self._play_compiled(records.gap(self.dim), 1, 1, self._memory[:0], _NOTHING)
        else:
            self._python_step(None)

    def _observe_record(self, a: FloatArray, label: float | None) -> None:
        if self._compiled and self._loss_kernel is not None:
            self._play_compiled(records.one(a, label), 1, 1, self._memory[:0], _NOTHING)
        else:
            self._python_step(self._see(a, label))

    def _see(self, a: FloatArray, label: float | None) -> FloatArray:
        """The gradient of the part of the loss that depends on the record."""
        x = self._point
        if isinstance(self.loss, GeneralizedLinear):
            return k.gradient(self._loss_kind)(self._loss_params, a, label, x)
        assert self.loss is not None
        gradient = self.loss.gradient(x.copy(), a, label)
        if self.loss.ridge:
            gradient = gradient - self.loss.ridge * x
        return checks.vector(np.reshape(gradient, -1), "the gradient of the loss", self.dim)

    def _python_step(self, gradient: FloatArray | None) -> None:
        """The loop's body in Python.

        The gradient enters the total, and the rule turns the noisy total into a decision.
        """
        self._check_finished()
        total = self.total
        steps, before = total.steps, total.clipped
        self._unfinished = True  # an error or an interrupt may find the record in the total
        try:
            total._add(gradient)
        finally:
            self._unfinished = total.steps != steps
        self.clipped += total.clipped - before
        self._finish()

    def _decide(self) -> None:
        memory, noisy = self._memory, self.total._released()
        played = memory[k.PLAYED] + memory[k.DECISION]
        moment = Released(
            self.total.steps,
            noisy.copy(),
            memory[k.NOISY].copy(),
            memory[k.DECISION].copy(),
            played.copy(),
        )
        point = np.reshape(self.rule.step(moment), -1)
        point = checks.vector(point, "the rule's decision", self.dim)
        memory[k.PLAYED], memory[k.NOISY], memory[k.DECISION] = played, noisy, point

    # ------------------------------------------------------------------ many steps, compiled

    def _tune(self) -> None:
        """Copy the loop's constants from the total, which has begun a new block of noise."""
        total = self.total
        self._memory[k.BASE] = total._base
        self._knobs[k.LIMIT] = total._limit
        self._knobs[k.PER_STEP] = total._per_step
        self._knobs[k.STEP] = total._noise.step
        self._tuned_to = total._block

    def _play_compiled(
        self, chunk: records.Chunk, wait: int, every: int, pages: FloatArray, losses: FloatArray
    ) -> None:
        total, count = self.total, len(chunk.A)
        play = k.play(*self._kinds, self._loss_kind)
        done = written = 0
        while done < count:
            end = min(count, done + total._ready())
            if total._block is not self._tuned_to:
                self._tune()
            row = total._row
            total._advance(end - done)
            play(
                chunk.A[done:end], chunk.labels[done:end], chunk.gaps[done:end],
                self._loss_params, self._knobs, self._set_params, total._total,
                total._block[row:], self._memory, wait, every, pages[written:], losses[done:end],
            )  # fmt: skip
            clipped = int(self._knobs[k.CLIPPED])
            self._knobs[k.CLIPPED] = 0.0
            total.clipped += clipped
            self.clipped += clipped
            if len(pages):
                turned, wait = pages_of(end - done, wait, every)
                written += turned
            done = end

    def _play(self, chunk: records.Chunk, wait: int, every: int, pages: FloatArray) -> FloatArray:
        losses = np.empty(len(chunk.A))
        if self._compiled and self._loss_kernel is not None:
            self._play_compiled(chunk, wait, every, pages, losses)
            return losses
        assert self.loss is not None
        written = 0
        for r in range(len(chunk)):
            if wait == 0:
                pages[written] = self._point
                written, wait = written + 1, every
            wait -= 1
            if chunk.gaps.size and chunk.gaps[r]:
                losses[r] = 0.0
                self._python_step(None)
                continue
            a, label = chunk.A[r], None if chunk.labels is None else chunk.labels[r]
            losses[r] = self.loss.value(self._point.copy(), a, label)
            self._python_step(self._see(a, label))
        return losses

    # ------------------------------------------------------------------ saved states

    def _facts(self) -> dict[str, Any]:
        return {
            "arguments": self._arguments(),
            "memory": self._memory[: k.WORK].copy(),
            "knobs": self._knobs[: k.KNOBS].copy(),
            "rule": self.rule.state(),
            "unfinished": self._unfinished,
            "total": self.total._facts(),
        }

    def _arguments(self) -> dict[str, Any]:
        """The arguments with which the learner is built again, apart from its set, loss and total."""
        return {
            "horizon": self.horizon,
            "lipschitz": self.lipschitz,
            "noise_precision": self.noise_precision,
        }

    @classmethod
    def _from_facts(
        cls, state: dict[str, Any], set: Any, loss: Any, total: Any = None, **given: Any
    ) -> Self:
        restored = totals.restore(state["total"], total)
        learner = cls(
            set=set,
            loss=loss,
            budget=restored.budget,
            total=Restored(restored),
            participation=restored.mechanism.participation,
            **state["arguments"],
            **cls._parts(state, given),
        )
        learner._memory[: k.WORK] = state["memory"][: k.WORK]
        # Records are clipped to the loss's own bound, so a wrong one in the state must not replace it.
        longest = learner._knobs[k.FEATURE_NORM]
        learner._knobs[: k.KNOBS] = state["knobs"]
        learner._knobs[k.FEATURE_NORM] = longest
        learner.rule.restore(state["rule"])
        learner._unfinished = bool(state.get("unfinished", False))
        return learner

    @classmethod
    def _parts(cls, state: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        if "rule" not in given:
            raise ValueError(
                "rule is missing: a state contains no code, so pass it again, from_state(state, rule=...)"
            )
        return given

    def _given(self) -> dict[str, Any]:
        return super()._given() | ({"rule": self.rule} if type(self) is Learner else {})


class Restored:
    """A total that continues from a state, for a learner that is built again."""

    def __init__(self, total: RunningTotal) -> None:
        self.total = total


def _lipschitz(given: float | None, loss: Loss | None, set: ConvexSet) -> float:
    if given is not None:
        return checks.positive(given, "lipschitz")
    if loss is None:
        raise ValueError(
            "lipschitz must be set if there is no loss, because gradients are clipped to it and the "
            "noise is calibrated to it"
        )
    bound = loss.data_lipschitz(set)
    if not 0.0 < bound < math.inf:
        raise ValueError(
            f"the gradients of {loss!r} on {set!r} have no usable bound ({bound:g}); set lipschitz=, "
            "to which they are then clipped, or use a bounded set"
        )
    return bound


def _steepness(loss: Loss | None, set: ConvexSet, lipschitz: float) -> float:
    bound = math.inf if loss is None else loss.data_lipschitz(set)
    return bound if bound < math.inf else lipschitz


def _smoothness(loss: Loss | None) -> float:
    """Smoothness of the part of the loss that depends on the record."""
    if loss is None:
        return math.inf
    if isinstance(loss, GeneralizedLinear):
        return loss.data_smoothness
    return max(0.0, loss.smoothness - loss.ridge)
