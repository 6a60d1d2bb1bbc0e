"""Random unit directions of a set's affine hull, drawn ahead in blocks.

Directions are not noise: a played point reveals its direction. The guarantee relies only on directions being
independent of the records.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent.bandit import kernels
from reticent.bandit.geometry import Geometry
from reticent.checks import FloatArray
from reticent.noise.source import Source

_NUMBERS = 32768


class Directions:
    """A stream of unit vectors: ``inner`` in coordinates of the hull, ``outer`` in the space."""

    def __init__(self, geometry: Geometry, seed: int | None) -> None:
        self._geometry = geometry
        self._source = Source(seed)
        self._begun_with = self._source.state()
        self._rows = max(1, _NUMBERS // geometry.center.size)
        self._set(np.empty((0, geometry.dim)))

    def _set(self, inner: FloatArray) -> None:
        self.inner = inner
        self.outer = np.ascontiguousarray(self._geometry.lift(inner))
        self.row = 0

    def ready(self) -> int:
        """Number of directions available from ``row`` on, at least one."""
        left = len(self.inner) - self.row
        if left:
            return left
        self._draw(self._rows)
        return self._rows

    def _draw(self, rows: int) -> None:
        self._begun_with = self._source.state()
        self._source.ratchet()
        fresh = np.empty((rows, self._geometry.dim))
        self._source.normals(fresh)
        kernels.normalise(fresh)
        self._set(fresh)

    def state(self) -> dict[str, Any]:
        if self.row == len(self.inner):
            return {"source": self._source.state(), "block": [0, 0]}
        return {"source": self._begun_with, "block": [len(self.inner), self.row]}

    def restore(self, state: dict[str, Any]) -> None:
        self._source = Source.from_state(state["source"])
        self._set(self.inner[:0])
        rows, used = state["block"]
        if used:
            self._draw(rows)
            self.row = used
