"""The result of a feature-distributed run: the model by party, the guarantees, and the traffic.

``guarantee`` is for a person's whole row, against the coordinator and everyone who sees what it sees;
``guarantees[name]`` is for one party's part of the row, against everybody else together, including the other parties.
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
    """Bytes by round and party; row 0 is before the first round.

    Attributes
    ----------
    names : tuple of str
        Names of the parties, one per column.
    uplink : array of shape (rounds + 2, parties)
        Bytes from the parties; the last row is the end of the run.
    downlink : array of shape (rounds + 2, parties)
        Bytes to the parties; the last row is the end of the run.
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
        """Plot the cumulative bytes of each party against the rounds.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes; ``ax.figure.savefig(path)`` saves the figure.
        """
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
        Guarantee for a whole row: the releases of all parties together.
    guarantees : dict of str to Guarantee
        Guarantee of each party for its own part of a row.
    trace : Trace
        Settings and progress of the run.
    traffic : Traffic
        Bytes by round and party.
    plans : dict of str to Plan
        The terms to which each party agreed.
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
