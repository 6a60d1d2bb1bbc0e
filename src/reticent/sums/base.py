"""What every private running total is: an exact total of clipped contributions, plus a noise process.

The noise never depends on the data, so a mechanism is fully described by how it makes its noise;
everything else (clipping, the lattice, chunks, saved states, epochs, expiry) is here, once. A
mechanism is a subclass that gives a :class:`Process` for a number of steps. See
docs/algorithms/running-totals.md.

Noise is drawn in blocks ahead of its use, and each block is an interval of the source, with a key of
its own. A saved state holds that key, what the process remembered when the block began, and how much
of the block is used; the block is drawn again from these. Earlier blocks cannot be: their keys are
gone (docs/saved-states.md).
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent import _checks
from reticent.noise import door, lattice
from reticent.noise.source import Source
from reticent.privacy import Budget, Guarantee, charge, uncharged
from reticent.privacy.budget import OLDEST
from reticent.state.files import check_kind
from reticent.state.lease import Lease, claim
from reticent.sums import kernels
from reticent.sums.process import Process

_BLOCK = 65536  # numbers of noise drawn at a time: some 512 kB, which stays in a core's second-level cache
_EXACT = 2.0**60  # a total kept in whole steps stays below this
_CARRIED = 2.0**50  # and one whose high part is carried away between blocks below this
_CARRY = 32  # bits that stay
_FIRST_EPOCH = 256
_STATE_VERSION = 3


class RunningTotal(ABC):
    """Base of the private running totals; see the subclasses for what each is good for.

    Parameters
    ----------
    dim : int
        Length of a contribution.
    horizon : int or None
        How many contributions there may be. ``None``: no limit that matters (2^40), or none at all
        where promises end or fade.
    budget : Budget
        What may be spent, on the whole stream.
    norm : float
        Longer contributions are scaled down to this Euclidean norm; how many were is counted in
        ``clipped``.
    seed : int or None
        ``None`` is a cryptographic generator. A seed is for experiments, and the guarantee says so.
    noise_precision : {"lattice", "float"}
        ``"float"`` is the fast path for simulations; its low-order bits leak, and the guarantee
        says so.
    """

    _forgets: ClassVar[bool] = False  # whether the mechanism can make use of a window
    _fades: ClassVar[bool] = False  # and of a promise that fades
    _expires: ClassVar[bool] = False  # whether nothing at all is promised after the window

    def __init__(
        self,
        dim: int,
        horizon: int | None,
        *,
        budget: Budget,
        norm: float,
        noise: str,
        seed: int | None,
        noise_precision: str,
    ) -> None:
        self.dim = _checks.integer(dim, "dim", low=1)
        self.horizon = None if horizon is None else _checks.integer(horizon, "horizon", low=1)
        if not isinstance(budget, Budget):
            raise TypeError(f"budget must be a reticent.Budget, got {budget!r}")
        self.budget = budget
        # far from where a square, or a lattice step, is beyond what a double can hold
        self.norm = _checks.number(norm, "norm", low=1e-100, high=1e100)
        self.noise = noise
        self.noise_precision = _checks.choice(
            noise_precision, "noise_precision", ("lattice", "float")
        )
        self._check_budget()
        self._source = Source(seed)
        self._guarantee = self._promise()
        charge(self._guarantee, f"{type(self).__name__} of dimension {self.dim}")
        self._lease = Lease()
        self._begin()

    # What a mechanism provides
    # -------------------------------------------------------------------------------

    @abstractmethod
    def _process(self, steps: int | None) -> Process:
        """A fresh noise process for a stretch of steps (None: endless)."""

    @abstractmethod
    def _promise(self) -> Guarantee:
        """What the mechanism guarantees, whatever the data."""

    @abstractmethod
    def _variance(self, t: int, steps: int | None) -> float:
        """Variance of one coordinate of the noise at step t of a stretch."""

    def _reach(self) -> float:
        """How far one record moves the total, in the Euclidean norm; a subclass may know better."""
        return self.budget.sensitivity(self.norm)

    def _check_budget(self) -> None:
        name = type(self).__name__
        if self.noise == "gaussian" and self.budget.delta == 0:
            raise ValueError(
                f"{name} with gaussian noise needs delta > 0, got delta=0; "
                "choose a delta well below one over the number of people, or noise='gamma' with a tree"
            )
        if self.budget.window is not None and not self._forgets:
            raise ValueError(
                f"{name} protects every record for ever and cannot use window={self.budget.window}; "
                "use WindowTree or Correlated, or a budget without a window"
            )
        if self.budget.fade is not None and not self._fades:
            raise ValueError(
                f"{name} has no promise that fades and cannot use fade={self.budget.fade}; "
                "use Correlated, or a budget with a window or without"
            )

    # The life of a total
    # -------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.steps = 0
        self.clipped = 0
        first = _FIRST_EPOCH if self._has_epochs else self.horizon
        self._enter(self._process(first), np.zeros(self.dim), 0, first)

    @property
    def _lock(self) -> Any:
        """The lease's, which all twins share; held while a step is taken, and by no one twice."""
        return self._lease.lock

    @property
    def _position(self) -> tuple[str, int]:
        return self._lease.id, self.steps

    @property
    def _has_epochs(self) -> bool:
        return self.horizon is None and not self._is_endless

    @property
    def _is_endless(self) -> bool:
        return self.horizon is None and self._forgets and self.budget.window is not None

    def _enter(
        self, process: Process, base: NDArray[np.float64], start: int, steps: int | None
    ) -> None:
        """Begin a stretch of steps with nothing in its total."""
        total = np.zeros(self.dim, np.int64 if process.lattice else np.float64)
        block: NDArray[Any] = np.empty((0, self.dim), total.dtype)
        per_step = 1.0 / process.step
        limit = door.limit_for(self.norm, self.dim)
        # From here on nothing is called, so that an interrupt finds the old stretch or the new one.
        self._noise, self._total, self._block, self._row = process, total, block, 0
        self._begun_with: tuple[dict[str, Any], dict[str, NDArray[Any]]] = ({}, {})
        self._per_step, self._limit = per_step, limit
        self._base, self._epoch_start, self._epoch_steps = base, start, steps

    def _lattice_step(self, scale: float, steps: float) -> float:
        """A power of two: fine against the noise, coarse enough that the total stays exact (1.0 in floating point)."""
        if self.noise_precision == "float":
            return 1.0
        fine = lattice.step(scale, lattice.GAMMA_STEPS if self.noise == "gamma" else lattice.STEPS)
        exact = _CARRIED if self._is_endless else _EXACT
        return max(fine, 2.0 ** math.ceil(math.log2(self.norm * steps / exact)))

    def _capacity(self, steps: int | None) -> float:
        """How many contributions may be in the exact total at once."""
        return float(steps) if steps is not None else float(self._block_rows)

    @property
    def _block_rows(self) -> int:
        """Steps in a block of noise."""
        return max(1, _BLOCK // self.dim)

    def _ready(self) -> int:
        """Check that this object may go on, and return how many steps the noise at hand is good for."""
        if self._lease.furthest != self.steps:
            self._lease.check(self.steps, "total")
        left = len(self._block) - self._row
        if left:
            return left
        if self.steps >= self._last_step:
            raise ValueError(
                f"the horizon of {self._last_step} steps is used up; build the total with a larger horizon, "
                "or with horizon=None"
            )
        if self._has_epochs and self.steps == self._epoch_start + self._epoch_steps:  # type: ignore[operator]
            self._next_epoch()
        t = self.steps - self._epoch_start
        process = self._noise
        begun_with = self._source.state(), process.memory()
        block = process.block(self._source, t, self._rows(t), self.dim)
        if self._epoch_steps is None:
            self._carry()
        self._block, self._row, self._begun_with, process.torn = block, 0, begun_with, False
        return len(block)

    def _rows(self, t: int) -> int:
        """Steps in the block of noise that begins after the t-th of its stretch."""
        end = (
            self._last_step - self._epoch_start if self._epoch_steps is None else self._epoch_steps
        )
        return int(min(self._block_rows, end - t))

    def _next_epoch(self) -> None:
        """The old epoch enters only through its last released total, so the new one costs no privacy."""
        steps = 2 * self._epoch_steps  # type: ignore[operator]
        base = self._released()
        # The process first, which may take seconds: an interrupt there must not leave a longer epoch
        # with the noise of a shorter one.
        self._enter(self._process(steps), base, self.steps, steps)

    def _released(self) -> NDArray[np.float64]:
        """The last noisy total, once more."""
        noise = self._block[self._row - 1] if self._row else 0
        return np.asarray(self._base + self._noise.step * (self._total + noise), np.float64)

    def _carry(self) -> None:
        """Move the high part of the exact total into ``_base``, so that it never overflows.

        Both parts are whole numbers of steps, the base a multiple of 2^32 of them: below 2^85
        steps doubles hold it exactly. The rest and the noise stay below 2^53 steps, so a released
        total is the exact one, rounded once, whatever was carried and when.
        """
        if not self._noise.lattice:
            return
        total: NDArray[Any] = self._total
        high = (total + (1 << (_CARRY - 1))) >> _CARRY
        base = self._base + self._noise.step * 2.0**_CARRY * high
        self._base, self._total = base, total - (high << _CARRY)

    @property
    def _last_step(self) -> float:
        """How many contributions there may be."""
        if self.horizon is not None:
            return self.horizon
        return OLDEST if self._is_endless and self.budget.scope.last is None else math.inf

    def _advance(self, rows: int) -> None:
        """Count noise as used. Before it is: an interrupt may lose it, but never have it used twice."""
        self.steps += rows
        self._row += rows
        self._lease.furthest = self.steps

    # What users call
    # -----------------------------------------------------------------------------------------

    def add(self, contribution: ArrayLike | None) -> NDArray[np.float64]:
        """Add one contribution and return the noisy total; ``None`` is the null record, which contributes nothing."""
        with self._lock:
            return self._add(contribution)

    def _add(self, contribution: ArrayLike | None) -> NDArray[np.float64]:
        """`add`, for whoever holds the lock already."""
        if contribution is None:
            v = np.zeros(self.dim)
        elif (
            type(contribution) is np.ndarray
            and contribution.dtype == np.float64
            and contribution.shape == (self.dim,)
            and contribution.flags.c_contiguous
        ):
            v = contribution
        else:
            v = _checks.vector(contribution, "contribution", self.dim)
        out = np.empty(self.dim)
        if self._row == len(self._block):
            _checks.vector(v, "contribution", self.dim)  # a refusal must come before a draw
        self._ready()
        row = self._row
        self._advance(1)
        code = kernels.add(
            v, self._total, self._block, row, self._limit, self._per_step, self._noise.step,
            self._base, out,
        )  # fmt: skip
        if code == door.REFUSED:
            self._advance(-1)
            _checks.vector(v, "contribution", self.dim)
            raise ValueError("contribution must be finite and must not change while it is added")
        self.clipped += code
        return out

    def run(self, contributions: ArrayLike) -> NDArray[np.float64]:
        """Add many contributions, one a row, and return all the noisy totals."""
        rows = _checks.real_array(contributions, "contributions")
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"contributions must have shape (n, {self.dim}), got {rows.shape}")
        if not door.finite(rows.reshape(-1)):  # a refusal must come before anything is added
            _checks.matrix(rows, "contributions", self.dim)
        out = np.empty((len(rows), self.dim))
        with self._lock:
            if self.horizon is not None and self.steps + len(rows) > self.horizon:
                raise ValueError(
                    f"{len(rows)} contributions do not fit: {self.horizon - self.steps} of the horizon of "
                    f"{self.horizon} steps are left; build the total with a larger horizon, or with horizon=None"
                )
            done = 0
            while done < len(rows):
                noise = self._take(len(rows) - done)
                end = done + len(noise)
                self.clipped += kernels.run(
                    rows[done:end], self._limit, self._per_step, self._total, noise,
                    self._noise.step, self._base, out[done:end],
                )  # fmt: skip
                done = end
        return out

    def _take(self, most: int) -> NDArray[Any]:
        """Noise for the next steps, at most ``most``, which counts as used from here on."""
        rows = min(most, self._ready())
        noise = self._block[self._row : self._row + rows]
        self._advance(rows)
        return noise

    def error(self, t: int) -> float:
        """Standard deviation of one coordinate of the noise in the t-th total (t = 1, 2, ...), exactly."""
        t = _checks.integer(t, "t", low=1, high=self.horizon)
        if not self._has_epochs:
            return math.sqrt(self._variance(t, self.horizon))
        variance = 0.0
        for start, steps in _epochs():
            if t <= start + steps:
                return math.sqrt(variance + self._variance(t - start, steps))
            variance += self._variance(steps, steps)
        raise AssertionError("the epochs are endless")

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about every record, for all outputs together."""
        return self._guarantee

    # Saved states
    # --------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that is needed to go on as if nothing had happened. A secret: it holds the clean total."""
        with self._lock:
            return self._facts()

    def _facts(self) -> dict[str, Any]:
        """`state`, for whoever holds the lock already."""
        self._noise.check()
        self._lease.publish(self, "total")
        used, t = self._row, self.steps - self._epoch_start
        source, memory = self._begun_with
        if used == len(self._block):  # the next step begins another block
            used, source, memory = 0, self._source.state(), self._noise.memory()
        self._noise.forget(memory, t - used)
        return {
            "version": _STATE_VERSION,
            "kind": type(self).__name__,
            "id": self._lease.id,
            "arguments": self._arguments(),
            "steps": self.steps,
            "clipped": self.clipped,
            "epoch": [self._epoch_start, self._epoch_steps],
            "total": self._total.copy(),
            "base": self._base.copy(),
            "process": {name: array.copy() for name, array in memory.items()},
            "block": [len(self._block) if used else 0, used],
            "last": self._block[self._row - 1].copy() if self._row else np.empty(0),
            "source": source,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Any:
        """Go on from a state; refused if the stream it belongs to has already been continued beyond it."""
        check_kind(state, cls, _STATE_VERSION)
        lease = claim(state["id"], state["steps"], "total")
        arguments = dict(state["arguments"])
        arguments["budget"] = Budget(**arguments["budget"])
        # The original was charged for the whole stream.
        self = uncharged(lambda: cls(**arguments))
        self._restore(state, lease)
        return self

    def _restore(self, state: dict[str, Any], lease: Lease) -> None:
        self._lease = lease
        lease.hold(self)
        self._source = Source.from_state(state["source"])
        self._guarantee = self._promise()
        self.steps, self.clipped = int(state["steps"]), int(state["clipped"])
        start, length = state["epoch"]
        self._enter(self._process(length), state["base"].copy(), start, length)
        self._total = state["total"].copy()
        for name, array in state["process"].items():
            self._noise.arrays[name][...] = array
        (rows, used), last = state["block"], state["last"]
        if used:
            begun_with = self._source.state(), self._noise.memory()
            block = self._noise.block(self._source, self.steps - start - used, rows, self.dim)
            self._begun_with, self._noise.torn = begun_with, False
            self._block, self._row = block, used
        elif len(last):
            self._block, self._row = last[None].copy(), 1
        if self._row:
            # Floating point of another processor may round the known part of the noise another way;
            # what was released is what later epochs begin with.
            self._block[self._row - 1] = last

    def _arguments(self) -> dict[str, Any]:
        return {
            "dim": self.dim,
            "horizon": self.horizon,
            "budget": dataclasses.asdict(self.budget),
            "norm": self.norm,
            "noise": self.noise,
            "noise_precision": self.noise_precision,
        }

    def __reduce__(self) -> Any:
        return _from_state, (type(self), self.state())

    def __copy__(self) -> Any:
        return type(self).from_state(self.state())

    def __deepcopy__(self, memo: object) -> Any:
        return self.__copy__()

    def __repr__(self) -> str:
        length = "endless" if self.horizon is None else f"horizon={self.horizon}"
        return (
            f"<{type(self).__name__} dim={self.dim} {length} step {self.steps}: {self.guarantee}>"
        )


def _from_state(cls: type[RunningTotal], state: dict[str, Any]) -> Any:
    return cls.from_state(state)


def _epochs() -> Iterator[tuple[int, int]]:
    start, steps = 0, _FIRST_EPOCH
    while True:
        yield start, steps
        start, steps = start + steps, 2 * steps
