"""A private running total: an exact total of clipped contributions, plus the noise that a mechanism describes.

A :class:`RunningTotal` starts from a :class:`reticent.sums.Mechanism`, charges the ledger once and keys its noise
once. Clipping, the lattice, blocks of noise, saved states and epochs are implemented here for every mechanism. See
docs/algorithms/running-totals.md.

Noise is drawn in blocks ahead of its use, and each block is an interval of the source with a key of its own. A saved
state contains that key, what the process remembered when the block began, and how much of the block is used; the
block is drawn again from these. Earlier blocks cannot be drawn again, because their keys are gone
(docs/saved-states.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent import checks
from reticent.checks import FloatArray
from reticent.noise import door
from reticent.noise.source import Source
from reticent.privacy import Guarantee, charge
from reticent.privacy.guarantee import changed
from reticent.state.files import check_kind
from reticent.state.lease import Lease, claim
from reticent.state.persons import Persons
from reticent.state.twins import Twins
from reticent.sums import kernels
from reticent.sums.mechanism import Mechanism
from reticent.sums.process import Process
from reticent.trace.summary import NoIntervals, Summary, of_noise

_CARRY = 32  # bits of the exact total that stay when the rest is moved into the base
_STATE_VERSION = 4


class RunningTotal(Twins):
    """A private running total of contributions, run from its description.

    `Tree`, `WindowTree`, `Correlated` and `Independent` create the description and start it in a single call.

    Parameters
    ----------
    mechanism : Mechanism
        The description: noise, horizon, sensitivity and budget.
    seed : int or None
        By default the noise comes from a cryptographic generator. A seed is for experiments, and the guarantee says so.

    Attributes
    ----------
    mechanism : Mechanism
        The description.
    steps : int
        Number of contributions so far, null records included.
    clipped : int
        Number of contributions that were scaled down to the norm. A diagnostic: it reads private data.

    See Also
    --------
    reticent.committed : Save the state before each total is returned.

    Examples
    --------
    >>> import reticent
    >>> from reticent import sums
    >>> mechanism = sums.IndependentMechanism(2, budget=reticent.Budget(1.0, 1e-6))
    >>> total = sums.RunningTotal(mechanism, seed=0)
    >>> total.add([3.0, 4.0]).shape, total.steps, total.clipped
    ((2,), 1, 1)
    """

    describe: ClassVar[type[Mechanism] | None] = None
    """The class of the mechanism that a subclass starts."""

    def __init__(self, mechanism: Mechanism, *, seed: int | None = None) -> None:
        if not isinstance(mechanism, Mechanism):
            raise TypeError(f"mechanism must be a reticent.sums.Mechanism, got {mechanism!r}")
        self._take_on(mechanism, Source(seed))
        charge(self._guarantee, f"{mechanism.kind} of dimension {mechanism.dim}")
        self._lease = Lease()
        self._begin()

    @classmethod
    def _paid(cls, mechanism: Mechanism, source: Source) -> RunningTotal:
        """A running total that is part of something already charged as a whole, with the given source of noise."""
        self = RunningTotal.__new__(RunningTotal)
        self._take_on(mechanism, source)
        self._lease = Lease()
        self._begin()
        return self

    def _take_on(self, mechanism: Mechanism, source: Source) -> None:
        self.mechanism, self._source = mechanism, source
        self.dim, self.horizon = mechanism.dim, mechanism.horizon
        self.budget, self.norm = mechanism.budget, mechanism.norm
        self.noise, self.noise_precision = mechanism.noise, mechanism.noise_precision
        self._guarantee = changed(mechanism.guarantee, seeded=source.seeded)
        rule = mechanism.participation
        self._persons = None if rule is None else Persons(rule, mechanism.budget.window)

    # The life of a total
    # -------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.steps = 0
        self.clipped = 0
        self._enter(self.mechanism.process(), np.zeros(self.dim), 0)

    @property
    def _lock(self) -> Any:
        """The lease's lock, which all copies share. It is held while a step is taken and is not reentrant."""
        return self._lease.lock

    @property
    def _position(self) -> tuple[str, int]:
        return self._lease.id, self.steps

    def _enter(self, process: Process, base: FloatArray, start: int) -> None:
        """Begin a stretch of steps with an empty exact total."""
        total, block = self.mechanism.zeros(self.dim), self.mechanism.zeros(0, self.dim)
        per_step = 1.0 / process.step
        limit = door.limit_for(self.norm, self.dim)
        # No calls from here on, so that an interrupt leaves either the old stretch or the new one.
        self._noise, self._total, self._block, self._row = process, total, block, 0
        self._begun_with: tuple[dict[str, Any], dict[str, NDArray[Any]]] = ({}, {})
        self._per_step, self._limit = per_step, limit
        self._base, self._epoch_start, self._epoch_steps = base, start, process.steps

    def _ready(self) -> int:
        """Check that this object may continue the stream, and return for how many steps there is noise in the block."""
        if self._lease.furthest != self.steps:
            self._lease.check(self.steps, "total")
        left = len(self._block) - self._row
        if left:
            return left
        if self.steps >= self.mechanism.last_step:
            raise ValueError(
                f"the horizon of {self.mechanism.last_step} steps has been reached; build the total with a larger "
                "horizon, or with horizon=None"
            )
        if self._at_end_of_epoch:
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
        """Number of steps in the block of noise that begins after step t of its stretch."""
        end = self._epoch_steps
        left = self.mechanism.last_step - self._epoch_start if end is None else end
        return int(min(self.mechanism.block_rows, left - t))

    @property
    def _at_end_of_epoch(self) -> bool:
        length = self._epoch_steps if self.mechanism.has_epochs else None
        return length is not None and self.steps == self._epoch_start + length

    def _next_epoch(self) -> None:
        """Start the next epoch.

        The old one enters it only through its last released total, so this costs no privacy.
        """
        assert self._epoch_steps is not None
        # Create the process first, which may take seconds: an interrupt meanwhile must not leave a longer epoch
        # with the noise of a shorter one.
        self._enter(self.mechanism.process(2 * self._epoch_steps), self._released(), self.steps)

    def _released(self) -> FloatArray:
        """The last noisy total again."""
        noise = self._block[self._row - 1] if self._row else 0
        return np.asarray(self._base + self._noise.step * (self._total + noise), np.float64)

    def _carry(self) -> None:
        """Move the high part of the exact total into ``_base``, so that it never overflows.

        Both parts are whole numbers of steps, the base a multiple of 2^32: up to 2^85 steps a double represents it
        exactly. The rest and the noise stay below 2^53 steps, so a released total is the exact one, rounded once,
        regardless of what was moved and when.
        """
        if not self._noise.lattice:
            return
        total: NDArray[Any] = self._total
        high = (total + (1 << (_CARRY - 1))) >> _CARRY
        base = self._base + self._noise.step * 2.0**_CARRY * high
        self._base, self._total = base, total - (high << _CARRY)

    def _advance(self, rows: int) -> None:
        """Count noise as used.

        This comes before its use: an interrupt may lose noise, but must never let it be used twice.
        """
        self.steps += rows
        self._row += rows
        self._lease.furthest = self.steps

    # What users call
    # -----------------------------------------------------------------------------------------

    def add(self, contribution: ArrayLike | None, person: Any = None) -> FloatArray:
        """Add one contribution and return the noisy total.

        Parameters
        ----------
        contribution : array or None
            The contribution, of length ``dim``. ``None`` is the null record, which contributes nothing.
        person : int, str or bytes, optional
            Id of the person whose contribution it is, if persons are protected. A contribution beyond the person's
            limit counts as the null record.

        Returns
        -------
        array
            The total of all contributions so far, with noise.
        """
        if self._persons is None or contribution is None:
            refuse_ids(self._persons, person)
            with self._lock:
                return self._add(contribution)
        v = checks.vector(contribution, "contribution", self.dim)
        with self._lock:
            digests = self._persons.digests([person])
            self._ready()
            kept = self._persons.admit(digests, self.steps + 1)[0]
            return self._add(v if kept else None)

    def _add(self, contribution: ArrayLike | None) -> FloatArray:
        """`add`, for callers that hold the lock already."""
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
            v = checks.vector(contribution, "contribution", self.dim)
        out = np.empty(self.dim)
        if self._row == len(self._block):
            checks.vector(v, "contribution", self.dim)  # a refusal must come before a draw
        self._ready()
        row = self._row
        self._advance(1)
        code = kernels.add(
            v, self._total, self._block, row, self._limit, self._per_step, self._noise.step,
            self._base, out,
        )  # fmt: skip
        if code == door.REFUSED:
            self._advance(-1)
            checks.vector(v, "contribution", self.dim)
            raise ValueError("contribution must be finite and must not change while it is added")
        self.clipped += code
        return out

    def run(self, contributions: ArrayLike, person: Any = None) -> FloatArray:
        """Add many contributions and return all the noisy totals.

        Parameters
        ----------
        contributions : array
            One contribution per row.
        person : array, optional
            Id of the person of each contribution, if persons are protected. Contributions beyond a person's limit
            count as null records.

        Returns
        -------
        array
            One noisy total per row.
        """
        rows = checks.real_array(contributions, "contributions")
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"contributions must have shape (n, {self.dim}), got {rows.shape}")
        if not door.finite(rows.reshape(-1)):  # a refusal must come before anything is added
            checks.matrix(rows, "contributions", self.dim)
        out = np.empty((len(rows), self.dim))
        with self._lock:
            if self.horizon is not None and self.steps + len(rows) > self.horizon:
                raise ValueError(
                    f"{len(rows)} contributions do not fit: {self.horizon - self.steps} of the horizon of "
                    f"{self.horizon} steps are left; build the total with a larger horizon, or with horizon=None"
                )
            if self._persons is None:
                refuse_ids(None, person)
            else:
                digests = self._persons.digests(person, len(rows))
                kept = self._persons.admit(digests, self.steps + 1)
                rows = np.where(kept[:, None], rows, 0.0)
            done = 0
            while done < len(rows):
                noise = self._take(len(rows) - done)
                end = done + len(noise)
                self.clipped += kernels.run(
                    rows[done:end],
                    self._limit,
                    self._per_step,
                    self._total,
                    noise,
                    self._noise.step,
                    self._base,
                    out[done:end],
                )
                done = end
        return out

    def _take(self, most: int) -> NDArray[Any]:
        """Noise for the next steps, at most ``most`` of them; it counts as used from then on."""
        rows = min(most, self._ready())
        noise = self._block[self._row : self._row + rows]
        self._advance(rows)
        return noise

    # Batches: one contribution that is the sum of many records. Whoever fills the batch must clip each record
    # to the norm; the sum is not clipped.

    @property
    def _gauge(self) -> tuple[float, float]:
        """The clipping limit of one record and the number of lattice steps per unit, for filling a batch."""
        return self._limit, self._per_step

    def _blank(self) -> NDArray[Any]:
        """An empty batch, in lattice steps."""
        return np.zeros_like(self._total)

    def _absorb(self, batch: NDArray[Any]) -> FloatArray:
        """Move a batch, in lattice steps, into the total, and return the noisy total.

        The batch is empty afterwards, even after an interrupt, because it must not be added twice.
        """
        with self._lock:
            self._ready()
            noise = self._block[self._row]
            self._advance(1)
            moved = self._total + batch
            self._total = moved
            batch[...] = 0
            out = np.asarray(self._base + self._noise.step * (moved + noise), np.float64)
            if self._epoch_steps is None:
                self._carry()  # a batch may be as large as a block of single contributions
        return out

    def _lend(self, most: int) -> tuple[NDArray[Any], NDArray[Any], float, FloatArray]:
        """Exact total, noise of the next batches, lattice step and offset, for a compiled loop.

        The loop adds to the exact total in place, one batch for each row of noise.
        """
        with self._lock:
            noise = self._take(most)
            return self._total, noise, self._noise.step, self._base

    def error(self, t: int) -> float:
        """Standard deviation of one coordinate of the noise in the t-th total.

        Parameters
        ----------
        t : int
            Number of the total, counted from 1.

        Returns
        -------
        float
            The standard deviation, exact up to rounding.
        """
        return self.mechanism.error(t)

    def summary(self, level: float = 0.95, names: Sequence[str] | None = None) -> Summary:
        """The last total with the standard error of its noise, which is known exactly, and intervals.

        It is computed from what was released and spends nothing.

        Parameters
        ----------
        level : float
            Confidence level of the intervals.
        names : sequence of str, optional
            Names of the coordinates; by default x0, x1, ...

        Returns
        -------
        Summary
            The total with its errors and intervals.

        Examples
        --------
        >>> import reticent
        >>> from reticent import sums
        >>> total = sums.Correlated(2, 100, budget=reticent.Budget(1.0, 1e-6), norm=1.0, seed=0)
        >>> seen = [total.add([1.0, 0.0]) for _ in range(50)][-1]
        >>> summary = total.summary(names=["a", "b"])
        >>> bool((summary.estimate == seen).all() and summary.privacy_error[0] == total.error(50))
        True
        """
        with self._lock:
            if not self.steps:
                raise NoIntervals("this total has released nothing yet; add a contribution first")
            values, t = self._released(), self.steps
        about = (
            f"about the sum of the {t} contributions so far, as they were clipped: these records, not the "
            "population that they come from"
        )
        return of_noise(
            values,
            self.error(t),
            names,
            level,
            about,
            self.guarantee,
            self.mechanism.noise == "gaussian",
        )

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for every record, and for all outputs together."""
        return self._guarantee

    # Saved states
    # --------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that is needed to continue as if nothing had happened.

        It is a secret, because it contains the exact total.
        """
        with self._lock:
            return self._facts()

    def _facts(self) -> dict[str, Any]:
        """`state`, for callers that hold the lock already."""
        self._noise.check()
        self._lease.publish(self, "total")
        used, t = self._row, self.steps - self._epoch_start
        source, memory = self._begun_with
        if used == len(self._block):  # the next step begins a new block
            used, source, memory = 0, self._source.state(), self._noise.memory()
        self._noise.forget(memory, t - used)
        return {
            "version": _STATE_VERSION,
            "kind": self.mechanism.kind,
            "id": self._lease.id,
            "mechanism": self._described,
            "steps": self.steps,
            "clipped": self.clipped,
            "epoch": [self._epoch_start, self._epoch_steps],
            "total": self._total.copy(),
            "base": self._base.copy(),
            "process": {name: array.copy() for name, array in memory.items()},
            "block": [len(self._block) if used else 0, used],
            "last": self._block[self._row - 1].copy() if self._row else np.empty(0),
            "source": source,
            "persons": None if self._persons is None else self._persons.state(),
        }

    @cached_property
    def _described(self) -> dict[str, Any]:
        """Its mechanism as plain data: it stays as it is, and a stream may be saved with every record."""
        return self.mechanism.to_dict()

    @classmethod
    def from_state(cls, state: dict[str, Any], mechanism: type[Mechanism] | None = None) -> Self:
        """Continue from a state; refused with ForkError if its stream has already been continued beyond it.

        Parameters
        ----------
        state : dict
            What :meth:`state` returned, or what `reticent.load_state` read.
        mechanism : class of mechanisms, optional
            Class of the mechanism that the total was started from. Not needed if this is called on the class that
            started it.
        """
        kind = mechanism or cls.describe
        if kind is None:
            raise TypeError(
                "RunningTotal.from_state needs the class of the mechanism; pass "
                "mechanism=..., or call it on the total's own class, such as Tree.from_state"
            )
        check_kind(state, kind.__name__.removesuffix("Mechanism"), _STATE_VERSION)
        # Not charged: the original was charged for the whole stream.
        self = cls.__new__(cls)
        lease = claim(state["id"], state["steps"], "total")
        self._take_on(kind.from_dict(state["mechanism"]), Source.from_state(state["source"]))
        self._restore(state, lease)
        return self

    def _restore(self, state: dict[str, Any], lease: Lease) -> None:
        self._lease = lease
        lease.hold(self)
        self.steps, self.clipped = int(state["steps"]), int(state["clipped"])
        if self._persons is not None:
            self._persons = Persons.from_state(state["persons"])
        start, length = state["epoch"]
        self._enter(self.mechanism.process(length), state["base"].copy(), start)
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
            # Another processor may round the known part of the noise differently, but later epochs must begin
            # with the total that was released.
            self._block[self._row - 1] = last

    def _given(self) -> dict[str, Any]:
        return {"mechanism": type(self.mechanism)}

    def __repr__(self) -> str:
        length = "endless" if self.horizon is None else f"horizon={self.horizon}"
        name = self.mechanism.kind
        return f"<{name} dim={self.dim} {length} step {self.steps}: {self.guarantee}>"


def counts(persons: Persons | None, person: Any, step: int) -> bool:
    """Whether the record of a step counts, which is noted in the table of persons. The caller holds the lock."""
    if persons is None:
        refuse_ids(None, person)
        return True
    return bool(persons.admit(persons.digests([person]), step)[0])


def refuse_ids(persons: Persons | None, person: Any) -> None:
    """Refuse ids of persons where single records are protected."""
    if person is not None and persons is None:
        raise ValueError(
            "person was given, but single records are protected here, not persons; set "
            "max_records or min_gap (participation=) when building it, or leave out person"
        )
