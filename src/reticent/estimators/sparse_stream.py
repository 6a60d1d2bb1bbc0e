"""Streams of sparse records for the online estimators, learnt by the sparse leader.

They work like those of :mod:`reticent.estimators.stream`, in time and memory proportional to the nonzeros of the
records (`reticent.online.SparseLeader`, docs/algorithms/on-demand.md). Weights are drawn when they are read, so
predicting draws noise and advances the stream: a twin that predicts has continued it.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.sparse as sp

from reticent.compiling import COMPILED
from reticent.estimators import kernels as k
from reticent.estimators.dictionaries import SparseRecord, placed
from reticent.estimators.stream import FloatArray, Stream, StreamPlan
from reticent.losses import ClipCounts, Loss
from reticent.online.sparse_leader import SparseLeader, checked_rows
from reticent.privacy import Guarantee
from reticent.state.lease import find
from reticent.sums import on_demand_kernels as demand

WIDE = 2**14
"""Sparse records with more columns than this are learnt by the sparse leader by default."""


def chosen(learner: str, sparse: bool, columns: int) -> bool:
    """Whether a stream is learnt by the sparse leader; decided by public facts only."""
    return learner == "sparse-leader" or (learner == "auto" and sparse and columns > WIDE)


class SparseStream(Stream):
    """A sparse leader and the number of records it has seen."""

    _learner: SparseLeader  # type: ignore[assignment]

    def __init__(self, plan: StreamPlan) -> None:
        if plan.first is not None:
            raise ValueError(
                "private bounds are not supported by the sparse leader: state feature_norm and label_bounds, or use "
                "learner='regularized-leader', which takes time in proportion to the number of columns"
            )
        self.plan = plan
        self.seen = 0
        self.beyond = 0
        self._saved = None
        self._learner = SparseLeader(
            plan.columns,
            plan.loss(),
            budget=plan.budget,
            radius=plan.coefficient_norm,
            unit=plan.feature_norm,
            constant=plan.scaling,
            horizon=plan.horizon,
            lipschitz=plan.influence * plan.norm,
            participation=plan.participation,
            seed=plan.seed,
        )
        self._guarantee = self._learner.guarantee

    def _live(self) -> SparseLeader:
        """The learner; a twin takes up the stream now, or is refused."""
        if self._saved is not None or self._torn is not None:
            self._resume()
        return self._learner

    @property
    def clipped(self) -> ClipCounts:
        """How many records were clipped. Reads private data."""
        counters = self._counters
        return ClipCounts(int(counters[demand.CLIPPED]), self.beyond, self.seen)

    @property
    def gradients_clipped(self) -> int:
        """How many gradients were clipped. Reads private data."""
        return int(self._counters[demand.SHORTENED])

    @property
    def _counters(self) -> Any:
        if self._saved is not None:
            return self._saved[0]["total"]["counters"]
        return self._learner.total._counters

    # Learning -------------------------------------------------------------------------------------

    @functools.cached_property
    def _kernel(self) -> tuple[Any, Any]:
        """Two kernels for one record of named features: one that predicts, one that learns."""
        buffers = self._learner.total._buffers
        return k.named(self.plan.kind, 0, buffers), k.named(self.plan.kind, 1, buffers)

    def _one(self, learning: int, v: SparseRecord, label: float) -> float:
        """Predict for one record or learn from it; returns the linear predictor of the first output."""
        learner = self._learner if self._saved is None and self._torn is None else self._live()
        with learner.total._lease.lock:
            if type(v[0]) is bytes and COMPILED:
                kernel = self._kernel[learning]
                z = learner._once(kernel, v[0], v[1], label)
                if z != z:
                    learner._ready(len(v[1]))  # usually there are too few prepared normals
                    z = learner._once(kernel, v[0], v[1], label)
                if z == z:
                    return z
            if not np.isfinite(v[1]).all():
                raise ValueError("features must be finite; nothing was learnt from this record")
            if learning:
                learner.total._check_room(1)
            loop = learner._learn if learning else learner._look
            return float(learner._one(loop, *placed(v, self.plan.columns), label)[0])

    def learn_one(  # type: ignore[override]
        self, v: SparseRecord, label: float, beyond: bool = False, person: Any = None
    ) -> None:
        """Learn from one record: names and values, and a label in the kernel's encoding."""
        if person is None and self.plan.participation is None:
            self._one(1, v, label)
        else:
            self._live().observe((*placed(v, self.plan.columns), label), person)
        self.seen += 1
        self.beyond += beyond

    def learn(self, X: Any, labels: FloatArray, beyond: int = 0, person: Any = None) -> None:
        """Learn from many records: from all of them or from none."""
        learner = self._live()
        rows = checked_rows(sp.csr_array(X), self.plan.columns)
        count = rows.shape[0]
        self._check_room(count)
        with self.whole(count):
            learner._learn_rows(rows, labels, person=person)
            self.beyond += beyond
            self.seen += count

    def gap(self) -> None:
        """Advance by one step without a record."""
        self._live().observe(None)
        self.seen += 1

    # Predicting -----------------------------------------------------------------------------------

    def predictors(self, X: Any) -> FloatArray:
        """The linear predictors of many records, one column per output."""
        return self._live().predict(sp.csr_array(X))

    def predictors_one(self, v: SparseRecord) -> FloatArray:  # type: ignore[override]
        """The linear predictor of every output for one record."""
        learner = self._live()
        with learner._lock:
            return learner._one(learner._look, *placed(v, self.plan.columns), 0.0).copy()

    def predictor_one(self, v: SparseRecord) -> float:  # type: ignore[override]
        """The linear predictor for a single output."""
        return self._one(0, v, 0.0)

    @property
    def weights(self) -> FloatArray:
        """Outputs by columns, with the constant feature last; reading updates every column."""
        return self._live().decision.reshape(self.plan.outputs, self.plan.width)

    # Twins ----------------------------------------------------------------------------------------

    @property
    def position(self) -> tuple[str, int]:
        """The id of the stream and the number of moves made."""
        if self._saved is None:
            return self._learner._position
        return self.lease.id, int(self._saved[0]["moves"])

    def state(self) -> dict[str, Any]:
        """Everything that is needed to continue exactly from here. A secret: it holds clean sums."""
        if self._torn is not None:
            self._resume()  # refuses: the counts miss some records that the learner has taken
        self.lease.refuse_copies("stream")
        return {
            "plan": self.plan.to_dict(),
            "learner": self._learner.state() if self._saved is None else self._saved[0],
            "seen": self.seen,
            "beyond": self.beyond,
            "guarantee": self._guarantee.to_dict(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> SparseStream:
        """A twin of the stream that gave this state; its learner is restored when it is needed."""
        twin = object.__new__(cls)
        twin.plan = plan = StreamPlan.from_dict(state["plan"])
        twin.seen, twin.beyond = int(state["seen"]), int(state["beyond"])
        twin._guarantee = Guarantee.from_dict(state["guarantee"])
        twin._wait(state["learner"], plan.loss())
        return twin

    def _wait(self, learner: dict[str, Any], loss: Loss) -> None:
        self._saved = (learner, {"loss": loss})
        self._twin_of = find(learner["id"], int(learner["moves"]))
        self._twin_of.hold(self)

    def _take_up(self, state: dict[str, Any], given: dict[str, Any]) -> Any:
        return SparseLeader.from_state(state, **given)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        learner, given = state["_saved"]
        self._wait(learner, given["loss"])


def begun(plan: StreamPlan) -> Stream:
    """A fresh stream for a plan."""
    return SparseStream(plan) if plan.sparse else Stream(plan)


def restored(state: dict[str, Any]) -> Stream:
    """A twin of the stream that gave this state."""
    return (SparseStream if state["plan"].get("sparse") else Stream).from_state(state)
