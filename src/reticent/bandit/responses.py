"""How a running total becomes a decision: argmin omega(x) + <slope, x>, in steps that can be spread over plays.

Line 14 of [bandit], Algorithm 1, with its sign corrected (docs/errata.md). The conditional gradient takes one step at
a time, so a learner can take one with every play and no play is slow. A mirror map with a closed form, and a
projection, respond at once.

The first step of the conditional gradient has length one, so its starting point matters only through one gradient; k
steps leave a gap of at most 2 D^2 / (k + 2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from reticent import checks
from reticent.bandit import kernels
from reticent.bandit.geometry import Geometry
from reticent.bandit.mirror import Euclidean, Mirror
from reticent.checks import FloatArray
from reticent.sets import ConvexSet

_AT_ONCE = (
    20_000  # steps times coordinates of one call, so that a long run does not remain interpreted
)


class Response(ABC):
    """A computation of the next decision that can be interrupted, saved and finished.

    Parameters
    ----------
    convex : ConvexSet
        The set.
    geometry : Geometry
        Its geometry.
    """

    def __init__(self, convex: ConvexSet, geometry: Geometry) -> None:
        self.set = convex
        self.center = geometry.center
        self.reset()

    def reset(self) -> None:
        """Return to the centre, with nothing to do."""
        self.point = self.center.copy()
        self.slope = np.zeros(self.center.size)
        self.done = self.steps = 0

    def start(self, slope: FloatArray, steps: int) -> None:
        """Begin to respond to a slope, with at most ``steps`` calls of the linear minimiser."""
        self.slope = np.ascontiguousarray(slope, np.float64)
        self.done, self.steps = 0, steps

    @property
    def is_busy(self) -> bool:
        return self.done < self.steps

    @abstractmethod
    def work(self) -> None:
        """Do the next piece of work, if there is any left."""

    def work_and_place(
        self, base: FloatArray, radius: float, directions: FloatArray, row: int, out: FloatArray
    ) -> None:
        """Do the next piece of work, and write the point base + radius * directions[row] into ``out``."""
        if self.done < self.steps:
            self.work()
        kernels.place_one(base, radius, directions, row, out)

    def work_on(self, pieces: int) -> None:
        """Do the next few pieces of work."""
        for _ in range(min(pieces, self.steps - self.done)):
            self.work()

    def finish(self) -> FloatArray:
        """Do all remaining work, and return the decision."""
        self.work_on(self.steps - self.done)
        return self.point.copy()

    def state(self) -> dict[str, Any]:
        return {
            "point": self.point.copy(),
            "slope": self.slope.copy(),
            "progress": [self.done, self.steps],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.point, self.slope = state["point"].copy(), state["slope"].copy()
        self.done, self.steps = (int(number) for number in state["progress"])


class ConditionalGradient(Response):
    """Frank and Wolfe's method with step sizes 2 / (i + 2), compiled if the set is, else in Python."""

    def __init__(self, convex: ConvexSet, geometry: Geometry, mirror: Mirror) -> None:
        super().__init__(convex, geometry)
        self.mirror = mirror
        self._is_euclidean = type(mirror) is Euclidean
        self.compiled = convex.kernel is not None and self._is_euclidean
        self.kind, params = convex.kernel if self.compiled else (0, np.zeros(0))  # type: ignore[misc]
        self.params = np.array(params, np.float64)
        self.gradient = np.empty(self.center.size)
        self.vertex = np.empty(self.center.size)
        # the library's own sets need not check the direction, which is finite by construction
        plain = type(convex).linear_minimizer is ConvexSet.linear_minimizer
        self._oracle = convex._linear_minimizer if plain else convex.linear_minimizer
        self._ahead = -1  # the step whose gradient has been computed already

    def start(self, slope: FloatArray, steps: int) -> None:
        super().start(slope, steps)
        self._ahead = -1

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._ahead = -1

    def work(self) -> None:
        if self.done < self.steps:
            self._advance(1)

    def work_on(self, pieces: int) -> None:
        self._advance(min(pieces, self.steps - self.done))

    def work_and_place(
        self, base: FloatArray, radius: float, directions: FloatArray, row: int, out: FloatArray
    ) -> None:
        # one call of a compiled function instead of two or three
        if self.compiled:
            i = self.done if self.done < self.steps else -1
            kernels.ask(self.kind)(
                self.params, self.center, self.slope, self.point, i, self.gradient,
                self.vertex, base, radius, directions, row, out,
            )  # fmt: skip
            self.done += i >= 0
        elif self.done < self.steps:
            vertex = self._vertex()
            if not kernels.move_and_place(
                self.point, vertex, 2.0 / (self.done + 2.0), self.center, self.slope, self.gradient,
                base, radius, directions, row, out,
            ):  # fmt: skip
                self._refuse(vertex)
            self.done = self._ahead = self.done + 1
        else:
            kernels.place_one(base, radius, directions, row, out)

    def _advance(self, count: int) -> None:
        if self.compiled:
            kernel = kernels.conditional_gradient(self.kind)
            while count:
                some = min(count, max(1, _AT_ONCE // self.point.size))
                kernel(
                    self.params,
                    self.center,
                    self.slope,
                    self.point,
                    self.done,
                    some,
                    self.gradient,
                    self.vertex,
                )
                self.done += some
                count -= some
            return
        for _ in range(count):
            vertex = self._vertex()
            if not kernels.move(self.point, vertex, 2.0 / (self.done + 2.0)):
                self._refuse(vertex)
            self.done += 1

    def _vertex(self) -> FloatArray:
        if self._is_euclidean:
            if self._ahead != self.done:
                kernels.gradient(self.point, self.center, self.slope, self.gradient)
            self._ahead = -1  # a user-defined set may write into the gradient and then fail
            vertex = self._oracle(self.gradient)
        else:
            vertex = self._oracle(self.mirror.gradient(self.point, self.center) + self.slope)
        if vertex.shape != self.point.shape:
            vertex = np.reshape(vertex, -1)
        return vertex

    def _refuse(self, vertex: FloatArray) -> None:
        checks.vector(vertex, "what linear_minimizer returned", self.center.size)


class ClosedForm(Response):
    """The response of a mirror map that solves its own problem at once."""

    def __init__(self, convex: ConvexSet, geometry: Geometry, mirror: Mirror) -> None:
        super().__init__(convex, geometry)
        self.mirror = mirror

    def start(self, slope: FloatArray, steps: int) -> None:
        super().start(slope, 1)

    def work(self) -> None:
        if self.done == self.steps:
            return
        point = self.mirror.solve(self.slope, self.center)
        assert point is not None
        self.point = checks.vector(
            np.reshape(point, -1), "what the mirror map returned", self.center.size
        ).copy()
        self.done = 1


class Projection(Response):
    """The exact response with the Euclidean map, which is a projection."""

    def start(self, slope: FloatArray, steps: int) -> None:
        super().start(slope, 1)

    def work(self) -> None:
        if self.done == self.steps:
            return
        point = self.set.project((self.center - self.slope).reshape(self.set.shape))
        self.point = checks.vector(
            np.reshape(point, -1), "what project returned", self.center.size
        ).copy()
        self.done = 1


def respond(convex: ConvexSet, geometry: Geometry, mirror: Mirror) -> Response:
    """The kind of response that a mirror map needs."""
    if mirror.solve(np.zeros(geometry.center.size), geometry.center) is not None:
        return ClosedForm(convex, geometry, mirror)
    return ConditionalGradient(convex, geometry, mirror)
