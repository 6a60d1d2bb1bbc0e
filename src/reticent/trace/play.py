"""The record of one run of an online learner: some of its decisions, the losses, and the regret on demand.

The decisions are what the learner released, and its guarantee covers them. Losses and regret (in the sense of
Zinkevich 2003, section 2) are computed from private records. They are diagnostics for the holder of the data; no
guarantee covers showing them to anyone else.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reticent import html_tables
from reticent.checks import FloatArray, integer
from reticent.privacy import Guarantee
from reticent.trace.summary import NoIntervals, Summary

NOT_PRIVATE = "diagnostic: read off the records, not covered by the guarantee"


class Comparator(Protocol):
    """Computes the losses of the best fixed decision in hindsight."""

    def losses(self) -> FloatArray:
        """Its loss on each record, in order."""


@dataclass(frozen=True, eq=False)
class Play:
    """The record of a run of an online learner.

    Attributes
    ----------
    steps : array of int
        Numbers (1, 2, ...) of the records at which the run was recorded.
    decisions : array
        The decision that was played at each of these records; covered by the guarantee.
    cumulative_losses : array
        The total loss up to and including each of these records. A diagnostic.
    losses : array or None
        The loss of every record, if the records came as one array. A diagnostic.
    count : int
        Number of records, gaps included.
    total_loss : float
        The total loss of all records. A diagnostic.
    clipped : int
        Number of records or gradients that exceeded the stated bounds. A diagnostic.
    seconds : float
        Duration of the run.
    guarantee : Guarantee
        The guarantee for the decisions of the learner's whole life.
    learner : str
        Name of the learner.
    """

    steps: NDArray[np.int64]
    decisions: FloatArray
    cumulative_losses: FloatArray
    losses: FloatArray | None
    count: int
    total_loss: float
    clipped: int
    seconds: float
    guarantee: Guarantee
    learner: str
    comparator: Comparator | None = field(default=None, repr=False)
    ending: Callable[[float, Sequence[str] | None], Summary] | None = field(
        default=None, repr=False
    )

    @property
    def mean_loss(self) -> float:
        """The average loss per record. A diagnostic."""
        return self.total_loss / self.count if self.count else 0.0

    def regret(self) -> float:
        """The total loss minus that of the best fixed decision in hindsight. A diagnostic.

        This reads the records again, through the reference to them that ``run`` kept.

        Raises
        ------
        ValueError
            The records were not kept.
        """
        return self.total_loss - float(np.sum(self._best()))

    def regret_curve(self) -> tuple[NDArray[np.int64], FloatArray]:
        """Record numbers, and the regret up to each, against the best fixed decision for all records. A diagnostic."""
        steps, losses = self._curve()
        best = np.cumsum(self._best())
        return steps, losses - best[steps - 1]

    def _curve(self) -> tuple[NDArray[np.int64], FloatArray]:
        if self.count == 0 or (len(self.steps) and self.steps[-1] == self.count):
            return self.steps, self.cumulative_losses
        return (
            np.append(self.steps, self.count),
            np.append(self.cumulative_losses, self.total_loss),
        )

    def _best(self) -> FloatArray:
        if self.comparator is None:
            raise ValueError(
                "the records of this run were not kept, so there is nothing to compare with; "
                "call run(..., keep_records=True), or call losses.best_fixed on the records yourself"
            )
        return self.comparator.losses()

    def summary(self, level: float = 0.95, names: Sequence[str] | None = None) -> Summary:
        """The decision after the last record, with the standard error due to the noise and intervals.

        It is computed from what was released and spends nothing. docs/intervals.md says what the intervals are about.

        Parameters
        ----------
        level : float
            Confidence level of the intervals.
        names : sequence of str, optional
            Names of the coordinates; by default x0, x1, ...

        Raises
        ------
        NoIntervals
            The error of the last decision is not known.
        """
        if self.ending is None:
            raise NoIntervals(
                f"the error of the last decision of this run of {self.learner} is not known: either the decision "
                "is not a linear function of a total, or the run was pickled; call the learner's own summary()"
            )
        return self.ending(level, names)

    def plot(self, axes: Any = None, *, regret: bool = False) -> Any:
        """Draw the average loss over time, or the regret. A diagnostic; needs Matplotlib.

        Parameters
        ----------
        axes : matplotlib axes, optional
            Axes to draw on; by default those of a new figure.
        regret : bool
            Whether to draw the regret instead of the average loss.
        """
        # Imported here, because plots is a package above this one and most runs never draw.
        draw = importlib.import_module("reticent.plots.play")
        steps, values = self.regret_curve() if regret else self._curve()
        kind = draw.regret if regret else draw.losses
        return kind(steps, values, label=self.learner, axes=axes)

    def __repr__(self) -> str:
        return f"<Play: {self.learner}, {self.count} records, {self.guarantee.summary}>"

    def _repr_html_(self) -> str:
        rows = [("learner", self.learner), ("records", f"{self.count} in {self.seconds:.3g} s")]
        rows.append(("decisions kept", str(len(self.steps))))
        rows += [("mean loss", f"{self.mean_loss:.6g}"), ("clipped", str(self.clipped))]
        rows.append(("", f"mean loss and clipped: {NOT_PRIVATE}"))
        return html_tables.table(rows) + self.guarantee._repr_html_()

    def __str__(self) -> str:
        return (
            f"{self.learner}: {self.count} records in {self.seconds:.3g} s, {len(self.steps)} decisions kept; "
            f"{self.guarantee}\n"
            f"mean loss {self.mean_loss:.6g}, {self.clipped} clipped ({NOT_PRIVATE})"
        )

    def __getstate__(self) -> dict[str, Any]:
        # The pickle must not contain the records.
        return {**self.__dict__, "comparator": None, "ending": None}


def pages_of(records: int, wait: int, every: int) -> tuple[int, int]:
    """How many of the next records are recorded, and how many more come before the next one that is.

    Parameters
    ----------
    records : int
        Number of the next records.
    wait : int
        Number of records before the first one that is recorded.
    every : int
        One in so many is recorded.

    Examples
    --------
    >>> pages_of(10, wait=2, every=4)  # the third and the seventh; the next is due at once
    (2, 0)
    """
    return max(0, -(-(records - wait) // every)), (wait - records) % every


class Diary:
    """Record a run in bounded memory, at ever larger intervals as the run grows.

    Parameters
    ----------
    keep : int
        Approximate number of decisions to keep.
    size : int or None
        Number of records, if it is known. Otherwise every second entry is dropped whenever there are ``2 * keep``.
    dim : int
        Length of a decision.
    every_loss : bool
        Whether to keep the loss of every record.
    """

    def __init__(self, keep: int, size: int | None, dim: int, *, every_loss: bool) -> None:
        self.keep = integer(keep, "keep", low=1)
        self.size = size
        self.every = 1 if size is None else max(1, -(-size // self.keep))
        self.count = 0
        self.total = 0.0
        self._dim = dim
        self._numbers: list[NDArray[np.int64]] = []
        self._cumulative: list[FloatArray] = []
        self._decisions: list[FloatArray] = []
        self._losses: list[FloatArray] | None = [] if every_loss else None

    @property
    def wait(self) -> int:
        """Number of records before the next one that is recorded."""
        return -self.count % self.every

    def pages(self, records: int) -> FloatArray:
        """An uninitialised array for the decisions at those of the next records that will be recorded.

        Parameters
        ----------
        records : int
            Number of the next records.
        """
        return np.empty((pages_of(records, self.wait, self.every)[0], self._dim))

    def write(self, decisions: FloatArray, losses: FloatArray) -> None:
        """Record the next records.

        Parameters
        ----------
        decisions : array
            The decisions at those records that :meth:`pages` announced.
        losses : array
            The losses of all of these records.
        """
        if not len(losses):
            return
        running = self.total + np.cumsum(losses)
        places = np.arange(self.wait, len(losses), self.every)
        if len(places):
            self._numbers.append(self.count + 1 + places)
            self._cumulative.append(running[places])
            self._decisions.append(decisions[: len(places)])
        if self._losses is not None:
            self._losses.append(losses)
        self.count += len(losses)
        self.total = float(running[-1])
        while self.size is None and sum(map(len, self._numbers)) >= 2 * self.keep:
            self.every *= 2
            self._numbers = [np.concatenate(self._numbers)[::2].copy()]
            self._cumulative = [np.concatenate(self._cumulative)[::2].copy()]
            self._decisions = [np.concatenate(self._decisions)[::2].copy()]

    def close(self, shape: tuple[int, ...], **facts: Any) -> Play:
        """The finished record of the run."""
        decisions = np.concatenate([np.empty((0, self._dim)), *self._decisions])
        every = None if self._losses is None else np.concatenate([np.empty(0), *self._losses])
        return Play(
            steps=np.concatenate([np.empty(0, np.int64), *self._numbers]),
            decisions=decisions.reshape(len(decisions), *shape),
            cumulative_losses=np.concatenate([np.empty(0), *self._cumulative]),
            losses=every,
            count=self.count,
            total_loss=self.total,
            **facts,
        )
