"""Streams that learn a linear model: the learners of the online estimators, without scikit-learn."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from reticent.estimators.first_bounds import found_first
from reticent.estimators.parameters import ONLINE, checked
from reticent.estimators.scaling import in_labels, to_unit
from reticent.estimators.stream import Stream, StreamPlan, plan_of
from reticent.losses.records import clip_labels
from reticent.privacy import Guarantee
from reticent.service.problems import Problem
from reticent.service.records import Batch, check_persons
from reticent.service.specification import Specification
from reticent.state.lease import Lease
from reticent.state.persons import Persons
from reticent.tables import Encoder, Model, TableError

# options for which a specification has names of its own
_SAID_ELSEWHERE = ("epsilon", "delta", "neighbours", "window", "fade")


class LinearLearner:
    """A linear model that learns from records as they arrive.

    Parameters
    ----------
    specification : Specification
        Specification of kind ``logistic`` or ``linear``.
    state : dict, optional
        State from which to continue; by default the stream begins.
    """

    def __init__(self, specification: Specification, state: dict[str, Any] | None = None) -> None:
        self.encoder = encoder_of(specification)
        if state is None:
            self._before, self._stream = 0, Stream(_plan(specification, self.encoder))
        else:
            self._before, self._stream = int(state["before"]), Stream.from_state(state["stream"])
        if self.encoder.classes is not None:
            # a model sorts its classes, but the schema does not
            classes = np.array(self.encoder.classes)
            rank = np.searchsorted(np.unique(classes), classes).astype(np.float64)
            self._numbers = 2.0 * rank - 1.0 if len(rank) == 2 else rank

    @classmethod
    def renewed(
        cls, specification: Specification, state: dict[str, Any], decision: dict[str, Any]
    ) -> LinearLearner:
        """A stream with fresh noise that starts from what another one has released."""
        options = dict(specification.options)
        if options.get("learner") == "sparse-leader":
            del options["learner"]  # earlier versions accepted it, and ran the dense learner
        new = cls(dataclasses.replace(specification, options=options))
        old = state["stream"]
        new._before = int(state["before"]) + int(old["seen"])
        plan = new._stream.plan
        # at weights that are not the learner's own only gradients can be used
        seed = None if plan.seed is None else plan.seed + new._before + 1
        plan = dataclasses.replace(plan, quadratic=False, seed=seed)
        new._stream = Stream(plan, np.array(old["weights"], np.float64))
        return new

    @property
    def steps(self) -> int:
        return self._before + self._stream.seen

    @property
    def position(self) -> int:
        return self._stream.position[1]

    @property
    def lease(self) -> Lease:
        return self._stream.lease

    @property
    def guarantee(self) -> Guarantee:
        return self._stream.guarantee

    @property
    def persons(self) -> Persons | None:
        if self._stream.plan.participation is None:
            return None
        if self._stream._saved is not None:
            self._stream._resume()
        found: Persons | None = self._stream._learner._persons
        return found

    def room(self) -> int | None:
        horizon = self._stream.plan.horizon
        return None if horizon is None else horizon - self._stream.seen

    def check(self, batch: Batch) -> None:
        stream = self._stream
        if stream.plan.participation is None:
            return
        if batch.persons is None:
            raise Problem(
                422,
                "no-person",
                'this stream protects persons: every record must name its person in "person"',
            )
        table = self.persons
        assert table is not None
        check_persons(table, batch.persons, stream._learner.steps + 1)

    def learn(self, batch: Batch) -> None:
        labels, beyond = self._labels(batch.codes)
        # if single records are protected, their person does not matter
        persons = None if self._stream.plan.participation is None else batch.persons
        self._stream.learn(batch.X, labels, beyond, persons)

    def _labels(self, codes: Any) -> tuple[Any, int]:
        if self.encoder.classes is None:
            inside, beyond = clip_labels(codes, *self._bounds)
            return to_unit(inside, *self._bounds), beyond
        return self._numbers[codes.astype(np.int64)], 0

    def decision(self) -> dict[str, Any]:
        coefficients, intercepts = self._stream.line
        if self.encoder.classes is None:
            line, intercept = in_labels(coefficients[0], intercepts[0], *self._bounds)
            return {"coefficients": [line.tolist()], "intercepts": [intercept]}
        return {"coefficients": coefficients.tolist(), "intercepts": intercepts.tolist()}

    @property
    def _bounds(self) -> tuple[float, float]:
        bounds = self.encoder.target.bounds
        assert bounds is not None
        return bounds

    def diagnostics(self) -> dict[str, Any]:
        features, labels, records = self._stream.clipped
        return {
            "records": records,
            "features_clipped": features,
            "labels_clipped": labels,
            "gradients_clipped": self._stream.gradients_clipped,
        }

    def state(self) -> dict[str, Any]:
        return {"before": self._before, "stream": self._stream.state()}


def encoder_of(specification: Specification) -> Encoder:
    """The encoder of a learner's records."""
    assert specification.schema is not None
    try:
        encoder = Encoder(specification.schema)
    except TableError as error:
        raise Problem(422, "bad-specification", str(error)) from None
    wanted = "classes" if specification.kind == "logistic" else "a number"
    if (encoder.classes is not None) != (specification.kind == "logistic"):
        raise Problem(
            422,
            "bad-specification",
            f"kind {specification.kind!r} learns {wanted}, but the target {encoder.target.name!r} has the type "
            f"{encoder.target.type!r}; choose another kind or another target",
        )
    return encoder


def _plan(specification: Specification, encoder: Encoder) -> StreamPlan:
    """The plan of a new stream: defaults of the online estimators, and what the specification states."""
    budget = specification.budget
    specification.check_options([name for name in ONLINE if name not in _SAID_ELSEWHERE])
    if encoder.person is not None and not {"max_records", "min_gap"} & set(specification.options):
        raise Problem(
            422,
            "bad-specification",
            f"column {encoder.person!r} identifies persons: state with max_records or min_gap how many of a person's "
            "records count, or declare the column as 'ignore' to protect single records",
        )
    values = checked(
        {
            **ONLINE,
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "neighbours": budget.neighbours,
            "window": budget.window,
            "fade": budget.fade,
            "feature_norm": encoder.largest_norm,
            "seed": specification.seed,
            **specification.options,
        },
        private=True,
    )
    columns, horizon = len(encoder.names), values["horizon"]
    if values["learner"] == "sparse-leader":
        raise ValueError(
            "learner='sparse-leader' is for sparse records, but the records of a service are dense; omit the option"
        )
    first = found_first(values, columns, horizon)
    classes = None if encoder.classes is None else len(encoder.classes)
    return plan_of(values, columns, classes, first, horizon=horizon, seed=values["seed"])


def model_of(
    specification: Specification, decision: dict[str, Any], terms: dict[str, Any]
) -> Model:
    """A published decision as a model that predicts."""
    encoder = encoder_of(specification)
    classes = None if encoder.classes is None else tuple(sorted(encoder.classes))
    return Model(
        task="classification" if classes else "regression",
        target=encoder.target.name,
        schema=encoder.schema,
        features=tuple(encoder.names),
        coefficients=np.array(decision["coefficients"], np.float64),
        intercepts=np.array(decision["intercepts"], np.float64),
        feature_norm=float(specification.options.get("feature_norm", encoder.largest_norm)),
        classes=classes,
        label_bounds=None if classes else encoder.target.bounds,
        terms=terms,
        records=int(decision["steps"]),
    )
