"""Follow the leader over sparse records, in time and memory proportional to the nonzeros of the records.

The leader minimises <total, x> + (ridge t + anchor_t)/2 ||x||^2 over the cube [-radius, radius]^d, where each
coordinate can be computed alone: x_j is the noisy total of coordinate j, divided and clipped. (A ball would need all
coordinates for its norm.) So a record needs only its own coordinates, and their noise is drawn when it is needed
(`reticent.sums.OnDemand`). The cube contains the ball of the same radius, with which decisions are compared and for
which the anchor is balanced: docs/algorithms/on-demand.md, which also compares the regret with that of the ball.
"""

from __future__ import annotations

import math
import time
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from reticent import checks
from reticent.checks import FloatArray
from reticent.losses import GeneralizedLinear, Loss, Quadratic
from reticent.losses.kernels import SOFTMAX
from reticent.noise import door
from reticent.online import records, totals
from reticent.online import sparse_kernels as k
from reticent.online.approximate_leader import _Projected
from reticent.online.array_addresses import ArrayAddresses
from reticent.online.base import check_horizon
from reticent.online.learner import _lipschitz, _smoothness
from reticent.online.records import NO_GAPS
from reticent.online.rules import OnlineProblem
from reticent.privacy import Budget, Guarantee, Participation
from reticent.sets import L2Ball, WholeSpace
from reticent.state import parts
from reticent.state.files import check_kind
from reticent.state.lease import Lease
from reticent.state.persons import Persons
from reticent.state.twins import Twins
from reticent.sums import CorrelatedMechanism, OnDemand
from reticent.sums import on_demand_kernels as demand
from reticent.sums.running import counts, refuse_ids
from reticent.trace.play import Play

_VERSION = 1
_PAGES = 1000  # number of records at which the cumulative loss of a run is kept
_NO_LABELS = np.zeros(0)


