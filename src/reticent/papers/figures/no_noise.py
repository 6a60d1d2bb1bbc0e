"""A running total without noise, to see what a learner does when privacy is not asked for.

The one thing a reader would get wrong: it needs a budget like any other total, since learners tune
themselves by it, but promises nothing, and its guarantee says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.noise.source import Source
from reticent.privacy import Budget, Guarantee
from reticent.sums.base import RunningTotal
from reticent.sums.process import Process


class _Nothing(Process):
    def draws(self, t: int, rows: int) -> int:
        return rows

    def block(self, source: Source, t: int, rows: int, dim: int) -> NDArray[Any]:
        return np.zeros((rows, dim))

    def mix(self, fresh: NDArray[Any], t: int, rows: int) -> NDArray[Any]:
        return fresh


class NoNoise(RunningTotal):
    """A total that adds nothing; pass it as ``total=NoNoise`` to a learner."""

    _forgets = True

    def __init__(
        self,
        dim: int,
        horizon: int | None,
        *,
        budget: Budget,
        norm: float = 1.0,
        seed: int | None = None,
        noise_precision: str = "float",
    ) -> None:
        super().__init__(dim, horizon, budget=budget, norm=norm, noise="gaussian", seed=0,
                         noise_precision="float")  # fmt: skip

    def _process(self, steps: int | None) -> Process:
        return _Nothing("gaussian", 1.0, 1.0, False)

    def _promise(self) -> Guarantee:
        return Guarantee.none("a total without noise, a baseline")

    def _variance(self, t: int, steps: int | None) -> float:
        return 0.0

    def _check_budget(self) -> None:
        pass
