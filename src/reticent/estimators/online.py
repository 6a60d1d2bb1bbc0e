"""What the scikit-learn faces of the online learners share: parameters in, a stream of records, a fit out.

What every face shares is in :mod:`reticent.estimators.face`. The learner underneath is
:mod:`reticent.estimators.stream`; the choice of learner and its defaults: docs/estimators.md.

The one thing a reader would get wrong: ``fit`` on the same records again is a second release. Each call
spends the whole budget anew; a `reticent.Ledger` adds up what several calls spend.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from reticent.estimators import parameters
from reticent.estimators.face import Face, FloatArray
from reticent.estimators.stream import Plan, Stream
from reticent.privacy import Guarantee

_DIAGNOSTICS = ("clipped_",)
_KEPT = ("_weights", "_norm", "_past", "_bounds", "_leaky")


@dataclass(frozen=True)
class _Past:
    """What an earlier stream, of other records, has released."""

    guarantee: Guarantee
    seen: int


class OnlineEstimator(Face):
    """Base of the scikit-learn faces; see `OnlineLogisticRegression` and `OnlineLinearRegression`."""

    _stream: Stream | None
    _past: _Past | None
    _weights: FloatArray
    n_samples_seen_: int
    guarantee_: Guarantee

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

    def _learn(self, X: Any, y: Any, *, fresh: bool, whole: bool) -> Self:
        labels, beyond = self._encode(y)
        if fresh:
            self._past = None
        stream = None if fresh else self._stream
        if stream is None:
            values = parameters.checked(self.get_params(deep=False))
            horizon = values["horizon"]
            if whole and horizon is None and values["window"] is None:
                horizon = X.shape[0]
            plan = self._plan(values, horizon)
            base = None
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
        with stream.whole(X.shape[0]):
            stream.learn(X, labels, beyond)
            self.guarantee_, self.n_samples_seen_ = stream.guarantee, stream.seen
            if self._past is not None:
                self.guarantee_ = Guarantee.parallel(self._past.guarantee, self.guarantee_)
                self.n_samples_seen_ += self._past.seen
            self.guarantee_ = self._stated(self.guarantee_)
            self.clipped_ = stream.clipped
            self._weights = stream.weights.ravel()
            self._norm = stream.plan.feature_norm
            self._publish(stream)
            # A stream at the end of its horizon cannot go on; its clean sums need not be kept.
            self._stream = None if stream.finished else stream
        return self

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
            "ridge": values["ridge"],
            "coefficient_norm": values["coefficient_norm"],
            "horizon": horizon,
            "seed": self._seed(),
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

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if state.get("_stream", False) is None:
            for name in _DIAGNOSTICS:
                state.pop(name, None)
        return state