class SparseLeader(Twins):
    """A learner of sparse records with any number of columns, whose noise is drawn on demand in floating point.

    Parameters
    ----------
    columns : int
        Number of columns of the records.
    loss : Loss
        The loss of a record: a loss of one linear predictor with a ridge above 0, or a softmax of several, with an
        attribute ``outputs``. Its ``feature_norm`` bounds a record together with its constant feature.
    budget : Budget
        What may be spent in the learner's whole life. All of it is spent when the learner is built. Its delta must be
        above 0.
    radius : float
        Each weight stays within [-radius, radius].
    unit : float
        Features are divided by this before they are clipped to the loss's norm.
    constant : float
        Value of a further, constant feature, in the divided units; 0 for none.
    horizon : int, optional
        Upper bound on the number of records. Without one the stream is endless, with somewhat more noise.
    lipschitz : float, optional
        Norm to which gradients are clipped; by default the loss's own constant, which they never exceed.
    anchor : float, optional
        Weight of (1/2) ||x||^2 from the start; by default it balances the noise of the first decisions.
    participation : Participation, optional
        How many records of one person count, and how far apart; if given, persons are protected. By default single
        records are.
    seed : int, optional
        Seed of the noise, for experiments only; the guarantee says so.

    See Also
    --------
    FollowTheApproximateLeader : For dense records, with noise on a lattice.

    Examples
    --------
    >>> import numpy as np
    >>> import reticent
    >>> import scipy.sparse as sp
    >>> from reticent import losses, online
    >>> rng = np.random.default_rng(0)
    >>> places = rng.integers(0, 30, size=20_000) * 1000
    >>> X = sp.csr_array((np.ones(20_000), (np.arange(20_000), places)), shape=(20_000, 2**18))
    >>> y = np.where(places < 15_000, 1.0, -1.0)
    >>> learner = online.SparseLeader(
    ...     2**18,
    ...     losses.Logistic(ridge=1e-3),
    ...     budget=reticent.Budget(1.0, 1e-6),
    ...     horizon=20_000,
    ...     seed=0,
    ... )
    >>> play = learner.run(X, y)
    >>> bool(np.mean(np.sign(learner.predict(X)[:, 0]) == y) > 0.9), learner.total.touched
    (True, 30)
    """

    def __init__(
        self,
        columns: int,
        loss: Loss,
        *,
        budget: Budget,
        radius: float = 10.0,
        unit: float = 1.0,
        constant: float = 0.0,
        horizon: int | None = None,
        lipschitz: float | None = None,
        anchor: float | None = None,
        participation: Participation | None = None,
        seed: int | None = None,
    ) -> None:
        self._describe(columns, loss, radius, unit, constant, horizon, lipschitz, anchor)
        mechanism = CorrelatedMechanism(
            self.dim,
            self.horizon,
            budget=budget,
            norm=self.lipschitz,
            noise_precision="float",
            participation=participation,
        )
        self._settle(mechanism)
        self.total = OnDemand(mechanism, seed=seed)
        totals.warn_of(self.guarantee)

    def _describe(
        self, columns: Any, loss: Any, radius: Any, unit: Any, constant: Any, horizon: Any, lipschitz: Any,
        anchor: Any,
    ) -> None:  # fmt: skip
        self.columns = checks.integer(columns, "columns", low=1, high=2**40)
        self._outputs = int(getattr(loss, "outputs", 1))
        kernel: Any = None
        if self._outputs > 1:
            kernel = SOFTMAX, np.zeros(0)
        elif isinstance(loss, GeneralizedLinear):
            kernel = loss.kernel
        if kernel is None or isinstance(loss, Quadratic):
            raise TypeError(
                f"loss must be one of reticent.losses that has one linear predictor, got {loss!r}"
            )
        if not loss.ridge > 0.0:
            raise ValueError(
                f"loss must have a ridge above 0, got {loss!r}: without one, nothing keeps the weights of rare "
                "columns small"
            )
        self._kind, self._params = kernel
        self.loss = loss
        self.radius = checks.positive(radius, "radius")
        self.unit = checks.positive(unit, "unit")
        self.constant = checks.number(constant, "constant", low=0.0)
        if not self.constant < loss.feature_norm:
            raise ValueError(
                f"constant must be below the loss's feature_norm, {loss.feature_norm:g}, got {constant!r}"
            )
        self.horizon = check_horizon(horizon)
        self.lipschitz = _lipschitz(lipschitz, loss, WholeSpace(1))
        self.anchor = None if anchor is None else checks.number(anchor, "anchor", low=0.0)
        self._width = self.columns + (self.constant > 0.0)
        self.dim = self._outputs * self._width

    def _settle(self, mechanism: CorrelatedMechanism) -> None:
        """Compute the loop's constants, once the noise is known."""
        # Decisions are compared with the ball inside the cube. Of the noise only the part that a record sees
        # matters, which is that of one dimension, however many there are.
        ball = L2Ball(1, radius=self.radius)
        rule = _Projected(self.loss.ridge, self.anchor, None)
        rule.prepare(
            OnlineProblem(
                ball,
                self.lipschitz,
                self.loss.ridge,
                _smoothness(self.loss),
                self.horizon,
                mechanism.error,
            )
        )
        knobs = np.zeros(k.KNOBS)
        knobs[k.UNIT], knobs[k.CONSTANT] = self.unit, self.constant
        knobs[k.FEATURES] = math.sqrt(self.loss.feature_norm**2 - self.constant**2)
        knobs[k.LIMIT] = door.limit_for(self.lipschitz, self.dim)
        knobs[k.SCALE], knobs[k.RIDGE] = mechanism.scale(), self.loss.ridge
        knobs[k.ANCHOR], knobs[k.GROWTH], knobs[k.POWER] = rule.anchor, rule.growth, rule.power
        knobs[k.RADIUS], knobs[k.WIDTH] = self.radius, self._width
        knobs[k.LAST] = mechanism.last_step
        self._knobs = knobs
        buffers = len(mechanism.parameters.gap)
        self._learn = k.go(self._kind, 1, buffers)
        self._look = k.go(self._kind, 0, buffers)
        self._make_room_for(8)
        self._single = np.zeros(2, np.int64), np.zeros(1), np.zeros((1, self._outputs)), np.zeros(1)

    def _make_room_for(self, most: int) -> None:
        """Allocate working memory for records with up to twice this number of coordinates."""
        self._work, self._lists = np.empty((5, 2 * most)), np.empty((k.LISTS, 2 * most), np.int64)
        self._addresses = ArrayAddresses()
        self._laid: tuple[Any, Any] = (
            None,
            None,
        )  # the total's arrays among the addresses, which it may replace

    # What is known ---------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Number of records seen so far, gaps included."""
        return self.total.steps

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for every record, and for all predictions of the learner's life together."""
        return self.total.guarantee

    @property
    def clipped(self) -> int:
        """Number of records and gradients that exceeded their bounds. A diagnostic: it reads private data."""
        counters = self.total._counters
        return int(counters[demand.CLIPPED] + counters[demand.SHORTENED])

    @property
    def _lease(self) -> Lease:
        return self.total._lease

    @property
    def _lock(self) -> Any:
        return self.total._lease.lock

    @property
    def _position(self) -> tuple[str, int]:
        return self.total._position

    @property
    def _persons(self) -> Persons | None:
        return self.total._persons

    # One loop for learning and predicting ------------------------------------------------------------

    def _go(
        self,
        kernel: Any,
        X: Any,
        labels: FloatArray,
        gaps: NDArray[np.uint8],
        z: FloatArray,
        losses: FloatArray,
    ) -> None:
        """Write linear predictors and losses of CSR rows. The caller holds the lock."""
        indptr, indices, data = X
        total, done, count = self.total, 0, len(z)
        total._check()
        while True:
            done = kernel(
                done, indptr, indices, data, labels, gaps, self._params, self._knobs, total._filters,
                total._jumps, total._places, total._rows, total._counters, total._block,
                self._work, self._lists, z, losses,
            )  # fmt: skip
            total._moved()
            if done == count:
                return
            if done < 0:
                raise ValueError(_refusal(-1 - done, self.columns))
            # the loop stopped because it needs more memory or normals
            self._ready(int(indptr[done + 1] - indptr[done]))

    def _ready(self, features: int) -> None:
        """Provide memory and normals for a record with this number of features. The caller holds the lock."""
        most = (features + (self.constant > 0.0)) * self._outputs
        self.total._ready(most)
        if self._lists.shape[1] < most:
            self._make_room_for(most)

    def _one(
        self, kernel: Any, indices: NDArray[np.int64], values: FloatArray, label: float
    ) -> FloatArray:
        """Process one record and return its predictors, which the next call overwrites.

        The caller holds the lock.
        """
        ends, labels, z, losses = self._single
        ends[1], labels[0] = len(indices), label
        self._go(kernel, (ends, indices, values), labels, NO_GAPS, z, losses)
        return z[0]

    def _once(self, kernel: Any, names: bytes, values: FloatArray, label: float) -> float:
        """Process one record by a kernel that does everything; nan if it did nothing. The caller holds the lock."""
        total = self.total
        rows, block = self._laid
        if rows is not total._rows or block is not total._block:
            self._lay()
        lease = total._lease
        found: float = kernel(names, values, label, lease.furthest, self._addresses.addresses)
        if found == found:
            lease.furthest = total._counters.item(demand.MOVES)
        return found

    def _lay(self) -> None:
        """Take the addresses of the current arrays."""
        total = self.total
        self._addresses = ArrayAddresses(
            self._knobs, self._params, total._filters, total._jumps, total._places, total._rows,
            total._counters, total._block, self._work, self._lists, self._single[2],
        )  # fmt: skip
        self._laid = total._rows, total._block

    # What users call ---------------------------------------------------------------------------------

    def observe(self, record: Any, person: Any = None) -> None:
        """Learn from one record.

        Parameters
        ----------
        record : tuple or None
            ``(indices, values, label)``: columns, the features there, and the label; or ``None``, a gap in the stream.
        person : int, str or bytes, optional
            Id of the person whose record it is, if persons are protected. A record beyond the person's limit counts
            as a gap.
        """
        if record is not None:
            indices, values, label = record
            indices, values = self._row(indices, values)
            label = self._labels([label], values[None])[0]
        with self._lock:
            self.total._check_room(1)
            if record is None or not self._counts(person):
                nothing = np.zeros(2, np.int64), np.empty(0, np.int64), np.empty(0)
                _, labels, z, losses = self._single
                self._go(self._learn, nothing, labels, np.ones(1, np.uint8), z, losses)
            else:
                self._one(self._learn, indices, values, label)

    def _counts(self, person: Any) -> bool:
        return counts(self._persons, person, self.steps + 1)

    def _labels(self, y: Any, A: Any) -> FloatArray:
        if self._kind == SOFTMAX:
            return np.asarray(y, np.float64)
        return np.asarray(self.loss._prepare_labels(y, A)[0], np.float64)

    def _row(self, indices: ArrayLike, values: ArrayLike) -> tuple[NDArray[np.int64], FloatArray]:
        asked = np.asarray(indices)
        if asked.ndim != 1 or (asked.size and asked.dtype.kind not in "iu"):
            raise ValueError(
                f"indices must be a vector of integers, got an array of dtype {asked.dtype} and shape {asked.shape}"
            )
        asked = asked.astype(np.int64)
        if asked.size and not (asked.min() >= 0 and asked.max() < self.columns):
            raise ValueError(f"indices must not contain columns outside 0 to {self.columns - 1}")
        return asked, checks.vector(values, "values", len(asked))

    def run(
        self,
        X: Any,
        y: Any,
        *,
        present: Any = None,
        person: Any = None,
        keep_records: bool = True,
    ) -> Play:
        """Learn from the rows of a sparse matrix, one after the other.

        Parameters
        ----------
        X : sparse matrix
            One record per row. Entries may be unsorted; repeated ones are added.
        y : array
            The labels.
        present : array of bool, optional
            False where the stream has a gap.
        person : array, optional
            Id of the person of each record, if persons are protected. Records beyond a person's limit count as gaps.
        keep_records : bool
            Whether the result refers to the records, so that ``regret()`` can be computed.

        Returns
        -------
        Play
            Diagnostics that read private data. Decisions are not kept, because each has as many numbers as there are
            columns.
        """
        matrix = checked_rows(X, self.columns)
        labels = self._labels(y, matrix)
        begun, before = time.perf_counter(), self.clipped
        losses = self._learn_rows(matrix, labels, present, person)
        running = np.cumsum(losses)
        steps = np.arange(0, len(losses), max(1, -(-len(losses) // _PAGES))) + 1
        return Play(
            steps=steps,
            decisions=np.empty((0, self.dim)),
            cumulative_losses=running[steps - 1],
            losses=losses,
            count=len(losses),
            total_loss=float(running[-1]) if len(losses) else 0.0,
            clipped=self.clipped - before,
            seconds=time.perf_counter() - begun,
            guarantee=self.guarantee,
            learner=type(self).__name__,
            comparator=self._comparator(matrix, labels, present) if keep_records else None,
        )

    def _comparator(self, matrix: Any, labels: FloatArray, present: Any) -> Any:
        if self._outputs > 1 or self.constant or self.unit != 1.0:
            return None
        gaps = NO_GAPS if present is None else (~np.asarray(present)).astype(np.uint8)
        A, _, _ = self.loss.prepare(matrix, labels)
        ball = L2Ball(self.columns, radius=self.radius)
        return records.RecordsInHindsight(ball, self.loss, [records.Chunk(A, labels, gaps)])

    def _learn_rows(
        self, matrix: Any, labels: FloatArray, present: Any = None, person: Any = None
    ) -> FloatArray:
        """Learn from checked rows and labels, and return their losses."""
        count = matrix.shape[0]
        gaps = NO_GAPS
        if present is not None:
            there = np.asarray(present)
            if there.dtype != bool or there.shape != (count,):
                raise ValueError(
                    f"present must hold one boolean for each of the {count} rows, got an array of dtype "
                    f"{there.dtype} and shape {there.shape}"
                )
            gaps = (~there).astype(np.uint8)
        if self._persons is None:
            refuse_ids(None, person)
        with self._lock:
            self.total._check_room(count)
            if self._persons is not None:
                told = None if present is None else gaps == 0
                digests = self._persons.digests(person, count, told)
                self._persons.check_room(digests, self.steps + 1)
                self.total._ready(0)
                kept = self._persons.admit(digests, self.steps + 1)
                gaps = (~kept).astype(np.uint8) | gaps if gaps.size else (~kept).astype(np.uint8)
            z, losses = np.empty((count, self._outputs)), np.empty(count)
            self._go(self._learn, _arrays(matrix), np.asarray(labels, np.float64), gaps, z, losses)
            return losses

    def predict(self, X: Any) -> FloatArray:
        """Linear predictors, one column for each output. Covered by the guarantee.

        The coordinates that are read are brought up to date, which draws noise. So predicting moves the stream on,
        and the rules for saved states apply as for learning.

        Parameters
        ----------
        X : sparse matrix
            One record per row; longer ones are scaled down as when learning.

        Returns
        -------
        array
            The predictors, of shape (records, outputs).
        """
        matrix = checked_rows(X, self.columns)
        z = np.empty((matrix.shape[0], self._outputs))
        with self._lock:
            self._go(self._look, _arrays(matrix), _NO_LABELS, NO_GAPS, z, _NO_LABELS)
        return z

    @property
    def decision(self) -> FloatArray:
        """All weights, output after output. This brings every column up to date, so that all of them need memory."""
        everyone = np.arange(self.dim)
        out, places = np.empty(self.dim), np.empty(self.dim, np.int64)
        self.total.read(everyone)
        with self._lock:
            total = self.total
            places[total._rows[: total.touched, demand.COORDINATE].astype(np.int64)] = everyone
            k.weights(float(self.steps), self._knobs, total._rows, places, out)
        return out

    # Saved states ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that is needed to continue as if nothing had happened.

        It is a secret, because it contains exact totals.
        """
        with self._lock:
            return {
                "version": _VERSION,
                "kind": type(self).__name__,
                "id": self._lease.id,
                "steps": self.steps,
                "moves": self.total._moves,
                "loss": parts.describe(self.loss),
                "arguments": {
                    name: getattr(self, name)
                    for name in (
                        "columns",
                        "radius",
                        "unit",
                        "constant",
                        "horizon",
                        "lipschitz",
                        "anchor",
                    )
                },
                "total": self.total._facts(),
            }

    @classmethod
    def from_state(cls, state: dict[str, Any], **given: Any) -> Self:
        """Continue from a state; refused with ForkError if its stream has already been continued beyond it.

        Parameters
        ----------
        state : dict
            What :meth:`state` returned, or what `reticent.load_state` read.
        **given
            ``loss=`` if it is user-defined, because a state contains only data, no code.
        """
        check_kind(state, cls, _VERSION)
        self = cls.__new__(cls)
        loss = parts.restore(state["loss"], given.pop("loss", None), "loss")
        self._describe(loss=loss, **state["arguments"])
        # Not charged: the original was charged for its whole life.
        self.total = OnDemand.from_state(state["total"])
        self._settle(self.total.mechanism)
        return self

    def _given(self) -> dict[str, Any]:
        return {"loss": self.loss}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.columns} columns at step {self.steps}: {self.guarantee}>"


def checked_rows(X: Any, columns: int) -> Any:
    """A CSR matrix in double precision whose indices are in range; they may be unsorted and repeated."""
    if not sp.issparse(X):
        raise TypeError(
            f"X must be a sparse matrix of SciPy, got {type(X).__name__}; for dense records use "
            "FollowTheApproximateLeader, or make it sparse: scipy.sparse.csr_array(X)"
        )
    if X.ndim != 2 or X.shape[1] != columns:
        raise ValueError(f"X must have {columns} columns, got shape {X.shape}")
    matrix = sp.csr_array(X, dtype=np.float64)
    inside = matrix.indices.size == 0 or (
        matrix.indices.min() >= 0 and matrix.indices.max() < columns
    )
    straight = (np.diff(matrix.indptr) >= 0).all() and matrix.indptr[-1] <= len(matrix.data)
    if not inside or not straight or matrix.indptr[0] != 0:
        raise ValueError(
            f"X is not a valid CSR matrix of {columns} columns: its indices or row pointers are out of range"
        )
    if not door.finite(matrix.data[: matrix.indptr[-1]]):
        raise ValueError("X must be finite, but it contains NaN or infinity")
    return matrix


def _arrays(matrix: Any) -> tuple[Any, Any, Any]:
    """Convert to the types for which the loop is compiled: 64-bit integers, and writeable memory."""
    found = matrix.indptr, matrix.indices, matrix.data
    return tuple(  # type: ignore[return-value]
        np.require(part, np.float64 if at == 2 else np.int64, ("C", "W"))
        for at, part in enumerate(found)
    )


def _refusal(row: int, columns: int) -> str:
    return (
        f"record {row} is not finite, or has a column outside 0 to {columns - 1}; "
        "the records before it have been learnt from, it and those after it have not"
    )


__all__ = ["SparseLeader", "checked_rows"]
