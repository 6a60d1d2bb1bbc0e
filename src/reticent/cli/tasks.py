"""The estimator that a command line asks for.

The norm to which noise is calibrated follows from the schema (the number of columns), never from the records.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from reticent.cli.errors import Refused
from reticent.privacy import Budget, Participation
from reticent.tables import Encoder, Schema


@dataclass(frozen=True)
class LearnSettings:
    """The task and the guarantee: the options of `reticent learn` that a run keeps."""

    task: str
    online: bool
    epsilon: float
    delta: float = 1e-6
    neighbours: str = "zero-out"
    window: int | None = None
    fade: str | None = None
    horizon: int | None = None
    feature_norm: float = 1.0
    seed: int | None = None
    person: str | None = None
    max_records: int | None = None
    min_gap: int | None = None
    intervals: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @property
    def ages(self) -> tuple[tuple[int, float], ...] | None:
        """The ages and epsilons of --fade."""
        if self.fade is None:
            return None
        try:
            pairs = [part.split(":") for part in self.fade.split(",")]
            return tuple((int(age), float(epsilon)) for age, epsilon in pairs)
        except ValueError:
            raise Refused(
                "--fade must be comma-separated pairs AGE:EPSILON, such as 1024:1,1000000:2; "
                f"got {self.fade!r}"
            ) from None

    @property
    def participation(self) -> Participation | None:
        """How often a person may contribute to a stream; refused if the options do not bound it."""
        return Participation.of(self.max_records, self.min_gap) if self.online else None

    @property
    def budget(self) -> Budget:
        """The budget that the options ask for; refused if it is impossible."""
        return Budget(self.epsilon, self.delta, self.neighbours, self.window, fade=self.ages)


FIXED = tuple(one.name for one in fields(LearnSettings) if one.name not in ("task", "online"))
"""Options that cannot change once a run has begun."""


def encoder_of(schema: Path | None, target: str | None, person: str | None = None) -> Encoder:
    """The encoder of a schema; the target and the person column are the schema's unless others are named."""
    if schema is None:
        raise Refused(
            "--schema is missing: a file with the types and public bounds of the columns; `reticent schema` "
            "helps to write it"
        )
    found = Schema.from_file(schema)
    if target is None and found.target is None:
        raise Refused(
            f"--target is missing: the column to predict; or declare it in {schema}, with "
            'target = "NAME" on the first line'
        )
    return Encoder(found if person is None else found.with_person(person), target)


def task_of(encoder: Encoder, asked: str | None, online: bool) -> str:
    """The requested task, or by default the one that suits the target's type."""

    natural = "regression" if encoder.classes is None else "classification"
    task = asked or natural
    if (task == "classification") != (natural == "classification"):
        kind = encoder.target.type
        raise Refused(f"--task {task} does not fit the target, whose type is {kind!r}")
    if task == "lasso" and online:
        raise Refused("--task lasso needs a whole table: use --offline")
    return task


def build(settings: LearnSettings, encoder: Encoder) -> Any:
    """The estimator, not yet fitted."""
    from reticent import estimators

    name = {
        ("classification", True): "OnlineLogisticRegression",
        ("regression", True): "OnlineLinearRegression",
        ("classification", False): "PrivateLogisticRegression",
        ("regression", False): "PrivateLinearRegression",
        ("lasso", False): "PrivateLasso",
    }[settings.task, settings.online]
    kind = getattr(estimators, name, None)
    if kind is None:
        raise Refused(f"this version of Reticent has no {name} yet; use --online")
    known: dict[str, Any] = {
        "epsilon": settings.epsilon,
        "delta": settings.delta,
        "neighbours": settings.neighbours,
        "feature_norm": settings.feature_norm,
        "random_state": settings.seed,
    }
    if settings.online:
        known |= {"horizon": settings.horizon, "window": settings.window, "fade": settings.ages}
        known["min_gap"] = settings.min_gap
    if settings.intervals:
        known |= {"intervals": True} | ({"influence": 1.0} if encoder.classes else {})
    if settings.max_records is not None:
        known["max_records"] = settings.max_records
    if encoder.classes is not None:
        known["classes"] = list(encoder.classes)
    else:
        known["label_bounds"] = encoder.target.bounds
    return kind(**known)
