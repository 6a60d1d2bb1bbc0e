"""Private linear models with the interface of scikit-learn.

The same online models with River's interface are in `reticent.estimators.river`, which needs ``pip install river``.
Names are loaded on first use, so that code that needs only parts of this package, such as the service, does not import
scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reticent.estimators.online_linear import OnlineLinearRegression
    from reticent.estimators.online_logistic import OnlineLogisticRegression
    from reticent.estimators.parameter_search import PrivateSearchCV
    from reticent.estimators.private_classifiers import PrivateLinearSVC, PrivateLogisticRegression
    from reticent.estimators.private_regressors import PrivateLasso, PrivateLinearRegression
    from reticent.estimators.scalers import DomainScaler, PrivateScaler
    from reticent.estimators.summary import NoIntervals, Summary

__all__ = [
    "DomainScaler",
    "NoIntervals",
    "OnlineLinearRegression",
    "OnlineLogisticRegression",
    "PrivateLasso",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateScaler",
    "PrivateSearchCV",
    "Summary",
]

_HOME = {
    "DomainScaler": "scalers",
    "NoIntervals": "summary",
    "OnlineLinearRegression": "online_linear",
    "OnlineLogisticRegression": "online_logistic",
    "PrivateLasso": "private_regressors",
    "PrivateLinearRegression": "private_regressors",
    "PrivateLinearSVC": "private_classifiers",
    "PrivateLogisticRegression": "private_classifiers",
    "PrivateScaler": "scalers",
    "PrivateSearchCV": "parameter_search",
    "Summary": "summary",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'reticent.estimators' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"reticent.estimators.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
