"""The engine's decorators, or stand-ins that say what to install.

The modules that need the engine can be imported without it, for their documentation and their
types; only using them fails.
"""

from __future__ import annotations

from typing import Any

ABSENT = "federated runs need NVIDIA FLARE: pip install nvflare"


class _Absent:
    """Decorators that change nothing; everything else says what is missing."""

    @staticmethod
    def init(method: Any) -> Any:
        return method

    main = publish = init

    def __getattr__(self, name: str) -> Any:
        raise ImportError(ABSENT)


def _load() -> Any:
    try:
        from nvflare.collab import collab
    except ImportError:
        return _Absent()
    return collab


collab = _load()


def needed() -> None:
    """Raise an ImportError that names the extra, unless the engine is there."""
    if isinstance(collab, _Absent):
        raise ImportError(ABSENT)
