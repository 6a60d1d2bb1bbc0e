"""What a feature-distributed run returns: the model by party, what is promised, and what travelled.

``guarantee`` is about a person's whole row, against the coordinator and everyone who sees what it
sees; ``guarantees[name]`` is about one party's part of the row, against everybody else together,
the other parties included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.checks import FloatArray
from reticent.privacy import Guarantee
from reticent.trace import Trace
from reticent.vertical.plan import Plan


@dataclass(frozen=True, eq=False)
class Traffic:
    """Bytes by round and party; row 0 is what came before the first round.

    Attributes
    ----------
    names : tuple of str
        The parties, one column each.
    uplink, downlink : arrays of shape (rounds + 2, parties)
        From the parties, and to them; the last row is the farewell.
    """

    names: tuple[str, ...]
    uplink: NDArray[np.int64]
    downlink: NDArray[np.int64]

    @property
    def total_uplink(self) -> int:
        return int(self.uplink.sum())

    @property
    def total_downlink(self) -> int:
        return int(self.downlink.sum())

    def __str__(self) -> str:
        lines = [f"{'party':<16} {'uplink bytes':>14} {'downlink bytes':>14}"]
        for k, name in enumerate(self.names):
            up, down = int(self.uplink[:, k].sum()), int(self.downlink[:, k].sum())
            lines.append(f"{name:<16} {up:>14} {down:>14}")
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """The bytes of each party so far, against the rounds."""
        from reticent.plots.traffic import bytes_by_party

        return bytes_by_party(self.names, self.uplink, self.downlink, ax=ax)


@dataclass(frozen=True, eq=False)
class JointFit:
    """The result of :meth:`reticent.vertical.Coordinator.run`.

    Attributes
    ----------
    points : dict of str to array
        Each party's part of the model.
    guarantee : Guarantee
        What is promised to a whole row: all parties' releases together.
    guarantees : dict of str to Guarantee
        What each party promises for its own part of a row.
    trace : Trace
        What happened on the way.
    traffic : Traffic
        Bytes by round and party.
    plans : dict of str to Plan
        The terms that each party agreed to.
    """

    points: dict[str, FloatArray]
    guarantee: Guarantee
    guarantees: dict[str, Guarantee]
    trace: Trace
    traffic: Traffic
    plans: dict[str, Plan]

    @property
    def point(self) -> FloatArray:
        """The whole model, party after party."""
        return np.concatenate(list(self.points.values()))

    @property
    def finished(self) -> bool:
        return self.trace.finished

    def __str__(self) -> str:
        return f"{self.guarantee}\n{self.trace}\n{self.traffic}"
