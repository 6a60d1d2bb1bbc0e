"""What the scikit-learn faces of the online learners share: parameters in, a stream of records, a fit out.

What every face shares is in :mod:`reticent.estimators.face`. The learner underneath is
:mod:`reticent.estimators.stream`; the choice of learner and its defaults: docs/estimators.md.

``fit`` on the same records again is a second release. Each call spends the whole budget anew; a
`reticent.Ledger` adds up what several calls spend.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from reticent import _checks
from reticent.estimators import parameters
from reticent.estimators.face import Face, FloatArray
from reticent.estimators.stream import Plan, Stream, sizes
from reticent.estimators.units import Units
from reticent.losses import ClipCounts
from reticent.privacy import Guarantee
from reticent.state.files import check_kind
from reticent.state.lease import Lease
from reticent.state.persons import Persons, as_array
from reticent.sums.running import refuse_ids

_VERSION = 2
_DIAGNOSTICS = ("clipped_",)
_KEPT = ("_weights", "_norm", "_past", "_bounds", "_leaky")


@dataclass(frozen=True)
class _Past:
    """What an earlier stream, of other records, has released."""

    guarantee: Guarantee
    seen: int


class OnlineEstimator(Face):
    """Base of the scikit-learn faces; see `OnlineLogisticRegression` and `OnlineLinearRegression`."""

    _norm: float
    _stream: Stream | None
    _past: _Past | None
    _weights: FloatArray
    n_samples_seen_: int
    guarantee_: Guarantee

    @property
    def _units(self) -> Units:  # type: ignore[override]
        return Units(self._norm)

    # What a face provides

    def _plan(self, values: dict[str, Any], horizon: int | None) -> Plan:
        raise NotImplementedError

    def _encode(self, y: Any) -> tuple[FloatArray, int]:
        """Labels as the learner wants them, and how many were clipped."""
        raise NotImplementedError

    def _publish(self, stream: Stream) -> None:
        """Set ``coef_`` and ``intercept_``."""
        raise NotImplementedError

    # The life of a fit

    def _learn(self, X: Any, y: Any, *, fresh: bool, whole: bool, person: Any = None) -> Self:
        labels, beyond = self._encode(y)
        if fresh:
            self._past = None
        stream = None if fresh else self._stream
        if stream is None:
            values = parameters.checked(self.get_params(deep=False))
            horizon = values["horizon"]
            if whole and horizon is None and values["window"] is None and values["fade"] is None:
                horizon = X.shape[0]
            plan = self._plan(values, horizon)
            base = None
            if plan.participation is not None:
                # bad ids, or too many persons, must not begin a stream
                table = Persons(plan.participation)
                table.check_room(table.digests(person, X.shape[0]), 1)
            else:
                refuse_ids(None, person)
            if not fresh and plan.participation is not None:
                raise ValueError(
                    "a new stream cannot start from what an earlier one released where persons are "
                    "protected: the same person may be in both, and the costs would add up; give a "
                    "horizon with room for all records, or learn by partial_fit from the start"
                )
            if not fresh:
                base = self._weights
                self._past = _Past(self.guarantee_, self.n_samples_seen_)
                # Only gradients can be taken at weights that are not the learner's own; and with the
                # same seed both streams would have the same noise.
                seed = None if plan.seed is None else plan.seed + self._past.seen
                plan = dataclasses.replace(plan, quadratic=False, seed=seed)
            stream = Stream(plan, base)
        if whole:
            # A table has no order to follow, and one that is sorted would be learnt badly. The order
            # is drawn without looking at the data, so the promise is the same for every one.
            order = np.random.default_rng(stream.plan.seed).permutation(X.shape[0])
            X, labels = X[order], labels[order]
            if person is not None and len(person) == len(order):
                person = as_array(person)[order]
        with stream.whole(X.shape[0]):
            stream.learn(X, labels, beyond, person)
            self._show(stream)
            # A stream at the end of its horizon cannot go on; its clean sums need not be kept.
            self._stream = None if stream.finished else stream
        return self

    def _show(self, stream: Stream) -> None:
        """Set what is published, and the diagnostics, to where a stream stands."""
        self.guarantee_, self.n_samples_seen_ = stream.guarantee, stream.seen
        if self._past is not None:
            self.guarantee_ = Guarantee.parallel(self._past.guarantee, self.guarantee_)
            self.n_samples_seen_ += self._past.seen
        self.guarantee_ = self._stated(self.guarantee_)
        self.clipped_ = stream.clipped
        self._weights = stream.weights.ravel()
        self._norm = stream.plan.feature_norm
        self._publish(stream)

    def _stated(self, guarantee: Guarantee) -> Guarantee:
        return guarantee

    def _check_open(self) -> None:
        """Whether there is a stream to go on with, or a new one may start from what was released."""
        if self._stream is not None:
            return
        if self.horizon is not None:  # type: ignore[attr-defined]
            raise ValueError(
                f"this {type(self).__name__} cannot learn on: its horizon is used up, or it is a "
                "released copy. Give a horizon with room for what is to come, or fit anew"
            )

    @property
    def _begun(self) -> bool:
        return hasattr(self, "_stream")

    def _common(self, values: dict[str, Any], horizon: int | None) -> dict[str, Any]:
        return {
            "columns": self.n_features_in_,
            "budget": parameters.budget(values),
            "feature_norm": values["feature_norm"],
            "scaling": values["intercept_scaling"] if values["fit_intercept"] else 0.0,
            **sizes(values),
            "horizon": horizon,
            "seed": self._seed(),
            "participation": parameters.participation(values),
        }

    def release(self) -> Self:
        """A copy that predicts and cannot learn on: what may leave the machine.

        An estimator that can still learn holds clean sums and its noise to come, and one that was
        fitted knows how much was clipped. This copy holds only what the guarantee covers.
        """
        check_is_fitted(self)
        copy = type(self)(**self.get_params(deep=False))
        kept = {
            name: value
            for name, value in vars(self).items()
            if (name.endswith("_") or name in _KEPT) and name not in _DIAGNOSTICS
        }
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
        """Go on one step without a record: what a record that cannot be used counts as.

        Parameters
        ----------
        n_features : int, optional
            How many features records have: needed where the stream begins with a gap.

        Returns
        -------
        self
        """
        with self._all_or_nothing():
            if self._begun:
                self._check_open()
                if self._stream is None:
                    raise ValueError(
                        "a gap needs a stream to be in: learn from a record first, with partial_fit"
                    )
                stream = self._stream
            else:
                if n_features is None:
                    raise ValueError("n_features must be given where a stream begins with a gap")
                stream = Stream(self._plan_for(n_features))
                self._past = None
            with stream.whole(1):
                stream.gap()
                self._show(stream)
                self._stream = None if stream.finished else stream
        return self

    def _plan_for(self, n_features: int) -> Plan:
        """What a stream of this estimator is built from, before it has seen any record."""
        self.n_features_in_ = _checks.integer(n_features, "n_features", low=1)
        self._declare()
        values = parameters.checked(self.get_params(deep=False))
        return self._plan(values, values["horizon"])

    def _declare(self) -> None:
        """Set what a face knows of labels before it has seen any."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """All that is needed to go on as if nothing had happened, as plain data for `reticent.save_state`.

        A secret while the estimator can learn on: it then holds clean sums and the key of the noise to come.
        Of all twins (restored, copied, unpickled) the first to learn on may do so; the others are refused.

        Returns
        -------
        dict
            For :meth:`from_state`.
        """
        check_is_fitted(self)
        stream = self._stream
        identity, steps = self._position
        fitted: dict[str, Any] = {
            name: value
            for name, value in vars(self).items()
            if (name.endswith("_") or name in _KEPT) and not name.startswith("__")
        }
        fitted["guarantee_"] = self.guarantee_.to_dict()
        clipped = fitted.pop("clipped_", None)
        past: _Past | None = fitted.pop("_past")
        for name in ("classes_", "feature_names_in_"):
            if name in fitted and fitted[name].dtype == object:
                fitted[name] = fitted[name].tolist()
        return {
            "version": _VERSION,
            "kind": type(self).__name__,
            "id": identity,
            "steps": steps,
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
                    f"a state cannot hold random_state={value!r}; use a whole number, or None"
                )
            out[name] = list(plain) if isinstance(plain, tuple) else plain
        return out

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """An estimator that goes on from a state; refused to learn on if its stream was continued beyond it.

        Parameters
        ----------
        state : dict
            What :meth:`state` returned, or what `reticent.load_state` read.

        Returns
        -------
        estimator
            Fitted as the one that gave the state.
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
        model._stream = None if stream is None else Stream.from_state(stream)
        if state["clipped"] is not None:
            model.clipped_ = ClipCounts(*state["clipped"])
        return model

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if state.get("_stream", False) is None:
            for name in _DIAGNOSTICS:
                state.pop(name, None)
        return state
