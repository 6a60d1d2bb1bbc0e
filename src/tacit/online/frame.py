"""The frame that the leaders share: see the loss, add to a private running total, turn it into a decision.

This is NOISYOCO of [bandit], section 3, with its three parts visible: a loss of `tacit.losses` (or the
user's own gradients), a running total of `tacit.sums`, and a rule of `tacit.online.rules`. Privacy is
spent by the total alone, when the learner is built; the rule reads released totals only.

The one thing a reader would get wrong: one compiled loop and one Python loop do the same arithmetic in
the same order, so a part of the user's own changes how fast a learner is, never what it plays.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tacit import _checks
from tacit.losses import GeneralizedLinear, Loss
from tacit.losses.kernels import LINEAR
from tacit.online import kernels as k
from tacit.online import records, totals
from tacit.online.base import FloatArray, OnlineLearner, check_horizon
from tacit.online.rules import Moment, Problem, Rule
from tacit.privacy import Budget, Guarantee
from tacit.sets import ConvexSet
from tacit.sets.kernels import LOCAL_KINDS
from tacit.sums import RunningTotal

_LINEAR = np.array([1.0])
_NOTHING = np.zeros(0)


class TotalLearner(OnlineLearner):
    """What all learners share that spend their privacy on one running total."""

    total: RunningTotal

    @property
    def steps(self) -> int:
        return self.total.steps

    @property
    def guarantee(self) -> Guarantee:
        return self.total.guarantee

    def _check_room(self, count: int) -> None:
        total = self.total
        if total.horizon is not None and total.steps + count > total.horizon:
            raise ValueError(
                f"{count} records do not fit: {total.horizon - total.steps} of the horizon of "
                f"{total.horizon} are left; build the learner with a larger horizon, or with none"
            )

    def _given(self) -> dict[str, Any]:
        return super()._given() | {"total": type(self.total)}


class Learner(TotalLearner):
    """A learner with a rule of your own over a private running total.

    Parameters
    ----------
    set : ConvexSet
        Where decisions live.
    rule : Rule
        Turns the noisy total into the next decision.
    loss : Loss, optional
        What records cost; without it the learner takes gradients only.
    budget : Budget
        What may be spent, for the learner's whole life; it is spent at once.
    horizon : int, optional
        How many records there may be. Without one the running total decides how long it lasts: for
        ever with a window, by epochs of doubling length without.
    lipschitz : float, optional
        Gradients of the part that depends on the record are clipped to this norm; by default the
        loss's own constant on the set, which they never exceed.
    total : str, class, callable or RunningTotal
        ``"auto"``, ``"correlated"``, ``"tree"``, ``"window-tree"``, ``"independent"``; or a class of
        `tacit.sums`, or anything called like one; or a fresh total that fits.
    seed : int, optional
        For experiments only; the guarantee says so.
    noise_precision : {"lattice", "float"}
        ``"float"`` is the fast path for simulations; the guarantee says so.

    Examples
    --------
    See `tacit.online.Rule`.
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
        total: Any = "auto",
        seed: int | None = None,
        noise_precision: str = "lattice",
    ) -> None:
        super().__init__(set, loss, budget)
        if not isinstance(rule, Rule):
            raise TypeError(f"rule must be a tacit.online.Rule, got {rule!r}")
        self.rule = rule
        self.horizon = check_horizon(horizon)
        self.lipschitz = _lipschitz(lipschitz, loss, set)
        self.noise_precision = noise_precision
        self.total = self._make_total(total, seed)
        self._begin()

    def _make_total(self, total: Any, seed: int | None) -> RunningTotal:
        if isinstance(total, _Restored):
            return total.total
        return totals.choose(
            total,
            self.dim,
            self.horizon,
            budget=self.budget,
            norm=self.lipschitz,
            seed=seed,
            noise_precision=self.noise_precision,
        )

    def _begin(self) -> None:
        ridge = 0.0 if self.loss is None else self.loss.ridge
        problem = Problem(
            self.set, self.lipschitz, ridge, _smoothness(self.loss), self.horizon, self.total.error
        )
        self.rule.prepare(problem)
        self._memory = np.zeros((k.MEMORY_ROWS, self.dim))
        self._memory[k.CENTER] = problem.center
        self._memory[k.DECISION] = self.rule.start()
        self._knobs = np.zeros(k.KNOBS)
        self._knobs[k.RIDGE] = ridge
        for place, value in self.rule.knobs().items():
            self._knobs[place] = value
        glm = isinstance(self.loss, GeneralizedLinear)
        self._knobs[k.FEATURE_NORM] = self.loss.feature_norm if glm else math.inf  # type: ignore[union-attr]
        self._seen: tuple[Any, Any] = (None, None)
        self._loss_kernel: Any = None if self.loss is None else self.loss.kernel
        self._compiled = self._kernel_of_set() is not None and self.rule.kernel is not None
        if self._compiled:
            self._set_kind, params = self._kernel_of_set()
            self._set_params = np.array(params)
        self._quick = self._compiled and self._loss_kernel is not None and self._label is not None

    def _kernel_of_set(self) -> Any:
        kernel = self.set.kernel
        if kernel is not None and self.rule.kernel != k.PROJECTION and kernel[0] not in LOCAL_KINDS:
            return None
        return kernel

    # ------------------------------------------------------------------ one step at a time

    @property
    def _point(self) -> FloatArray:
        return self._memory[k.DECISION]

    def update(self, gradient: ArrayLike | None) -> FloatArray:
        with self._lock:
            if gradient is None:
                self._observe_gap()
                return self.decision
            g = gradient
            if not (
                type(g) is np.ndarray
                and g.dtype == np.float64
                and g.shape == (self.dim,)
                and g.flags.c_contiguous
            ):
                array = _checks.real_array(gradient, "gradient")
                if array.shape == self.set.shape:
                    array = array.reshape(-1)
                g = _checks.vector(array, "gradient", self.dim)
            if not self._compiled:
                self._python_step(_checks.vector(g, "gradient", self.dim))
                return self.decision
            with self.total._lock:
                self._tune()
                fine = k.update(
                    g, self._knobs, self.rule.kernel, self._set_kind, self._set_params,
                    self.total._total, self.total._block, self.total._row, self._memory, _LINEAR,
                )  # fmt: skip
                if not fine:
                    _checks.vector(g, "gradient", self.dim)
                self._count(1)
            return self.decision

    def observe(self, loss: Any) -> FloatArray:
        # Most records come as a pair that needs no change: one compiled call, and done.
        if type(loss) is tuple and len(loss) == 2 and self._quick:
            a, y = loss
            if (
                type(a) is np.ndarray
                and a.dtype == np.float64
                and a.shape == (self.dim,)
                and a.flags.c_contiguous
                and a.flags.writeable
            ):
                label, total = self._label(y, a), self.total
                loss_kind, loss_params = self._loss_kernel
                if label is not None:
                    with self._lock, total._lock:
                        self._tune()
                        if k.observe(
                            a, label, self._knobs, self.rule.kernel, self._set_kind,
                            self._set_params, loss_kind, loss_params, total._total, total._block,
                            total._row, self._memory,
                        ):  # fmt: skip
                            self._count(1)
                            return self.decision
        return super().observe(loss)

    observe.__doc__ = OnlineLearner.observe.__doc__

    def _observe_gap(self) -> None:
        if self._compiled:
            gap = records.Chunk(np.zeros((1, self.dim)), np.zeros(1), np.ones(1, np.uint8))
            self._play_compiled(gap, 1, 1, self._memory[:0], _NOTHING)
        else:
            self._python_step(None)

    def _observe_record(self, a: FloatArray, label: float | None) -> None:
        if self._compiled and self._loss_kernel is not None:
            chunk = records.Chunk(a.reshape(1, -1), np.array([label]), records.NO_GAPS)
            self._play_compiled(chunk, 1, 1, self._memory[:0], _NOTHING)
        else:
            self._python_step(self._see(a, label))

    def _see(self, a: FloatArray, label: float | None) -> FloatArray:
        """The gradient of what depends on the record."""
        x = self._point
        if isinstance(self.loss, GeneralizedLinear):
            loss_kind, loss_params = self._loss_kernel
            return k.gradient(loss_kind, loss_params, a, label, x)
        assert self.loss is not None
        gradient = self.loss.gradient(x.copy(), a, label)
        if self.loss.ridge:
            gradient = gradient - self.loss.ridge * x
        return _checks.vector(np.reshape(gradient, -1), "the gradient of the loss", self.dim)

    def _python_step(self, gradient: FloatArray | None) -> None:
        """The frame in plain sight: the total takes the gradient in, the rule takes the total out."""
        before = self.total.clipped
        noisy = self.total.add(gradient)
        memory = self._memory
        memory[k.PLAYED] += memory[k.DECISION]
        moment = Moment(
            self.total.steps,
            noisy,
            memory[k.NOISY].copy(),
            memory[k.DECISION].copy(),
            memory[k.PLAYED].copy(),
        )
        memory[k.NOISY] = noisy
        self.clipped += self.total.clipped - before
        point = np.reshape(self.rule.step(moment), -1)
        memory[k.DECISION] = _checks.vector(point, "the rule's decision", self.dim)

    # ------------------------------------------------------------------ many steps, compiled

    def _tune(self) -> None:
        """Make noise ready, and the loop's constants agree with the total."""
        total = self.total
        total._ready()
        if total._total is not self._seen[0] or total._base is not self._seen[1]:
            self._memory[k.BASE] = total._base
            self._knobs[k.LIMIT] = total._limit
            self._knobs[k.PER_STEP] = total._per_step
            self._knobs[k.STEP] = total._noise.step
            self._seen = (total._total, total._base)

    def _count(self, rows: int) -> None:
        self.total._advance(rows)
        if self._knobs[k.CLIPPED]:
            clipped = int(self._knobs[k.CLIPPED])
            self._knobs[k.CLIPPED] = 0.0
            self.total.clipped += clipped
            self.clipped += clipped

    def _play_compiled(
        self, chunk: records.Chunk, wait: int, every: int, pages: FloatArray, losses: FloatArray
    ) -> None:
        total, count = self.total, len(chunk)
        loss_kind, loss_params = self._loss_kernel or (LINEAR, _LINEAR)
        done = written = 0
        while done < count:
            with total._lock:
                self._tune()
                row = total._row
                end = min(count, done + len(total._block) - row)
                k.play(
                    chunk.A[done:end], chunk.labels[done:end], chunk.gaps[done:end], loss_kind,
                    loss_params, self.rule.kernel, self._knobs, self._set_kind, self._set_params,
                    total._total, total._block[row:], self._memory, wait, every, pages[written:],
                    losses[done:end],
                )  # fmt: skip
                self._count(end - done)
            written += max(0, -(-(end - done - wait) // every))
            wait = (wait - (end - done)) % every
            done = end

    def _play(self, chunk: records.Chunk, wait: int, every: int, pages: FloatArray) -> FloatArray:
        losses = np.empty(len(chunk))
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
            "memory": self._memory.copy(),
            "knobs": self._knobs.copy(),
            "rule": self.rule.state(),
            "total": self.total.state(),
        }

    def _arguments(self) -> dict[str, Any]:
        """What the learner is built with again, beyond its set, loss and total."""
        return {
            "horizon": self.horizon,
            "lipschitz": self.lipschitz,
            "noise_precision": self.noise_precision,
        }

    @classmethod
    def _from_facts(
        cls, state: dict[str, Any], set: Any, loss: Any, total: Any = None, **given: Any
    ) -> Self:
        kind = totals.of_kind(state["total"]["kind"], total)
        restored = kind.from_state(state["total"])
        learner = cls(
            set=set,
            loss=loss,
            budget=restored.budget,
            total=_Restored(restored),
            **state["arguments"],
            **cls._parts(state, given),
        )
        learner._memory[...] = state["memory"]
        learner._knobs[...] = state["knobs"]
        learner.rule.restore(state["rule"])
        return learner

    @classmethod
    def _parts(cls, state: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        if "rule" not in given:
            raise ValueError("a rule is code: give it again, from_state(state, rule=...)")
        return given

    def _given(self) -> dict[str, Any]:
        return super()._given() | ({"rule": self.rule} if type(self) is Learner else {})


class _Restored:
    """A total that goes on from a state, on its way into a learner that is built again."""

    def __init__(self, total: RunningTotal) -> None:
        self.total = total


def _lipschitz(given: float | None, loss: Loss | None, set: ConvexSet) -> float:
    if given is not None:
        return _checks.number(given, "lipschitz", low=0.0, open_low=True)
    if loss is None:
        raise ValueError(
            "lipschitz must be given where there is no loss: gradients are clipped to it, and the "
            "noise is calibrated to it"
        )
    bound = loss.data_lipschitz(set)
    if not 0.0 < bound < math.inf:
        raise ValueError(
            f"the gradients of {loss!r} on {set!r} have no usable bound ({bound:g}); give lipschitz=, "
            "to which they are then clipped, or a bounded set"
        )
    return bound


def _smoothness(loss: Loss | None) -> float:
    """Of the part that depends on the record."""
    if loss is None:
        return math.inf
    return loss.data_smoothness if isinstance(loss, GeneralizedLinear) else loss.smoothness
