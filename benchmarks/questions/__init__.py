"""The questions that the benchmark answers: one module each or one per part, each with its tables.

``TABLES`` says which function of which module makes a table from a :class:`Run`; the module is imported when it is
asked, so that a process that makes one table does not wait for the others.

The tables of the questions in ``TIMED`` are made by several processes, and what a maker spends is
the time of one of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peers.client import Peer
    from table import Table

TITLES = {
    1: "Noise for the same guarantee",
    2: "Utility for the same guarantee",
    3: "Speed",
    4: "Scaling",
    5: "What safety costs",
    6: "Start-up",
}
TIMED = (3, 4, 5, 6)
# The question and the module of each table.
TABLES = {
    "horizons": (1, "noise"),
    "windows": (1, "noise"),
    "logistic_pure": (2, "logistic"),
    "logistic_approximate": (2, "logistic"),
    "linear": (2, "linear"),
    "lasso": (2, "lasso"),
    "online_regret": (2, "regret"),
    "bandit_plays": (2, "regret"),
    "prequential": (2, "prequential"),
    "unknown_horizon": (2, "prequential"),
    "streams": (3, "online_speed"),
    "one_at_a_time": (3, "online_speed"),
    "floor_of_totals": (3, "totals_speed"),
    "totals_beside_jax": (3, "totals_speed"),
    "fits": (3, "fit_speed"),
    "best_fixed": (3, "fit_speed"),
    "frank_wolfe": (3, "frank_wolfe_speed"),
    "minimizers": (3, "minimizers"),
    "scaling": (4, "scaling"),
    "parties": (4, "scaling"),
    "lattice_against_float": (5, "safety"),
    "secure_generator": (5, "safety"),
    "accounting": (5, "safety"),
    "startup": (6, "startup"),
}


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


def maker(name: str) -> Maker:
    return getattr(importlib.import_module(f"questions.{TABLES[name][1]}"), name)


def timed(name: str) -> bool:
    return TABLES[name][0] in TIMED
