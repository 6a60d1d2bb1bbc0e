"""Validation of the estimators' parameters, which happens when learning begins.

By scikit-learn's convention a constructor only stores its arguments and ``fit`` validates them. scikit-learn's
declarative validation is private, so this module has its own.

Nothing here may look at data: bounds are stated by the user and public, and a bound read from the data would be an
additional release.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from reticent import checks
from reticent.privacy import Budget, DefaultBoundWarning, Participation
from reticent.privacy.budget import NEIGHBOURS

Check = Callable[[Any, str], Any]
PRIVATE = "private"
FEATURE_NORM = 1.0
LEAST_NORM = 1e-300
"""Smallest norm of a row, whose reciprocal must be finite too."""
LABEL_BOUNDS = (-1, 1)
SCALER_BOUNDS = (-1.0, 1.0)
"""Defaults of the constructors. A parameter that *is* one of these objects was left at its default."""
_REMEDIES = {
    "feature_norm": "rows with a norm above 1 are scaled down to 1. State a norm that is known without looking "
    "at the data (feature_norm=1.0 if rows are scaled already, for example by DomainScaler)",
    "bounds": "features outside [-1, 1] are clipped. State known bounds of each column, such as "
    "bounds=([0, 0], [120, 1e5])",
    "label_bounds": "labels outside [-1, 1] are clipped, and predictions stay within [-1, 1]. State known "
    "bounds, such as label_bounds=(0, 100)",
}
ONLINE: Mapping[str, Any] = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "neighbours": "zero-out",
    "feature_norm": FEATURE_NORM,
    "fit_intercept": True,
    "intercept_scaling": 0.3,
    "influence": 0.5,
    "ridge": None,
    "coefficient_norm": None,
    "learner": "auto",
    "horizon": None,
    "window": None,
    "fade": None,
    "max_records": None,
    "min_gap": None,
    "max_persons": None,
    "scaling": "none",
}
"""Defaults that the constructors of the online estimators share, for streams without an estimator."""
LEARNERS = ("auto", "regularized-leader", "sparse-leader", "quadratic-leader")
_said: set[str] = set()


def warn_of_defaults(values: Mapping[str, Any]) -> None:
    """Warn once per process, without looking at the data, that a bound was left at its default."""
    defaults = {"feature_norm": FEATURE_NORM, "label_bounds": LABEL_BOUNDS, "bounds": SCALER_BOUNDS}
    for name, default in defaults.items():
        if name in values and values[name] is default and name not in _said:
            _said.add(name)
            warnings.warn(
                f"{name} was left at its default, {default}: {_REMEDIES[name]}, or find it with a share of "
                f"the budget: {'PrivateScaler(bounds' if name == 'bounds' else name}={PRIVATE!r}"
                f"{')' * (name == 'bounds')}. Shown once per process",
                DefaultBoundWarning,
                stacklevel=checks.to_the_user(),
            )


def _row_norm(value: Any, name: str) -> float:
    """A norm by which rows are divided and which scaling multiplies, so both results must be finite too."""
    return checks.number(checks.positive(value, name), name, low=LEAST_NORM, high=1e300)


def _or_none(check: Check) -> Check:
    return lambda value, name: None if value is None else check(value, name)


def _whole_or_none(value: Any, name: str) -> int | None:
    return None if value is None else checks.integer(value, name, low=1)


def _norm(value: Any, name: str) -> float | str:
    if isinstance(value, str):
        if value != PRIVATE:
            raise ValueError(
                f"{name} must be a number above 0 that is known without looking at the data, or {PRIVATE!r} to find it "
                f"with a share of the budget; got {value!r}"
            )
        return PRIVATE
    return _row_norm(value, name)


def _anything(value: Any, name: str) -> Any:
    """Accept any value; it is checked where it is used."""
    return value


def _bounds(value: Any, name: str) -> tuple[float, float]:
    try:
        low, high = value
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be two numbers (low, high) that are known without looking at the data, or "
            f"{PRIVATE!r} to find them with a share of the budget; got {value!r}"
        ) from None
    low, high = checks.number(low, f"{name}[0]"), checks.number(high, f"{name}[1]")
    if not low < high:
        raise ValueError(f"{name} must have low < high, got {value!r}")
    if not np.isfinite(high - low):
        raise ValueError(
            f"{name} must have a difference high - low that a float can hold, got {value!r}"
        )
    return low, high


def _bounds_or_private(value: Any, name: str) -> tuple[float, float] | str:
    return PRIVATE if isinstance(value, str) and value == PRIVATE else _bounds(value, name)


def _labels(value: Any, name: str) -> Any:
    if value is None:
        return None
    if isinstance(value, str) or np.ndim(value) != 1 or len(set(value)) < 2:
        raise ValueError(
            f"{name} must list at least two class labels that are known without looking at the "
            f"data, got {value!r}"
        )
    if len(set(value)) != len(value):
        raise ValueError(f"{name} must name each class once, got {value!r}")
    return list(value)


def _features(value: Any, name: str) -> tuple[Any, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) or not len(value) or len(set(value)) != len(value):
        raise ValueError(
            f"{name} must list the names of the features, each once, or be None to hash names "
            f"into a fixed dimension; got {value!r}"
        )
    return tuple(value)


def _seed(value: Any, name: str) -> int | None:
    return None if value is None else checks.integer(value, name, low=0)


CHECKS: Mapping[str, Check] = {
    "epsilon": checks.positive,
    "delta": partial(checks.number, low=0.0, high=1.0, open_high=True),
    "neighbours": partial(checks.choice, allowed=NEIGHBOURS),
    "feature_norm": _row_norm,
    "label_bounds": _bounds,
    "scaling": partial(checks.choice, allowed=("auto", "none")),
    "classes": _labels,
    "fit_intercept": checks.flag,
    "intercept_scaling": checks.positive,
    "influence": partial(checks.number, low=0.0, high=1.0, open_low=True),
    "ridge": _or_none(partial(checks.number, low=0.0)),
    "radius": checks.positive,
    "norm": checks.positive,
    "coefficient_norm": _or_none(checks.positive),
    "learner": partial(checks.choice, allowed=LEARNERS),
    "horizon": _whole_or_none,
    "window": _whole_or_none,
    "fade": _anything,
    "max_records": _whole_or_none,
    "min_gap": _whole_or_none,
    "max_persons": _whole_or_none,
    "features": _features,
    "dimension": partial(checks.integer, low=1),
    "seed": _seed,
}


OR_PRIVATE: Mapping[str, Check] = {
    "feature_norm": _norm,
    "label_bounds": _bounds_or_private,
}
"""Checks that also accept "private", for bounds that may be found with a share of the budget."""


def checked(values: Mapping[str, Any], private: bool = False) -> dict[str, Any]:
    """The checked parameters; those without a declared check are left out.

    Parameters
    ----------
    values : mapping
        Parameters by name.
    private : bool
        Whether "private" is allowed for bounds. Default: False.
    """
    known = {**CHECKS, **(OR_PRIVATE if private else {})}
    return {name: known[name](value, name) for name, value in values.items() if name in known}


def budget(values: Mapping[str, Any]) -> Budget:
    """The budget that checked parameters ask for."""
    return Budget(
        values["epsilon"],
        values["delta"],
        values["neighbours"],
        values["window"],
        fade=values.get("fade"),
    )


def participation(values: Mapping[str, Any]) -> Participation | None:
    """How often a person may take part, from checked parameters; None if records are protected."""
    return Participation.of(values["max_records"], values["min_gap"], values["max_persons"])


def refuse_quadratic(values: Mapping[str, Any]) -> None:
    """Refuse the quadratic leader, which works for squared losses only."""
    if values["learner"] == "quadratic-leader":
        raise ValueError(
            "learner='quadratic-leader' works for regression only; for a classifier use 'auto', "
            "'regularized-leader' or 'sparse-leader'"
        )


def label(value: Any) -> float:
    """One real label of a stream."""
    if type(value) is float and value - value == 0.0:
        return value
    return checks.number(value, "y", secret=True)
