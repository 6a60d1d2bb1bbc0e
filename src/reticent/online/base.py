"""The interface of every online learner: a decision at any moment, and learning from one record or a whole stream.

The protocol is online convex optimisation (Zinkevich 2003): play a decision, see a loss, play the next. Here there is
also a guarantee for all decisions together, and there may be gaps in the stream and states that can be saved and
continued.

A saved state contains exact sums and the key of future noise. It is as secret as the data, and it can be continued
only once (see `reticent.privacy.ForkError`).
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from reticent import checks
from reticent.checks import FloatArray
from reticent.losses import GeneralizedLinear, Linear, Loss, Quadratic
from reticent.losses.glm import _Classification, _Regression
from reticent.online import records
from reticent.privacy import Budget, Guarantee
from reticent.sets import ConvexSet
from reticent.state import parts
from reticent.state.files import check_kind
from reticent.state.lease import Lease
from reticent.state.persons import Digests, Persons
from reticent.state.twins import Twins
from reticent.sums.running import counts, refuse_ids
from reticent.trace import Diary, Play, Progress, Summary

STATE_VERSION = 4
_ROWS = 16384  # records that are played at a time
_KEPT_NUMBERS = 2**20
_NUMBERS = (float, int, np.float64, np.int64)


class OnlineLearner(Twins, ABC):
    """Base class of the online learners.

    Parameters
    ----------
    set : ConvexSet
        The set of decisions.
    loss : Loss or None
        The loss of a record; without it the learner accepts gradients only.
    budget : Budget
        What may be spent in the learner's whole life.
    """

    def __init__(self, set: ConvexSet, loss: Loss | None, budget: Budget) -> None:
        if not isinstance(set, ConvexSet):
            raise TypeError(f"set must be a reticent.sets.ConvexSet, got {set!r}")
        if loss is not None and not isinstance(loss, Loss):
            raise TypeError(
                f"loss must be a reticent.losses.Loss or None, got {loss!r}; wrap functions in "
                "losses.CustomLoss"
            )
        if not isinstance(budget, Budget):
            raise TypeError(f"budget must be a reticent.Budget, got {budget!r}")
        self.set = set
        self.loss = loss
        self.budget = budget
        self.dim = set.dim
        self._flat = set.shape == (set.dim,)
        self.clipped = 0
        self._label = _label_rule(loss)

    # What a learner provides -----------------------------------------------------------------------

    @property
    @abstractmethod
    def steps(self) -> int:
        """Number of records seen so far, gaps included."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The guarantee for every record, and for all decisions of the learner's life together."""

    @property
    @abstractmethod
    def _lease(self) -> Lease:
        """The lease, which decides who may take the next step."""

    @property
    def _lock(self) -> Any:
        """The lease's lock, which all copies share. It is held while a step is taken and is not reentrant."""
        return self._lease.lock

    @property
    def _position(self) -> tuple[str, int]:
        return self._lease.id, self.steps

    @property
    @abstractmethod
    def _point(self) -> FloatArray:
        """The decision, flat; not a copy."""

    # The callers of the methods from here to ``_facts`` hold the lock.

    @abstractmethod
    def _play(self, chunk: records.Chunk, wait: int, every: int, pages: FloatArray) -> FloatArray:
        """Learn from checked records; write decisions into ``pages`` and return the losses."""

    @abstractmethod
    def _observe_record(self, a: FloatArray, label: float | None) -> None:
        """Learn from one record that has been checked and clipped."""

    @abstractmethod
    def _observe_gap(self) -> None:
        """Take one step without a record."""

    @abstractmethod
    def _check_room(self, count: int) -> None:
        """Refuse records that would exceed the horizon, before anything is learnt from them."""

    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """What a saved state contains in addition to the parts that every learner has."""

    @classmethod
    @abstractmethod
    def _from_facts(cls, state: dict[str, Any], set: Any, loss: Any, **given: Any) -> Self:
        """A learner that continues from a saved state."""

    # What users call -------------------------------------------------------------------------------

    @property
    def decision(self) -> FloatArray:
        """The decision to play now, in the shape of the set. Covered by the guarantee."""
        point = self._point.copy()
        return point if self._flat else point.reshape(self.set.shape)

    @abstractmethod
    def update(self, gradient: ArrayLike | None, person: Any = None) -> FloatArray:
        """Learn from the gradient of the loss at ``decision``, and return the next decision.

        Parameters
        ----------
        gradient : array or None
            The gradient of the part of the loss that depends on the record: the learner's own ridge is public and is
            added exactly. It is clipped to ``lipschitz``. ``None`` is the null record, a gap in the stream.
        person : int, str or bytes, optional
            Id of the person whose record it is, if persons are protected.

        Returns
        -------
        array
            The next decision.
        """

    @property
    def _persons(self) -> Persons | None:
        """The table of persons, if persons are protected."""
        return None

    def _counts(self, person: Any) -> bool:
        """Whether the next record counts, which is noted in the table of persons. The caller holds the lock."""
        return counts(self._persons, person, self.steps + 1)

    def observe(self, loss: Any, person: Any = None) -> FloatArray:
        """Learn from one loss, and return the next decision.

        Parameters
        ----------
        loss : tuple, array, callable, object or None
            A record ``(a, y)`` of the learner's own loss, or a vector ``a`` if that has no labels; ``None``, a gap in
            the stream; or anything that gives a gradient at the decision: a function, or an object with a method
            ``gradient``.
        person : int, str or bytes, optional
            Id of the person whose record it is, if persons are protected. A record beyond the person's limit counts
            as a gap.

        Returns
        -------
        array
            The next decision.
        """
        if loss is not None and (callable(loss) or hasattr(loss, "gradient")):
            see = loss.gradient if hasattr(loss, "gradient") else loss
            return self.update(np.reshape(see(self.decision), -1), person)
        record = None
        if loss is not None:
            record = self._admit(*loss) if isinstance(loss, tuple) else self._admit(loss, None)
        with self._lock:
            self._check_room(1)
            if record is None or not self._counts(person):
                self._observe_gap()
            else:
                a, label, clipped = record
                self._observe_record(a, label)
                self.clipped += clipped
            return self.decision

    def _admit(self, a: Any, y: Any) -> tuple[FloatArray, float | None, int]:
        """Check and clip one record, and count what was clipped; fast if nothing needs to change."""
        if self.loss is None:
            raise ValueError(
                "this learner was built without a loss and cannot read records; build it with one "
                "(loss=losses.Logistic()), or call update(gradient)"
            )
        if self._label is not None and type(a) is np.ndarray and a.dtype == np.float64:
            label = self._label(y, a)
            if label is not None and a.shape == (self.dim,) and a.flags.c_contiguous:
                square = records.longest(a[None])
                # well within the bound, so that rounding cannot make the slower way clip it
                if square <= self.loss.feature_norm**2 * (1.0 - 1e-12):  # type: ignore[attr-defined]
                    return a, label, 0
        row = checks.real_array(a, "a")
        if row.shape != (self.dim,):
            raise ValueError(f"a must be a vector of length {self.dim}, got shape {row.shape}")
        chunk = records.prepare(self.loss, self.dim, row[None], None if y is None else [y])
        label = None if chunk.labels is None else chunk.labels[0]
        return np.ascontiguousarray(chunk.A[0]), label, chunk.clipped

    def run(
        self,
        X: Any,
        y: Any = None,
        *,
        present: Any = None,
        person: Any = None,
        keep: int | None = None,
        keep_records: bool | None = None,
        progress: bool = False,
    ) -> Play:
        """Learn from many records, one after the other, in a compiled loop if all parts are built in.

        Parameters
        ----------
        X : array, sparse matrix or iterator
            Records, one per row. Or an iterator of chunks ``X``, ``(X, y)``, ``(X, y, present)`` or ``(X, y, present,
            person)``, for a stream larger than memory.
        y : array, optional
            The labels.
        present : array of bool, optional
            False where the stream has a gap; such a row may contain anything.
        person : array, optional
            Id of the person of each record, if persons are protected: whole numbers, text or bytes. Records beyond a
            person's limit count as gaps.
        keep : int, optional
            Approximate number of decisions to keep; by default up to 1000.
        keep_records : bool, optional
            Whether the result refers to the records, so that ``regret()`` can be computed. By default yes for arrays
            (nothing is copied) and no for a stream of chunks.
        progress : bool
            Whether to show progress on standard error.

        Returns
        -------
        Play
            Decisions, and diagnostics that read private data.
        """
        if self.loss is None:
            raise ValueError(
                "this learner was built without a loss and cannot read records; build it with one "
                "(loss=losses.Logistic()), or call update(gradient) for each record"
            )
        if keep is None:
            keep = min(1000, max(10, _KEPT_NUMBERS // self.dim))
        start = time.perf_counter()
        chunks, size = self._chunks(X, y, present, person)
        stream = size is None
        remember = (not stream) if keep_records is None else bool(keep_records)
        diary = Diary(keep, size, self.dim, every_loss=not stream)
        before = self.clipped
        kept: list[records.Chunk] = []
        # The lock is released between pieces, because a stream may save the learner's state on the way.
        with self._telling(), Progress(type(self).__name__, size, progress) as bar:
            for chunk in chunks:
                self._check_room(len(chunk))
                digests = self._digests(chunk)
                self.clipped += chunk.clipped
                for first in range(0, len(chunk), _ROWS):
                    some = chunk.rows(first, first + _ROWS)
                    pages = diary.pages(len(some))
                    with self._lock:
                        if digests is not None:
                            self._blank(some, digests[first : first + _ROWS])
                        losses = self._play(some, diary.wait, diary.every, pages)
                    diary.write(pages, losses)
                    bar.advance(len(some))
                if remember and len(chunk):
                    kept.append(chunk)
        return diary.close(
            self.set.shape,
            clipped=self.clipped - before,
            seconds=time.perf_counter() - start,
            guarantee=self.guarantee,
            learner=type(self).__name__,
            comparator=records.RecordsInHindsight(self.set, self.loss, kept) if kept else None,
            ending=self._ending(),
        )

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Add to an error in this block how many records have been counted, because they must not count twice."""
        before = self.steps
        try:
            yield
        except BaseException as error:
            if self.steps > before:
                error.add_note(
                    f"The first {self.steps - before} of these records have been counted: do not pass them again."
                )
            raise

    def _chunks(
        self, X: Any, y: Any, present: Any, person: Any
    ) -> tuple[Iterator[records.Chunk], int | None]:
        """Records to learn from, in checked chunks; and their number, None for a stream."""
        assert self.loss is not None
        if records.is_stream(X):
            if not (y is None and present is None and person is None):
                raise ValueError(
                    "a stream of chunks contains its labels: leave out y, present and person"
                )
            return records.chunks(self.loss, self.dim, X), None
        whole = records.prepare(self.loss, self.dim, X, y, present)
        whole.person = person
        return iter([whole]), len(whole)

    def _ending(self) -> Callable[[float, Sequence[str] | None], Summary] | None:
        """A function that summarises the noise in the current decision, also later; None if that is not known."""
        return None

    def _digests(self, chunk: records.Chunk) -> Digests | None:
        """The persons of checked records; invalid ids are refused before anything is learnt."""
        if self._persons is None:
            refuse_ids(None, chunk.person)
            return None
        there = chunk.gaps == 0 if chunk.gaps.size else None
        digests = self._persons.digests(chunk.person, len(chunk), there)
        self._persons.check_room(digests, self.steps + 1)
        if not chunk.gaps.size:
            chunk.gaps = np.zeros(len(chunk), np.uint8)
        return digests

    def _blank(self, some: records.Chunk, digests: Digests) -> None:
        """Turn records that do not count into gaps. The caller holds the lock."""
        assert self._persons is not None
        some.gaps[~self._persons.admit(digests, self.steps + 1)] = 1

    # Saved states ----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that is needed to continue as if nothing had happened.

        It is a secret, because it contains exact sums.
        """
        with self._lock:
            return {
                "version": STATE_VERSION,
                "kind": type(self).__name__,
                "id": self._lease.id,
                "steps": self.steps,
                "clipped": self.clipped,
                **self._described,
                **self._facts(),
            }

    @cached_property
    def _described(self) -> dict[str, Any]:
        """The set and the loss as plain data; cached, because a stream may be saved with every record."""
        return {"set": parts.describe(self.set), "loss": parts.describe(self.loss)}

    @classmethod
    def from_state(cls, state: dict[str, Any], **given: Any) -> Self:
        """Continue from a state; refused with ForkError if its stream has already been continued beyond it.

        Parameters
        ----------
        state : dict
            What :meth:`state` returned, or what `reticent.load_state` read.
        **given
            ``set=``, ``loss=``, ``rule=`` or ``total=`` (a class) if they are user-defined, because a state contains
            only data, no code.
        """
        check_kind(state, cls, STATE_VERSION)
        set = parts.restore(state["set"], given.pop("set", None), "set")
        loss = parts.restore(state["loss"], given.pop("loss", None), "loss")
        # Not charged: the original was charged for its whole life.
        learner = cls._from_facts(state, set, loss, **given)
        learner.clipped = int(state["clipped"])
        return learner

    def _given(self) -> dict[str, Any]:
        """The set and the loss, for a copy in this or another process that need not rebuild them."""
        return {"set": self.set} | ({} if self.loss is None else {"loss": self.loss})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self.set!r} at step {self.steps}: {self.guarantee}>"


def _label_rule(loss: Loss | None) -> Any:
    """A fast check of one label, which returns the label for the kernels, or None if the full check is needed."""
    if (
        not isinstance(loss, GeneralizedLinear)
        or type(loss).prepare is not GeneralizedLinear.prepare
    ):
        return None
    if isinstance(loss, _Classification):
        return lambda y, a: float(y) if type(y) in _NUMBERS and abs(y) == 1 else None
    if isinstance(loss, _Regression):
        low, high = loss.label_bounds
        return lambda y, a: float(y) if type(y) in _NUMBERS and low <= y <= high else None
    if isinstance(loss, Linear):
        return lambda y, a: 0.0
    if isinstance(loss, Quadratic):
        return loss._label
    return None


def check_horizon(horizon: Any, longest: int = 2**62) -> int | None:
    return None if horizon is None else checks.integer(horizon, "horizon", low=1, high=longest)
