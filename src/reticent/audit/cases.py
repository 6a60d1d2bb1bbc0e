"""The modules with the library's own worst cases; each registers its cases when it is imported.

A new family of algorithms adds its module to ``MODULES``. A case that a user registered under the same name beforehand
is kept.
"""

from __future__ import annotations

import importlib

MODULES = (
    "pairs_sums",
    "pairs_selections",
    "pairs_online",
    "pairs_erm",
    "pairs_bandit",
    "pairs_vertical",
)


_loaded: list[str] = []


def load() -> bool:
    """Import every module of worst cases; whether there was anything left to import."""
    new = [module for module in MODULES if module not in _loaded]
    for module in new:
        importlib.import_module(f"reticent.audit.{module}")
        _loaded.append(module)
    return bool(new)
