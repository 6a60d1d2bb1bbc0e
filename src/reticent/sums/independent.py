"""The simplest running total: every contribution gets noise of its own.

The one thing a reader would get wrong: the noise is small at first and grows like the square root
of the number of steps; past a few steps the other totals are better. It needs no horizon, and it is
the right one for a single sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._compile import compiled
from reticent.privacy import Budget, Guarantee
from reticent.privacy.budget import OLDEST
from reticent.sums import scales
from reticent.sums.base import RunningTotal
from reticent.sums.process import Process


@compiled
def _accumulate(fresh, last):  # type: ignore[no-untyped-def]
    for t in range(fresh.shape[0]):
        for i in range(fresh.shape[1]):
            last[i] += fresh[t, i]
            fresh[t, i] = last[i]


@dataclass
class _Walk(Process):
    def draws(self, t: int, rows: int) -> int:
        return rows

    def mix(self, fresh: NDArray[Any], t: int, rows: int) -> NDArray[Any]:
        _accumulate(fresh, self.arrays["last"])
        return fresh


class Independent(RunningTotal):
    """A running total whose contributions are each released with noise of their own.

    Parameters are those of :class:`Tree`; ``noise`` may be ``"gaussian"``, ``"laplace"`` or
    ``"gamma"``. With a window it promises the same as without: a record's noise stays in the total
    for ever.

    Examples
    --------
    >>> import reticent
    >>> total = Independent(2, budget=reticent.Budget(1.0, 1e-6), seed=0)
    >>> total.error(4) == 2 * total.error(1)
    True
    """

    _forgets = True

    def __init__(
        self,
        dim: int,
        horizon: int | None = None,
        *,
        budget: Budget,
        norm: float = 1.0,
        noise: str = "gaussian",
        seed: int | None = None,
        noise_precision: str = "lattice",
    ) -> None:
        scales.check_noise(noise)
        super().__init__(
            dim,
            horizon,
            budget=budget,
            norm=norm,
            noise=noise,
            seed=seed,
            noise_precision=noise_precision,
        )

    @property
    def _is_endless(self) -> bool:
        return self.horizon is None

    @property
    def _last_step(self) -> float:
        return min(super()._last_step, OLDEST)

    def _lattice_step(self, scale: float, steps: float) -> float:
        fine = super()._lattice_step(scale, steps)
        if not self._is_endless or self.noise_precision == "float":
            return fine
        # the noise is a sum of up to 2^40 draws, which must stay below 2^52 steps
        largest = 40.0 * math.sqrt(OLDEST * scales.coordinate_variance(self, scale))
        return max(fine, 2.0 ** math.ceil(math.log2(largest * 2.0**-52)))

    def _process(self, steps: int | None) -> Process:
        scale = scales.exact(self, 1)
        step = self._lattice_step(scale, self._capacity(steps))
        lattice = self.noise_precision == "lattice"
        last = np.zeros(self.dim, np.int64 if lattice else np.float64)
        return _Walk(self.noise, scale, step, lattice, {"last": last})

    def _promise(self) -> Guarantee:
        return scales.promise(self, "noise on each contribution", scales.exact(self, 1), 1)

    def _variance(self, t: int, steps: int | None) -> float:
        return t * scales.coordinate_variance(self, scales.exact(self, 1))
