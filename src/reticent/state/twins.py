"""Copies and pickles of what runs: each is a state, and a twin that goes on from it.

So a copy obeys the same rule as a saved file: of all twins of a stream one may continue (`reticent.state.Lease`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self


class Twins:
    """What is copied and pickled by its state."""

    state: Callable[..., dict[str, Any]]
    from_state: ClassVar[Callable[..., Any]]

    def _given(self) -> dict[str, Any]:
        """Live parts that a twin in this or another process need not rebuild, by their names in ``from_state``."""
        return {}

    def __reduce__(self) -> Any:
        return _revived, (type(self), self.state(), self._given())

    def __copy__(self) -> Self:
        twin: Self = type(self).from_state(self.state(), **self._given())
        return twin

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()


def _revived(cls: type[Twins], state: dict[str, Any], given: dict[str, Any]) -> Any:
    return cls.from_state(state, **given)
