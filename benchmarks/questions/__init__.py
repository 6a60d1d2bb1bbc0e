"""The questions that the benchmark answers: one module each or one per part, each with its tables.

A module names its ``QUESTION`` and lists in ``TABLES`` the functions that make a table from a :class:`Run`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peers.client import Peer
    from table import Table

TITLES = {
    1: "Noise for the same promise",
    2: "Utility for the same promise",
    3: "Speed",
    4: "Scaling",
    5: "What safety costs",
    6: "Start-up",
}
MODULES = (
    "noise",
    "logistic",
    "linear",
    "lasso",
    "regret",
    "prequential",
    "online_speed",
    "totals_speed",
    "fit_speed",
    "frank_wolfe_speed",
    "minimizers",
    "scaling",
    "safety",
    "startup",
)


class Run:
    """How large a run is, and the peers that it has started."""

    def __init__(self, full: bool = False) -> None:
        self.full = full
        self._peers: dict[str, Peer] = {}
        self.used: set[str] = set()

    def choose(self, quick: Any, full: Any) -> Any:
        return full if self.full else quick

    def peer(self, name: str) -> Peer:
        from peers.client import Peer

        if name not in self._peers:
            self._peers[name] = Peer(name)
        self.used.add(name)
        return self._peers[name]

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()


Maker = Callable[[Run], "Table"]


def makers() -> dict[str, tuple[int, str]]:
    """Each table's name, with its question and its module, which is imported only when it is asked."""
    found = {}
    for module in MODULES:
        loaded = importlib.import_module(f"questions.{module}")
        for maker in loaded.TABLES:
            found[maker.__name__] = (loaded.QUESTION, module)
    return found


def maker(name: str) -> Maker:
    return getattr(importlib.import_module(f"questions.{makers()[name][1]}"), name)
