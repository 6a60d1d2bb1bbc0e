"""Differentially private convex optimisation: learn from people's data without learning about any one person.

Submodules and names are loaded on first use, which keeps ``import reticent`` fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from reticent.version import __version__

if TYPE_CHECKING:
    from reticent import (  # noqa: F401
        audit,
        bandit,
        erm,
        estimators,
        losses,
        noise,
        online,
        papers,
        plots,
        privacy,
        sets,
        state,
        sums,
        tables,
        trace,
        vertical,
    )
    from reticent.estimators import (  # noqa: F401
        OnlineLinearRegression,
        OnlineLogisticRegression,
        PrivateLasso,
        PrivateLinearRegression,
        PrivateLinearSVC,
        PrivateLogisticRegression,
        PrivateSearchCV,
    )
    from reticent.privacy import (  # noqa: F401
        Budget,
        DefaultBoundWarning,
        Guarantee,
        Ledger,
        LooseBudgetWarning,
        PrivacyLeakWarning,
        RepeatedFitWarning,
    )
    from reticent.service.client import Client  # noqa: F401
    from reticent.state import (
        committed,  # noqa: F401
        resumable,  # noqa: F401
    )
    from reticent.state import load as load_state  # noqa: F401
    from reticent.state import save as save_state  # noqa: F401

_HOME = {
    "Budget": "privacy.Budget",
    "Guarantee": "privacy.Guarantee",
    "Ledger": "privacy.Ledger",
    "DefaultBoundWarning": "privacy.DefaultBoundWarning",
    "LooseBudgetWarning": "privacy.LooseBudgetWarning",
    "PrivacyLeakWarning": "privacy.PrivacyLeakWarning",
    "RepeatedFitWarning": "privacy.RepeatedFitWarning",
    "OnlineLogisticRegression": "estimators.OnlineLogisticRegression",
    "OnlineLinearRegression": "estimators.OnlineLinearRegression",
    "PrivateLogisticRegression": "estimators.PrivateLogisticRegression",
    "PrivateLinearRegression": "estimators.PrivateLinearRegression",
    "PrivateLasso": "estimators.PrivateLasso",
    "PrivateLinearSVC": "estimators.PrivateLinearSVC",
    "PrivateSearchCV": "estimators.PrivateSearchCV",
    "Client": "service.client.Client",
    "committed": "state.committed",
    "resumable": "state.resumable",
    "save_state": "state.save",
    "load_state": "state.load",
}
_PACKAGES = (
    "privacy",
    "noise",
    "state",
    "trace",
    "plots",
    "sums",
    "sets",
    "losses",
    "online",
    "bandit",
    "erm",
    "vertical",
    "papers",
    "tables",
    "estimators",
    "audit",
)

__all__ = [*_HOME, *_PACKAGES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"reticent.{name}")
    if name in _HOME:
        package, _, attribute = _HOME[name].rpartition(".")
        found = getattr(importlib.import_module(f"reticent.{package}"), attribute)
        globals()[name] = found  # so that the next access does not come here
        return found
    raise AttributeError(f"module 'reticent' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
