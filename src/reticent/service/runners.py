"""What runs a stream: one interface over learners, running totals and bandits.

A runner is a live object of the library with its noise at hand. The engine makes its outputs durable before anyone
sees them, saves its state in the same transaction, and drops it if that fails.
"""

from __future__ import annotations

import inspect
from typing import Any, Protocol

import numpy as np

from reticent import estimators
from reticent.estimators.stream import Stream
from reticent.privacy import Guarantee
from reticent.service.problems import Problem
from reticent.service.records import Batch
from reticent.service.specification import Specification
from reticent.state.lease import Lease
from reticent.tables import Encoder, Model, TableError


class Runner(Protocol):
    """A stream that is at work."""

    @property
    def steps(self) -> int:
        """How many records it has taken."""

    @property
    def lease(self) -> Lease:
        """Who may go on."""

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about all that it will ever publish."""

    def learn(self, batch: Batch) -> None:
        """Take records that were checked."""

    def room(self) -> int | None:
        """How many records there may still be; None: no limit."""

    def decision(self) -> dict[str, Any]:
        """What the guarantee covers, as plain data."""

    def state(self) -> dict[str, Any]:
        """All that is needed to go on. A secret."""


class Learner:
    """A linear model that learns as records come.

    Parameters
    ----------
    specification : Specification
        Of the kind ``logistic`` or ``linear``.
    state : dict, optional
        Where to go on; by default the stream begins, which charges the ledger that is open.
    """

    def __init__(self, specification: Specification, state: dict[str, Any] | None = None) -> None:
        self.encoder = encoder_of(specification)
        self._estimator = _estimator(specification, self.encoder)
        plan = self._estimator._plan_for(len(self.encoder.names))
        self._stream = Stream(plan) if state is None else Stream.from_state(state)
        if self.encoder.classes is not None:
            # the estimator sorts its classes, the schema does not
            self._rank = np.searchsorted(self._estimator.classes_, np.array(self.encoder.classes))

    @property
    def steps(self) -> int:
        return self._stream.seen

    @property
    def lease(self) -> Lease:
        return self._stream.lease

    @property
    def guarantee(self) -> Guarantee:
        return self._stream.guarantee

    def room(self) -> int | None:
        horizon = self._stream.plan.horizon
        return None if horizon is None else horizon - self._stream.seen

    def learn(self, batch: Batch) -> None:
        labels, beyond = self._labels(batch.codes)
        self._stream.learn(batch.X, labels, beyond)

    def _labels(self, codes: Any) -> tuple[Any, int]:
        if self.encoder.classes is None:
            return self._estimator._to_unit(codes)
        number = self._rank[codes.astype(np.int64)].astype(np.float64)
        return (2.0 * number - 1.0 if len(self._rank) == 2 else number), 0

    def decision(self) -> dict[str, Any]:
        self._estimator._publish(self._stream)
        return {
            "coefficients": np.atleast_2d(self._estimator.coef_).tolist(),
            "intercepts": np.atleast_1d(self._estimator.intercept_).tolist(),
        }

    def state(self) -> dict[str, Any]:
        return self._stream.state()


def encoder_of(specification: Specification) -> Encoder:
    """What turns the records of a stream into features."""
    assert specification.schema is not None
    try:
        encoder = Encoder(specification.schema)
    except TableError as error:
        raise Problem(422, "bad-specification", str(error)) from None
    wanted = "classes" if specification.kind == "logistic" else "a number"
    if (encoder.classes is not None) != (specification.kind == "logistic"):
        raise Problem(
            422, "bad-specification",
            f"kind {specification.kind!r} learns {wanted}, and the target {encoder.target.name!r} has the type "
            f"{encoder.target.type!r}; choose another kind or another target",
        )  # fmt: skip
    return encoder


_SAID_ELSEWHERE = (
    "epsilon", "delta", "neighbours", "window", "fade", "classes", "label_bounds", "random_state",
)  # fmt: skip


def _estimator(specification: Specification, encoder: Encoder) -> Any:
    budget = specification.budget
    given: dict[str, Any] = {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "neighbours": budget.neighbours,
        "window": budget.window,
        "feature_norm": encoder.largest_norm,
    }
    if budget.fade is not None:
        given["fade"] = budget.fade
    if specification.kind == "logistic":
        kind: Any = estimators.OnlineLogisticRegression
        given["classes"] = list(encoder.classes or ())
    else:
        kind = estimators.OnlineLinearRegression
        given["label_bounds"] = encoder.target.bounds
    known = list(inspect.signature(kind).parameters)
    settable = [name for name in known if name not in _SAID_ELSEWHERE]
    for name in specification.options:
        if name not in settable:
            raise Problem(
                422, "bad-specification",
                f"{name!r} is not an option of kind {specification.kind!r} in this version; its options are "
                f"{', '.join(settable)}",
            )  # fmt: skip
    if "fade" in given and "fade" not in known:
        raise Problem(
            422, "bad-specification",
            f"kind {specification.kind!r} has no promise that fades in this version; give the budget a window",
        )  # fmt: skip
    return kind(**given | dict(specification.options), random_state=specification.seed)


def start(specification: Specification) -> Runner:
    """A new stream; charges the ledger that is open."""
    try:
        return _KINDS[specification.kind](specification)
    except KeyError:
        raise Problem(
            422,
            "bad-specification",
            f"this version has no streams of kind {specification.kind!r} yet",
        ) from None
    except (ValueError, TypeError) as error:
        raise Problem(422, "bad-specification", str(error)) from None


def restore(specification: Specification, state: dict[str, Any]) -> Runner:
    """A stream that goes on from its state."""
    return _KINDS[specification.kind](specification, state)


_KINDS: dict[str, Any] = {"logistic": Learner, "linear": Learner}


def model_of(
    specification: Specification, decision: dict[str, Any], steps: int, terms: Any
) -> Model:
    """A published decision as a model that predicts."""
    encoder = encoder_of(specification)
    classes = None if encoder.classes is None else tuple(sorted(encoder.classes))
    return Model(
        task="classification" if classes else "regression",
        target=encoder.target.name,
        schema=encoder.schema,
        features=tuple(encoder.names),
        coefficients=np.array(decision["coefficients"]),
        intercepts=np.array(decision["intercepts"]),
        feature_norm=float(specification.options.get("feature_norm", encoder.largest_norm)),
        classes=classes,
        label_bounds=None if classes else encoder.target.bounds,
        terms=terms,
        records=steps,
    )
