"""Which estimator a command line asks for, and a model file made of what it has learnt.

The one thing a reader would get wrong: the norm that noise is calibrated to comes from the schema (the
number of columns), never from the records.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from reticent.cli.encoding import Encoder
from reticent.cli.errors import Refused
from reticent.cli.model import Model


@dataclass(frozen=True)
class Settings:
    """What is learnt and what is promised; all of it public, all of it in the model file."""

    task: str
    online: bool
    epsilon: float
    delta: float = 1e-6
    neighbours: str = "zero-out"
    window: int | None = None
    horizon: int | None = None
    feature_norm: float = 1.0
    seed: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def task_of(encoder: Encoder, asked: str | None, online: bool) -> str:
    """The task that was asked for, or the one that the target's type suggests."""
    natural = "regression" if encoder.classes is None else "classification"
    task = asked or natural
    if (task == "classification") != (natural == "classification"):
        kind = encoder.target.type
        raise Refused(f"--task {task} does not fit the target, whose type is {kind!r}")
    if task == "lasso" and online:
        raise Refused("--task lasso is learnt from a whole table: use --offline")
    return task


def build(settings: Settings, encoder: Encoder) -> Any:
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
        known |= {"horizon": settings.horizon, "window": settings.window}
    if encoder.classes is not None:
        known["classes"] = list(encoder.classes)
    else:
        known["label_bounds"] = encoder.target.bounds
    return kind(**known)


def to_model(estimator: Any, settings: Settings, encoder: Encoder, records: int) -> Model:
    """What the guarantee covers, ready to be written."""
    classes = None
    if encoder.classes is not None:
        classes = tuple(str(label) for label in estimator.classes_)
    how = settings.to_dict() | {"estimator": type(estimator).__name__}
    for name in ("solver", "solver_reason"):
        if hasattr(estimator, f"{name}_"):
            how[name] = str(getattr(estimator, f"{name}_"))
    if hasattr(estimator, "influence_"):
        how["influence"] = float(estimator.influence_)
    return Model(
        task="classification" if classes else "regression",
        target=encoder.target.name,
        schema=encoder.schema,
        features=tuple(encoder.names),
        coefficients=np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64)),
        intercepts=np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64)),
        feature_norm=settings.feature_norm,
        classes=classes,
        label_bounds=None if classes else encoder.target.bounds,
        guarantee=estimator.guarantee_.to_dict(),
        records=records,
        how=how,
    )
