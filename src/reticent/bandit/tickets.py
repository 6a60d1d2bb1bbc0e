"""Points to play. Each is also a ticket for its value, which may come late, out of order, or never.

A batch ends after a number of points has been asked for, whatever values have come. A value that comes late enters the
batch in which it comes; one that never comes is a null record. Either way a record enters only one batch, which is all
that privacy needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent.checks import FloatArray


class Ticket(np.ndarray[Any, np.dtype[np.float64]]):
    """The point to play: an array that remembers its number. Made by ``ask`` of a bandit.

    Attributes
    ----------
    number : int
        Pass it, or the ticket itself, to ``tell`` with the value; 0 for arrays made from a ticket.

    Examples
    --------
    >>> import reticent
    >>> from reticent import bandit, sets
    >>> learner = bandit.ProjectionFreeBandit(
    ...     sets.Simplex(3), budget=reticent.Budget(1.0, 1e-6), lipschitz=1.0, horizon=100
    ... )
    >>> first, second = learner.ask(), learner.ask()
    >>> learner.tell(0.3, ticket=second)
    >>> learner.tell(0.1, ticket=first.number)
    >>> type(2.0 * first) is np.ndarray, first.point.shape
    (True, (3,))
    """

    number: int = 0

    @property
    def point(self) -> FloatArray:
        """The point as a plain array."""
        return np.array(self)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else np.asarray(array)

    def __reduce__(self) -> Any:
        return _revive, (np.asarray(self), self.number)


def _revive(point: FloatArray, number: int) -> Ticket:
    return issue(point, number)


def issue(point: FloatArray, number: int) -> Ticket:
    ticket = point.view(Ticket)
    ticket.number = number
    return ticket


class OpenTickets:
    """Open tickets other than the newest, each with its direction and the scale of its estimate."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self._open: dict[int, tuple[FloatArray, float]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, number: int) -> bool:
        return number in self._open

    def keep(self, number: int, direction: FloatArray, factor: float) -> None:
        self._open[number] = (direction.copy(), factor)

    def forget(self, newest: int) -> None:
        """Close tickets that have waited too long; the dictionary is in the order of asking."""
        while self._open:
            oldest = next(iter(self._open))
            if newest - oldest <= self.patience:
                return
            del self._open[oldest]

    def get(self, number: int) -> tuple[FloatArray, float]:
        return self._open[number]

    def close(self, number: int) -> None:
        del self._open[number]

    def state(self) -> dict[str, Any]:
        rows = list(self._open.values())
        return {
            "numbers": list(self._open),
            "directions": np.array([direction for direction, _ in rows]),
            "factors": [factor for _, factor in rows],
        }

    def restore(self, state: dict[str, Any]) -> None:
        rows = zip(state["numbers"], state["directions"], state["factors"], strict=True)
        self._open = {int(number): (u.copy(), float(f)) for number, u, f in rows}
