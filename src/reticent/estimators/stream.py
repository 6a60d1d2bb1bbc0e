"""Private streams under the online estimators: clipped records, an appended intercept, one learner for all outputs.

The learner is the regularised leader with its default regulariser, over averaged totals (docs/algorithms/ftrl.md), or
for a table with numeric labels the quadratic leader of [online], Algorithm 4 (docs/algorithms/quadratic-leader.md).
Several classes are learnt with one softmax loss: the K gradients of a record form one vector that is clipped like a
single one, so that all classes are one release with the whole budget. docs/estimators.md explains the choice of
learner.

Gradients are clipped to a fraction of their largest possible norm, the ``influence`` of a record, and noise is
calibrated to that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp, softmax

from reticent.checks import FloatArray
from reticent.estimators import kernels as k
from reticent.estimators.first_bounds import First, FirstRecords, Found
from reticent.estimators.parameters import budget, participation, refuse_quadratic
from reticent.estimators.scaling import ROOM, Units, to_unit
from reticent.losses import ClipCounts, Huber, Logistic, Loss, Squared
from reticent.losses.kernels import HUBER, LOGISTIC, SOFTMAX
from reticent.losses.records import clip_labels
from reticent.noise import Source, door
from reticent.online import FollowTheRegularizedLeader, QuadraticLeader
from reticent.online.base import STATE_VERSION as ONLINE_VERSION
from reticent.online.learner import TotalLearner
from reticent.privacy import Budget, Guarantee, Participation, charge, uncharged
from reticent.privacy.guarantee import with_details
from reticent.sets import L2Ball
from reticent.state.files import check_kind
from reticent.state.lease import Lease, find
from reticent.state.persons import as_array
from reticent.sums.running import refuse_ids

_ROWS = 4096  # rows of a sparse matrix that are made dense at a time
_NUMBERS = 2**22  # largest number of entries that these may have


class Softmax(Loss):
    """Negative logarithm of the softmax probability of a record's class; the label is the index of the class.

    Parameters
    ----------
    outputs : int
        Number of classes.
    feature_norm : float
        Largest norm of a row.
    ridge : float
        Coefficient of (1/2) ||x||^2.
    """

    def __init__(self, outputs: int, feature_norm: float, ridge: float) -> None:
        self.outputs = outputs
        self.feature_norm = feature_norm
        self.ridge = ridge

    def value(self, x: FloatArray, a: FloatArray, y: float | None = None) -> float:
        z = x.reshape(self.outputs, -1) @ a
        return float(logsumexp(z) - z[int(y or 0)] + 0.5 * self.ridge * x @ x)

    def gradient(self, x: FloatArray, a: FloatArray, y: float | None = None) -> FloatArray:
        p = softmax(x.reshape(self.outputs, -1) @ a)
        return np.outer(p - (np.arange(self.outputs) == y), a).ravel() + self.ridge * x

    def data_lipschitz(self, set: Any = None) -> float:
        return self.feature_norm * math.sqrt(2.0)

    @property
    def smoothness(self) -> float:
        # the eigenvalues of diag(p) - pp' are at most 1/2
        return 0.5 * self.feature_norm**2 + self.ridge

    @property
    def strong_convexity(self) -> float:
        return self.ridge


@dataclass(frozen=True)
class StreamPlan:
    """Description of a stream; all of it is public."""

    kind: int
    columns: int
    outputs: int
    budget: Budget
    feature_norm: float
    scaling: float
    """Value of the constant feature next to features of norm 1; 0 for no intercept."""
    ridge: float
    coefficient_norm: float
    horizon: int | None
    seed: int | None
    influence: float = 1.0
    """Gradients are clipped to this fraction of ``norm``."""
    quadratic: bool = False
    participation: Participation | None = None
    """How often a person may take part; None if records are protected."""
    sparse: bool = False
    """Whether the learner is the sparse leader."""
    first: First | None = None
    """What is found from the first records; ``feature_norm`` is 1 until then."""

    @property
    def width(self) -> int:
        return self.columns + (self.scaling > 0.0)

    @property
    def norm(self) -> float:
        """Largest norm of a row with its constant feature, after division by ``feature_norm``."""
        return math.hypot(1.0, self.scaling) * ROOM

    def loss(self) -> Loss:
        if self.kind == LOGISTIC:
            return Logistic(feature_norm=self.norm, ridge=self.ridge)
        if self.quadratic:
            return Squared(feature_norm=self.norm, ridge=self.ridge)
        if self.kind == HUBER:
            return Huber(1.0, feature_norm=self.norm, ridge=self.ridge)
        return Softmax(self.outputs, self.norm, self.ridge)

    def learner(self) -> TotalLearner:
        ball = L2Ball(self.outputs * self.width, radius=self.coefficient_norm)
        known: dict[str, Any] = {
            "budget": self.budget,
            "horizon": self.horizon,
            "seed": self.seed,
            "participation": self.participation,
        }
        if self.quadratic:
            return QuadraticLeader(ball, self.loss(), **known)
        return FollowTheRegularizedLeader(
            ball, self.loss(), lipschitz=self.influence * self.norm, averaging=True, **known
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for a saved state."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)} | {
            "budget": dict(vars(self.budget)),
            "participation": None if self.participation is None else dict(vars(self.participation)),
            "first": None if self.first is None else {**vars(self.first), "budget": None},
        }

    @functools.cached_property
    def shape(self) -> dict[str, Any]:
        """The plan as plain data without the seed: what may leave with a model."""
        return self.to_dict() | {"seed": None}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> StreamPlan:
        """The inverse of :meth:`to_dict`."""
        rule, first, budget = data["participation"], data.get("first"), Budget(**data["budget"])
        parts = {
            "budget": budget,
            "participation": None if rule is None else Participation(**rule),
            "first": None if first is None else First(**{**first, "budget": budget}),
        }
        return cls(**data | parts)

    def settings(self) -> FloatArray:
        out = np.zeros(k.SETTINGS)
        out[k.NORM] = self.feature_norm
        out[k.SCALING] = self.scaling
        out[k.OUTPUTS] = self.outputs
        return out

    def facts(self) -> tuple[str, ...]:
        """Lines for the explanation of the guarantee."""
        lines = [f"features clipped to norm {self.feature_norm:g}, then divided by it"]
        if self.first is not None:
            lines[0] = (
                f"{'bounds' if self.first.norm is None else 'centers, spreads and norm of the features'} found "
                f"from the first {self.first.count} records, which are not learnt from"
            )
        if self.scaling:
            lines[0] += f"; intercept from a constant feature {self.scaling:g}"
        if not self.quadratic:
            what = f"the gradients of {self.outputs} classes" if self.outputs > 1 else "gradients"
            lines.append(
                f"{what} are clipped to norm {self.influence * self.norm:.6g}"
                + (" together: one release, the budget is not split" if self.outputs > 1 else "")
            )
        return tuple(lines)


def plan_of(
    values: Mapping[str, Any],
    columns: int,
    classes: int | None,
    first: Mapping[str, Any],
    *,
    horizon: int | None,
    seed: int | None,
    sparse: bool = False,
) -> StreamPlan:
    """The plan of a stream with checked parameters.

    Parameters
    ----------
    values : mapping
        Checked parameters of an online estimator.
    columns : int
        Number of features.
    classes : int or None
        Number of classes; None if labels are numbers.
    first : mapping
        ``feature_norm`` and ``first``, from :func:`reticent.estimators.first_bounds.found_first`.
    horizon : int or None
        Upper bound on the number of records; None if unknown.
    seed : int or None
        Seed of the noise; None for a cryptographic generator.
    sparse : bool
        Whether the learner is the sparse leader. Default: False.
    """
    quadratic = values["learner"] == "quadratic-leader"
    if classes is None:
        kind, outputs = HUBER, 1
    else:
        refuse_quadratic(values)
        kind, outputs = (LOGISTIC, 1) if classes == 2 else (SOFTMAX, classes)
    # defaults of the ridge and of the norm of the coefficients
    ridge, norm = 0.0, 16.0 if kind == HUBER else 50.0
    if sparse or quadratic:
        ridge, norm = (1e-2, 3.0) if kind == HUBER else (1e-3, 10.0)
    given = values["ridge"], values["coefficient_norm"]
    return StreamPlan(
        kind=kind,
        columns=columns,
        outputs=outputs,
        budget=budget(values),
        scaling=values["intercept_scaling"] if values["fit_intercept"] else 0.0,
        ridge=ridge if given[0] is None else given[0],
        coefficient_norm=norm if given[1] is None else given[1],
        horizon=horizon,
        seed=seed,
        influence=values["influence"],
        quadratic=quadratic,
        participation=participation(values),
        sparse=sparse,
        **first,
    )


class Stream:
    """A learner, its current weights, and counts of clipped records.

    A pickled or copied stream is a twin that can be read. Of all twins in a process, the first that learns continues
    the stream; the others are refused with a `reticent.privacy.ForkError`.

    Parameters
    ----------
    plan : StreamPlan
        Description of the stream.
    base : array, optional
        Flat weights to start from, released by an earlier stream of other records.
    found : Found, optional
        Bounds that an earlier stream found and released; only if the plan has none to find.
    """

    _torn: tuple[int, int] | None = None  # records taken and records given, after an interruption

    _kept: FirstRecords | None = None  # the first records, until bounds have been found
    found: Found | None = None

    def __init__(
        self, plan: StreamPlan, base: FloatArray | None = None, found: Found | None = None
    ) -> None:
        self.plan = plan
        self.seen = 0
        self.counts = [0, 0]
        self._base = base
        self._saved: tuple[dict[str, Any], dict[str, Any]] | None = None
        if plan.first is None:
            self._learner = plan.learner()
            self._guarantee = self._learner.guarantee
        else:
            self._learner = uncharged(plan.learner)
            first = plan.first.guarantee(plan.seed is not None)
            self._guarantee = Guarantee.parallel(first, self._learner.guarantee)
            charge(self._guarantee, "a stream with bounds from its first records")
            self._kept = FirstRecords(_source(plan.seed))
        self._settings = plan.settings()
        if found is not None:
            self._take(found)
        self._quadratic = plan.quadratic
        if not self._quadratic:
            kinds = self._learner._kinds  # type: ignore[attr-defined]
            self._kernel = k.learn(plan.kind, *kinds)
        self._show(self._learner.decision)

    def _show(self, decision: FloatArray) -> None:
        self._weights = decision if self._base is None else decision + self._base

    @property
    def weights(self) -> FloatArray:
        """Weights, outputs by columns, with the constant feature last."""
        return self._weights.reshape(self.plan.outputs, self.plan.width)

    @property
    def finished(self) -> bool:
        """Whether the horizon has been reached."""
        return self.seen == self.plan.horizon

    @functools.cached_property
    def guarantee(self) -> Guarantee:
        """The learner's guarantee, with lines on what was clipped."""
        return with_details(self._guarantee, self.plan.facts())

    @property
    def clipped(self) -> ClipCounts:
        """How many records were clipped. Reads private data."""
        return ClipCounts(self.counts[0], self.counts[1], self.seen)

    @property
    def gradients_clipped(self) -> int:
        """How many gradients were clipped. Reads private data."""
        return int(self._learner.clipped if self._saved is None else self._saved[0]["clipped"])

    # Learning -------------------------------------------------------------------------------------

    def learn_one(
        self, v: FloatArray, label: float, beyond: bool = False, person: Any = None
    ) -> None:
        """Learn from one record: float64 features, and a label in the kernel's encoding."""
        if self._saved is not None or self._torn is not None:
            self._resume()
        kept = self._kept
        if kept is not None:
            if not np.isfinite(v).all():
                raise _refusal(v)
            with kept.lock:
                if self._kept is kept:
                    self._keep(v, label)
                    return
        if self.found is not None:
            v, label, beyond = self._in_units(v, label, beyond)
        if (
            self._base is None
            and not self._quadratic
            and person is None
            and self.plan.participation is None
        ):
            gradient = np.empty_like(self._weights)
            learner: Any = self._learner
            code, weights = learner._once(self._kernel, v, label, self._settings, gradient)
            if code < 0:
                raise _refusal(v)
            self._weights, clipped = weights, code >> 1
        else:
            clipped = self._learn_apart(v, label, person)
        self.seen += 1
        if clipped or beyond:
            self.counts[0] += clipped
            self.counts[1] += beyond

    # Bounds from the first records -----------------------------------------------------------------

    def _keep(self, v: FloatArray, label: float) -> None:
        """Store one of the first records; the learner takes a step without a record, so that twins are detected."""
        assert self._kept is not None
        self._step_without()
        self._kept.add(v, label)
        self._find_if_due()

    def _step_without(self) -> None:
        self._learner.observe(None)
        self._show(self._learner.decision)
        self.seen += 1

    def _find_if_due(self) -> None:
        first = self.plan.first
        if self._kept is None or first is None or self.seen < first.count:
            return
        # Whatever happens, these records are counted once: a second search would be a second release.
        kept, self._kept = self._kept, None
        rows, labels = kept.table(self.plan.columns)
        try:
            self._take(first.found(rows, labels, kept.source))
        except BaseException:
            self._torn = (first.count, first.count)
            raise

    def _take(self, found: Found) -> None:
        """Learn with these bounds from now on."""
        self.found = found
        if found.units is not None:
            self.plan = dataclasses.replace(self.plan, feature_norm=found.units.norm)
            self.__dict__.pop("_described", None)
            self._settings = self.plan.settings()

    def _in_units(self, v: FloatArray, label: float, beyond: bool) -> tuple[Any, float, bool]:
        """One record in the units that were found; the norm of its features is not clipped yet."""
        assert self.found is not None
        if self.found.units is not None:
            if not np.isfinite(v).all():
                raise _refusal(v)
            v = self.found.units.scaled(v)
        if self.found.labels is not None:
            low, high = self.found.labels
            beyond = not low <= label <= high
            label = float(to_unit(min(max(label, low), high), low, high))
        return v, label, beyond

    def _learn_apart(self, v: FloatArray, label: float, person: Any) -> int:
        """Learn from one record with gradients at other weights than the learner's, or without gradients."""
        gradient = np.empty_like(self._weights)
        clipped = int(k.see(self.plan.kind)(v, label, self._weights, self._settings, gradient))
        if clipped < 0:
            raise _refusal(v)
        if self._quadratic:
            self._show(self._learner.observe((self._row(v), label), person))
        else:
            self._show(self._learner.update(gradient, person))
        return clipped

    def _row(self, v: FloatArray) -> FloatArray:
        row = np.full(self.plan.width, self.plan.scaling)
        k.unit(v, self.plan.feature_norm, row[: v.size])
        return row

    def _all_in_units(self, X: Any, labels: FloatArray, beyond: int) -> tuple[Any, FloatArray, int]:
        """Records in the units that were found, and how many labels are clipped to the bounds that were found."""
        assert self.found is not None
        if self.found.units is not None:
            X = self.found.units.scaled(X)
        if self.found.labels is not None:
            labels, beyond = clip_labels(labels, *self.found.labels)
            labels = to_unit(labels, *self.found.labels)
        return X, labels, beyond

    def learn(self, X: Any, labels: FloatArray, beyond: int = 0, person: Any = None) -> None:
        """Learn from many records, checked except for the persons' ids: from all of them or from none."""
        if self._saved is not None or self._torn is not None:
            self._resume()
        count = X.shape[0]
        self._check_room(count)
        ids = self._ids(person, count)
        with self.whole(count):
            scaled = taken = 0
            if self._kept is not None and self.plan.first is not None:
                taken = min(count, self.plan.first.count - self.seen)
                kept = X[:taken].toarray() if sp.issparse(X) else X[:taken]
                for v, label in zip(kept, labels.tolist(), strict=False):
                    self._keep(v, label)
                X, labels, count = X[taken:], labels[taken:], count - taken
            if self.found is not None and count:
                X, labels, beyond = self._all_in_units(X, labels, beyond)
            for start, rows in self._dense(X):
                end = start + len(rows)
                whose = None if ids is None else ids[start:end]
                scaled += self._absorb(rows, labels[start:end], whose)
            self.counts[0] += scaled
            self.counts[1] += beyond
            self.seen += count

    def _ids(self, person: Any, count: int) -> Any:
        """Checked ids of persons; nothing is recorded about them yet."""
        table = self._learner._persons
        if table is None:
            refuse_ids(None, person)
            return None
        table.check_room(table.digests(person, count), self._learner.steps + 1)
        return as_array(person)

    @contextlib.contextmanager
    def whole(self, count: int) -> Iterator[None]:
        """If this block is interrupted after it has learnt from some of its records, the stream refuses to continue.

        The caller would try the same records again, and some of them would count twice.
        """
        before = self._steps
        try:
            yield
        except BaseException:
            taken = self._steps - before
            if taken:
                self._torn = (taken, count)
            raise

    @property
    def _steps(self) -> int:
        return self._learner.steps if self._saved is None else int(self._saved[0]["steps"])

    @property
    def lease(self) -> Lease:
        """The lease that says who may learn: the learner's, or that of a state to be restored at the first step."""
        return self._learner._lease if self._saved is None else self._twin_of

    @property
    def position(self) -> tuple[str, int]:
        """The id of the stream and the number of steps taken."""
        return self.lease.id, self._steps

    def gap(self) -> None:
        """Advance by one step without a record."""
        if self._saved is not None or self._torn is not None:
            self._resume()
        self._step_without()
        self._find_if_due()

    def _check_room(self, count: int) -> None:
        horizon = self.plan.horizon
        if horizon is not None and self.seen + count > horizon:
            raise ValueError(
                f"{count} records do not fit: {horizon - self.seen} of horizon={horizon} are left; use a larger "
                "horizon, or horizon=None with partial_fit"
            )

    def _dense(self, X: Any) -> Iterator[tuple[int, FloatArray]]:
        size = max(1, X.shape[0])
        if sp.issparse(X):
            size = max(1, min(_ROWS, _NUMBERS // X.shape[1]))
        for start in range(0, X.shape[0], size):
            rows = X[start : start + size]
            yield start, rows.toarray() if sp.issparse(X) else rows

    def _absorb(self, rows: FloatArray, labels: FloatArray, person: Any) -> int:
        """Learn from dense rows; returns how many were clipped."""
        if self.plan.kind == SOFTMAX or self._base is not None:
            whose = [None] * len(rows) if person is None else person.tolist()
            records = zip(np.ascontiguousarray(rows), labels.tolist(), whose, strict=True)
            return sum(self._learn_apart(v, label, who) for v, label, who in records)
        columns = self.plan.columns
        A = np.empty((len(rows), self.plan.width))
        A[:, columns:] = self.plan.scaling
        scaled, refused = door.bounded_rows(rows, 1.0 / self.plan.feature_norm, 1.0, A[:, :columns])
        if refused:
            raise ValueError(
                f"{refused} rows are not finite: they were changed while they were read"
            )
        if person is None:
            self._show(self._learner._learn(A, labels))
        else:
            self._learner.run(A, labels, person=person, keep=1, keep_records=False)
            self._show(self._learner.decision)
        return int(scaled)

    # Predicting -----------------------------------------------------------------------------------

    def predictors_one(self, v: FloatArray) -> FloatArray:
        """The linear predictor of every output for one record."""
        v = self._scaled(v)
        out = np.empty(self.plan.outputs)
        if k.predictors(v, self._weights, self._settings, out) < 0:
            raise _refusal(v)
        return out

    def predictor_one(self, v: FloatArray) -> float:
        """The linear predictor for a single output."""
        if self.found is not None:
            v = self._scaled(v)
        z: float = k.predict_one(v, self._weights, self._settings)
        if z != z:
            raise _refusal(v)
        return z

    def _scaled(self, v: FloatArray) -> FloatArray:
        if self.found is None or self.found.units is None:
            return v
        if not np.isfinite(v).all():
            raise _refusal(v)
        return np.asarray(self.found.units.scaled(v))

    @property
    def units(self) -> Units:
        """Units of the features, stated or found."""
        units = None if self.found is None else self.found.units
        return Units(self.plan.feature_norm) if units is None else units

    @property
    def line(self) -> tuple[FloatArray, FloatArray]:
        """Coefficients and intercepts, of every output."""
        plan, weights = self.plan, self.weights
        last = weights[:, -1] * plan.scaling if plan.scaling else np.zeros(plan.outputs)
        return self.units.back(weights[:, : plan.columns], last)

    # Twins ----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything that is needed to continue exactly from here, as plain data.

        A secret: it holds clean sums and the key of future noise.
        """
        if self._torn is not None:
            self._resume()  # refuses: the counts miss some records that the learner has taken
        self.lease.refuse_copies("stream")
        return {
            **self._described,
            "base": self._base,
            "learner": self._learner.state() if self._saved is None else self._saved[0],
            "seen": self.seen,
            "counts": list(self.counts),
            "weights": np.array(self._weights),
            "kept": None if self._kept is None else self._kept.to_dict(self.plan.columns),
            "found": None if self.found is None else self.found.to_dict(),
        }

    @functools.cached_property
    def _described(self) -> dict[str, Any]:
        """The constant part of the state, cached because a stream may be saved with every record."""
        return {"plan": self.plan.to_dict(), "guarantee": self._guarantee.to_dict()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Stream:
        """A twin of the stream that gave this state; its learner is restored at the first step."""
        twin = object.__new__(cls)
        twin.plan = plan = StreamPlan.from_dict(state["plan"])
        twin.seen, twin.counts = int(state["seen"]), [int(count) for count in state["counts"]]
        twin._base = state["base"]
        twin._guarantee = Guarantee.from_dict(state["guarantee"])
        twin._settings = plan.settings()
        twin._quadratic = plan.quadratic
        twin._weights = np.array(state["weights"])
        kept, found = state.get("kept"), state.get("found")
        twin._kept = None if kept is None else FirstRecords.from_dict(kept)
        twin.found = None if found is None else Found.from_dict(found)
        twin._wait(state["learner"], plan.loss())
        return twin

    def _wait(self, learner: dict[str, Any], loss: Loss) -> None:
        """Become a twin that can be read. Its lease is looked up now: after a fork it is a copy."""
        check_kind(learner, _kind(self.plan), ONLINE_VERSION)
        self._saved = (learner, {"loss": loss})
        self._twin_of = find(learner["id"], int(learner["steps"]))
        self._twin_of.hold(self)

    def _resume(self) -> None:
        """Restore the learner of a twin, or refuse because another twin has continued the stream."""
        if self._torn is not None:
            raise RuntimeError(
                f"learning was interrupted after {self._torn[0]} of {self._torn[1]} records; learning from them again "
                "would count some twice, which no guarantee covers. Call fit, or start a new stream from what was "
                "released: release()"
            )
        assert self._saved is not None
        self._twin_of.refuse_copies("stream")
        state, given = self._saved
        self._learner = self._take_up(state, given)
        self._saved = None

    def _take_up(self, state: dict[str, Any], given: dict[str, Any]) -> Any:
        learner = _kind(self.plan).from_state(state, **given)
        if not self._quadratic:
            self._kernel = k.learn(self.plan.kind, *learner._kinds)
        return learner

    def __getstate__(self) -> dict[str, Any]:
        self.lease.refuse_copies("stream")
        mine = dict(self.__dict__)
        mine.pop("_kernel", None)
        mine.pop("_described", None)
        mine.pop("_twin_of", None)
        if self._saved is None:
            learner = mine.pop("_learner")
            mine["_saved"] = (learner.state(), {"loss": learner.loss})
        if self._kept is not None:
            mine["_kept"] = self._kept.to_dict(self.plan.columns)
        return mine

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.counts = list(self.counts)
        if isinstance(self._kept, dict):
            self._kept = FirstRecords.from_dict(self._kept)
        learner, given = state["_saved"]
        self._wait(learner, given["loss"])

    def __deepcopy__(self, memo: dict[int, Any]) -> Stream:
        twin = object.__new__(type(self))
        twin.__setstate__(self.__getstate__())
        return twin


def _source(seed: int | None) -> Source:
    """Generator of the noise on the first records' counts, independent of the learner's."""
    if seed is None:
        return Source()
    return Source(int(np.random.SeedSequence([seed, 2]).generate_state(1)[0]))


def _kind(plan: StreamPlan) -> type[QuadraticLeader] | type[FollowTheRegularizedLeader]:
    return QuadraticLeader if plan.quadratic else FollowTheRegularizedLeader


def _refusal(v: FloatArray) -> ValueError:
    where = int(np.flatnonzero(~np.isfinite(v))[0])
    return ValueError(f"features must be finite; feature {where} is {v[where]}")
