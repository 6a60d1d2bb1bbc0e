"""Base class of the online scikit-learn estimators, between their parameters and a stream of records.

The learner is in :mod:`reticent.estimators.stream`; docs/estimators.md explains the choice of learner and its defaults.

Calling ``fit`` again on the same records is a second release that spends the whole budget again; a `reticent.Ledger`
adds up what several calls spend.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from reticent import checks
from reticent.estimators import parameters
from reticent.estimators.first_bounds import Found, found_first
from reticent.estimators.mixins import FittedEstimator, FloatArray, validated
from reticent.estimators.scaling import Units
from reticent.estimators.sparse_stream import SparseStream, begun, chosen, restored
from reticent.estimators.stream import Stream, StreamPlan, plan_of
from reticent.losses import ClipCounts
from reticent.online.learner import DECISION, Learner
from reticent.privacy import Guarantee, uncharged
from reticent.state.files import check_kind
from reticent.state.lease import Lease
from reticent.state.persons import Persons, as_array
from reticent.sums.running import refuse_ids
from reticent.trace.summary import NoIntervals, Summary, of_noise

_VERSION = 2
_DIAGNOSTICS = ("clipped_",)
_LINE = ("coef_", "intercept_")
_KEPT = ("_weights", "_norm", "_past", "_bounds", "_leaky", "_found", "_shape")


@dataclass(frozen=True)
class _Past:
    """The guarantee and the length of an earlier stream of other records."""

    guarantee: Guarantee
    seen: int


class OnlineEstimator(FittedEstimator, ABC):
    """Base of `OnlineLogisticRegression` and `OnlineLinearRegression`."""

    horizon: Any
    _norm: float
    _found: dict[str, Any] | None = None
    _shape: dict[str, Any]
    """The stream's plan; all of it is public."""
    _stream: Stream | None
    _past: _Past | None
    _weights: FloatArray
    n_samples_seen_: int
    guarantee_: Guarantee

    @property
    def _units(self) -> Units:  # type: ignore[override]
        found = None if self._found is None else Found.from_dict(self._found).units
        return Units(self._norm) if found is None else found

    @property
    def _fitted_with(self) -> dict[str, Any]:
        """The parameters that a description of the fit states, as they were when its stream began."""
        plan = StreamPlan.from_dict(self._shape)
        rule = plan.participation
        persons = {} if rule is None else {"max_records": rule.max_records, "min_gap": rule.min_gap}
        found = None if self._found is None else Found.from_dict(self._found).units
        private = plan.first is not None and plan.first.features
        if private or (found is not None and found.first is None):  # not merely centred and scaled
            norm: float | str = parameters.PRIVATE
        else:
            norm = plan.feature_norm
        return {**vars(plan.budget), **persons, "horizon": plan.horizon, "feature_norm": norm}

    # What a subclass provides

    @abstractmethod
    def _classes(self) -> int | None:
        """Number of classes; None if labels are numbers."""

    @abstractmethod
    def _encode(self, y: Any, fresh: bool) -> tuple[FloatArray, int]:
        """Labels in the learner's encoding, and how many were clipped; unless ``fresh``, as for earlier records."""

    @abstractmethod
    def _publish(self, stream: Stream) -> None:
        """Set ``coef_`` and ``intercept_``."""

    # Learning

    def _learn(self, X: Any, y: Any, *, fresh: bool, whole: bool, person: Any = None) -> Self:
        labels, beyond = self._encode(y, fresh)
        if fresh:
            self._past = None
        stream = None if fresh else self._stream
        if stream is None:
            stream = self._begin(X, person, fresh=fresh, whole=whole)
        if whole:
            # A sorted table would be learnt badly. The order is drawn independently of the data, so the
            # guarantee holds for each order.
            order = np.random.default_rng(stream.plan.seed).permutation(X.shape[0])
            X, labels = X[order], labels[order]
            if person is not None and len(person) == len(order):
                person = as_array(person)[order]
        with stream.whole(X.shape[0]):
            stream.learn(X, labels, beyond, person)
            self._show(stream)
            self._keep(stream)
        return self

    def _begin(self, X: Any, person: Any, *, fresh: bool, whole: bool) -> Stream:
        """A new stream; unless ``fresh``, it starts from the weights of the earlier one."""
        values = parameters.checked(self.get_params(deep=False), private=True)
        horizon = values["horizon"]
        if whole and horizon is None and values["window"] is None and values["fade"] is None:
            horizon = X.shape[0]
        if fresh:
            self._found = None
        plan = self._plan(values, horizon, sparse=sp.issparse(X))
        if plan.participation is not None:
            # refuse bad ids, or too many persons, before the stream is charged
            table = Persons(plan.participation)
            table.check_room(table.digests(person, X.shape[0]), 1)
        else:
            refuse_ids(None, person)
        base = None
        if not fresh:
            _refuse_base(plan)
            base = self._weights
            self._past = _Past(self.guarantee_, self.n_samples_seen_)
            # Learning from a base needs gradients at weights that are not the learner's own, which the
            # quadratic leader cannot use. With the same seed both streams would have the same noise.
            seed = None if plan.seed is None else plan.seed + self._past.seen
            plan = dataclasses.replace(plan, quadratic=False, seed=seed)
        found = Found.from_dict(self._found) if self._found else None
        with self._paying():
            return begun(plan) if plan.sparse else Stream(plan, base, found)

    def _keep(self, stream: Stream) -> None:
        """Keep a stream that can continue, or whose weights are computed only when read.

        Any other stream is dropped, with its clean sums.
        """
        done = stream.finished and not isinstance(stream, SparseStream)
        self._stream = None if done else stream

    def _show(self, stream: Stream) -> None:
        """Set the published attributes and the diagnostics to the current state of a stream."""
        self.guarantee_, self.n_samples_seen_ = stream.guarantee, stream.seen
        if self._past is not None:
            self.guarantee_ = Guarantee.parallel(self._past.guarantee, self.guarantee_)
            self.n_samples_seen_ += self._past.seen
        self.guarantee_ = self._stated(self.guarantee_)
        self.clipped_ = stream.clipped
        self._norm = stream.plan.feature_norm
        self._found = None if stream.found is None else stream.found.to_dict()
        self._shape = stream.plan.shape
        if not isinstance(stream, SparseStream):
            self._weights = stream.weights.ravel()
            self._publish(stream)

    @property
    def _sparse(self) -> SparseStream | None:
        """The stream, if its weights are computed only when they are read."""
        stream = vars(self).get("_stream")
        return stream if isinstance(stream, SparseStream) else None

    def __getattr__(self, name: str) -> Any:
        """``coef_`` and ``intercept_`` for sparse records; reading them updates every column."""
        if name in _LINE and self._sparse is not None:
            return self._line(self._sparse)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _line(self, stream: Stream) -> dict[str, Any]:
        """The current ``coef_`` and ``intercept_`` of a stream."""
        self._publish(stream)
        return {name: self.__dict__.pop(name) for name in _LINE}

    def __sklearn_is_fitted__(self) -> bool:
        return "coef_" in vars(self) or self._sparse is not None

    def _predictors(self, X: Any, *, in_turn: bool = False) -> FloatArray:
        check_is_fitted(self)
        if self._sparse is None:
            return super()._predictors(X, in_turn=in_turn)
        X = validated(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        return self._from_unit(self._sparse.predictors(X))

    def _from_unit(self, z: FloatArray) -> FloatArray:
        """Linear predictors in the units of the labels, from those in the learner's units."""
        return z

    def _stated(self, guarantee: Guarantee) -> Guarantee:
        return guarantee

    def _check_open(self) -> None:
        """Refuse if there is no stream to continue and no new one may start from what was released."""
        if self._stream is not None:
            return
        if self.horizon is not None:
            raise ValueError(
                f"this {type(self).__name__} cannot learn from more records: its horizon is used up, or "
                "it is a released copy. Construct it with a larger horizon, or call fit"
            )

    @property
    def _begun(self) -> bool:
        return hasattr(self, "_stream")

    def _plan(
        self, values: dict[str, Any], horizon: int | None, sparse: bool = False
    ) -> StreamPlan:
        """The plan of a stream with these parameters."""
        columns, known = self.n_features_in_, self._found is not None
        sparse = chosen(values["learner"], sparse, columns)
        first = found_first(values, columns, horizon, known=known, sparse=sparse)
        return plan_of(
            values,
            columns,
            self._classes(),
            first,
            horizon=horizon,
            seed=self._seed(),
            sparse=sparse,
        )

    def summary(self, level: float = 0.95) -> Summary:
        """Coefficients with intervals that account for the privacy noise alone.

        It uses released numbers only: it spends nothing, and the model's guarantee covers it. It does not include
        sampling error, so these are not confidence intervals of population parameters; for those, use the offline
        estimators with ``intervals=True``.

        Parameters
        ----------
        level : float
            Nominal coverage of the intervals. Default: 0.95.

        Returns
        -------
        Summary
            Estimates, standard errors and intervals; prints as a table.

        Raises
        ------
        NoIntervals
            If the standard error of the noise is not known for this learner, or there are no coefficients yet.
        """
        check_is_fitted(self)
        plan = StreamPlan.from_dict(self._shape)
        steps = self.n_samples_seen_ - (0 if self._past is None else self._past.seen)
        if plan.first is not None and self._found is None:
            raise NoIntervals(
                f"there are no coefficients before bounds have been found from the first {plan.first.count} records"
            )
        if plan.sparse:
            raise NoIntervals(
                "no summary for learner='sparse-leader', whose weights are drawn only when they are read; use "
                "learner='regularized-leader'"
            )
        learner = uncharged(plan.learner)
        if not isinstance(learner, Learner):
            raise NoIntervals(
                "no summary for learner='quadratic-leader': its decision is not linear in what it releases, so the "
                "standard error is not known; use learner='regularized-leader', or PrivateLinearRegression"
            )
        error = learner.decision_error(steps)
        names, values, carry = self._table_of(plan)
        errors = error * np.sqrt(np.sum(carry**2, axis=1))
        normal = learner.mechanism.noise == "gaussian"
        return of_noise(values, errors, names, level, DECISION, self.guarantee_, normal)

    def _table_of(self, plan: StreamPlan) -> tuple[list[str], FloatArray, FloatArray]:
        """Names and values of all coefficients, and the matrix that maps one output's weights to them."""
        columns, unit = self.n_features_in_, np.eye(plan.width)
        weights, intercepts = self._units.back(
            unit[:, :columns], unit[:, -1] * plan.scaling if plan.scaling else np.zeros(columns)
        )
        names = [
            str(n) for n in getattr(self, "feature_names_in_", [f"x{k}" for k in range(columns)])
        ]
        carry, table = weights.T, np.atleast_2d(self.coef_)
        if plan.scaling:
            names, carry = [*names, "intercept"], np.vstack([carry, intercepts])
            table = np.column_stack([table, np.atleast_1d(self.intercept_)])
        carry = self._label_scale() * carry
        if len(table) > 1:
            names = [f"{c}: {n}" for c in self.classes_ for n in names]
        return names, table.ravel(), np.tile(carry, (len(table), 1))

    def _label_scale(self) -> float:
        """Factor from the learner's units to the labels' units."""
        return 1.0

    def release(self) -> Self:
        """A copy that can predict but not learn, and that is safe to share.

        An estimator that can still learn holds clean sums and the key of its future noise, and every fitted one
        holds diagnostics such as ``clipped_``. The copy holds only what the guarantee covers.

        Returns
        -------
        estimator
            A fitted estimator of the same class.
        """
        check_is_fitted(self)
        copy = type(self)(**self.get_params(deep=False))
        kept = {
            name: value
            for name, value in vars(self).items()
            if (name.endswith("_") or name in _KEPT) and name not in _DIAGNOSTICS
        }
        if self._sparse is not None:
            kept |= self._line(self._sparse) | {"_weights": self._sparse.weights.ravel()}
        copy.__dict__.update(kept | {"_stream": None})
        return copy

    # Saved states

    @property
    def _lease(self) -> Lease | None:
        stream = getattr(self, "_stream", None)
        return None if stream is None else stream.lease

    @property
    def _position(self) -> Any:
        stream = getattr(self, "_stream", None)
        if stream is not None:
            return stream.position
        return None, getattr(self, "n_samples_seen_", 0)

    def gap(self, n_features: int | None = None) -> Self:
        """Advance the stream by one step without a record, in place of a record that cannot be used.

        Parameters
        ----------
        n_features : int, optional
            Number of features of the records; needed if the stream begins with a gap.

        Returns
        -------
        self
            The estimator.
        """
        with self._all_or_nothing():
            if self._begun:
                self._check_open()
                if self._stream is None:
                    raise ValueError(
                        "gap needs a stream that can continue: call partial_fit with a record first"
                    )
                stream = self._stream
            else:
                if n_features is None:
                    raise ValueError("n_features must be given if a stream begins with a gap")
                with self._paying():
                    stream = begun(self._plan_for(n_features))
                self._past = None
            with stream.whole(1):
                stream.gap()
                self._show(stream)
                self._keep(stream)
        return self

    def _plan_for(self, n_features: int) -> StreamPlan:
        """The plan of a stream of this estimator before its first record."""
        self.n_features_in_ = checks.integer(n_features, "n_features", low=1)
        self._declare()
        values = parameters.checked(self.get_params(deep=False), private=True)
        return self._plan(values, values["horizon"])

    @abstractmethod
    def _declare(self) -> None:
        """Set what is known about the labels before any was seen."""

    def _fitted(self) -> dict[str, Any]:
        """Fitted attributes, as plain data but for what was clipped and what is past."""
        fitted: dict[str, Any] = {
            name: value
            for name, value in vars(self).items()
            if (name.endswith("_") or name in _KEPT) and not name.startswith("__")
        }
        fitted["guarantee_"] = self.guarantee_.to_dict()
        for name in ("classes_", "feature_names_in_"):
            if name in fitted and fitted[name].dtype == object:
                fitted[name] = fitted[name].tolist()
        return fitted

    def state(self) -> dict[str, Any]:
        """Everything that is needed to continue exactly from here, as plain data for `reticent.save_state`.

        While the estimator can learn, its state is a secret: it holds clean sums and the key of future noise. A state
        is continued once: of all restored, copied or unpickled twins in a process, the first that learns may continue
        and the others are refused.

        Returns
        -------
        dict
            Argument of :meth:`from_state`.

        See Also
        --------
        reticent.save_state : Write a state to a file, readable by its owner only.
        """
        check_is_fitted(self)
        stream = self._stream
        identity, steps = self._position
        fitted = self._fitted()
        clipped = fitted.pop("clipped_", None)
        past: _Past | None = fitted.pop("_past")
        return {
            "version": _VERSION,
            "kind": type(self).__name__,
            "id": identity,
            "steps": steps if self._sparse is None else self._sparse.seen,
            **({} if self._sparse is None else {"moves": steps}),
            "parameters": self._plain_parameters(),
            "fitted": fitted,
            "clipped": None if clipped is None else list(clipped),
            "past": None if past is None else [past.guarantee.to_dict(), past.seen],
            "stream": None if stream is None else stream.state(),
        }

    def _plain_parameters(self) -> dict[str, Any]:
        out = {}
        for name, value in self.get_params(deep=False).items():
            plain = value.tolist() if isinstance(value, np.ndarray) else value
            if name == "random_state" and not isinstance(plain, int | np.integer | None):
                raise ValueError(
                    f"a state cannot hold random_state={value!r}; use an integer or None"
                )
            out[name] = list(plain) if isinstance(plain, tuple) else plain
        return out

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """An estimator that continues from a state.

        It refuses to learn if the stream was continued beyond this state in the meantime.

        Parameters
        ----------
        state : dict
            The result of :meth:`state` or of `reticent.load_state`.

        Returns
        -------
        estimator
            A fitted estimator, equal to the one that gave the state.
        """
        check_kind(state, cls, _VERSION)
        model = cls(**state["parameters"])
        fitted = dict(state["fitted"])
        for name in ("classes_", "feature_names_in_"):
            if isinstance(fitted.get(name), list):
                fitted[name] = np.array(fitted[name], dtype=object)
        if "_bounds" in fitted:
            fitted["_bounds"] = tuple(fitted["_bounds"])
        fitted["guarantee_"] = Guarantee.from_dict(fitted["guarantee_"])
        model.__dict__.update(fitted)
        past, stream = state["past"], state["stream"]
        model._past = None if past is None else _Past(Guarantee.from_dict(past[0]), int(past[1]))
        model._stream = None if stream is None else restored(stream)
        if state["clipped"] is not None:
            model.clipped_ = ClipCounts(*state["clipped"])
        return model

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if state.get("_stream", False) is None:
            for name in _DIAGNOSTICS:
                state.pop(name, None)
        return state


def _refuse_base(plan: StreamPlan) -> None:
    """Refuse to start from what an earlier stream released if no guarantee is known for that."""
    if plan.participation is not None:
        raise ValueError(
            "with max_records or min_gap, a new stream cannot start from what an earlier one released: the "
            "same person may be in both, and the costs would add up; construct the estimator with a horizon "
            "for all records, or use partial_fit from the start"
        )
    if plan.sparse:
        raise ValueError(
            "a stream of sparse records cannot start from what an earlier one released; construct the "
            "estimator with a horizon for all records, or use partial_fit from the start"
        )
