"""Copying and pickling of running objects through their states.

So a copy obeys the same rule as a saved file: of all copies of a stream, its twins, only one may continue
(`reticent.state.Lease`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self


class Twins:
    """Base class of objects that are copied and pickled by their state."""

    state: Callable[..., dict[str, Any]]
    from_state: ClassVar[Callable[..., Any]]

    def _given(self) -> dict[str, Any]:
        """Live arguments of ``from_state``, by name, that a copy in this or another process need not rebuild."""
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
