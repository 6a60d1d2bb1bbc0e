"""What every online learner offers: a decision at any moment, one record or a whole stream at a time.

The protocol is online convex optimisation (Zinkevich 2003): play a decision, see a loss, play the
next. Here it comes with a guarantee about all decisions together, with gaps in the stream, and with
states that can be saved and continued.

A saved state holds clean sums and the key of the noise to come. It is as secret as the data, and it can
be continued once (see `reticent.privacy.ForkError`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
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
_ROWS = 16384  # records that are written down at a time
_KEPT_NUMBERS = 2**20
_NUMBERS = (float, int, np.float64, np.int64)


class OnlineLearner(Twins, ABC):
    """Base of the online learners."""

    def __init__(self, set: ConvexSet, loss: Loss | None, budget: Budget) -> None:
        if not isinstance(set, ConvexSet):
            raise TypeError(f"set must be a reticent.sets.ConvexSet, got {set!r}")
        if loss is not None and not isinstance(loss, Loss):
            raise TypeError(
                f"loss must be a reticent.losses.Loss or None, got {loss!r}; wrap callables in "
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
        """How many records have been seen, gaps included."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised about every record, for all decisions of the learner's life together."""

    @property
    @abstractmethod
    def _lease(self) -> Lease:
        """Who may take the next step."""

    @property
    def _lock(self) -> Any:
        """The lease's, which all twins share; held while a step is taken, and by no one twice."""
        return self._lease.lock

    @property
    def _position(self) -> tuple[str, int]:
        return self._lease.id, self.steps

    @property
    @abstractmethod
    def _point(self) -> FloatArray:
        """The decision, flat; not a copy."""

    # The methods from here to ``_facts`` are called by whoever holds the lock.

    @abstractmethod
    def _play(self, chunk: records.Chunk, wait: int, every: int, pages: FloatArray) -> FloatArray:
        """Learn from records that have been checked; write decisions down and return the losses."""

    @abstractmethod
    def _observe_record(self, a: FloatArray, label: float | None) -> None:
        """Learn from one record that has been checked and clipped."""

    @abstractmethod
    def _observe_gap(self) -> None:
        """Go on one step without a record."""

    @abstractmethod
    def _check_room(self, count: int) -> None:
        """Refuse what would not fit before anything is learnt from it."""

    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """What a saved state holds beyond the parts that every learner has."""

    @classmethod
    @abstractmethod
    def _from_facts(cls, state: dict[str, Any], set: Any, loss: Any, **given: Any) -> Self:
        """A learner that goes on from a saved state."""

    # What users call -------------------------------------------------------------------------------

    @property
    def decision(self) -> FloatArray:
        """What to play now, in the shape of the set. Covered by the guarantee."""
        point = self._point.copy()
        return point if self._flat else point.reshape(self.set.shape)

    @abstractmethod
    def update(self, gradient: ArrayLike | None, person: Any = None) -> FloatArray:
        """Learn from the gradient of the loss at ``decision``, and return the next decision.

        Only the part of the loss that depends on the record belongs in the gradient: a ridge of the
        learner's own loss is known to everyone and is added exactly. ``None`` is the null record,
        a gap in the stream. Where persons are protected, ``person`` says whose it is.
        """

    @property
    def _persons(self) -> Persons | None:
        """Whose records still count, where persons are protected."""
        return None

    def _counts(self, person: Any) -> bool:
        """Whether the next record counts."""
        return counts(self._persons, person, self.steps + 1)

    def observe(self, loss: Any, person: Any = None) -> FloatArray:
        """Learn from one loss, and return the next decision.

        Parameters
        ----------
        loss
            A record ``(a, y)`` of the learner's own loss, or a vector ``a`` where that has no
            labels; ``None``, a gap in the stream; or anything that gives a gradient at the decision:
            a callable, or an object with a method ``gradient``.
        person : int, str or bytes, optional
            Whose it is, where persons are protected; a record of someone who has none left is blanked.
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
        """One record, checked and clipped, and how much of it was; quick for those that need no change."""
        if self.loss is None:
            raise ValueError(
                "this learner was built without a loss and cannot read records; give it one "
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
        """Learn from many records, one after the other; compiled where all parts are built in.

        Parameters
        ----------
        X, y
            Records, one row each (dense or sparse), and their labels. Or, as ``X`` alone, an iterator
            of chunks ``X``, ``(X, y)`` or ``(X, y, present)``: a stream larger than memory.
        present : array of bool, optional
            False where the stream has a gap; such a row may hold anything.
        person : array, optional
            Whose each record is, where persons are protected: whole numbers, text or bytes. Records of
            a person who has none left are blanked, and count as gaps in the result. In a stream of
            chunks it comes fourth, ``(X, y, present, person)``.
        keep : int, optional
            How many decisions to write down, about; by default up to 1000.
        keep_records : bool, optional
            Whether the result refers to the records, so that ``regret()`` can be computed. By
            default yes for arrays (nothing is copied) and no for a stream.
        progress : bool
            Whether to show how far it is, on standard error.

        Returns
        -------
        Play
            Decisions, and diagnostics that read private data.
        """
        if self.loss is None:
            raise ValueError(
                "this learner was built without a loss and cannot read records; give it one "
                "(loss=losses.Logistic()), or call update(gradient) one at a time"
            )
        stream = records.is_stream(X)
        if stream and not (y is None and present is None and person is None):
            raise ValueError(
                "a stream of chunks brings its labels along: leave y, present and person out"
            )
        if keep is None:
            keep = min(1000, max(10, _KEPT_NUMBERS // self.dim))
        remember = (not stream) if keep_records is None else bool(keep_records)
        start = time.perf_counter()
        size = None
        if stream:
            parts_of_it = records.chunks(self.loss, self.dim, X)
        else:
            whole = records.prepare(self.loss, self.dim, X, y, present)
            whole.person = person
            size = len(whole)
            parts_of_it = iter([whole])
        diary = Diary(keep, size, self.dim, every_loss=not stream)
        before = self.clipped
        kept: list[records.Chunk] = []
        # The lock is let go between pieces: a stream may save the learner's state as it goes.
        with Progress(type(self).__name__, size, progress) as bar:
            for chunk in parts_of_it:
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

    def _ending(self) -> Callable[[float, Sequence[str] | None], Summary] | None:
        """What tells the noise in the decision as it is now, also later; None where that is not known."""
        return None

    def _digests(self, chunk: records.Chunk) -> Digests | None:
        """The persons of records that have been checked; bad ids are refused before anything is learnt."""
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
        """Make gaps of the records that do not count; for whoever holds the lock."""
        assert self._persons is not None
        some.gaps[~self._persons.admit(digests, self.steps + 1)] = 1

    # Saved states ----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that is needed to go on as if nothing had happened. A secret: it holds clean sums."""
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
        """Its parts as plain data: they stay as they are, and a stream may be saved with every record."""
        return {"set": parts.describe(self.set), "loss": parts.describe(self.loss)}

    @classmethod
    def from_state(cls, state: dict[str, Any], **given: Any) -> Self:
        """Go on from a state; refused if its stream has already been continued beyond it.

        Parameters
        ----------
        state
            What :meth:`state` returned, or what `reticent.load_state` read.
        **given
            ``set=``, ``loss=``, ``rule=`` or ``total=`` (a class) where they are not the library's own:
            a state holds data only, no code.
        """
        check_kind(state, cls, STATE_VERSION)
        set = parts.restore(state["set"], given.pop("set", None), "set")
        loss = parts.restore(state["loss"], given.pop("loss", None), "loss")
        # The original was charged for its whole life; nothing is charged here.
        learner = cls._from_facts(state, set, loss, **given)
        learner.clipped = int(state["clipped"])
        return learner

    def _given(self) -> dict[str, Any]:
        """The live parts, for a twin in this or another process that need not rebuild them."""
        return {"set": self.set} | ({} if self.loss is None else {"loss": self.loss})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self.set!r} at step {self.steps}: {self.guarantee}>"


def _label_rule(loss: Loss | None) -> Any:
    """A quick check of one label: the label as the kernels want it, or None for the slower way."""
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


def check_horizon(horizon: Any) -> int | None:
    return None if horizon is None else checks.integer(horizon, "horizon", low=1)
