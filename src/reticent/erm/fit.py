"""The result of a solver: the private point, its guarantee, and a trace of the run.

The guarantee covers the point and the trace's columns. It does not cover the trace's diagnostics, which read the
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
        Guarantee for ``point``, ``released`` and the columns of ``trace``.
    trace : Trace
        Settings and progress of the run. Its diagnostics read private data.
    released : mapping
        Other releases that the guarantee covers, such as noisy sufficient statistics.
    """

    point: FloatArray
    guarantee: Guarantee
    trace: Trace
    _pause: Any = field(default=None, repr=False)
    released: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def finished(self) -> bool:
        """Whether all planned steps were taken; if not, ``resume=fit`` continues."""
        return self.trace.finished

    def state(self) -> dict[str, Any]:
        """The state for ``resume=``, as plain data for ``reticent.save_state``.

        A secret: it holds the state of the noise generator.

        Returns
        -------
        dict
            Argument ``resume`` of the same solver.
        """
        if self._pause is None:
            raise ValueError(
                f"this run of {self.trace.solver} took all its steps, so there is nothing to resume; start a new run"
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
        # A pause holds the noise generator; a pickled copy could be continued twice.
        return {**self.__dict__, "_pause": None}
