"""What every solver returns: the private point, what is promised about it, and how it was found.

The guarantee covers the point and the trace's columns, not the trace's diagnostics, which read the
records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reticent.checks import FloatArray
from reticent.privacy import Guarantee
from reticent.trace import Trace


@dataclass(frozen=True, eq=False)
class Fit:
    """The result of a solver.

    Attributes
    ----------
    point : array
        The decision, in the shape of the set's points.
    guarantee : Guarantee
        What is promised to every record about it.
    trace : Trace
        What happened on the way.
    released : mapping
        What else was released and is covered by the guarantee, such as noisy sufficient statistics.
    """

    point: FloatArray
    guarantee: Guarantee
    trace: Trace
    _pause: Any = field(default=None, repr=False)
    released: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def finished(self) -> bool:
        """Whether all planned steps were taken; if not, ``resume=fit`` takes the rest."""
        return self.trace.finished

    def state(self) -> dict[str, Any]:
        """What ``resume=`` needs to take the remaining steps, as plain data for ``reticent.save_state``.

        A secret: it holds the state of the generator of the noise.
        """
        if self._pause is None:
            raise ValueError(
                f"this {self.trace.solver} took all its steps, so there is nothing to resume; "
                "start a new run"
            )
        state: dict[str, Any] = self._pause.state()
        return state

    def __str__(self) -> str:
        return f"{self.guarantee}\n{self.trace}"

    def __repr__(self) -> str:
        return f"<Fit: {self.trace.solver}, {self.point.size} numbers, {self.guarantee.summary}>"

    def _repr_html_(self) -> str:
        return f"{self.guarantee._repr_html_()}{self.trace._repr_html_()}"

    def __getstate__(self) -> dict[str, Any]:
        # A pause holds the generator; a pickled copy of it could be continued twice.
        return {**self.__dict__, "_pause": None}
