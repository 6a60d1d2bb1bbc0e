"""A running total of sparse contributions whose noise is drawn on demand, coordinate by coordinate.

The noise of a correlated total is dense, so a step costs as much as there are coordinates. But coordinates are
independent, and the noise of one is a Gauss-Markov process whose state is its few buffers: they can be advanced over
steps that nobody reads at once, by one Gaussian vector. What is read has exactly the joint distribution of the dense
total at the same steps, in real arithmetic, even if the records decide what is read (docs/algorithms/on-demand.md).
The proof does not cover noise on a lattice, so this is for floating point only, and the guarantee says so.

Reading draws noise, so it moves the stream on like a step does. Which coordinates have been brought up to date is
part of the state and never an output.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent import checks
from reticent.checks import FloatArray
from reticent.noise import door
from reticent.noise.source import Source
from reticent.privacy import Guarantee, charge
from reticent.state.files import check_kind
from reticent.state.lease import Lease, claim
from reticent.state.persons import Persons
from reticent.state.twins import Twins
from reticent.sums import on_demand_kernels as k
from reticent.sums.correlated import CorrelatedMechanism
from reticent.sums.running import refuse_ids

_VERSION = 1
_BLOCK = 2**15  # normals drawn at a time, under one key
_FIRST = 2**10  # initial capacity, in coordinates
_LINE = "noise drawn on demand, coordinate by coordinate: the same joint law as drawn at every step"


class OnDemand(Twins):
    """A running total with correlated noise, in time and memory proportional to the number of coordinates touched.

    Parameters
    ----------
    mechanism : CorrelatedMechanism
        The description, with ``noise_precision="float"``.
    seed : int or None
        By default the noise comes from a cryptographic generator. A seed is for experiments, and the guarantee says so.

    Attributes
    ----------
    mechanism : CorrelatedMechanism
        The description.

    Raises
    ------
    ValueError
        ``mechanism`` is not a description of correlated noise in floating point.

    See Also
    --------
    Correlated : A running total of dense contributions, also on a lattice.

    Examples
    --------
    >>> import reticent
    >>> from reticent import sums
    >>> mechanism = sums.CorrelatedMechanism(
    ...     2**22, 1000, budget=reticent.Budget(1.0, 1e-6), noise_precision="float"
    ... )
    >>> total = sums.OnDemand(mechanism, seed=0)
    >>> total.add([5, 3_000_000], [0.6, -0.8])
    >>> total.add(None)
    >>> total.read([5, 7]).shape, total.steps, total.touched
    ((2,), 2, 3)
    """

    def __init__(self, mechanism: CorrelatedMechanism, *, seed: int | None = None) -> None:
        self._take_on(mechanism, Source(seed))
        charge(self.guarantee, f"OnDemand of dimension {mechanism.dim}")
        self._lease = Lease()
        self._counters = np.zeros(k.COUNTERS, np.int64)
        self._make_room_for(np.empty((0, self._width)), _FIRST)
        self._enter(np.empty(0), {})

    def _take_on(self, mechanism: CorrelatedMechanism, source: Source) -> None:
        if not isinstance(mechanism, CorrelatedMechanism) or mechanism.on_lattice:
            raise ValueError(
                "mechanism must be a CorrelatedMechanism with noise_precision='float', because noise can be drawn "
                f"on demand in floating point only; got {mechanism!r}"
            )
        self.mechanism, self._source = mechanism, source
        self.dim, self.horizon = mechanism.dim, mechanism.horizon
        releases = [
            replace(release, details=(*release.details, _LINE))
            for release in mechanism.guarantee.releases
        ]
        self.guarantee: Guarantee = replace(
            mechanism.guarantee, releases=tuple(releases), seeded=source.seeded
        )
        rule = mechanism.participation
        self._persons = None if rule is None else Persons(rule, mechanism.budget.window)
        self._buffers = buffers = len(mechanism.parameters.gap)
        self._width = k.BUFFERS + buffers
        self._filters, self._jumps = k.tables(
            np.array(mechanism.parameters.gap), np.array(mechanism.parameters.weight)
        )
        self._read = k.read(buffers)
        self._scale, self._last = mechanism.scale(), mechanism.last_step
        self._limit = door.limit_for(mechanism.norm, mechanism.dim)

    def _enter(self, block: FloatArray, begun_with: dict[str, Any]) -> None:
        self._block, self._begun_with = block, begun_with

    # Room for coordinates, and normals ---------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Number of contributions so far, null records included."""
        return int(self._counters[k.STEPS])

    @property
    def touched(self) -> int:
        """Number of coordinates that use memory because they were added to or read.

        A diagnostic: it reads private data.
        """
        return int(self._counters[k.TOUCHED])

    @property
    def _moves(self) -> int:
        return int(self._counters[k.MOVES])

    @property
    def _lock(self) -> Any:
        """The lease's lock, which all copies share. It is held while a step is taken and is not reentrant."""
        return self._lease.lock

    @property
    def _position(self) -> tuple[str, int]:
        return self._lease.id, self._moves

    def _make_room_for(self, rows: FloatArray, capacity: int) -> None:
        """Allocate memory for ``capacity`` coordinates and copy the existing rows into it."""
        memory = np.empty((capacity, self._width))
        memory[: len(rows)] = rows
        places = np.zeros(1 << (2 * capacity - 1).bit_length(), np.int64)
        k.enter(places, memory, len(rows))
        # No calls from here on, so that an interrupt leaves either the old memory or the new one.
        self._places, self._rows = places, memory

    def _check(self) -> None:
        """Check that this object may continue the stream."""
        if self._lease.furthest != self._counters[k.MOVES]:
            self._lease.check(self._moves, "total", "move")

    def _ready(self, most: int) -> None:
        """Check that this object may continue the stream, and provide memory and normals for reading coordinates.

        At most ``most`` coordinates can be read then.
        """
        self._check()
        if self.touched + most > len(self._rows):
            size = min(max(2 * len(self._rows), self.touched + most), self.dim + most)
            self._make_room_for(self._rows[: self.touched], size)
        need = most * k.most_normals(self._buffers, self.steps)
        if self._counters[k.USED] + need > len(self._block):
            size = max(_BLOCK, need)
            # mark the block as used up, so that after an interrupt neither its rest nor half a new one is used
            self._counters[k.USED] = max(size, len(self._block))
            begun_with = self._source.state()
            self._source.ratchet()
            # reuse the memory if it fits, so that its address stays the same
            block = self._block if len(self._block) == size else np.empty(size)
            self._source.normals(block)
            self._enter(block, begun_with)
            self._counters[k.USED] = 0

    def _moved(self) -> None:
        self._lease.furthest = int(self._counters[k.MOVES])

    def _check_room(self, count: int) -> None:
        last = self._last
        if self._counters[k.STEPS] + count > last:
            raise ValueError(
                f"{count} records do not fit: {last - self.steps:.0f} of the horizon of {last:.0f} are left; "
                "use a larger horizon, or horizon=None"
            )

    # What users call ---------------------------------------------------------------------------------

    def add(
        self, indices: ArrayLike | None, values: ArrayLike | None = None, person: Any = None
    ) -> None:
        """Add one sparse contribution; it is scaled down if it is longer than the norm.

        Parameters
        ----------
        indices : array of int or None
            Coordinates, each at most once. ``None`` is the null record.
        values : array
            What is added to each of them.
        person : int, str or bytes, optional
            Id of the person whose contribution it is, if persons are protected. A contribution beyond the person's
            limit counts as the null record.
        """
        asked, v = np.empty(0, np.int64), np.empty(0)
        if indices is not None:
            asked = self._checked(indices)
            v = checks.vector(values, "values", len(asked))
        refuse_ids(self._persons, person)
        with self._lock:
            self._check_room(1)
            self._ready(len(asked))
            if self._persons is not None and indices is not None:
                digests = self._persons.digests([person])
                if not self._persons.admit(digests, self.steps + 1)[0]:
                    asked, v = asked[:0], v[:0]
            out = np.empty(len(v))
            self._counters[k.CLIPPED] += door.bounded(v, 1.0, self._limit, out)
            self._counters[k.STEPS] += 1
            self._counters[k.MOVES] += 1
            self._moved()
            for coordinate, value in zip(asked, out, strict=True):
                row = k.find(coordinate, self._places, self._rows, self._counters)
                self._rows[row, k.TOTAL] += value

    def read(self, indices: ArrayLike) -> FloatArray:
        """The noisy totals of some coordinates after the steps so far; zeros before the first step.

        Parameters
        ----------
        indices : array of int
            Coordinates, each at most once.

        Returns
        -------
        array
            One total for each of them.
        """
        asked = self._checked(indices)
        out = np.empty(len(asked))
        with self._lock:
            self._ready(len(asked))
            self._read(
                asked, self._scale, self._filters, self._jumps, self._places, self._rows,
                self._counters, self._block, out,
            )  # fmt: skip
            self._moved()
        return out

    def _checked(self, indices: ArrayLike) -> NDArray[np.int64]:
        asked = np.asarray(indices)
        if asked.ndim != 1 or (asked.size and asked.dtype.kind not in "iu"):
            raise ValueError(
                f"indices must be a vector of integers, got an array of dtype {asked.dtype} and shape {asked.shape}"
            )
        asked = asked.astype(np.int64)
        if asked.size and not (asked.min() >= 0 and asked.max() < self.dim):
            raise ValueError(f"indices must be from 0 to {self.dim - 1}, but some are not")
        if len(np.unique(asked)) != len(asked):
            raise ValueError("indices must not contain a coordinate twice; add up its values first")
        return asked

    # Saved states ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that is needed to continue as if nothing had happened.

        It is a secret, because it contains exact totals.

        It also contains which coordinates were touched, and when, which no guarantee covers.
        """
        with self._lock:
            return self._facts()

    def _facts(self) -> dict[str, Any]:
        """`state`, for callers that hold the lock already."""
        self._lease.publish(self, "total")
        touched, used = self.touched, int(self._counters[k.USED])
        spent = used >= len(self._block)
        return {
            "version": _VERSION,
            "kind": "OnDemand",
            "id": self._lease.id,
            "mechanism": self.mechanism.to_dict(),
            "steps": self.steps,
            "moves": self._moves,
            "counters": self._counters.copy(),
            "rows": self._rows[:touched].copy(),
            "block": 0 if spent else len(self._block),
            "source": self._source.state() if spent else self._begun_with,
            "persons": None if self._persons is None else self._persons.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Continue from a state; refused with ForkError if its stream has already been continued beyond it.

        Parameters
        ----------
        state : dict
            What :meth:`state` returned, or what `reticent.load_state` read.
        """
        check_kind(state, "OnDemand", _VERSION)
        # Not charged: the original was charged for the whole stream.
        self = cls.__new__(cls)
        lease = claim(state["id"], state["moves"], "total", "move")
        mechanism = CorrelatedMechanism.from_dict(state["mechanism"])
        self._take_on(mechanism, Source.from_state(state["source"]))
        self._lease = lease
        lease.hold(self)
        if self._persons is not None:
            self._persons = Persons.from_state(state["persons"])
        self._counters = np.array(state["counters"], np.int64)
        rows = np.asarray(state["rows"]).reshape(-1, self._width)
        self._make_room_for(rows, max(_FIRST, 2 * len(rows)))
        size = int(state["block"])
        if size:
            begun_with = self._source.state()
            self._source.ratchet()
            block = np.empty(size)
            self._source.normals(block)
            self._enter(block, begun_with)
        else:
            self._counters[k.USED] = 0
            self._enter(np.empty(0), {})
        return self

    def __repr__(self) -> str:
        return f"<OnDemand dim={self.dim} step {self.steps}: {self.guarantee}>"
