"""A running total without noise, to show how a learner behaves without privacy.

It needs a budget like any other total, since learners tune themselves by it, but guarantees nothing, and its guarantee
says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from reticent.privacy import Guarantee
from reticent.sums import Mechanism


@dataclass(frozen=True, kw_only=True)
class NoNoise(Mechanism):
    """A total that adds nothing; pass it as ``total=NoNoise`` to a learner."""

    forgets = True

    def __post_init__(self) -> None:
        self._keep(noise_precision="float")
        super().__post_init__()

    def _check_budget(self) -> None:
        pass

    def _scale(self, steps: int | None) -> float:
        return 0.0

    def _promise(self) -> Guarantee:
        return Guarantee.none("a total without noise, a baseline")

    def variance(self, t: int, steps: int | None) -> float:
        return 0.0

    def draws(self, steps: int | None, t: int, rows: int) -> int:
        return rows

    def memory(self, steps: int | None) -> dict[str, NDArray[Any]]:
        return {}

    def mix(
        self,
        steps: int | None,
        memory: dict[str, NDArray[Any]],
        fresh: NDArray[Any],
        t: int,
        rows: int,
    ) -> NDArray[Any]:
        fresh[...] = 0.0
        return fresh
