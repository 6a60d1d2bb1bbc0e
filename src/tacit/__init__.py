"""Learn from people's data without learning about any one person.

Names are loaded when first used, so that ``import tacit`` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tacit._version import __version__

if TYPE_CHECKING:
    from tacit import (  # noqa: F401
        audit,
        bandit,
        erm,
        estimators,
        losses,
        noise,
        online,
        plots,
        privacy,
        sets,
        sums,
        trace,
        vertical,
    )
    from tacit._state import load as load_state  # noqa: F401
    from tacit._state import save as save_state  # noqa: F401
    from tacit.estimators import (  # noqa: F401
        OnlineLinearRegression,
        OnlineLogisticRegression,
        PrivateLasso,
        PrivateLinearRegression,
        PrivateLinearSVC,
        PrivateLogisticRegression,
    )
    from tacit.privacy import Budget, Guarantee, Ledger, PrivacyLeakWarning  # noqa: F401

_HOME = {
    "Budget": "privacy.Budget",
    "Guarantee": "privacy.Guarantee",
    "Ledger": "privacy.Ledger",
    "PrivacyLeakWarning": "privacy.PrivacyLeakWarning",
    "OnlineLogisticRegression": "estimators.OnlineLogisticRegression",
    "OnlineLinearRegression": "estimators.OnlineLinearRegression",
    "PrivateLogisticRegression": "estimators.PrivateLogisticRegression",
    "PrivateLinearRegression": "estimators.PrivateLinearRegression",
    "PrivateLasso": "estimators.PrivateLasso",
    "PrivateLinearSVC": "estimators.PrivateLinearSVC",
    "save_state": "_state.save",
    "load_state": "_state.load",
}
_PACKAGES = (
    "privacy",
    "noise",
    "trace",
    "plots",
    "sums",
    "sets",
    "losses",
    "online",
    "bandit",
    "erm",
    "vertical",
    "estimators",
    "audit",
)

__all__ = [*_HOME, *_PACKAGES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"tacit.{name}")
    if name in _HOME:
        package, _, attribute = _HOME[name].partition(".")
        return getattr(importlib.import_module(f"tacit.{package}"), attribute)
    raise AttributeError(f"module 'tacit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
